package time

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// pick keeps the sum over the steps that count, in float64, with how many these were and how long the sequence is as far as
// that is known.
func (s *stepper) pick(n *ir.Node) error {
	v := n.In(0)
	f := s.flowOf(v)
	if f.kind != Sequence || f.axis != 1 || s.flowOf(n.In(1)).kind != Fixed {
		return s.why(n, ir.Fact{})
	}
	x := s.get(v)
	shape := x.Shape()
	sum := s.state("sum", tensor.Float64, shape[0], shape[2])
	count := s.state("count", tensor.Int64, shape[0], ir.Const(2))
	out := s.Ops("essm", "PickStep", 3, []*ir.Value{x, sum, count, s.get(n.In(1)), s.end}, ir.A("mode", n.Attrs.Str("mode", "")),
		ir.A("rate", f.rate), ir.A("offset", f.offset), ir.A("delay", f.delay))
	if s.Err() != nil {
		return s.Err()
	}
	out[0].Def.Name = n.Name
	s.pass(sum, out[1])
	s.pass(count, out[2])
	s.set(n.Out(0), out[0], f.summed(false))
	return nil
}
