package raise

import (
	"errors"
	"fmt"
	"math"
	"math/cmplx"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
)

// chunkedSystem is a system as its tables by chunks tell it: c·s heads of k states, h inputs and m outputs.
type chunkedSystem struct {
	c, s, k, h, m int
	direction     string
	abar          []float64    // with full matrices: (c·s, k, k); nil: diagonal
	a, b          []complex128 // diagonal: (c·s, k)
	in            []complex128 // (c·s, k, h)
	out           []complex128 // (c·s, m, k)
}

// system starts a system, with the sizes of its inputs and its direction.
func (f *chunks) system() (*chunkedSystem, string) {
	s := &chunkedSystem{c: 1, s: f.heads, h: f.features, direction: essm.Forward}
	backward := f.scan.Attrs.Ints("scan_input_directions", nil)
	switch {
	case f.directions == 2:
		s.direction = essm.Bidirectional
	case f.directions != 1:
		return nil, fmt.Sprintf("there are %d directions", f.directions)
	case len(backward) > 0 && backward[0] != 0:
		s.direction = essm.Backward
	}
	return s, ""
}

// numbers reads the system off the tables: exponents from their powers over a chunk, which are float64, and what an input
// counts for, and a state, from the first lags.
func (f *chunks) numbers() (*chunkedSystem, string) {
	pr, pi, why := f.powers()
	if why != "" {
		return nil, why
	}
	enter, es, err := constantFloats(f.enter)
	if err != nil {
		return nil, "what a chunk leaves to the next varies: " + err.Error()
	}
	leave, ls, err := constantFloats(f.leave)
	if err != nil {
		return nil, "what a chunk takes over varies: " + err.Error()
	}
	s, why := f.system()
	if why != "" {
		return nil, why
	}
	if len(es) < 3 || len(ls) != len(es) {
		return nil, "tables of another shape"
	}
	groups := 1
	for _, d := range es[:len(es)-2] {
		groups *= d
	}
	rows, cols := es[len(es)-2], es[len(es)-1]
	p, q, w := rows/f.steps, ls[len(ls)-1]/f.steps, cols/f.directions
	if p < 1 || q < 1 || w < 2 || w%2 != 0 || p*f.steps != rows || len(pr) != groups*w/2 || ls[len(ls)-2] != cols {
		return nil, "tables of another shape"
	}
	k := w / 2
	// The lags count from the end of a chunk forward, from its start backward.
	forward := s.direction != essm.Backward
	gain := func(g, i, in, lag int) complex128 {
		j := lag
		if forward {
			j = f.steps - 1 - lag
		}
		row := enter[(g*rows+in*f.steps+j)*cols:]
		return complex(row[i], row[k+i])
	}
	read := func(g, o, i, lag int) complex128 { // lag from 1
		t := f.steps - 1 - lag
		if forward {
			t = lag - 1
		}
		width := q * f.steps
		at := func(row int) float64 { return leave[(g*cols+row)*width+o*f.steps+t] }
		return complex(at(i), -at(k+i))
	}
	if f.steps < 3 {
		return nil, fmt.Sprintf("chunks of %d steps do not tell a system", f.steps)
	}
	s.a = make([]complex128, groups*k)
	for g := range groups {
		for i := range k {
			// The ratio of two lags, where it is known best.
			var now, next complex128
			for in := range p {
				if z := gain(g, i, in, 0); cmplx.Abs(z) > cmplx.Abs(now) {
					now, next = z, gain(g, i, in, 1)
				}
			}
			for o := range q {
				if z := read(g, o, i, 1); cmplx.Abs(z) > cmplx.Abs(now) {
					now, next = z, read(g, o, i, 2)
				}
			}
			s.a[g*k+i] = exponent(next, now, complex(pr[g*k+i], pi[g*k+i]), f.steps)
		}
	}
	if f.headForm {
		if len(es) == 4 {
			s.c = es[0]
		}
		s.k, s.m = k, q
		if s.c*s.s != groups || p != s.h {
			return nil, "heads of another shape"
		}
		s.fromHeads(gain, read)
		return s, ""
	}
	if k != 1 {
		return nil, "groups of several states, between products"
	}
	s.b = make([]complex128, groups)
	for g := range groups {
		s.b[g] = gain(g, 0, 0, 0)
	}
	return s, s.fromMatrices(f, groups)
}

// exponent gives a with exp(a) = next/now, made exact by the power exp(a·steps), whose argument leaves a·steps open by whole
// turns.
func exponent(next, now, power complex128, steps int) complex128 {
	if now == 0 || next == 0 {
		return complex(-1000, 0)
	}
	a := cmplx.Log(next / now)
	if r := cmplx.Abs(power); r > 1e-250 && !math.IsInf(r, 0) {
		n := float64(steps)
		turns := math.Round((imag(a)*n - cmplx.Phase(power)) / (2 * math.Pi))
		a = complex(math.Log(r)/n, (cmplx.Phase(power)+2*math.Pi*turns)/n)
	}
	return a
}

// fromHeads splits what an input counts for, b·B, into b and a B that is real where that is possible.
func (s *chunkedSystem) fromHeads(gain, read func(g, x, y, lag int) complex128) {
	groups := s.c * s.s
	s.b = make([]complex128, groups*s.k)
	for g := range groups {
		for i := range s.k {
			b := complex128(0)
			for in := range s.h {
				if z := gain(g, i, in, 0); cmplx.Abs(z) > cmplx.Abs(b) {
					b = z
				}
			}
			if b == 0 {
				b = 1
			}
			s.b[g*s.k+i] = b
			for in := range s.h {
				s.in = append(s.in, gain(g, i, in, 0)/b)
			}
		}
		for o := range s.m {
			for i := range s.k {
				s.out = append(s.out, read(g, o, i, 1)*essm.Pow(s.a[g*s.k+i], -1))
			}
		}
	}
	snap(s.in)
	snap(s.out)
}

// snap drops imaginary parts, if all of them are rounding.
func snap(z []complex128) {
	scale := 0.0
	for _, x := range z {
		scale = max(scale, cmplx.Abs(x))
	}
	for _, x := range z {
		if math.Abs(imag(x)) > 1e-6*max(cmplx.Abs(x), 1e-2*scale) {
			return
		}
	}
	for i, x := range z {
		z[i] = complex(real(x), 0)
	}
}

// fromMatrices reads B and C where they are products of their own.
func (s *chunkedSystem) fromMatrices(f *chunks, states int) string {
	join := func(parts []*ir.Value) ([]complex128, []int, string) {
		var z []complex128
		var shape []int
		for i, v := range parts {
			x, sh, err := constantFloats(v)
			if err != nil {
				return nil, nil, "a matrix of the system varies: " + err.Error()
			}
			if i == 0 {
				z, shape = make([]complex128, len(x)), sh
			}
			if len(x) != len(z) {
				return nil, nil, "real and imaginary parts of different sizes"
			}
			for j, r := range x {
				if i == 0 {
					z[j] = complex(r, 0)
				} else {
					z[j] += complex(0, r)
				}
			}
		}
		return z, shape, ""
	}
	var why string
	var bs, cs []int
	if s.in, bs, why = join(f.b); why != "" {
		return why
	}
	if s.out, cs, why = join(f.c); why != "" {
		return why
	}
	if len(bs) == 4 {
		s.c = bs[0]
	}
	heads := s.c * s.s
	if len(bs) < 3 || len(cs) != 3 || states%heads != 0 || cs[0] != heads {
		return "matrices of another shape"
	}
	s.k, s.m = states/heads, cs[1]
	if len(s.in) != heads*s.k*s.h || len(s.out) != heads*s.m*s.k {
		return "matrices of another shape"
	}
	return ""
}

// powers reads the powers of the eigenvalues off the body of the Scan: z' = power·z + in, complex.
func (f *chunks) powers() (re, im []float64, why string) {
	body := f.scan.Attrs.Graph("body")
	sum := back(body.Outputs[0], "Add")
	if !isOp(sum, "Sub") {
		return nil, nil, "what goes from chunk to chunk is not a rotation"
	}
	var out [2][]float64
	for i := range out {
		m := sum.Def.In(i)
		if !isOp(m, "Mul") {
			return nil, nil, "what goes from chunk to chunk is not a rotation"
		}
		x, _, err := constantFloats(m.Def.In(0))
		if err != nil {
			return nil, nil, "the powers of the eigenvalues vary: " + err.Error()
		}
		out[i] = x
	}
	if len(out[0]) != len(out[1]) {
		return nil, nil, "the powers of the eigenvalues are of different sizes"
	}
	return out[0], out[1], ""
}

// node is the system as an operator, by itself.
func (s *chunkedSystem) node(f *chunks) (*ir.Node, error) {
	n := &ir.Node{Op: ops.Default.Resolve("essm", "SSM", 1), Scope: f.scan.Scope, Inputs: make([]*ir.Value, 11), Attrs: ir.NewAttrs(ir.A("direction", s.direction))}
	if f.dense {
		n.Op, n.Inputs = ops.Default.Resolve("essm", "DenseSSM", 1), n.Inputs[:7]
	}
	n.Inputs[0], n.Inputs[len(n.Inputs)-1] = f.u, f.state
	set := func(at int, name string, elem tensor.DType, x []float64, shape ...int) error {
		t, err := tensor.FromFloat64s(elem, x, shape...)
		if err != nil {
			return err
		}
		n.Inputs[at] = ir.NewConst(name, t)
		return nil
	}
	elem := f.u.Elem()
	var errs [8]error
	if f.dense {
		one := make([]float64, len(s.abar)) // Γ is in B
		for i := range one {
			if i/s.k%s.k == i%s.k {
				one[i] = 1
			}
		}
		square := []int{s.c, s.s, s.k, s.k}
		errs = [8]error{set(1, "abar", tensor.Float64, s.abar, square...), set(2, "gamma", tensor.Float64, one, square...),
			set(3, "B", elem, component(s.in, false), s.c, s.s, s.k, s.h), set(4, "C", elem, component(s.out, false), s.c, s.s, s.m, s.k)}
	} else {
		state := []int{s.c, s.s, s.k}
		errs = [8]error{set(1, "a_re", tensor.Float64, component(s.a, false), state...), set(2, "a_im", tensor.Float64, component(s.a, true), state...),
			set(3, "b_re", tensor.Float64, component(s.b, false), state...), set(4, "b_im", tensor.Float64, component(s.b, true), state...),
			set(5, "B_re", elem, component(s.in, false), s.c, s.s, s.k, s.h), set(6, "C_re", elem, component(s.out, false), s.c, s.s, s.m, s.k)}
		if im := component(s.in, true); some(im) {
			errs[6] = set(7, "B_im", elem, im, s.c, s.s, s.k, s.h)
		}
		if im := component(s.out, true); some(im) {
			errs[7] = set(8, "C_im", elem, im, s.c, s.s, s.m, s.k)
		}
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	n.Outputs = []*ir.Value{{Name: "y", Def: n}}
	if f.stateOut != nil {
		n.Outputs = append(n.Outputs, &ir.Value{Name: "state_out", Def: n})
	}
	return n, ir.InferNode(n)
}

// component gives the real or the imaginary parts.
func component(z []complex128, imaginary bool) []float64 {
	x := make([]float64, len(z))
	for i, c := range z {
		x[i] = real(c)
		if imaginary {
			x[i] = imag(c)
		}
	}
	return x
}

func some(x []float64) bool { return slices.ContainsFunc(x, func(v float64) bool { return v != 0 }) }

// direct finds D u behind the system's output: the sum, and D as the operator takes it.
func (f *chunks) direct(s *chunkedSystem) (sum, d *ir.Value) {
	if uses := f.uses[f.y]; len(uses) != 1 || uses[0].Node == nil || uses[0].Node.Op.FullName() != "Add" {
		return nil, nil
	}
	add := f.uses[f.y][0].Node
	other := add.In(1)
	if other == f.y {
		other = add.In(0)
	}
	for isOp(other, "Reshape") || isOp(other, "Transpose") {
		other = other.Def.In(0)
	}
	full := isOp(other, "MatMul")
	if !full && !isOp(other, "Mul") {
		return nil, nil
	}
	t, err := constant(other.Def.In(1))
	if err != nil {
		return nil, nil
	}
	x, err := t.Float64s()
	shape := []int{s.c, s.s, s.m}
	if full {
		shape = append(shape, s.h)
	}
	if size, _ := tensor.Size(shape); err != nil || size != len(x) {
		return nil, nil
	}
	if full { // its matrices stand transposed
		y := make([]float64, 0, len(x))
		for g := range s.c * s.s {
			for i := range s.m {
				for j := range s.h {
					y = append(y, x[(g*s.h+j)*s.m+i])
				}
			}
		}
		x = y
	}
	v, err := tensor.FromFloat64s(f.u.Elem(), x, shape...)
	if err != nil {
		return nil, nil
	}
	return add.Outputs[0], ir.NewConst("D", v)
}
