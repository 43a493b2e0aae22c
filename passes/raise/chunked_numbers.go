package raise

import (
	"fmt"
	"math"
	"math/cmplx"

	"github.com/essmc/essmc/ops/essm"
)

// start returns a system without numbers, with its sizes and its direction.
func (f *chunks) start() (*headSystem, string) {
	s := &headSystem{c: 1, s: f.heads, h: f.features, direction: essm.Forward}
	backward := f.anchor.Attrs.Ints("scan_input_directions", nil)
	switch {
	case f.directions == 2:
		s.direction = essm.Bidirectional
	case f.directions != 1:
		return nil, fmt.Sprintf("it has %d directions, expected 1 or 2", f.directions)
	case len(backward) > 0 && backward[0] != 0:
		s.direction = essm.Backward
	}
	return s, ""
}

// outerTables reads the tables from a chunk's inputs to the next chunk, and from there to its outputs, with their shapes.
func (f *chunks) outerTables() (enter []float64, es []int, leave []float64, ls []int, why string) {
	enter, es, err := constantFloats(f.run, f.enter)
	if err != nil {
		return nil, nil, nil, nil, "the table from a chunk's inputs to the next chunk is not a constant: " + err.Error()
	}
	if leave, ls, err = constantFloats(f.run, f.leave); err != nil {
		return nil, nil, nil, nil, "the table from the state before a chunk to its outputs is not a constant: " + err.Error()
	}
	return enter, es, leave, ls, ""
}

// numbers reads the system from the tables: exponents from their powers over a chunk, which are float64, the matrices B
// and C from the first lags.
func (f *chunks) numbers() (*headSystem, string) {
	if f.dense {
		return f.denseNumbers()
	}
	pr, pi, why := f.powers()
	if why != "" {
		return nil, why
	}
	enter, es, leave, ls, why := f.outerTables()
	if why != "" {
		return nil, why
	}
	s, why := f.start()
	if why != "" {
		return nil, why
	}
	if len(es) < 3 || len(ls) != len(es) {
		return nil, "its tables have other shapes than expected"
	}
	groups := 1
	for _, d := range es[:len(es)-2] {
		groups *= d
	}
	rows, cols := es[len(es)-2], es[len(es)-1]
	p, q, w := rows/f.steps, ls[len(ls)-1]/f.steps, cols/f.directions
	if p < 1 || q < 1 || w < 2 || w%2 != 0 || p*f.steps != rows || len(pr) != groups*w/2 || ls[len(ls)-2] != cols {
		return nil, "its tables have other shapes than expected"
	}
	k := w / 2
	// Lags count from the end of a chunk in a forward system, and from its start in a backward one.
	forward := s.direction != essm.Backward
	gain := func(g, i, in, lag int) complex128 {
		j := lag
		if forward {
			j = f.steps - 1 - lag
		}
		row := enter[(g*rows+in*f.steps+j)*cols:]
		return complex(row[i], row[k+i])
	}
	read := func(g, o, i, lag int) complex128 { // lag ≥ 1
		t := f.steps - 1 - lag
		if forward {
			t = lag - 1
		}
		width := q * f.steps
		at := func(row int) float64 { return leave[(g*cols+row)*width+o*f.steps+t] }
		return complex(at(i), -at(k+i))
	}
	if f.steps < 3 {
		return nil, fmt.Sprintf("chunks of %d steps are too short to determine a system", f.steps)
	}
	s.a = make([]complex128, groups*k)
	for g := range groups {
		for i := range k {
			// The ratio of two successive lags, of the entry that is largest.
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
			return nil, "its heads have other shapes than expected"
		}
		s.fromHeads(gain, read)
		return s, ""
	}
	if k != 1 {
		return nil, "it has groups of several states between products"
	}
	s.b = make([]complex128, groups)
	for g := range groups {
		s.b[g] = gain(g, 0, 0, 0)
	}
	return s, s.fromMatrices(f, groups)
}

// exponent returns a with exp(a) = next/now. The imaginary part of next/now selects among the logarithms of power =
// exp(a·steps), which is exact but leaves a·steps open by multiples of 2πi.
func exponent(next, now, power complex128, steps int) complex128 {
	if now == 0 || next == 0 {
		return deadLog
	}
	a := cmplx.Log(next / now)
	if r := cmplx.Abs(power); r > 1e-250 && !math.IsInf(r, 0) {
		n := float64(steps)
		turns := math.Round((imag(a)*n - cmplx.Phase(power)) / (2 * math.Pi))
		a = complex(math.Log(r)/n, (cmplx.Phase(power)+2*math.Pi*turns)/n)
	}
	return a
}

// fromHeads splits b·B, the effect of inputs, into b and a B that is real where that is possible.
func (s *headSystem) fromHeads(gain, read func(g, x, y, lag int) complex128) {
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

// snap sets the imaginary parts of z to 0 if all of them are rounding errors.
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

// fromMatrices reads B and C if the graph has them as products.
func (s *headSystem) fromMatrices(f *chunks, states int) string {
	var why string
	var bs, cs []int
	if s.in, bs, why = complexConstant(f.run, f.b); why != "" {
		return why
	}
	if s.out, cs, why = complexConstant(f.run, f.c); why != "" {
		return why
	}
	if len(bs) == 4 {
		s.c = bs[0]
	}
	heads := s.c * s.s
	if len(bs) < 3 || len(cs) != 3 || states%heads != 0 || cs[0] != heads {
		return "its matrices have other shapes than expected"
	}
	s.k, s.m = states/heads, cs[1]
	if len(s.in) != heads*s.k*s.h || len(s.out) != heads*s.m*s.k {
		return "its matrices have other shapes than expected"
	}
	return ""
}

// powers reads the powers of the eigenvalues from the body of the Scan, z' = power·z + in in complex numbers.
func (f *chunks) powers() (re, im []float64, why string) {
	body := f.anchor.Attrs.Graph("body")
	sum := back(body.Outputs[0], "Add")
	if !isOp(sum, "Sub") {
		return nil, nil, "the recurrence between chunks is not a product with complex numbers"
	}
	var out [2][]float64
	for i := range out {
		m := sum.Def.In(i)
		if !isOp(m, "Mul") {
			return nil, nil, "the recurrence between chunks is not a product with complex numbers"
		}
		x, _, err := constantFloats(f.run, m.Def.In(0))
		if err != nil {
			return nil, nil, "the powers of the eigenvalues are not constants: " + err.Error()
		}
		out[i] = x
	}
	if len(out[0]) != len(out[1]) {
		return nil, nil, "the powers of the eigenvalues are of different sizes"
	}
	return out[0], out[1], ""
}
