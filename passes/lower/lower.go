package lower

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
)

// lowerer is one run of Lower.
type lowerer struct {
	*ir.Builder                         // appends to the graph, at the requested version
	opset       int                     // version of ai.onnx
	of          map[*ir.Value]*ir.Value // from a value to its replacement
	chunk       int                     // steps of a chunk
	operators   []*ir.Node              // the list of operators, with inputs and outputs as they were
	nested      bool                    // in a subgraph
}

func lowerTo(g *ir.Graph, o Options, version int) (*ir.Graph, []Function, error) {
	g = g.Clone()
	inlineBlocks(g)
	if err := prepare(g); err != nil {
		return nil, nil, err
	}
	if err := fixInputs(g, o); err != nil {
		return nil, nil, err
	}
	l := newLowerer(g, version)
	var f []Function
	var err error
	if o.Functions {
		f, err = l.functions(g)
	} else {
		err = l.graph(g)
	}
	if err == nil {
		err = finish(g)
	}
	if err == nil {
		err = l.writeOperators(g)
	}
	if err != nil {
		return nil, nil, err
	}
	return g, f, nil
}

// newLowerer returns a lowerer of g to the version.
func newLowerer(g *ir.Graph, version int) *lowerer {
	opsets := map[string]int{}
	for d, v := range ops.Opsets() {
		opsets[d] = v
	}
	for d, v := range g.Opsets {
		opsets[d] = v
	}
	opsets[""] = version
	g.Opsets = opsets
	return &lowerer{Builder: ir.Edit(g, ops.Default, opsets), opset: version, of: map[*ir.Value]*ir.Value{},
		chunk: chunkSteps}
}

// finish removes dead code and verifies g.
func finish(g *ir.Graph) error {
	g.RemoveDead()
	if err := g.Sort(); err != nil {
		return err
	}
	used := map[string]bool{"": true}
	_ = g.Walk(func(_ *ir.Graph, n *ir.Node) error {
		used[n.Op.Domain] = true
		return nil
	})
	for d := range g.Opsets {
		if !used[d] {
			delete(g.Opsets, d)
		}
	}
	return ir.Verify(g)
}

// prepare converts systems to their discrete form in one operator, which the rules expand.
func prepare(g *ir.Graph) error {
	if !slices.ContainsFunc(g.Nodes, func(n *ir.Node) bool { return n.Op.Domain == "essm" }) {
		return nil
	}
	return passes.Run(g, passes.Pipeline(), passes.Options{})
}

// inlineBlocks replaces Blocks by their bodies, in subgraphs of g too.
func inlineBlocks(g *ir.Graph) {
	var nodes []*ir.Node
	with := map[*ir.Value]*ir.Value{}
	for _, n := range g.Nodes {
		for _, s := range n.Subgraphs() {
			inlineBlocks(s)
		}
		if n.Op.FullName() != "essm.Block" {
			nodes = append(nodes, n)
			continue
		}
		body := n.Attrs.Graph("body")
		for i, v := range body.Inputs {
			body.ReplaceUses(v, n.Inputs[i])
		}
		for _, m := range body.Nodes {
			if m.Scope == "" {
				m.Scope = n.Scope
			}
		}
		nodes = append(nodes, body.Nodes...)
		for i, v := range n.Outputs {
			if v == nil {
				continue
			}
			inner := body.Outputs[i]
			if inner.Def != nil && slices.Contains(body.Nodes, inner.Def) && with[v] == nil {
				inner.Name, v.Name = v.Name, inner.Name
			}
			with[v] = inner
		}
	}
	g.Nodes = nodes
	for _, n := range g.Nodes { // an output of one Block may be an input of the next
		for i, v := range n.Inputs {
			for with[v] != nil {
				v = with[v]
			}
			n.Inputs[i] = v
		}
		for _, s := range n.Subgraphs() {
			for old, v := range with {
				for with[v] != nil {
					v = with[v]
				}
				s.ReplaceUses(old, v)
			}
		}
	}
	for i, v := range g.Outputs {
		for with[v] != nil {
			v = with[v]
		}
		g.ReplaceOutput(i, v)
	}
}

// fixInputs makes optional inputs required, or drops them.
func fixInputs(g *ir.Graph, o Options) error {
	g.Inputs = slices.Clone(g.Inputs)
	for i := 0; i < len(g.Inputs); i++ {
		v := g.Inputs[i]
		t, ok := v.Type.(*ir.OptionalType)
		if !ok {
			continue
		}
		if o.OmitOptional {
			for _, u := range g.Uses()[v] {
				if u.Node == nil {
					return fmt.Errorf("input %s is optional and also an output, so it cannot be dropped", v.Name)
				}
				u.Node.Inputs[u.Index] = nil
			}
			g.Inputs = slices.Delete(g.Inputs, i, i+1)
			i--
			continue
		}
		v.Type = t.Elem
	}
	return nil
}

// graph lowers the nodes of g in order.
func (l *lowerer) graph(g *ir.Graph) error {
	nodes := g.Nodes
	g.Nodes = nil
	for _, n := range nodes {
		if err := l.node(n); err != nil {
			return err
		}
	}
	for i, v := range g.Outputs {
		g.ReplaceOutput(i, l.now(v))
	}
	return nil
}

// now returns the replacement of a value of the graph.
func (l *lowerer) now(v *ir.Value) *ir.Value {
	for l.of[v] != nil {
		v = l.of[v]
	}
	return v
}

func (l *lowerer) node(n *ir.Node) error {
	for i, v := range n.Inputs {
		n.Inputs[i] = l.now(v)
	}
	for _, s := range n.Subgraphs() {
		if err := l.subgraph(s); err != nil {
			return err
		}
	}
	if n.Op.Domain != "essm" {
		return l.standard(n)
	}
	l.list(n)
	rule := rules[n.Op.Name]
	if rule == nil {
		if n.Op.Body == nil {
			return fmt.Errorf("node %v: operator %s cannot be written in standard operators", n, n.Op.FullName())
		}
		return l.expand(n)
	}
	l.Scope(n.Scope)
	from := len(l.Graph().Nodes)
	outs := rule(l, n)
	l.Scope("")
	if err := l.Err(); err != nil {
		return fmt.Errorf("node %v: %w", n, err)
	}
	fresh := l.Graph().Nodes[from:]
	for i, v := range n.Outputs {
		if v == nil {
			continue
		}
		if i >= len(outs) || outs[i] == nil {
			return fmt.Errorf("node %v: output %d, %s, cannot be written in standard operators", n, i, v.Name)
		}
		w := outs[i]
		if w.Def == nil || !slices.Contains(fresh, w.Def) || slices.Contains(outs[:i], w) {
			w = l.op("Identity", w)
		}
		w.Name, v.Name = v.Name, w.Name
		w.Type = v.Type // with symbols, which are lost when sizes are computed in tensors
		l.of[v] = w
	}
	return l.Err()
}

// subgraph lowers a subgraph of a node in place.
func (l *lowerer) subgraph(g *ir.Graph) error {
	in := *l
	in.Builder, in.nested = l.Sub(g.Name), true
	nodes := g.Nodes
	for _, n := range nodes {
		if err := in.node(n); err != nil {
			return err
		}
	}
	g.Nodes = in.Graph().Nodes
	for i, v := range g.Outputs {
		g.ReplaceOutput(i, l.now(v))
	}
	return nil
}

// failed is the value of a failed computation, so that rules need not check errors; node does that after them.
var failed = &ir.Value{Name: "failed", Type: ir.Tensor(tensor.Float32)}

// op adds a node of ai.onnx.
func (l *lowerer) op(name string, in ...*ir.Value) *ir.Value {
	return l.with(name, slices.Clone(in))
}

// with adds a node of ai.onnx with attributes.
func (l *lowerer) with(name string, in []*ir.Value, attrs ...ir.Attr) *ir.Value {
	return l.several(name, 1, in, attrs...)[0]
}

// several adds a node of ai.onnx with several outputs.
func (l *lowerer) several(name string, outputs int, in []*ir.Value, attrs ...ir.Attr) []*ir.Value {
	out := slices.Clone(l.Ops("", name, outputs, in, attrs...)) // the node keeps its own
	for i, v := range out {
		if v == nil {
			out[i] = failed
		}
	}
	return out
}
