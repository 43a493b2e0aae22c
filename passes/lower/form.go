package lower

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// Apply lowers one node to a graph of its own, as Lower does. The graph's inputs are the node's inputs that are not
// constants, in order. Its outputs are the node's outputs.
func Apply(n *ir.Node, opset int) (*ir.Graph, error) { return InChunks(n, opset, chunkSteps) }

// InChunks is Apply with another number of steps in the chunks of a system, for measurements.
func InChunks(n *ir.Node, opset, steps int) (*ir.Graph, error) {
	if opset < MinOpset {
		return nil, fmt.Errorf("opset %d: expected at least %d", opset, MinOpset)
	}
	g := &ir.Graph{Name: n.Op.Name, Opsets: map[string]int{}}
	m := &ir.Node{Op: n.Op, Attrs: n.Attrs}
	for i, v := range n.Inputs {
		if v != nil && v.Const == nil {
			v = &ir.Value{Name: n.Op.In[i].Name, Type: v.Type}
			g.Inputs = append(g.Inputs, v)
		}
		m.Inputs = append(m.Inputs, v)
	}
	for i, v := range n.Outputs {
		if v == nil {
			m.Outputs = append(m.Outputs, nil)
			continue
		}
		w := &ir.Value{Name: n.Op.Out[i].Name, Type: v.Type, Def: m}
		m.Outputs = append(m.Outputs, w)
		g.Outputs = append(g.Outputs, w)
	}
	g.Nodes = []*ir.Node{m}
	l := newLowerer(g, opset)
	l.chunk = steps
	if err := l.graph(g); err != nil {
		return nil, err
	}
	g.RemoveDead()
	return g, g.Sort()
}

// Cost returns approximately the bytes of the tables that Apply makes for a listed operator, and its multiplications.
func Cost(n *ir.Node) (bytes, work int64) {
	size := func(i, axis int) float64 {
		if v := n.In(i); v != nil && axis < len(v.Shape()) {
			if d, ok := v.Shape()[axis].Known(); ok {
				return float64(d)
			}
		}
		return 1
	}
	count := func(i int) float64 {
		x := 1.0
		if v := n.In(i); v != nil {
			for axis := range v.Shape() {
				x *= size(i, axis)
			}
		}
		return x
	}
	window := float64(n.Attrs.Int("window", 0))
	var numbers, products float64
	switch n.Op.FullName() {
	case "essm.SSM", "essm.DenseSSM":
		in, out := 5, 6 // (c, s, k, h) and (c, s, m, k)
		if n.Op.Name == "DenseSSM" {
			in, out = 3, 4
		}
		k, h, m := size(in, 2), size(in, 3), size(out, 2)
		lags := size(in, 0) * size(in, 1) * k * max(window, chunkSteps)
		numbers, products = lags*(h+m), lags*(h*m+h+m)
		if in == 3 {
			products = lags * k * (h*m + h + m + k)
		}
	case "essm.DPLRScan":
		numbers, products = window, window*count(3)
	case "essm.FourierMix":
		numbers = 2 * (size(0, 2)*size(0, 2) + min(size(0, 1), maxTable)*min(size(0, 1), maxTable))
		products = numbers
	}
	whole := func(x float64) int64 { return int64(min(x, math.MaxInt64/2)) }
	return whole(float64(tensor.Float64.Bits()/8) * numbers), whole(4 * products)
}
