package std

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// SubgraphInputs returns the types of the inputs of the body of a Loop, Scan or SequenceMap that follow from the node's
// inputs and attributes, for sources that omit them. It needs neither the body nor the node's outputs. Entries are nil
// if nothing follows, and the result is nil for all other operators.
func SubgraphInputs(n *ir.Node) []ir.Type {
	switch ops.Current(n.Op) {
	case Loop:
		out := []ir.Type{ir.Tensor(tensor.Int64), ir.Tensor(tensor.Bool)}
		for i := 2; i < len(n.Inputs); i++ {
			out = append(out, loosened(n.In(i)))
		}
		return out
	case SequenceMap:
		out := make([]ir.Type, len(n.Inputs))
		for i, v := range n.Inputs {
			if v == nil {
				continue
			}
			out[i] = v.Type
			if s, ok := v.Type.(*ir.SequenceType); ok {
				out[i] = s.Elem
			}
		}
		return out
	case Scan8:
		scanned := int(min(max(n.Attrs.Int("num_scan_inputs", 0), 0), int64(max(len(n.Inputs)-1, 0))))
		out := make([]ir.Type, max(len(n.Inputs)-1, 0))
		for i := range out {
			lead := 1 // the axis of samples and, for scanned inputs, the axis of steps
			if i >= len(out)-scanned {
				lead = 2
			}
			if t := tensorIn(n, i+1); t != nil && !t.NoRank && len(t.Shape) >= lead {
				out[i] = typed(t.Elem, slices.Clone(t.Shape[lead:]))
			}
		}
		return out
	case Scan:
		scanned := int(min(max(n.Attrs.Int("num_scan_inputs", 0), 0), int64(len(n.Inputs))))
		states := len(n.Inputs) - scanned
		axes := n.Attrs.Ints("scan_input_axes", make([]int64, scanned))
		out := make([]ir.Type, len(n.Inputs))
		for i := range out {
			t := tensorIn(n, i)
			switch {
			case t == nil:
			case i < states || t.NoRank:
				out[i] = t
			case i-states < len(axes):
				if a, err := ops.Axis(axes[i-states], len(t.Shape)); err == nil {
					out[i] = typed(t.Elem, slices.Delete(slices.Clone(t.Shape), a, a+1))
				}
			}
		}
		return out
	}
	return nil
}

// loosened returns the type of a carried value. Its shape may change between iterations.
func loosened(v *ir.Value) ir.Type {
	if v == nil {
		return nil
	}
	if t, ok := v.Type.(*ir.TensorType); ok {
		return noRank(t.Elem)
	}
	return v.Type
}

// inlineGraph applies a graph with one input and one output to x, by adding its nodes to b. Without a graph it returns
// x.
func inlineGraph(b *ir.Builder, g *ir.Graph, x *ir.Value) *ir.Value {
	if g == nil || x == nil {
		return x
	}
	if len(g.Inputs) != 1 || len(g.Outputs) != 1 {
		b.Fail(fmt.Errorf("graph %s has %d inputs and %d outputs, expected one each", g.Name, len(g.Inputs),
			len(g.Outputs)))
		return nil
	}
	g = g.Clone()
	now := map[*ir.Value]*ir.Value{g.Inputs[0]: x}
	get := func(v *ir.Value) *ir.Value {
		if w := now[v]; w != nil {
			return w
		}
		if v != nil && v.Const != nil {
			now[v] = b.Const(v.Name, v.Const)
			return now[v]
		}
		return v // captured from the outer graph, or absent
	}
	for _, n := range g.Nodes {
		in := make([]*ir.Value, len(n.Inputs))
		for i, v := range n.Inputs {
			in[i] = get(v)
		}
		for _, s := range n.Subgraphs() {
			for _, v := range s.Captures() {
				s.ReplaceUses(v, get(v))
			}
		}
		for i, v := range b.Apply(n.Op, len(n.Outputs), in, n.Attrs) {
			if n.Outputs[i] != nil {
				now[n.Outputs[i]] = v
			}
		}
	}
	return get(g.Outputs[0])
}
