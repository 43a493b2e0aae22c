package cpu

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// branch is a subgraph of If as a program of its own; its inputs are the values that it captures.
type branch struct {
	p  *lprogram
	in []*value // per input of p: the value outside
}

// branches compiles both subgraphs of an If. What cannot be compiled is left to the interpreter.
func (f *compiler) branches(n *ir.Node) *[2]*branch {
	if n.Op.FullName() != "If" {
		return nil
	}
	var out [2]*branch
	for i, name := range []string{"else_branch", "then_branch"} {
		g := n.Attrs.Graph(name)
		sub := f.within(g)
		b := &branch{p: sub.p}
		for _, v := range g.Captures() {
			outer, inner := f.value(v), sub.value(v)
			inner.typ, inner.konst = outer.typ, outer.konst
			if outer.konst == nil {
				b.p.inputs, b.in = append(b.p.inputs, inner), append(b.in, outer)
			}
		}
		if err := sub.graph(g, nil, 0); err != nil {
			return nil
		}
		for _, v := range g.Outputs {
			b.p.outputs = append(b.p.outputs, sub.value(v))
		}
		out[i] = b
	}
	return &out
}

// within makes a compiler for a subgraph, whose program is still empty.
func (f *compiler) within(g *ir.Graph) *compiler {
	return &compiler{p: &lprogram{config: f.p.config, backend: f.p.backend, graph: g, interp: f.p.interp}, vals: map[*ir.Value]*value{}, loops: f.loops}
}

// resolveIf binds the branches that may be taken, and finds the outputs' shapes where these agree.
func (d *lbinding) resolveIf(s *step) {
	var bound [2]*lbinding
	cond := d.constant(s.in[0])
	taken := []int{0, 1}
	if cond != nil {
		if cond.DType() != tensor.Bool || cond.Len() != 1 {
			return
		}
		taken = taken[:1]
		if tensor.Data[bool](cond)[0] {
			taken[0] = 1
		}
	}
	for _, k := range taken {
		br := s.branches[k]
		b := runtime.Binding{Dims: d.dims, Inputs: make([]ir.Type, len(br.in))}
		konst := make([]*tensor.Tensor, len(br.in))
		for i, v := range br.in {
			var ok bool
			if b.Inputs[i], konst[i], ok = d.inner(v); !ok {
				return
			}
		}
		bound[k] = br.p.bind(b, konst)
	}
	d.branches[s] = &bound
	for i, v := range s.out {
		if v == nil || d.shapes[v.id] != nil {
			continue
		}
		var shape []int
		agree := true
		for _, k := range taken {
			if b := bound[k]; !b.refused { // a branch that cannot run decides nothing
				o := b.shapes[b.p.outputs[i].id]
				agree = agree && o != nil && (shape == nil || slices.Equal(shape, o))
				shape = o
			}
		}
		if agree && shape != nil {
			d.setType(v, typeOf(v.typ.(*ir.TensorType).Elem, shape))
		}
	}
}
