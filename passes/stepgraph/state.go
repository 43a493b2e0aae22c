package stepgraph

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// state adds a state of the node being moved. rest are the dimensions after the batch. The caller must set its next
// value with pass.
func (s *stepper) state(what string, d tensor.DType, samples ir.Dim, rest ...ir.Dim) *ir.Value {
	if s.Err() != nil {
		return nil
	}
	name := s.node.Scope
	if name == "" {
		if name = s.node.Name; name == "" {
			name = s.node.Op.Name
		}
	}
	return s.add(name+"."+what, s.node.String(), d, samples, rest...)
}

// add adds a named state. Messages call its owner node.
func (s *stepper) add(name, node string, d tensor.DType, samples ir.Dim, rest ...ir.Dim) *ir.Value {
	name = s.Unique(name)
	shape := append(ir.Shape{samples}, rest...)
	for i, d := range shape {
		if _, ok := d.Known(); d.IsUnknown() || i > 0 && !ok {
			s.Fail(fmt.Errorf("node %s: its state has shape %v, expected known dimensions but for the batch", node,
				shape))
			return nil
		}
	}
	v := &ir.Value{Name: name, Type: &ir.TensorType{Elem: d, Shape: shape}}
	g := s.Graph()
	g.Inputs = append(g.Inputs, v)
	scope := ""
	if s.node != nil {
		scope = s.node.Scope
	}
	s.out.States = append(s.out.States, State{Name: name, Next: s.Unique(name + ".next"), DType: d, Shape: shape,
		Node: node, Scope: scope})
	s.next = append(s.next, nil)
	return v
}

// pass sets the next value of a state: the state after the chunk.
func (s *stepper) pass(state, next *ir.Value) {
	if state == nil || next == nil {
		return
	}
	i := slices.IndexFunc(s.out.States, func(t State) bool { return t.Name == state.Name })
	s.next[i] = next
}

// before returns the number of steps before the chunk, int64[B].
func (s *stepper) before() *ir.Value {
	if s.steps == nil {
		s.steps = s.add("steps", "the number of steps so far", tensor.Int64, s.samples())
	}
	return s.steps
}

// batchFirst returns a value with its batch, on the given axis, as the first axis. If axis is -1, an axis of size 1 is
// added.
func (s *stepper) batchFirst(v *ir.Value, axis int) *ir.Value {
	switch axis {
	case 0:
		return v
	case -1:
		return s.Op("", "Unsqueeze", []*ir.Value{v, s.Ints(0)})
	}
	return s.Op("", "Transpose", []*ir.Value{v}, ir.A("perm", toFront(len(v.Shape()), axis)))
}

// batchBack undoes batchFirst.
func (s *stepper) batchBack(v *ir.Value, axis int) *ir.Value {
	switch axis {
	case 0:
		return v
	case -1:
		return s.Op("", "Squeeze", []*ir.Value{v, s.Ints(0)})
	}
	perm := toFront(len(v.Shape()), axis)
	back := make([]int64, len(perm))
	for i, p := range perm {
		back[p] = int64(i)
	}
	return s.Op("", "Transpose", []*ir.Value{v}, ir.A("perm", back))
}

func toFront(rank, axis int) []int64 {
	perm := []int64{int64(axis)}
	for i := range rank {
		if i != axis {
			perm = append(perm, int64(i))
		}
	}
	return perm
}

// history prepends the n steps before the chunk to x, the value of the step graph for v. Steps before the first one
// ever fed are zeros.
func (s *stepper) history(v, x *ir.Value, n int64) *ir.Value {
	if n == 0 || s.Err() != nil {
		return x
	}
	axis, batch := s.flowOf(v).axis, s.batchAxis(v)
	shape := slices.Clone(x.Shape())
	shape[axis] = ir.Const(n)
	samples := ir.Const(1)
	if batch >= 0 {
		samples = shape[batch]
		shape = slices.Delete(shape, batch, batch+1)
	}
	past := s.state("past", x.Elem(), samples, shape...)
	if past == nil {
		return nil
	}
	all := s.Op("", "Concat", []*ir.Value{s.batchBack(past, batch), x}, ir.A("axis", axis))
	last := s.slice(all, axis, -n, sliceEnd)
	if last != nil {
		s.pass(past, s.batchFirst(last, batch))
	}
	return all
}

const sliceEnd = int64(1) << 62

// slice returns a range of an axis.
func (s *stepper) slice(x *ir.Value, axis int, from, to int64) *ir.Value {
	return s.Op("", "Slice", []*ir.Value{x, s.Ints(from), s.Ints(to), s.Ints(int64(axis))})
}

// lag delays the value of the step graph for v by some more steps.
func (s *stepper) lag(v *ir.Value, by int64) {
	f := s.flowOf(v)
	all := s.history(v, s.get(v), by)
	if by > 0 && all != nil {
		all = s.slice(all, f.axis, 0, -by)
	}
	f.delay += by
	s.set(v, all, f)
}
