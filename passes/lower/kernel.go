package lower

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// windowTaps returns the weights (groups·outputs, inputs, taps) of the Conv for a system with a window. The graph
// computes them from the system's numbers, in float64, and rounds them once. Engines fold that when they load the
// file. A reader still finds the system, which a few taps would not determine.
func (l *lowerer) windowTaps(y *system, cell *cell, form groupForm, elem tensor.DType) *ir.Value {
	w := y.window
	// of the taps in order, from the most distant past step to the most distant future one
	lags := make([]int64, 0, 2*w)
	if y.forward() {
		for k := range w {
			lags = append(lags, int64(w-1-k))
		}
	}
	if y.backward() {
		for k := range w {
			lags = append(lags, int64(k))
		}
	}
	var taps *ir.Value
	switch {
	case y.dense:
		taps = l.denseTaps(y, cell, form, lags)
	case form == headForm:
		taps = l.headTaps(y, lags)
	default:
		taps = l.stateTaps(y, cell, lags)
	}
	if dims, ok := taps.Shape().Known(); ok && !y.forward() {
		// A step does not depend on itself. This is not a Pad, because ONNX Runtime would take that for a pad of the
		// Conv's input.
		now := l.number("now", tensor.Float64, make([]float64, dims[0]*dims[1]), dims[0], dims[1], 1)
		taps = l.with("Concat", []*ir.Value{now, taps}, ir.A("axis", 2))
	} else if !ok {
		l.Fail(fmt.Errorf("the sizes of the taps must be known, found %v", taps.Shape()))
	}
	return l.with("Cast", []*ir.Value{taps}, ir.A("to", int(elem)))
}

// powers returns b·λ̄ˡ for each state and lag, (heads, k, lags), as real and imaginary part. im is nil unless it is
// wanted.
func (l *lowerer) powers(y *system, lags []int64, imaginary bool) (re, im *ir.Value) {
	column := func(name string, z []complex128, imaginary bool) *ir.Value {
		return l.number(name, tensor.Float64, component(z, imaginary), y.heads(), y.k, 1)
	}
	steps := make([]float64, len(lags))
	for i, k := range lags {
		steps[i] = float64(k)
	}
	lag := l.number("lags", tensor.Float64, steps, len(steps))
	size := l.op("Exp", l.op("Mul", column("a_re", y.a, false), lag))
	angle := l.op("Mul", column("a_im", y.a, true), lag)
	// The cosine is a sine with its phase shifted by π/2, because some engines have no cosine in float64.
	pr := l.op("Mul", size, l.op("Sin", l.op("Add", angle,
		l.number("quarter", tensor.Float64, []float64{math.Pi / 2}))))
	pi := l.op("Mul", size, l.op("Sin", angle))
	br, bi := column("b_re", y.b, false), column("b_im", y.b, true)
	re = l.op("Sub", l.op("Mul", br, pr), l.op("Mul", bi, pi))
	if imaginary {
		im = l.op("Add", l.op("Mul", br, pi), l.op("Mul", bi, pr))
	}
	return re, im
}

// stateTaps returns the taps of groups that are states, from real and imaginary parts to real and imaginary parts.
func (l *lowerer) stateTaps(y *system, c *cell, lags []int64) *ir.Value {
	re, im := l.powers(y, lags, c.p+c.q > 2)
	n := int64(len(lags))
	part := func(v *ir.Value) *ir.Value { return l.op("Reshape", v, l.Ints(int64(c.groups), 1, 1, n)) }
	taps := part(re) // groups, outputs, inputs, lags
	switch {
	case c.p == 2:
		taps = l.with("Concat", []*ir.Value{taps, l.op("Neg", part(im))}, ir.A("axis", 2))
		if c.q == 2 {
			second := l.with("Concat", []*ir.Value{part(im), part(re)}, ir.A("axis", 2))
			taps = l.with("Concat", []*ir.Value{taps, second}, ir.A("axis", 1))
		}
	case c.q == 2:
		taps = l.with("Concat", []*ir.Value{taps, part(im)}, ir.A("axis", 1))
	}
	return l.op("Reshape", taps, l.Ints(int64(c.groups*c.q), int64(c.p), n))
}

// headTaps returns the taps of groups that are heads: the real part of C · b·λ̄ˡ · B.
func (l *lowerer) headTaps(y *system, lags []int64) *ir.Value {
	n := int64(len(lags))
	re, im := l.powers(y, lags, y.complexIn || y.complexOut)
	wide := func(v *ir.Value) *ir.Value { // heads, k, 1, lags
		return l.op("Unsqueeze", v, l.Ints(2))
	}
	matrix := func(name string, z []complex128, imaginary bool, shape ...int) *ir.Value {
		return l.number(name, tensor.Float64, component(z, imaginary), shape...)
	}
	flat := func(v *ir.Value) *ir.Value {
		return l.op("Reshape", v, l.Ints(int64(y.heads()), int64(y.k), int64(y.h)*n))
	}
	br := matrix("B", y.in, false, y.heads(), y.k, y.h, 1)
	gr := l.op("Mul", wide(re), br)
	var gi *ir.Value
	if y.complexOut {
		gi = l.op("Mul", wide(im), br)
	}
	if y.complexIn {
		bi := matrix("B_im", y.in, true, y.heads(), y.k, y.h, 1)
		gr = l.op("Sub", gr, l.op("Mul", wide(im), bi))
		if y.complexOut {
			gi = l.op("Add", gi, l.op("Mul", wide(re), bi))
		}
	}
	taps := l.op("MatMul", matrix("C", y.out, false, y.heads(), y.m, y.k), flat(gr))
	if y.complexOut {
		taps = l.op("Sub", taps, l.op("MatMul", matrix("C_im", y.out, true, y.heads(), y.m, y.k), flat(gi)))
	}
	return l.op("Reshape", taps, l.Ints(int64(y.heads()*y.m), int64(y.h), n))
}

// denseTaps returns the taps of a system with full matrices: C Āˡ Γ B, or C Āˡ Γ if the inputs of a group are already
// multiplied by B. It computes powers by doubling.
func (l *lowerer) denseTaps(y *system, c *cell, form groupForm, lags []int64) *ir.Value {
	power := l.number("abar", tensor.Float64, y.abar, y.heads(), y.k, y.k)
	all := l.number("gamma", tensor.Float64, y.gamma, y.heads(), y.k, y.k) // heads, k, lags·inputs
	if form != inputForm {
		all = l.op("MatMul", all, l.number("B", tensor.Float64, component(y.in, false), y.heads(), y.k, y.h))
	}
	count := 1
	for {
		all = l.with("Concat", []*ir.Value{all, l.op("MatMul", power, all)}, ir.A("axis", 2))
		if count *= 2; count >= y.window {
			break
		}
		power = l.op("MatMul", power, power)
	}
	taps := l.op("MatMul", l.number("C", tensor.Float64, component(y.out, false), y.heads(), y.m, y.k), all)
	taps = l.op("Reshape", taps, l.Ints(int64(y.heads()*y.m), int64(count), int64(c.p)))
	taps = l.with("Gather", []*ir.Value{taps, l.Ints(lags...)}, ir.A("axis", 1))
	return l.with("Transpose", []*ir.Value{taps}, ir.A("perm", []int64{0, 2, 1}))
}
