package lowering

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// branch is a subgraph of If as a program. Its inputs are the values that it captures.
type branch struct {
	Program *Program
	In      []*Value // per input of the program: the value outside
}

// branches lowers both subgraphs of an If. It returns nil if one cannot be lowered, so that the node is evaluated.
func (f *Compiler) branches(n *ir.Node) *[2]*branch {
	if n.Op.FullName() != "If" {
		return nil
	}
	var out [2]*branch
	for i, name := range []string{"else_branch", "then_branch"} {
		g := n.Attrs.Graph(name)
		sub := f.within(g)
		b := &branch{Program: sub.p}
		for _, v := range g.CapturesPaced(f.pace) {
			outer, inner := f.value(v), sub.value(v)
			inner.take(outer)
			if outer.Fixed() == nil {
				b.Program.Inputs, b.In = append(b.Program.Inputs, inner), append(b.In, outer)
			}
		}
		if err := sub.graph(g, nil, 0); err != nil {
			return nil
		}
		for _, v := range g.Outputs {
			f.pace.Step(2)
			b.Program.Outputs = append(b.Program.Outputs, sub.value(v))
		}
		out[i] = b
	}
	return &out
}

// within returns a compiler for a subgraph, with an empty program.
func (f *Compiler) within(g *ir.Graph) *Compiler {
	return &Compiler{p: &Program{Config: f.p.Config, backend: f.p.backend, Graph: g, nodes: f.p.nodes, trial: &trial{}},
		vals: map[*ir.Value]*Value{}, loops: f.loops, folding: f.folding, pace: f.pace}
}

// resolveIf binds the branches that may be taken, and sets the shapes of outputs on which they agree.
func (d *Binding) resolveIf(s *Step) {
	var bound [2]*Binding
	cond := d.Constant(s.In[0])
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
		b := runtime.Binding{Dims: d.dims, Inputs: make([]ir.Type, len(br.In))}
		konst := make([]*tensor.Tensor, len(br.In))
		for i, v := range br.In {
			d.Steps().Step(50)
			var ok bool
			if b.Inputs[i], konst[i], ok = d.inner(v); !ok {
				return
			}
		}
		bound[k] = br.Program.bind(b, konst, d.memory, d.known, d.checks)
	}
	d.branches[s] = &bound
	for i, v := range s.Out {
		d.Steps().Step(100)
		if v == nil || d.Shape(v) != nil {
			continue
		}
		var shape []int
		agree := true
		for _, k := range taken {
			if b := bound[k]; !b.refused { // a branch that cannot run decides nothing
				o := b.Shape(b.Program.Outputs[i])
				agree = agree && o != nil && (shape == nil || slices.Equal(shape, o))
				shape = o
			}
		}
		if agree && shape != nil {
			d.setType(v, TypeOf(v.Type.(*ir.TensorType).Elem, shape))
		}
	}
}
