// Package eval evaluates nodes and graphs by the definitions of their operators: Eval, or Body if an operator has no
// Eval. It serves passes that compute constants, and interpreters.
//
// It imports ir and ops. Nodes are evaluated in the graph's order, on the caller's goroutine. Values are dropped after
// their last use. A panic of an operator becomes an error.
package eval

import (
	"context"
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Node computes a node without subgraphs from the data of its inputs, nil where absent. The result has a datum for each
// of the node's outputs, at least. An error does not name the node.
func Node(n *ir.Node, in []tensor.Datum) ([]tensor.Datum, error) {
	return Options{}.Node(context.Background(), n, in, nil)
}

// Node is the function Node with options, within a budget; nil: no bound.
func (o Options) Node(ctx context.Context, n *ir.Node, in []tensor.Datum, b *ir.Budget) ([]tensor.Datum, error) {
	p := New(o)
	s, err := p.step(n, 0)
	if err != nil {
		return nil, err
	}
	r := &run{Program: p, ctx: ctx, budget: b}
	return r.safely(s, in, nil)
}

// Widen returns d with float32 as float64.
func Widen(d tensor.Datum) tensor.Datum { return widen(nil, d) }

// widen is Widen within an evaluation's budget and context.
func widen(c *ir.EvalCtx, d tensor.Datum) tensor.Datum {
	switch d := d.(type) {
	case *tensor.Tensor:
		if d == nil || d.DType() != tensor.Float32 {
			return d
		}
		src := tensor.Data[float32](d)
		dst := ops.Make[float64](c, len(src))
		for i, v := range ops.All(c, src) {
			dst[i] = float64(v)
		}
		return tensor.FromSlice(dst, d.Shape()...)
	case *tensor.Sequence:
		if d == nil {
			return d
		}
		s := &tensor.Sequence{Items: ops.Make[tensor.Datum](c, len(d.Items))}
		for i := range ops.Costly(c, len(d.Items), 20) {
			s.Items[i] = widen(c, d.Items[i])
		}
		return s
	case *tensor.Optional:
		if d == nil || d.Value == nil {
			return d
		}
		return &tensor.Optional{Value: widen(c, d.Value)}
	}
	return d
}

// Present returns the value of an optional, or nil; of other data the datum itself.
func Present(d tensor.Datum) tensor.Datum {
	for {
		o, ok := d.(*tensor.Optional)
		if !ok {
			return d
		}
		if o == nil {
			return nil
		}
		d = o.Value
	}
}

// expand builds the body of n as a graph. Its inputs are the inputs of n that are not constants; args are their
// indices. Its outputs are the wanted outputs of n.
func expand(r ir.Resolver, n *ir.Node) (g *ir.Graph, args []int, err error) {
	defer func() {
		if v := recover(); v != nil {
			ir.PassOn(v)
			err = fmt.Errorf("internal error: %v", v)
		}
	}()
	// Bodies use the operator versions of graphs that this program makes, not those of the graph around them.
	b := ir.NewBuilder(n.Op.FullName(), r, ops.Opsets())
	b.PaceLike(n)
	in := make([]*ir.Value, len(n.Inputs))
	for i, v := range n.Inputs { // inputs first, since a constant can take another name
		if v != nil && v.Const == nil {
			in[i] = b.Input(fmt.Sprintf("input%d", i), v.Type)
			args = append(args, i)
		}
	}
	for i, v := range n.Inputs {
		if v != nil && v.Const != nil {
			in[i] = b.Const(v.Name, v.Const)
		}
	}
	out := n.Op.Body(b, n, in)
	if err := b.Err(); err != nil {
		return nil, nil, err
	}
	for i, v := range n.Outputs {
		if v == nil {
			continue
		}
		if i >= len(out) || out[i] == nil {
			return nil, nil, fmt.Errorf("has no output %d", i)
		}
		b.Output("", out[i])
	}
	return b.Graph(), args, b.Err()
}
