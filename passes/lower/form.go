package lower

import (
	"fmt"

	"github.com/essmc/essmc/ir"
)

// Form holds the choices with which a state-space system is lowered.
type Form struct {
	Opset  int
	Steps  int  // steps of a chunk
	Heads  bool // groups are heads; false: groups are states
	Chunks bool // Steps and Heads are given; false: chosen as in Lower
}

// Apply lowers one SSM or DenseSSM node to a graph of its own. Its inputs are the node's inputs that are not constants,
// in order. Its outputs are the node's outputs.
func (f Form) Apply(n *ir.Node) (*ir.Graph, error) {
	if f.Opset < MinOpset {
		return nil, fmt.Errorf("opset %d: expected at least %d", f.Opset, MinOpset)
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
	l := newLowerer(g, f.Opset)
	if f.Chunks {
		l.chunk, l.form = f.Steps, stateForm
		if f.Heads {
			l.form = headForm
		}
	}
	if err := l.graph(g); err != nil {
		return nil, err
	}
	g.RemoveDead()
	return g, g.Sort()
}
