// Package grad differentiates graphs: Of adds the nodes that compute the gradients of a scalar. They are ordinary
// nodes, which passes optimise and every backend runs.
//
// It imports ir, the operator packages and nothing else of essmc. The gradient of an operator is, in this order, the
// one that it states (ir.Op.Gradient); the derivative of its Element, by an essm.Map; its Moves backwards; or the
// gradient of its Body (or GradientBody), which then takes the operator's place in the graph. Kinks are those of
// scalar.Derivative. docs/gradients.md lists which operator has which; the tests of this package write it.
//
// Gradients are taken of graphs as their sources state them, before the passes that discretize and fold.
package grad

import (
	"context"
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ops"
	_ "github.com/essmc/essmc/ops/essm" // operators that gradients are made of
	_ "github.com/essmc/essmc/ops/std"
)

// Of adds the gradients of loss, a float with one element, with respect to values of g. Each has the type of its
// value. Where the loss does not depend on a value, it is zero. They become outputs of the graph only if the caller
// makes them so. Nodes whose gradient is that of their body are replaced by it; values that other nodes or outputs
// read stay the same. After an error, g must not be used.
func Of(ctx context.Context, g *ir.Graph, loss *ir.Value, wrt []*ir.Value) ([]*ir.Value, error) {
	if t, ok := loss.Type.(*ir.TensorType); !ok || !t.Elem.IsFloat() || t.NoRank || !t.Shape.Size().Equal(ir.Const(1)) {
		return nil, fmt.Errorf("loss %s: expected a float with one element, found %v", loss.Name, loss.Type)
	}
	for _, v := range wrt {
		if t, ok := v.Type.(*ir.TensorType); !ok || !t.Elem.IsFloat() {
			return nil, fmt.Errorf("value %s: expected a tensor of floats, found %v", v.Name, v.Type)
		}
	}
	if err := raiseOpsets(g); err != nil {
		return nil, err
	}
	d := &differentiation{ctx: ctx, g: g, loss: loss, wrt: wrt, parts: map[*ir.Value][]*ir.Value{}}
	d.b = ir.Edit(g, ops.Default, g.Opsets)
	kept := keptValues(g)
	if err := d.expand(); err != nil {
		return nil, err
	}
	if err := d.backward(); err != nil {
		return nil, err
	}
	out := make([]*ir.Value, len(wrt))
	for i, v := range wrt {
		if out[i] = d.sum(v); out[i] == nil {
			out[i] = ops.FilledLike(d.b, 0, v)
		}
		out[i] = d.b.Op("", "Identity", []*ir.Value{out[i]})
		if d.b.Err() != nil {
			return nil, d.b.Err()
		}
		out[i].Name = d.b.Unique(v.Name + ".grad")
	}
	if err := g.Sort(); err != nil {
		return nil, err
	}
	outputs := g.Outputs
	g.Outputs = slices.Concat(outputs, kept, out)
	g.RemoveDead()
	g.Outputs = outputs
	return out, ir.Verify(g)
}

// raiseOpsets gives g the operator sets that gradients are made of, if its operators mean the same there.
func raiseOpsets(g *ir.Graph) error {
	want := ops.Opsets()
	if g.Opsets == nil {
		g.Opsets = map[string]int{}
	}
	for domain, version := range want {
		if old := g.Opsets[domain]; old < version {
			err := g.Walk(func(_ *ir.Graph, n *ir.Node) error {
				if n.Op.Domain == domain && ops.Current(n.Op) != ops.Current(ops.Default.Resolve(domain, n.Op.Name,
					version)) {
					return fmt.Errorf("node %v: operator set %d of domain %q has another %s: expected version %d", n,
						old, domain,
						n.Op.Name, version)
				}
				return nil
			})
			if err != nil {
				return err
			}
			g.Opsets[domain] = version
		}
	}
	return nil
}

// keptValues are the values that the nodes of g compute.
func keptValues(g *ir.Graph) (kept []*ir.Value) {
	for _, n := range g.Nodes {
		for _, v := range n.Outputs {
			if v != nil {
				kept = append(kept, v)
			}
		}
	}
	return kept
}

// differentiation is one call of Of.
type differentiation struct {
	ctx   context.Context
	g     *ir.Graph
	b     *ir.Builder
	loss  *ir.Value
	wrt   []*ir.Value
	parts map[*ir.Value][]*ir.Value // what adds up to the gradient of a value
}

// between returns the values that depend on wrt, and the nodes through which the loss does, in their order.
func (d *differentiation) between() (varying map[*ir.Value]bool, nodes []*ir.Node) {
	varying = map[*ir.Value]bool{}
	for _, v := range d.wrt {
		varying[v] = true
	}
	for _, n := range d.g.Nodes {
		if slices.ContainsFunc(reads(n), func(v *ir.Value) bool { return v != nil && varying[v] }) {
			for _, v := range n.Outputs {
				if v != nil && hasFloats(v.Type) {
					varying[v] = true
				}
			}
		}
	}
	needed := map[*ir.Value]bool{d.loss: true}
	for _, n := range slices.Backward(d.g.Nodes) {
		if !slices.ContainsFunc(n.Outputs, func(v *ir.Value) bool { return v != nil && varying[v] && needed[v] }) {
			continue
		}
		some := false
		for _, v := range reads(n) {
			if v != nil && varying[v] {
				needed[v], some = true, true
			}
		}
		if some { // and not only an output that is one of wrt
			nodes = append(nodes, n)
		}
	}
	slices.Reverse(nodes)
	return varying, nodes
}

// reads are the inputs of a node, and what its subgraphs capture.
func reads(n *ir.Node) []*ir.Value {
	list := n.Inputs
	for _, s := range n.Subgraphs() {
		list = slices.Concat(list, s.Captures())
	}
	return list
}

func hasFloats(t ir.Type) bool {
	switch t := t.(type) {
	case *ir.TensorType:
		return t.Elem.IsFloat()
	case *ir.SequenceType:
		return hasFloats(t.Elem)
	case *ir.OptionalType:
		return hasFloats(t.Elem)
	}
	return true
}

// expand replaces the nodes whose gradient is that of their body, until there are none.
func (d *differentiation) expand() error {
	for changed := true; changed; {
		changed = false
		_, nodes := d.between()
		for _, n := range nodes {
			way, err := WayOf(n)
			if err != nil {
				return err
			}
			if way != ByBody {
				continue
			}
			if err := d.inline(n); err != nil {
				return err
			}
			changed = true
		}
		if changed {
			d.g.Nodes = slices.DeleteFunc(d.g.Nodes, func(n *ir.Node) bool { return len(n.Outputs) == 0 })
			if err := d.g.Sort(); err != nil {
				return err
			}
		}
	}
	return nil
}

// inline builds the body of n. The values that n computes become those that the body computes; n has no outputs then.
func (d *differentiation) inline(n *ir.Node) error {
	if err := d.ctx.Err(); err != nil {
		return err
	}
	defer d.b.Scope(d.b.Scope(n.Scope))
	first := len(d.g.Nodes)
	body := n.Op.Body
	if n.Op.GradientBody != nil {
		body = n.Op.GradientBody
	}
	outs := body(d.b, n, n.Inputs)
	if err := d.b.Err(); err != nil {
		if slices.ContainsFunc(n.Inputs, unknownShape) {
			err = &ops.NoGradientError{Why: fmt.Sprintf("its body needs to know more of its shapes: %v", err)}
		}
		return fmt.Errorf("node %v: body: %w", n, err)
	}
	made := d.g.Nodes[first:]
	for i, v := range n.Outputs {
		if v == nil {
			continue
		}
		if i >= len(outs) || outs[i] == nil {
			return fmt.Errorf("node %v: the body has no output %d", n, i)
		}
		from := outs[i]
		if !slices.Contains(made, from.Def) || slices.Contains(outs[:i], from) {
			from = d.b.Op("", "Identity", []*ir.Value{from})
			if err := d.b.Err(); err != nil {
				return err
			}
			made = d.g.Nodes[first:]
		}
		at := slices.Index(from.Def.Outputs, from)
		from.Def.Outputs[at], v.Def = v, from.Def
		d.g.ReplaceUses(from, v)
	}
	n.Outputs = nil
	return nil
}

// unknownShape reports whether a dimension of v is not a number.
func unknownShape(v *ir.Value) bool {
	if v == nil {
		return false
	}
	_, known := v.Shape().Known()
	return !known || v.Shape() == nil
}

// backward visits the nodes between wrt and the loss from the last to the first.
func (d *differentiation) backward() error {
	varying, nodes := d.between()
	if varying[d.loss] {
		d.parts[d.loss] = []*ir.Value{ops.FilledLike(d.b, 1, d.loss)}
	}
	for _, n := range slices.Backward(nodes) {
		if err := d.ctx.Err(); err != nil {
			return err
		}
		if err := d.node(n, varying); err != nil {
			return fmt.Errorf("node %v: gradient: %w", n, err)
		}
	}
	return d.b.Err()
}

// node adds the gradients of the inputs of n.
func (d *differentiation) node(n *ir.Node, varying map[*ir.Value]bool) error {
	dOut, some := make([]*ir.Value, len(n.Outputs)), false
	for i, v := range n.Outputs {
		if v != nil && varying[v] {
			dOut[i] = d.sum(v)
			some = some || dOut[i] != nil
		}
	}
	if !some {
		return d.b.Err()
	}
	defer d.b.Scope(d.b.Scope(n.Scope))
	way, err := WayOf(n)
	if err != nil {
		return err
	}
	var grads []*ir.Value
	switch way {
	case Stated:
		grads = n.Op.Gradient(d.b, n, dOut)
	case ByElement:
		grads = d.element(n, dOut)
	case ByMoves:
		grads, _ = ops.GradientPieces(d.b, n, dOut)
	}
	if err := d.b.Err(); err != nil {
		return err
	}
	for i, v := range n.Inputs {
		if v == nil || !varying[v] || i >= len(grads) || grads[i] == nil {
			continue
		}
		t, ok := v.Type.(*ir.TensorType)
		if !ok || grads[i].Elem() != t.Elem {
			return fmt.Errorf("input %d (%s) is %v: its gradient cannot be %v", i, v.Name, v.Type, grads[i].Type)
		}
		d.parts[v] = append(d.parts[v], ops.SumLike(d.b, grads[i], v))
	}
	return d.b.Err()
}

// sum returns the gradient of a value, of which all parts are known; nil: zero.
func (d *differentiation) sum(v *ir.Value) *ir.Value {
	p := d.parts[v]
	switch len(p) {
	case 0:
		return nil
	case 1:
	case 2:
		p = []*ir.Value{d.b.Op("", "Add", p)}
	default:
		p = []*ir.Value{d.b.Op("", "Sum", p)}
	}
	d.parts[v] = p
	return p[0]
}

func (d *differentiation) element(n *ir.Node, dOut []*ir.Value) []*ir.Value {
	e, _ := ops.Element(n)
	return ops.GradientMap(d.b, n.Inputs, dOut[:1], []scalar.Expr{e})
}
