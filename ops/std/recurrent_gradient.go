package std

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// maxUnrolled bounds the steps of recurrent layers that are written out for their gradient.
const maxUnrolled = 4096

// bodyRecurrent writes the steps of a recurrent layer out, for its gradient. Their number must be known.
func bodyRecurrent(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
	u := &unrolled{b: b, n: n, batchFirst: getInt(n, "layout") != 0}
	arg := func(i int) *ir.Value {
		if i < len(in) {
			return in[i]
		}
		return nil
	}
	x := in[0]
	if u.batchFirst {
		x = exchange(b, x)
	}
	if b.Err() != nil {
		return nil
	}
	shape, r := x.Shape(), in[2].Shape()
	if len(shape) != 3 || len(r) != 3 {
		b.Fail(&ops.NoGradientError{Why: "its shapes are not known"})
		return nil
	}
	steps, ok := shape[0].Known()
	hidden, ok2 := r[2].Known()
	if !ok || !ok2 || steps < 1 || steps > maxUnrolled {
		b.Fail(&ops.NoGradientError{Why: "the number of its steps is not known, or none, or large"})
		return nil
	}
	activations, err := CellActivations(n)
	if err != nil {
		b.Fail(err)
		return nil
	}
	u.steps, u.hidden = int(steps), hidden
	dirs := directions(n)
	var ys, hs, cs []*ir.Value
	for d := range dirs {
		u.activations = activations[d*len(activations)/dirs:]
		of := func(v *ir.Value) *ir.Value { // of this direction
			if v == nil {
				return nil
			}
			return attr(b, "Gather", []*ir.Value{v, b.Const("d", tensor.Scalar(int64(d)))}, ir.A("axis", 0))
		}
		state := func(v *ir.Value) *ir.Value {
			if v != nil && u.batchFirst {
				v = exchange(b, v)
			}
			if v != nil {
				return of(v)
			}
			zero := op(b, "Expand", ops.ScalarLike(b, 0, x), attr(b, "Concat", []*ir.Value{
				op(b, "Slice", ops.ShapeOf(b, x), b.Ints(1), b.Ints(2)), b.Ints(hidden)}, ir.A("axis", 0)))
			return zero
		}
		y, h, c := u.direction(x, of(in[1]), of(in[2]), of(arg(3)), of(arg(7)), arg(4), state(arg(5)), state(arg(6)),
			d == 1 || getStr(n, "direction") == "reverse")
		ys, hs, cs = append(ys, y), append(hs, h), append(cs, c)
	}
	join := func(list []*ir.Value, axis int64) *ir.Value {
		for i, v := range list {
			list[i] = op(b, "Unsqueeze", v, b.Ints(axis))
		}
		return attr(b, "Concat", list, ir.A("axis", axis))
	}
	y, h := join(ys, 1), join(hs, 0) // (L,dirs,B,H), (dirs,B,H)
	outs := []*ir.Value{y, h}
	if n.Op.Name == "LSTM" {
		outs = append(outs, join(cs, 0))
	}
	if u.batchFirst && b.Err() == nil {
		outs[0] = attr(b, "Transpose", []*ir.Value{outs[0]}, ir.A("perm", []int64{2, 0, 1, 3}))
		for i := range outs[1:] {
			outs[1+i] = exchange(b, outs[1+i])
		}
	}
	return outs
}

// unrolled is a recurrent layer that is written out.
type unrolled struct {
	b           *ir.Builder
	n           *ir.Node
	batchFirst  bool
	steps       int
	hidden      int64
	activations []CellActivation // of the direction
}

// direction returns the outputs (L,B,H) of a direction, and its last states.
func (u *unrolled) direction(x, w, r, bias, p, lens, h, c *ir.Value, backwards bool) (y, lastH, lastC *ir.Value) {
	b := u.b
	xs, rb := op(b, "MatMul", x, swapped(b, w)), (*ir.Value)(nil)
	if bias != nil {
		halves := b.Ops("", "Split", 2, []*ir.Value{bias}, ir.A("axis", 0), ir.A("num_outputs", 2))
		xs, rb = op(b, "Add", xs, halves[0]), halves[1]
	}
	each := []*ir.Value{xs}
	if u.steps > 1 {
		each = b.Ops("", "Split", u.steps, []*ir.Value{xs}, ir.A("axis", 0), ir.A("num_outputs", u.steps))
	}
	turnedR := swapped(b, r)
	out := make([]*ir.Value, u.steps)
	for s := range u.steps {
		t := s
		if backwards {
			t = u.steps - 1 - s
		}
		nextH, nextC := u.step(op(b, "Squeeze", each[t], b.Ints(0)), turnedR, rb, p, h, c)
		out[t] = nextH
		if lens != nil && b.Err() == nil { // beyond its length, a sample keeps its state, and gives zeros
			at := b.Const("t", tensor.FromSlice([]int32{int32(t)}, 1))
			there := op(b, "Unsqueeze", op(b, "Less", at, lens), b.Ints(1))
			out[t] = op(b, "Where", there, nextH, ops.ScalarLike(b, 0, x))
			nextH = op(b, "Where", there, nextH, h)
			if nextC != nil {
				nextC = op(b, "Where", there, nextC, c)
			}
		}
		h, c = nextH, nextC
		out[t] = op(b, "Unsqueeze", out[t], b.Ints(0))
	}
	return attr(b, "Concat", out, ir.A("axis", 0)), h, c
}

// act is activation i of a sum.
func (u *unrolled) act(i int, x scalar.Expr) scalar.Expr {
	if clip := u.n.Attrs.Float("clip", 0); clip > 0 {
		x = scalar.Clip(x, scalar.Const(-clip), scalar.Const(clip))
	}
	return u.plain(i, x)
}

// plain is act without the bound.
func (u *unrolled) plain(i int, x scalar.Expr) scalar.Expr {
	f := u.activations[i]
	a, c := scalar.Const(f.A), scalar.Const(f.B)
	switch f.Name {
	case "Relu":
		return scalar.Relu(x)
	case "Tanh":
		return scalar.Tanh(x)
	case "Sigmoid":
		return scalar.Sigmoid(x)
	case "Softsign":
		return scalar.Softsign(x)
	case "Softplus":
		return scalar.Softplus(x)
	case "Affine":
		return scalar.Add(scalar.Mul(a, x), c)
	case "ScaledTanh":
		return scalar.Mul(a, scalar.Tanh(scalar.Mul(c, x)))
	case "HardSigmoid":
		return scalar.HardSigmoid(x, a, c)
	case "LeakyRelu":
		return scalar.LeakyRelu(x, a)
	case "ThresholdedRelu":
		return scalar.ThresholdedRelu(x, a)
	}
	return scalar.Elu(x, a)
}

// step returns the states after a step, from the input's part x of the gates and the states before it.
func (u *unrolled) step(x, r, rb, p, h, c *ir.Value) (nextH, nextC *ir.Value) {
	b := u.b
	part := op(b, "MatMul", h, r)
	if rb != nil {
		part = op(b, "Add", part, rb)
	}
	sum := func(i, j int) scalar.Expr { return scalar.Add(scalar.Input(i), scalar.Input(j)) }
	if u.n.Op.Name == "RNN" {
		return ops.MapOf(b, u.act(0, sum(0, 1)), x, part), nil
	}
	gates := 3
	if u.n.Op.Name == "LSTM" {
		gates = 4
	}
	split := func(v *ir.Value) []*ir.Value {
		return b.Ops("", "Split", gates, []*ir.Value{v}, ir.A("axis", -1), ir.A("num_outputs", gates))
	}
	xs, rs := split(x), split(part)
	if u.n.Op.Name == "LSTM" {
		return u.lstm(xs, rs, p, c)
	}
	z, reset := u.act(0, sum(0, 1)), u.act(0, sum(2, 3))
	candidate := rs[2]
	if getInt(u.n, "linear_before_reset") != 0 {
		candidate = ops.MapOf(b, scalar.Mul(reset, scalar.Input(4)), xs[0], rs[0], xs[1], rs[1], candidate)
	} else {
		last := func(v *ir.Value, axis int64) *ir.Value { // the third gate
			return op(b, "Slice", v, b.Ints(2*u.hidden), b.Ints(3*u.hidden), b.Ints(axis))
		}
		resetH := ops.MapOf(b, scalar.Mul(reset, scalar.Input(4)), xs[0], rs[0], xs[1], rs[1], h)
		if candidate = op(b, "MatMul", resetH, last(r, 1)); rb != nil {
			candidate = op(b, "Add", candidate, last(rb, 0))
		}
	}
	next := scalar.Add(scalar.Mul(scalar.Sub(scalar.Const(1), z), u.act(1, sum(2, 3))), scalar.Mul(z, scalar.Input(4)))
	return ops.MapOf(b, next, xs[0], rs[0], xs[2], candidate, h), nil
}

// lstm is step for the gates i, o, f and c of an LSTM.
func (u *unrolled) lstm(xs, rs []*ir.Value, p, c *ir.Value) (nextH, nextC *ir.Value) {
	b := u.b
	args := []*ir.Value{xs[0], rs[0], xs[2], rs[2], xs[3], rs[3], c}
	gate := func(i, peep int, c scalar.Expr) scalar.Expr {
		s := scalar.Add(scalar.Input(i), scalar.Input(i+1))
		if p != nil {
			s = scalar.Add(s, scalar.Mul(scalar.Input(peep), c))
		}
		return u.act(0, s)
	}
	var peeps []*ir.Value // i, o, f
	if p != nil {
		peeps = b.Ops("", "Split", 3, []*ir.Value{p}, ir.A("axis", 0), ir.A("num_outputs", 3))
		args = append(args, peeps[0], peeps[2])
	}
	old := scalar.Input(6)
	input := gate(0, 7, old)
	forget := gate(2, 8, old)
	if getInt(u.n, "input_forget") != 0 {
		forget = scalar.Sub(scalar.Const(1), input)
	}
	candidate := u.act(1, scalar.Add(scalar.Input(4), scalar.Input(5)))
	nextC = ops.MapOf(b, scalar.Add(scalar.Mul(forget, old), scalar.Mul(input, candidate)), args...)
	args = []*ir.Value{xs[1], rs[1], nextC}
	if p != nil {
		args = append(args, peeps[1])
	}
	cell := scalar.Input(2)
	return ops.MapOf(b, scalar.Mul(gate(0, 3, cell), u.plain(2, cell)), args...), nextC
}
