package stepgraph

import (
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// reduction is an operator that sums up all steps: part reduces the steps of a chunk, join combines the result with
// the result of the previous steps.
type reduction struct {
	part, join string
	neutral    float64
	finish     string // an operator that is applied to the sum; "Mean" divides by the number of steps
}

var reductions = map[string]reduction{
	"ReduceSum":         {"ReduceSum", "Add", 0, ""},
	"ReduceMean":        {"ReduceSum", "Add", 0, "Mean"},
	"ReduceL1":          {"ReduceL1", "Add", 0, ""},
	"ReduceSumSquare":   {"ReduceSumSquare", "Add", 0, ""},
	"ReduceL2":          {"ReduceSumSquare", "Add", 0, "Sqrt"},
	"ReduceLogSum":      {"ReduceSum", "Add", 0, "Log"},
	"ReduceProd":        {"ReduceProd", "Mul", 1, ""},
	"ReduceMax":         {"ReduceMax", "Max", math.Inf(-1), ""},
	"ReduceMin":         {"ReduceMin", "Min", math.Inf(1), ""},
	"GlobalAveragePool": {"ReduceSum", "Add", 0, "Mean"},
	"GlobalMaxPool":     {"ReduceMax", "Max", math.Inf(-1), ""},
}

// limit returns the neutral element of a minimum or maximum in a type.
func limit(d tensor.DType, neutral float64) float64 {
	if !math.IsInf(neutral, 0) || d.IsFloat() {
		return neutral
	}
	bits := d.Bits()
	switch d {
	case tensor.Bool:
		bits = 1
		fallthrough
	case tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64:
		if neutral < 0 {
			return 0
		}
		return math.Ldexp(1, bits) - 1
	}
	if neutral < 0 {
		return -math.Ldexp(1, bits-1)
	}
	return math.Ldexp(1, bits-1) - 1
}

// wide returns x in the type of sums: float64 for floating-point types.
func (s *stepper) wide(x *ir.Value) *ir.Value {
	if x == nil || !x.Elem().IsFloat() || x.Elem() == tensor.Float64 {
		return x
	}
	return s.Op("", "Cast", []*ir.Value{x}, ir.A("to", int(tensor.Float64)))
}

func (s *stepper) cast(x *ir.Value, d tensor.DType) *ir.Value {
	if x == nil || x.Elem() == d {
		return x
	}
	return s.Op("", "Cast", []*ir.Value{x}, ir.A("to", int(d)))
}

// scalar returns a constant of one number.
func (s *stepper) scalar(d tensor.DType, x float64) *ir.Value {
	t, err := tensor.FromFloat64s(d, []float64{x})
	if err != nil {
		s.Fail(err)
		return nil
	}
	return s.Const("number", t)
}

// like adds a state of the shape of x, whose batch is on the given axis, and returns it, and it in that shape.
func (s *stepper) like(what string, x *ir.Value, batch int) (state, shaped *ir.Value) {
	if s.Err() != nil {
		return nil, nil
	}
	shape, samples := slices.Clone(x.Shape()), ir.Const(1)
	if shape == nil || batch >= len(shape) {
		s.Fail(fmt.Errorf("node %v: the shape of its state is not known", s.node))
		return nil, nil
	}
	if batch >= 0 {
		samples = shape[batch]
		shape = slices.Delete(shape, batch, batch+1)
	}
	if state = s.state(what, x.Elem(), samples, shape...); state == nil {
		return nil, nil
	}
	return state, s.batchBack(state, batch)
}

// hand sets the next value of a state that like has added.
func (s *stepper) hand(state, next *ir.Value, batch int) {
	if s.Err() == nil {
		s.pass(state, s.batchFirst(next, batch))
	}
}

// reduce continues a reduction over all steps so far.
func (s *stepper) reduce(n *ir.Node) error {
	r := reductions[n.Op.FullName()]
	v := n.In(0)
	f := s.flowOf(v)
	x := s.get(v)
	if f.kind != Sequence || s.flowOf(n.In(1)).kind != Fixed {
		return s.why(n, ir.Fact{Global: true})
	}
	if out := n.Out(0); s.batch != nil && s.batchAxis(out) < 0 && (r.neutral != 0 || !s.batch.Of(out).Constant()) {
		return s.why(n, ir.Fact{Global: true}) // it has no state per sample
	}
	axes, attrs := s.get(n.In(1)), []ir.Attr{}
	if _, global := map[string]bool{"GlobalAveragePool": true, "GlobalMaxPool": true}[n.Op.Name]; global {
		var all []int64
		for i := 2; i < len(x.Shape()); i++ {
			all = append(all, int64(i))
		}
		axes = s.Ints(all...)
	} else {
		attrs = []ir.Attr{ir.A("keepdims", n.Attrs.Int("keepdims", 1))}
	}
	elem := x.Elem()
	neutral := limit(elem, r.neutral)
	if f.delay > 0 || s.end != nil {
		x = s.mask(v, x, 0, neutral, true)
	}
	batch := s.batchAxis(n.Out(0))
	args := func(x *ir.Value) []*ir.Value {
		if axes == nil {
			return []*ir.Value{x}
		}
		return []*ir.Value{x, axes}
	}
	wide := s.wide(x)
	part := s.Op("", r.part, args(wide), attrs...)
	state, so := s.like("sum", part, batch)
	if r.neutral != 0 && s.Err() == nil {
		so = s.first(s.scalar(part.Elem(), neutral), so, batch)
	}
	sum := s.Op("", r.join, []*ir.Value{so, part})
	s.hand(state, sum, batch)
	y := sum
	switch r.finish {
	case "":
	case "Mean":
		if s.Err() != nil {
			return s.Err()
		}
		one, err := tensor.FromFloat64s(wide.Elem(), []float64{1}, 1)
		if err != nil {
			return err
		}
		ones := s.Op("", "ConstantOfShape", []*ir.Value{s.Op("", "Shape", []*ir.Value{x})}, ir.A("value", one))
		if f.delay > 0 || s.end != nil {
			ones = s.mask(v, ones, 0, 0, true)
		}
		count, before := s.like("count", part, batch)
		after := s.Op("", "Add", []*ir.Value{before, s.Op("", "ReduceSum", args(ones), attrs...)})
		s.hand(count, after, batch)
		if s.Err() != nil {
			return s.Err()
		}
		y = s.Op("", "Div", []*ir.Value{sum, s.Op("", "Max", []*ir.Value{after, s.scalar(after.Elem(), 1)})})
	default:
		y = s.Op("", r.finish, []*ir.Value{sum})
	}
	s.set(n.Out(0), s.cast(y, elem), f.summed(false))
	return s.Err()
}

// cumulate continues running sums and products.
func (s *stepper) cumulate(n *ir.Node) error {
	v := n.In(0)
	f := s.flowOf(v)
	if f.kind != Sequence || n.Attrs.Bool("reverse", false) {
		return s.why(n, ir.Fact{Ahead: ir.Unbounded})
	}
	if _, ok := ops.ConstInts(n.In(1)); !ok {
		return s.why(n, ir.Fact{Global: true}) // the axis is known only during a run
	}
	join, total, neutral := "Add", "ReduceSum", 0.0
	if n.Op.Name == "CumProd" {
		join, total, neutral = "Mul", "ReduceProd", 1
	}
	x := s.get(v)
	elem := x.Elem()
	x = s.wide(s.within(v, x, neutral))
	all := s.Op("", total, []*ir.Value{x, s.Ints(int64(f.axis))})
	batch := s.batchAxis(v)
	state, so := s.like("sum", all, batch)
	if neutral != 0 && s.Err() == nil {
		so = s.first(s.scalar(all.Elem(), neutral), so, batch)
	}
	s.hand(state, s.Op("", join, []*ir.Value{so, all}), batch)
	if s.Err() != nil {
		return s.Err()
	}
	y := s.Apply(n.Op, 1, []*ir.Value{x, s.get(n.In(1))}, n.Attrs)[0]
	s.set(n.Out(0), s.cast(s.Op("", join, []*ir.Value{so, y}), elem), f)
	return s.Err()
}
