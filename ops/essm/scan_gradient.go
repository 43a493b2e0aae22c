package essm

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ops"
)

// gradScan is the Gradient of Scan. The states z[t] = ā z[t-1] + b v[t] of a forward scan have the adjoint states
// λ[t] = g[t] + conj(ā) λ[t+1], where g is the gradient of z: a forward scan of g over reversed time, with the same
// window. Then v has the gradient conj(b) λ, b has Σ conj(v) λ over samples and time, and the logarithm of ā has Σ
// conj(ā z[t-1]) λ[t], where ā z[t-1] = z[t] - b v[t]. A backward scan is a forward scan of v[t+1] over reversed
// time; a bidirectional one is the sum of both.
func gradScan(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	s := &scanGradient{b: b, n: n, window: n.Attrs.Int("window", 0), gRe: dOut[0], grads: make([]*ir.Value,
		len(n.Inputs))}
	var last *ir.Value
	if len(dOut) > 1 {
		s.gIm = dOut[1]
	}
	if len(dOut) > 2 {
		last = dOut[2]
	}
	if s.window > 0 && (n.In(6) != nil || last != nil) {
		b.Fail(&ops.NoGradientError{Why: "its state holds a window of inputs"})
		return nil
	}
	if s.gRe == nil {
		s.gRe = ops.FilledLike(b, 0, n.In(0))
	}
	direction := n.Attrs.Str("direction", Forward)
	if direction != Backward {
		s.pass(n.In(0), n.In(5), false, last)
	}
	if direction != Forward { // u[t] = v[t+1]
		s.pass(later(b, n.In(0), -1), later(b, n.In(5), -1), true, nil)
	}
	return s.grads
}

// scanGradient adds up the gradients of a Scan's inputs.
type scanGradient struct {
	b        *ir.Builder
	n        *ir.Node
	window   int64
	gRe, gIm *ir.Value
	grads    []*ir.Value
}

func (s *scanGradient) add(i int, g *ir.Value) {
	if s.grads[i] != nil {
		g = std(s.b, "Add", s.grads[i], g)
	}
	s.grads[i] = g
}

// scan runs a forward scan and returns both parts of its states. With conjugate the eigenvalues are conjugate, and b
// is 1.
func (s *scanGradient) scan(re, im *ir.Value, conjugate bool, state *ir.Value, window int64) []*ir.Value {
	b, in := s.b, s.n.Inputs
	args := []*ir.Value{re, in[1], in[2], in[3], in[4], im, state}
	if conjugate {
		args = []*ir.Value{re, in[1], std(b, "Neg", in[2]), ops.FilledLike(b, 1, in[3]), ops.FilledLike(b, 0, in[4]),
			im}
	}
	return b.Ops("essm", "Scan", 2, trim(args...), ir.A("window", window))
}

// vector gives a constant of the system, of shape (C, S, n), the type of like and one axis.
func (s *scanGradient) vector(v, like *ir.Value) *ir.Value {
	return ops.CastLike(s.b, std(s.b, "Reshape", v, s.b.Ints(-1)), like)
}

// pass adds the gradients of the forward or the backward half, whose input is u; last is the gradient of the state
// after the last step.
func (s *scanGradient) pass(uRe, uIm *ir.Value, backward bool, last *ir.Value) {
	b, n := s.b, s.n
	turn := func(x *ir.Value) *ir.Value { // so that a forward half runs over reversed time
		if backward {
			return x
		}
		return reversed(b, x)
	}
	gRe, gIm := turn(s.gRe), turn(s.gIm)
	if last != nil {
		parts := b.Ops("", "Split", 2, []*ir.Value{ops.CastLike(b, last, s.gRe)}, ir.A("axis", 1), ir.A("num_outputs",
			2))
		at := func(v *ir.Value) *ir.Value {
			return ops.PlaceLike(b, std(b, "Unsqueeze", v, b.Ints(1)), s.n.In(0), 0, 0, 0)
		}
		gRe = std(b, "Add", gRe, at(parts[0]))
		if gIm == nil {
			gIm = ops.FilledLike(b, 0, n.In(0))
		}
		gIm = std(b, "Add", gIm, at(parts[1]))
	}
	adjoint := s.scan(gRe, gIm, true, nil, s.window)
	lRe, lIm := turn(adjoint[0]), turn(adjoint[1])
	if b.Err() != nil {
		return
	}
	x := scalar.Inputs(4)
	dot := scalar.Add(scalar.Mul(x[0], x[2]), scalar.Mul(x[1], x[3]))   // Re conj(x)·l
	cross := scalar.Sub(scalar.Mul(x[0], x[3]), scalar.Mul(x[1], x[2])) // Im conj(x)·l
	bRe, bIm := s.vector(n.In(3), lRe), s.vector(n.In(4), lRe)
	delay := int64(0)
	if backward {
		delay = 1
	}
	s.add(0, later(b, ops.MapOf(b, dot, bRe, bIm, lRe, lIm), delay))
	if uIm != nil {
		s.add(5, later(b, ops.MapOf(b, cross, bRe, bIm, lRe, lIm), delay))
	}
	s.parameters(3, 4, uRe, uIm, lRe, lIm)
	s.eigenvalues(uRe, uIm, bRe, bIm, backward, gRe, gIm, lRe, lIm, turn)
	if state := n.In(6); state != nil { // conj(ā) λ[0]
		aRe, aIm := s.vector(n.In(1), lRe), s.vector(n.In(2), lRe)
		e := scalar.Exp(x[0])
		re := scalar.Mul(e, scalar.Add(scalar.Mul(scalar.Cos(x[1]), x[2]), scalar.Mul(scalar.Sin(x[1]), x[3])))
		im := scalar.Mul(e, scalar.Sub(scalar.Mul(scalar.Cos(x[1]), x[3]), scalar.Mul(scalar.Sin(x[1]), x[2])))
		first := []*ir.Value{aRe, aIm, firstOf(b, lRe), firstOf(b, lIm)}
		both := stdWith(b, "Concat", []*ir.Value{ops.MapOf(b, re, first...), ops.MapOf(b, im, first...)}, ir.A("axis",
			1))
		s.add(6, ops.CastLike(b, both, state))
	}
}

// firstOf returns the first step, without the axis of time.
func firstOf(b *ir.Builder, x *ir.Value) *ir.Value {
	return std(b, "Squeeze", firstStep(b, x), b.Ints(1))
}

// parameters adds Σ conj(u)·λ to the gradients of inputs re and im.
func (s *scanGradient) parameters(re, im int, uRe, uIm, lRe, lIm *ir.Value) {
	b, x := s.b, scalar.Inputs(4)
	like := s.n.In(re)
	sum := func(v *ir.Value) *ir.Value {
		return ops.ReshapeLike(b, ops.CastLike(b, sumOver(b, v, 0, 1), like), like)
	}
	if uIm == nil {
		s.add(re, sum(std(b, "Mul", uRe, lRe)))
		s.add(im, sum(std(b, "Mul", uRe, lIm)))
		return
	}
	in := []*ir.Value{uRe, uIm, lRe, lIm}
	s.add(re, sum(ops.MapOf(b, scalar.Add(scalar.Mul(x[0], x[2]), scalar.Mul(x[1], x[3])), in...)))
	s.add(im, sum(ops.MapOf(b, scalar.Sub(scalar.Mul(x[0], x[3]), scalar.Mul(x[1], x[2])), in...)))
}

// eigenvalues adds Σ conj(w) λ for w[t] = ā z[t-1]. With a window ℓ, λ is the adjoint of the recurrence
// z[t] = ā z[t-1] + b u[t] - ā^ℓ b u[t-ℓ], without one, and w[t] = ā z[t-1] - ℓ ā^ℓ b u[t-ℓ].
func (s *scanGradient) eigenvalues(uRe, uIm, bRe, bIm *ir.Value, backward bool, gRe, gIm, lRe, lIm *ir.Value,
	turn func(*ir.Value) *ir.Value) {
	b, n := s.b, s.n
	var z []*ir.Value
	if backward {
		z = s.scan(reversed(b, uRe), reversed(b, uIm), false, nil, s.window)
		z = []*ir.Value{reversed(b, z[0]), reversed(b, z[1])}
	} else if n.Attrs.Str("direction", Forward) == Forward && n.Out(0) != nil && n.Out(1) != nil {
		z = n.Outputs[:2]
	} else {
		z = s.scan(uRe, uIm, false, n.In(6), s.window)
	}
	if s.window > 0 {
		adjoint := s.scan(gRe, gIm, true, nil, 0)
		lRe, lIm = turn(adjoint[0]), turn(adjoint[1])
	}
	if b.Err() != nil {
		return
	}
	// times returns both parts of z - k·b·u for the factor k, which is complex.
	less := func(z []*ir.Value, kRe, kIm, uRe, uIm *ir.Value) []*ir.Value {
		x := scalar.Inputs(5)
		re, im := scalar.Mul(x[1], x[3]), scalar.Mul(x[2], x[3])
		if uIm != nil {
			re, im = scalar.Sub(re, scalar.Mul(x[2], x[4])), scalar.Add(im, scalar.Mul(x[1], x[4]))
		}
		return []*ir.Value{ops.MapOf(b, scalar.Sub(x[0], re), z[0], kRe, kIm, uRe, uIm),
			ops.MapOf(b, scalar.Sub(x[0], im), z[1], kRe, kIm, uRe, uIm)}
	}
	w := less(z, bRe, bIm, uRe, uIm)
	if s.window > 0 {
		x, l := scalar.Inputs(4), scalar.Const(float64(s.window))
		power := complexExpr{scalar.Cos(scalar.Mul(l, x[1])), scalar.Sin(scalar.Mul(l,
			x[1]))}.scale(scalar.Exp(scalar.Mul(l, x[0])))
		k := power.times(complexExpr{x[2], x[3]}).scale(scalar.Sub(l, scalar.Const(1)))
		system := n.Inputs[1:5]
		steps := s.window
		if backward {
			steps = -steps
		}
		w = less(w, s.vector(ops.MapOf(b, k.re, system...), lRe), s.vector(ops.MapOf(b, k.im, system...), lRe),
			later(b, uRe, steps), later(b, uIm, steps))
	}
	s.parameters(1, 2, w[0], w[1], lRe, lIm)
}

// gradGatedScan is the Gradient of GatedScan: λ[t] = g[t] + f[t+1] λ[t+1] over reversed time; v has λ, and f has λ[t]
// h[t-1].
func gradGatedScan(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	f, h, state := n.In(0), n.Out(0), n.In(2)
	g := dOut[0]
	if g == nil {
		g = ops.FilledLike(b, 0, n.In(1))
	}
	g = reversed(b, g)
	if len(dOut) > 1 && dOut[1] != nil {
		last := std(b, "Unsqueeze", ops.CastLike(b, dOut[1], g), b.Ints(1))
		g = std(b, "Add", g, ops.PlaceLike(b, last, n.In(1), 0, 0, 0))
	}
	l := reversed(b, b.Op("essm", "GatedScan", []*ir.Value{later(b, reversed(b, f), 1), g}))
	before := later(b, h, 1)
	if b.Err() != nil {
		return nil
	}
	grads := []*ir.Value{nil, l, nil}
	if state != nil {
		first := std(b, "Unsqueeze", ops.CastLike(b, state, h), b.Ints(1))
		before = std(b, "Add", before, ops.PlaceLike(b, first, n.In(1), 0, 0, 0))
		grads[2] = ops.CastLike(b, std(b, "Mul", firstOf(b, f), firstOf(b, l)), state)
	}
	grads[0] = std(b, "Mul", l, before)
	return grads
}

// gradDenseScan is the Gradient of DenseScan: that of Scan, with transposed matrices in place of conjugate numbers.
func gradDenseScan(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	v, abar, gamma, state := n.In(0), n.In(1), n.In(2), n.In(3)
	if n.Attrs.Int("window", 0) > 0 {
		b.Fail(&ops.NoGradientError{Why: "its window is not differentiated"})
		return nil
	}
	g := dOut[0]
	if g == nil {
		g = ops.FilledLike(b, 0, v)
	}
	one := stdWith(b, "EyeLike", []*ir.Value{stdWith(b, "Gather", []*ir.Value{std(b, "Reshape", abar,
		stdWith(b, "Concat", []*ir.Value{b.Ints(-1), std(b, "Slice", std(b, "Shape", abar), b.Ints(2), b.Ints(4))},
			ir.A("axis", 0))),
		b.Const("zero", scalarInt(0))}, ir.A("axis", 0))})
	one = ops.ExpandLike(b, one, gamma)
	heads := func(x *ir.Value) *ir.Value { // (rows, C, S, n)
		shape := stdWith(b, "Concat", []*ir.Value{b.Ints(-1), std(b, "Slice", std(b, "Shape", abar), b.Ints(0),
			b.Ints(3))}, ir.A("axis", 0))
		return std(b, "Reshape", x, shape)
	}
	outer := func(x, y *ir.Value) *ir.Value { // Σ x yᵀ over rows
		sum := stdWith(b, "Einsum", []*ir.Value{heads(x), heads(y)}, ir.A("equation", "rcsi,rcsj->csij"))
		return ops.CastLike(b, sum, abar)
	}
	grads := make([]*ir.Value, 4)
	add := func(i int, g *ir.Value) {
		if grads[i] != nil {
			g = std(b, "Add", grads[i], g)
		}
		grads[i] = g
	}
	direction := n.Attrs.Str("direction", Forward)
	for _, backward := range []bool{false, true} {
		if backward && direction == Forward || !backward && direction == Backward {
			continue
		}
		turn, u, delay := func(x *ir.Value) *ir.Value { return reversed(b, x) }, v, int64(0)
		if backward {
			turn, u, delay = func(x *ir.Value) *ir.Value { return x }, later(b, v, -1), 1
		}
		gd := turn(g)
		if len(dOut) > 1 && dOut[1] != nil {
			last := std(b, "Unsqueeze", ops.CastLike(b, dOut[1], g), b.Ints(1))
			gd = std(b, "Add", gd, ops.PlaceLike(b, last, v, 0, 0, 0))
		}
		l := turn(b.Op("essm", "DenseScan", []*ir.Value{gd, swapped(b, abar), one}))
		var before *ir.Value
		if backward {
			before = later(b, reversed(b, b.Op("essm", "DenseScan", []*ir.Value{reversed(b, u), abar, gamma})), -1)
		} else {
			x := b.Op("essm", "DenseScan", trim(u, abar, gamma, state))
			before = later(b, x, 1)
		}
		if state != nil && b.Err() == nil {
			first := std(b, "Unsqueeze", ops.CastLike(b, state, v), b.Ints(1))
			before = std(b, "Add", before, ops.PlaceLike(b, first, v, 0, 0, 0))
			add(3, ops.CastLike(b, b.Op("essm", "HeadLinear", []*ir.Value{firstOf(b, l), swapped(b, abar)}), state))
		}
		add(0, later(b, b.Op("essm", "HeadLinear", []*ir.Value{l, swapped(b, gamma)}), delay))
		add(1, outer(l, before))
		add(2, outer(l, u))
	}
	return grads
}
