package essm

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

func scalarInt(k int64) *tensor.Tensor { return tensor.Scalar(k) }

// gradLinear is the Gradient of Linear.
func gradLinear(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	x, w, g := n.In(0), n.In(1), dOut[0]
	rows := rowsOf(b, g)
	grads := []*ir.Value{std(b, "MatMul", g, ops.CastLike(b, w, g)),
		ops.CastLike(b, std(b, "MatMul", swapped(b, rows), rowsOf(b, x)), w)}
	if n.In(2) != nil && b.Err() == nil {
		grads = append(grads, sumOver(b, ops.CastLike(b, rows, n.In(2)), 0))
	}
	return grads
}

// gradHeadLinear is the Gradient of HeadLinear.
func gradHeadLinear(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	x, w, g := n.In(0), n.In(1), dOut[0]
	s := w.Shape()
	known, ok := s.Known()
	if !ok || len(known) != 4 || len(x.Shape()) == 0 {
		b.Fail(&ops.NoGradientError{Why: "the shape of w is not known"})
		return nil
	}
	c, heads, p, q := int64(known[0]), int64(known[1]), int64(known[2]), int64(known[3])
	share, err := shared(x.Shape()[len(x.Shape())-1], s[0], s[1], s[3])
	if _, sure := x.Shape()[len(x.Shape())-1].Known(); err == nil && !sure && c > 1 {
		err = &ops.NoGradientError{Why: "the number of features is not known"}
	}
	if err != nil {
		b.Fail(err)
		return nil
	}
	dx := b.Op("essm", "HeadLinear", []*ir.Value{g, swapped(b, w)})
	equation, in := "rcsp,rcsq->cspq", b.Ints(-1, c, heads, q)
	if share && c > 1 {
		equation, in = "rcsp,rsq->cspq", b.Ints(-1, heads, q)
		dx = sumOver(b, std(b, "Reshape", dx, b.Ints(-1, c, heads*q)), 1)
	}
	dw := stdWith(b, "Einsum", []*ir.Value{std(b, "Reshape", g, b.Ints(-1, c, heads, p)), std(b, "Reshape", x, in)},
		ir.A("equation", equation))
	return []*ir.Value{ops.ReshapeLike(b, dx, x), ops.CastLike(b, dw, w)}
}

// gradHeadScale is the Gradient of HeadScale.
func gradHeadScale(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	x, d := n.In(0), n.In(1)
	known, ok := d.Shape().Known()
	if !ok || len(known) != 3 {
		b.Fail(&ops.NoGradientError{Why: "the shape of d is not known"})
		return nil
	}
	c, m := int64(known[0]), int64(known[1]*known[2])
	g := std(b, "Reshape", dOut[0], b.Ints(-1, c, m))
	scale := ops.CastLike(b, std(b, "Reshape", d, b.Ints(c, m)), g)
	dx := sumOver(b, std(b, "Mul", g, scale), 1)
	dd := sumOver(b, std(b, "Mul", g, std(b, "Reshape", x, b.Ints(-1, 1, m))), 0)
	return []*ir.Value{ops.ReshapeLike(b, dx, x), ops.CastLike(b, ops.ReshapeLike(b, dd, d), d)}
}

// gradEmbedding adds the gradients up at the rows that were looked up.
func gradEmbedding(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	at := ops.CastTo(b, std(b, "Unsqueeze", n.In(0), b.Ints(-1)), tensor.Int64)
	return []*ir.Value{nil, stdWith(b, "ScatterND", []*ir.Value{ops.FilledLike(b, 0, n.In(1)), at, dOut[0]},
		ir.A("reduction", "add"))}
}

// gradPick gives each step its part of the vector.
func gradPick(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	steps := stdWith(b, "Gather", []*ir.Value{std(b, "Shape", n.In(0)), b.Const("one", scalarInt(1))}, ir.A("axis", 0))
	return []*ir.Value{b.Op("essm", "Unpick", trim(dOut[0], steps, n.In(1)), n.Attrs...)}
}

// bodyPair computes Pair by smaller operators, for its gradient.
func bodyPair(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
	last := std(b, "Slice", std(b, "Shape", in[0]), b.Ints(1), b.Ints(2))
	both := std(b, "Reshape", in[0], stdWith(b, "Concat", []*ir.Value{b.Ints(2, -1), last}, ir.A("axis", 0)))
	half := func(i int64) *ir.Value {
		return stdWith(b, "Gather", []*ir.Value{both, b.Const("i", scalarInt(i))}, ir.A("axis", 0))
	}
	list := []*ir.Value{half(0), half(1)}
	if n.Attrs.Bool("nli", false) {
		list = append(list, std(b, "Sub", list[0], list[1]), std(b, "Mul", list[0], list[1]))
	}
	return []*ir.Value{stdWith(b, "Concat", list, ir.A("axis", 1))}
}

// gradStateOrZero passes the gradient on to the state.
func gradStateOrZero(_ *ir.Builder, _ *ir.Node, dOut []*ir.Value) []*ir.Value {
	return []*ir.Value{nil, dOut[0]}
}

// gradStepMask masks the gradient in the same way, with zeros.
func gradStepMask(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	attrs := []ir.Attr{ir.A("value", 0.0)}
	for _, a := range n.Attrs {
		if a.Name != "value" {
			attrs = append(attrs, a)
		}
	}
	in := append([]*ir.Value{dOut[0]}, n.Inputs[1:]...)
	return b.Apply(n.Op, 1, in, ir.NewAttrs(attrs...))[:1]
}

// bodyScalarNorm computes ScalarNorm by smaller operators, for its gradient.
func bodyScalarNorm(b *ir.Builder, _ *ir.Node, in []*ir.Value) []*ir.Value {
	centred := std(b, "Sub", in[0], std(b, "ReduceMean", in[0], b.Ints(-1)))
	variance := std(b, "ReduceMean", std(b, "Mul", centred, centred), b.Ints(-1))
	return []*ir.Value{std(b, "Mul", std(b, "Add", centred, in[1]), std(b, "Div", in[2], std(b, "Sqrt", variance)))}
}

// bodyInstanceNorm computes InstanceNorm by smaller operators, for its gradient.
func bodyInstanceNorm(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
	centred := std(b, "Sub", in[0], std(b, "ReduceMean", in[0], b.Ints(1)))
	variance := std(b, "ReduceMean", std(b, "Mul", centred, centred), b.Ints(1))
	x := scalar.Inputs(2)
	eps := scalar.Const(n.Attrs.Float("epsilon", 1e-5))
	return []*ir.Value{ops.MapOf(b, scalar.Div(x[0], scalar.Sqrt(scalar.Add(x[1], eps))), centred, variance)}
}

// bodyKernel computes Kernel by smaller operators, for its gradient.
func bodyKernel(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
	j := std(b, "Range", b.Const("zero", scalarInt(0)), in[4], b.Const("one", scalarInt(1)))
	args := []*ir.Value{ops.CastLike(b, j, in[0])}
	for _, v := range in[:4] {
		args = append(args, std(b, "Unsqueeze", v, b.Ints(-1)))
	}
	x := scalar.Inputs(5)
	power := complexExpr{scalar.Cos(scalar.Mul(x[0], x[2])), scalar.Sin(scalar.Mul(x[0],
		x[2]))}.scale(scalar.Exp(scalar.Mul(x[0], x[1])))
	k := power.times(complexExpr{x[3], x[4]})
	return []*ir.Value{ops.MapOf(b, k.re, args...), ops.MapOf(b, k.im, args...)}
}

// gradLongConv is the Gradient of LongConv: the same convolution over reversed time for v; for k, the correlation of
// the gradient with v.
func gradLongConv(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	v, k, g := n.In(0), n.In(1), dOut[0]
	features, ok := k.Shape()[0].Known()
	taps, ok2 := k.Shape()[1].Known()
	if !ok || !ok2 {
		b.Fail(&ops.NoGradientError{Why: "the shape of k is not known"})
		return nil
	}
	dv := reversed(b, b.Op("essm", "LongConv", []*ir.Value{reversed(b, g), k}, n.Attrs...))
	direction := n.Attrs.Str("direction", Forward)
	perFeature := func(x *ir.Value) *ir.Value { // (N,B,L)
		return stdWith(b, "Transpose", []*ir.Value{x}, ir.A("perm", []int64{2, 0, 1}))
	}
	steps := std(b, "Slice", std(b, "Shape", v), b.Ints(1), b.Ints(2))
	correlate := func(x *ir.Value, begin, end int64) *ir.Value { // o[m] = Σ g[t] x[m+t] over samples, for each feature
		rows := std(b, "Reshape", perFeature(x), stdWith(b, "Concat", []*ir.Value{b.Ints(1, -1), steps}, ir.A("axis",
			0)))
		o := stdWith(b, "Conv", []*ir.Value{rows, perFeature(g)}, ir.A("group", features), ir.A("pads", []int64{begin,
			end}))
		return ops.ReshapeLike(b, o, k)
	}
	var dk *ir.Value
	if direction != Backward {
		o := correlate(v, taps-1, 0)
		dk = std(b, "Slice", o, b.Ints(-1), b.Ints(-taps-1), b.Ints(1), b.Ints(-1))
	}
	if direction != Forward {
		o := correlate(later(b, v, -1), 0, taps-1)
		if dk != nil {
			o = std(b, "Add", dk, o)
		}
		dk = o
	}
	return []*ir.Value{dv, ops.CastLike(b, dk, k)}
}

// bodySelectiveScan computes SelectiveScan by a GatedScan over all states, for its gradient.
func bodySelectiveScan(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
	var known [4]int64
	for i, at := range [][2]int{{0, 2}, {1, 2}, {3, 2}, {2, 1}} {
		var ok bool
		if known[i], ok = in[at[0]].Shape()[at[1]].Known(); !ok {
			b.Fail(&ops.NoGradientError{Why: "the number of features is not known"})
			return nil
		}
	}
	arg := func(i int) *ir.Value {
		if i < len(in) {
			return in[i]
		}
		return nil
	}
	sizes := selectiveSizes{features: known[0], heads: known[1], shared: known[2], columns: known[3],
		groups: n.Attrs.Int("groups", 1)}
	groups, states, features := sizes.groups, sizes.states(), sizes.features
	heads, per := sizes.heads/groups, features/sizes.heads
	as := func(x *ir.Value, dims ...int64) *ir.Value { return std(b, "Reshape", x, b.Ints(dims...)) }
	x, delta := as(in[0], 0, 0, groups, heads, per, 1), as(in[1], 0, 0, groups, heads, 1, 1)
	a := as(ops.CastLike(b, in[2], in[0]), groups, heads, 1, sizes.columns)
	input := std(b, "Mul", std(b, "Mul", delta, x), as(in[3], 0, 0, groups, 1, 1, states))
	factor := ops.ExpandLike(b, std(b, "Exp", std(b, "Mul", delta, a)), input)
	outs := 1
	if n.Out(1) != nil {
		outs = 2
	}
	s := b.Ops("essm", "GatedScan", outs, trim(as(factor, 0, 0, features*states), as(input, 0, 0, features*states),
		arg(6)))
	y := std(b, "Mul", as(s[0], 0, 0, groups, heads, per, states), as(in[4], 0, 0, groups, 1, 1, states))
	y = sumOver(b, y, -1)
	if d := arg(5); d != nil {
		direct := as(ops.CastLike(b, d, in[0]), groups, heads, 1)
		y = std(b, "Add", y, std(b, "Mul", as(in[0], 0, 0, groups, heads, per), direct))
	}
	return append([]*ir.Value{as(y, 0, 0, features)}, s[1:]...)
}
