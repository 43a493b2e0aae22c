package std

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// bodyBatchNorm computes BatchNormalization by smaller operators, for its gradient.
func bodyBatchNorm(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
	x := in[0]
	rank := len(x.Shape())
	if rank < 1 {
		b.Fail(&ops.NoGradientError{Why: "the rank of X is not known"})
		return nil
	}
	var after, others []int64 // axes behind the channels, and all but the channels
	for i := range rank {
		if i > 1 {
			after = append(after, int64(i-1))
		}
		if i != 1 {
			others = append(others, int64(i))
		}
	}
	channels := func(v *ir.Value) *ir.Value { // in the shape of the axes from the channels on, and the type of X
		v = ops.CastLike(b, v, x)
		if len(after) == 0 {
			return v
		}
		return op(b, "Unsqueeze", v, b.Ints(after...))
	}
	mean, variance := in[3], in[4]
	outs := []*ir.Value{nil, mean, variance}
	if getInt(n, "training_mode") != 0 {
		if rank == 1 {
			b.Fail(&ops.NoGradientError{Why: "X has one axis in training"})
			return nil
		}
		mean = attr(b, "ReduceMean", []*ir.Value{x, b.Ints(others...)}, ir.A("keepdims", 0))
		centred := op(b, "Sub", x, channels(mean))
		variance = attr(b, "ReduceMean", []*ir.Value{op(b, "Mul", centred, centred), b.Ints(others...)},
			ir.A("keepdims", 0))
		m := getFloat(n, "momentum")
		for i, batch := range []*ir.Value{mean, variance} {
			old, now := in[3+i], ops.CastLike(b, batch, in[3+i])
			outs[1+i] = op(b, "Add", op(b, "Mul", old, ops.ScalarLike(b, m, old)), op(b, "Mul", now, ops.ScalarLike(b,
				1-m, old)))
		}
	} else {
		for i, v := range outs[1:] {
			outs[1+i] = op(b, "Identity", v)
		}
	}
	deviation := op(b, "Sqrt", op(b, "Add", channels(variance), ops.ScalarLike(b, getFloat(n, "epsilon"), x)))
	normal := op(b, "Div", op(b, "Sub", x, channels(mean)), deviation)
	outs[0] = op(b, "Add", op(b, "Mul", normal, channels(in[1])), channels(in[2]))
	return outs
}

// bodyLpNorm computes LpNormalization by smaller operators, for its gradient.
func bodyLpNorm(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
	name := map[int64]string{1: "ReduceL1", 2: "ReduceL2"}[getInt(n, "p")]
	norm := op(b, name, in[0], b.Ints(getInt(n, "axis")))
	zero := op(b, "Equal", norm, ops.ScalarLike(b, 0, norm))
	return []*ir.Value{op(b, "Div", in[0], op(b, "Where", zero, ops.ScalarLike(b, 1, norm), norm))}
}

// bodyLRN computes LRN by smaller operators, for its gradient.
func bodyLRN(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
	x := in[0]
	size := getInt(n, "size")
	shape := op(b, "Shape", x)
	part := func(from, to int64) *ir.Value { return op(b, "Slice", shape, b.Ints(from), b.Ints(to)) }
	as := attr(b, "Concat", []*ir.Value{part(0, 1), b.Ints(1), part(1, 2), b.Ints(-1)}, ir.A("axis", 0))
	planes := op(b, "Reshape", op(b, "Mul", x, x), as) // (N,1,C,…)
	sum := attr(b, "Conv", []*ir.Value{planes, op(b, "Expand", ops.ScalarLike(b, 1, x), b.Ints(1, 1, size, 1))},
		ir.A("pads", []int64{(size - 1) / 2, 0, size / 2, 0}))
	sum = ops.ReshapeLike(b, sum, x)
	scale := ops.ScalarLike(b, getFloat(n, "alpha")/float64(size), x)
	base := op(b, "Add", op(b, "Mul", sum, scale), ops.ScalarLike(b, getFloat(n, "bias"), x))
	return []*ir.Value{op(b, "Div", x, op(b, "Pow", base, ops.ScalarLike(b, getFloat(n, "beta"), x)))}
}

// bodyGlobalLp computes GlobalLpPool by smaller operators, for its gradient.
func bodyGlobalLp(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
	p, err := exponent(n)
	if err != nil {
		b.Fail(err)
		return nil
	}
	x := in[0]
	var axes []int64
	for i := 2; i < len(x.Shape()); i++ {
		axes = append(axes, int64(i))
	}
	sum := op(b, "ReduceSum", op(b, "Pow", op(b, "Abs", x), ops.ScalarLike(b, p, x)), b.Ints(axes...))
	return []*ir.Value{op(b, "Pow", sum, ops.ScalarLike(b, 1/p, x))}
}
