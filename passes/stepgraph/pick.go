package stepgraph

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// pick computes one vector from the steps so far.
func (s *stepper) pick(n *ir.Node) error {
	v := n.In(0)
	f := s.flowOf(v)
	if f.kind != Sequence || f.axis != 1 || s.flowOf(n.In(1)).kind != Fixed {
		return s.why(n, ir.Fact{})
	}
	y := s.pickStep(s.get(v), s.get(n.In(1)), n.Attrs.Str("mode", ""), f)
	if s.Err() != nil {
		return s.Err()
	}
	y.Def.Name = n.Name
	s.set(n.Out(0), y, f.summed(false))
	return nil
}

// pickStep keeps the sum of the steps of x that count, in float64, with their number and the length of the sequence as
// far as it is known.
func (s *stepper) pickStep(x, lengths *ir.Value, mode string, f flow) *ir.Value {
	shape := x.Shape()
	sum := s.state("sum", tensor.Float64, shape[0], shape[2])
	count := s.state("count", tensor.Int64, shape[0], ir.Const(2))
	out := s.Ops("essm", "PickStep", 3, []*ir.Value{x, sum, count, lengths, s.end}, ir.A("mode", mode),
		ir.A("rate", f.rate), ir.A("offset", f.offset), ir.A("delay", f.delay))
	s.pass(sum, out[1])
	s.pass(count, out[2])
	return out[0]
}

// gather takes the last or the first step of a sequence so far.
func (s *stepper) gather(n *ir.Node) error {
	v := n.In(0)
	f := s.flowOf(v)
	at, ok := ops.ConstInts(n.In(1))
	if !ok || len(at) != 1 || at[0] != 0 && at[0] != -1 || f.kind != Sequence || len(n.In(1).Shape()) > 1 {
		return &BlockedError{n, "takes other steps than the first and the last"}
	}
	x, batch := s.get(v), s.batchAxis(v)
	if at[0] == -1 && f.delay == 0 && s.end == nil {
		return s.keep(n, []*ir.Value{x, s.get(n.In(1))}, []flow{f.summed(false)})
	}
	// PickStep expects batch and time first, and the rest as one axis.
	front, axis := s.batchFirst(x, batch), f.axis
	if axis < batch || batch < 0 {
		axis++
	}
	if axis > 1 && s.Err() == nil {
		perm := []int64{0, int64(axis)}
		for i := 1; i < len(front.Shape()); i++ {
			if i != axis {
				perm = append(perm, int64(i))
			}
		}
		front = s.Op("", "Transpose", []*ir.Value{front}, ir.A("perm", perm))
	}
	if s.Err() != nil {
		return s.Err()
	}
	rest, size := front.Shape()[2:], int64(1)
	back := []int64{0}
	for _, d := range rest {
		k, known := d.Known()
		if !known {
			return &BlockedError{n, "takes a step of unknown size"}
		}
		back, size = append(back, k), size*k
	}
	if len(back) > 1 && back[1] == 0 {
		return &BlockedError{n, "takes a step without elements"}
	}
	rows := s.Op("", "Reshape", []*ir.Value{front, s.Ints(0, 0, size)})
	if s.Err() != nil {
		return s.Err()
	}
	mode := "last"
	if at[0] == 0 {
		mode = "first"
	}
	y := s.pickStep(rows, nil, mode, f)
	y = s.Op("", "Reshape", []*ir.Value{y, s.Ints(back...)})
	to := batch // the axis of the batch without the axis of time
	if batch > f.axis {
		to--
	}
	if s.Err() != nil {
		return s.Err()
	}
	if y = s.batchBack(y, to); len(n.In(1).Shape()) == 1 {
		y = s.Op("", "Unsqueeze", []*ir.Value{y, s.Ints(int64(f.axis))})
	}
	s.set(n.Out(0), y, f.summed(false))
	return s.Err()
}
