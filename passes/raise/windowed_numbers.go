package raise

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/passes"
)

// readTaps reads a system from the nodes that compute a kernel, with B and C where the kernel includes them. It returns
// nil if package lower does not write such nodes.
func readTaps(run *passes.Context, v *ir.Value) *headSystem {
	v = back(v, "Cast")
	backward := isOp(v, "Concat") && v.Def.In(0).Const != nil // the step itself comes first, which has no tap
	if backward {
		v = v.Def.In(1)
	}
	s := &headSystem{c: 1}
	var lags []float64
	if isOp(v, "Transpose") {
		lags = s.denseTaps(run, v)
	} else {
		lags = s.diagonalTaps(run, back(v, "Reshape"))
	}
	n := len(lags)
	switch {
	case n == 0:
		return nil
	case backward:
		s.direction, s.window = essm.Backward, n
	case int(lags[0]) == n-1:
		s.direction, s.window = essm.Forward, n
	default:
		s.direction, s.window = essm.Bidirectional, n/2
	}
	return s
}

// diagonalTaps reads a diagonal system, and returns the lags of its taps.
func (s *headSystem) diagonalTaps(run *passes.Context, v *ir.Value) []float64 {
	if c := realAndImaginary(v); isOp(c[0], "MatMul") { // C times b·λ̄ˡ times B
		b := realAndImaginary(back(c[0].Def.In(1), "Reshape"))
		v = inputOf(inputOf(b[0], "Mul", 0), "Unsqueeze", 0)
		for i := range c {
			c[i] = inputOf(c[i], "MatMul", 0)
		}
		for i := range b {
			b[i] = inputOf(b[i], "Mul", 1)
		}
		var in, out []int
		s.in, in, _ = complexConstant(run, b)
		s.out, out, _ = complexConstant(run, c)
		if len(in) != 4 || len(out) != 3 {
			return nil
		}
		s.h, s.m = in[2], out[1]
	} else {
		for isOp(v, "Concat") {
			v = back(v, "Concat")
		}
		v = back(v, "Reshape")
	}
	// Re(b·λ̄ˡ) = Re b · Re λ̄ˡ - Im b · Im λ̄ˡ, and Im λ̄ˡ = exp(Re λΔ · l) · sin(Im λΔ · l)
	re, im := inputOf(v, "Sub", 0), inputOf(v, "Sub", 1)
	power := inputOf(im, "Mul", 1)
	size, angle := inputOf(inputOf(power, "Mul", 0), "Exp", 0), inputOf(inputOf(power, "Mul", 1), "Sin", 0)
	a, as, _ := complexConstant(run, []*ir.Value{inputOf(size, "Mul", 0), inputOf(angle, "Mul", 0)})
	b, bs, _ := complexConstant(run, []*ir.Value{inputOf(re, "Mul", 0), inputOf(im, "Mul", 0)})
	lags, _, err := constantFloats(run, inputOf(size, "Mul", 1))
	if len(as) != 3 || len(bs) != 3 || as[0] != bs[0] || as[1] != bs[1] || err != nil {
		return nil
	}
	s.s, s.k, s.a, s.b = as[0], as[1], a, b
	return lags
}

// denseTaps reads a system with full matrices, and returns the lags of its taps.
func (s *headSystem) denseTaps(run *passes.Context, v *ir.Value) []float64 {
	v = back(v, "Transpose")
	lags, _, err := constantFloats(run, inputOf(v, "Gather", 1))
	product := back(v, "Gather", "Reshape")
	all := inputOf(product, "MatMul", 1) // Āˡ Γ B in columns; each Concat doubles their number
	var power *ir.Value
	for isOp(all, "Concat") {
		power = inputOf(inputOf(all, "Concat", 1), "MatMul", 0)
		all = back(all, "Concat")
	}
	if isOp(all, "MatMul") {
		var in []int
		s.in, in, _ = complexConstant(run, []*ir.Value{all.Def.In(1)})
		if len(in) != 3 {
			return nil
		}
		s.h = in[2]
		all = all.Def.In(0)
	}
	var as, out []int
	var err1, err2 error
	s.abar, as, err1 = constantFloats(run, power)
	s.gamma, _, err2 = constantFloats(run, all)
	s.out, out, _ = complexConstant(run, []*ir.Value{inputOf(product, "MatMul", 0)})
	if err != nil || err1 != nil || err2 != nil || len(as) != 3 || len(out) != 3 {
		return nil
	}
	s.s, s.k, s.m = as[0], as[1], out[1]
	return lags
}

// realAndImaginary splits the real part of a complex product into its two products. A product of real numbers is
// returned as it is.
func realAndImaginary(v *ir.Value) []*ir.Value {
	if isOp(v, "Sub") {
		return []*ir.Value{v.Def.In(0), v.Def.In(1)}
	}
	return []*ir.Value{v}
}

// numbers returns the system of the taps, with the matrices that the graph has as separate products.
func (f *windowed) numbers() (*headSystem, string) {
	s := *f.taps
	if s.in == nil {
		in, shape, why := headMatrix(f.run, f.b)
		if why != "" {
			return nil, why
		}
		s.in, s.h = in, shape[3]
		if shape[0] > 1 {
			s.c = shape[0]
		}
	}
	if s.out == nil {
		out, shape, why := headMatrix(f.run, f.c)
		if why != "" {
			return nil, why
		}
		s.out, s.m = out, shape[2]
	}
	if s.s%s.c != 0 {
		return nil, "its channels have different sizes"
	}
	s.s /= s.c
	// To compare states, the effect of each input of the window on each state is computed.
	numbers := len(s.a) * s.window
	if s.abar != nil {
		numbers = len(s.abar) * s.window
	}
	if f.stateOut != nil && numbers > maxEval {
		return nil, fmt.Sprintf("its states over the window have %d elements, expected at most %d", numbers, maxEval)
	}
	return &s, ""
}

// headMatrix reads the transposed matrices of a product by heads: (c, s, rows, columns).
func headMatrix(run *passes.Context, v []*ir.Value) (z []complex128, shape [4]int, why string) {
	turned, d, why := complexConstant(run, v)
	if why != "" {
		return nil, shape, why
	}
	if len(d) < 2 || len(d) > 4 {
		return nil, shape, "its matrices have other shapes than expected"
	}
	shape = [4]int{1, 1, d[len(d)-1], d[len(d)-2]}
	copy(shape[4-len(d):2], d[:len(d)-2])
	rows, cols := shape[2], shape[3]
	z = make([]complex128, len(turned))
	for i := range z {
		g, r, c := i/(rows*cols), i/cols%rows, i%cols
		z[i] = turned[(g*cols+c)*rows+r]
	}
	return z, shape, ""
}
