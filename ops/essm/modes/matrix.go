package modes

import (
	"errors"
	"fmt"
	"math"
	"math/cmplx"

	"gonum.org/v1/gonum/mat"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/ops/essm/spectral"
)

// system is a system with a real matrix: x' = A x + B u and y = C x if step is above 0, or a discrete one.
type system struct {
	n, h, m int
	a       []float64
	in, out []float64 // B (n,h) and C (m,n)
	step    float64
	method  string
}

// maxMatrix bounds the size of a matrix.
const maxMatrix = 2048

// uncertain is the relative error of an eigenvalue from which on it is called uncertain.
const uncertain = 1e-2

// diagonalize returns the system in its eigenvectors, with one state of each conjugate pair. exact says that the
// rounding of weights to float32 leaves the eigenvalues what they are: its effect on one is that on the matrix over |w*
// v|, with the left and right eigenvectors of norm 1. Where these are orthogonal, gains are not known.
func (s *system) diagonalize() (d *diagonal, exact bool, err error) {
	if s.n < 1 || s.n > maxMatrix {
		return nil, false, fmt.Errorf("expected a matrix of size 1 to %d, found %d", maxMatrix, s.n)
	}
	norm := 0.0
	for _, x := range s.a {
		norm = math.Hypot(norm, x)
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, false, fmt.Errorf("expected finite numbers in the matrix, found %v", x)
		}
	}
	var f mat.Eigen
	if !f.Factorize(mat.NewDense(s.n, s.n, s.a), mat.EigenBoth) {
		return nil, false, errors.New("the eigenvalues did not converge")
	}
	var right, left mat.CDense
	f.VectorsTo(&right)
	f.LeftVectorsTo(&left)
	d, exact = &diagonal{h: s.h, m: s.m}, true
	var kept []int
	for i, v := range f.Values(nil) {
		if imag(v) < 0 {
			continue
		}
		kept = append(kept, i)
		lambda, a, b := s.discrete(v)
		d.lambda, d.a, d.b, d.step = append(d.lambda, lambda), append(d.a, a), append(d.b, b), append(d.step, s.step)
	}
	d.in, d.out = make([]complex128, len(kept)*s.h), make([]complex128, s.m*len(kept))
	all := f.Values(nil)
	for k, i := range kept {
		var scale complex128 // w* v
		for j := range s.n {
			scale += cmplx.Conj(left.At(j, i)) * right.At(j, i)
		}
		if !(0x1p-24*norm/cmplx.Abs(scale) <= uncertain*cmplx.Abs(all[i])) && cmplx.Abs(all[i]) > 1e-9*norm {
			exact = false
		}
		double := complex(1, 0)
		if imag(d.lambda[k]) != 0 || imag(d.a[k]) != 0 {
			double = 2
		}
		for q := range s.h {
			for j := range s.n {
				d.in[k*s.h+q] += cmplx.Conj(left.At(j, i)) * complex(s.in[j*s.h+q], 0)
			}
			d.in[k*s.h+q] /= scale
		}
		for p := range s.m {
			for j := range s.n {
				d.out[p*len(kept)+k] += double * right.At(j, i) * complex(s.out[p*s.n+j], 0)
			}
		}
	}
	for _, x := range d.in {
		if cmplx.IsNaN(x) || cmplx.IsInf(x) {
			d.out = nil
		}
	}
	return d, exact, nil
}

// response returns the Frobenius norm of C(I - Ā e^{-iω})⁻¹B̄ at each frequency, by solving the equations: it does not
// depend on eigenvectors.
func response(abar, in, out []float64, n, h, m int, frequencies []float64) []float64 {
	norms := make([]float64, len(frequencies))
	a, x := make([]complex128, n*n), make([]complex128, n*h)
	for k, f := range frequencies {
		turn := cmplx.Exp(complex(0, -2*math.Pi*f))
		for i := range a {
			a[i] = -turn * complex(abar[i], 0)
			if i%(n+1) == 0 {
				a[i]++
			}
		}
		for i := range x {
			x[i] = complex(in[i], 0)
		}
		if !solve(a, x, n, h) {
			norms[k] = math.Inf(1)
			continue
		}
		for p := range m {
			for q := range h {
				var y complex128
				for i := range n {
					y += complex(out[p*n+i], 0) * x[i*h+q]
				}
				norms[k] = math.Hypot(norms[k], cmplx.Abs(y))
			}
		}
	}
	return norms
}

// solve replaces x (n,h) by a⁻¹x, and a by its factors. It returns false if a is singular.
func solve(a, x []complex128, n, h int) bool {
	for c := range n {
		p := c
		for r := c + 1; r < n; r++ {
			if cmplx.Abs(a[r*n+c]) > cmplx.Abs(a[p*n+c]) {
				p = r
			}
		}
		if a[p*n+c] == 0 {
			return false
		}
		for j := range n {
			a[c*n+j], a[p*n+j] = a[p*n+j], a[c*n+j]
		}
		for j := range h {
			x[c*h+j], x[p*h+j] = x[p*h+j], x[c*h+j]
		}
		for r := c + 1; r < n; r++ {
			f := a[r*n+c] / a[c*n+c]
			if f == 0 {
				continue
			}
			for j := c; j < n; j++ {
				a[r*n+j] -= f * a[c*n+j]
			}
			for j := range h {
				x[r*h+j] -= f * x[c*h+j]
			}
		}
	}
	for r := n - 1; r >= 0; r-- {
		for j := range h {
			for k := r + 1; k < n; k++ {
				x[r*h+j] -= a[r*n+k] * x[k*h+j]
			}
			x[r*h+j] /= a[r*n+r]
		}
	}
	return true
}

// discrete returns λ, the log of the discrete eigenvalue, and the input's factor, for an eigenvalue of the matrix.
func (s *system) discrete(v complex128) (lambda, a, b complex128) {
	if s.step == 0 {
		a = cmplx.Log(v)
		if v == 0 {
			a = complex(math.Inf(-1), 0)
		}
		return a, a, 1
	}
	d := complex(s.step, 0)
	if alpha, ok := essm.Alpha(s.method); ok {
		den := 1 - complex(alpha, 0)*d*v
		return v, cmplx.Log((1 + complex(1-alpha, 0)*d*v) / den), d / den
	}
	a = v * d
	if cmplx.Abs(a) < 1e-6 {
		return v, a, d * (1 + a/2)
	}
	return v, a, d * (cmplx.Exp(a) - 1) / a
}

// dense reads a system with full matrices.
func (r *reader) dense(n, named *ir.Node) error {
	s := System{Kind: "full", Direction: direction(n), Frequencies: grid()}
	err := r.denseHeads(&s, n)
	return r.add(s, named, err)
}

func (r *reader) denseHeads(s *System, n *ir.Node) error {
	v, shape, err := r.all(n, 1, 2, 3, 4)
	if err != nil {
		return err
	}
	a, steps := v[0], []float64(nil)
	if d := parent(n.In(1), "essm.DiscretizeDense"); d != nil {
		s.Method = d.Attrs.Str("method", "zoh")
		if a, _, err = r.floats(d.In(0)); err != nil {
			return err
		}
		if steps, _, err = r.floats(d.In(1)); err != nil {
			return err
		}
		for i := range steps {
			steps[i] = d.Attrs.Float("rate", 1) * math.Exp(steps[i])
		}
	}
	if len(shape) != 4 || len(a) != len(v[0]) {
		return fmt.Errorf("expected matrices (C,S,n,n), found %v", shape)
	}
	size, heads := shape[2], shape[0]*shape[1]
	s.Inputs, s.Outputs = len(v[2])/(heads*size), len(v[3])/(heads*size)
	if err := r.take(heads * size); err != nil {
		return err
	}
	return r.heads(shape[0], shape[1], func(c, h int) error {
		i := c*shape[1] + h
		m := &system{n: size, h: s.Inputs, m: s.Outputs, a: part(a, i, size*size), in: part(v[2], i, size*s.Inputs),
			out: part(v[3], i, size*s.Outputs), method: s.Method}
		if len(steps) == heads {
			m.step = steps[i]
		} else {
			m.in = product(part(v[1], i, size*size), m.in, size, s.Inputs)
		}
		d, exact, err := m.diagonalize()
		if err != nil {
			return err
		}
		if !exact {
			s.Note = "A is so far from normal that float32 weights do not decide its eigenvalues; gains of single " +
				"states are left out"
			d.out = nil
		}
		head := d.head(c, h, nil)
		head.Response = response(part(v[0], i, size*size), product(part(v[1], i, size*size),
			part(v[2], i, size*s.Inputs), size, s.Inputs), m.out, size, s.Inputs, s.Outputs, s.Frequencies)
		s.Heads = append(s.Heads, head)
		return nil
	})
}

// product returns a·b for a (n,n) and b (n,h).
func product(a, b []float64, n, h int) []float64 {
	out := make([]float64, n*h)
	for i := range n {
		for k := range n {
			for j := range h {
				out[i*h+j] += a[i*n+k] * b[k*h+j]
			}
		}
	}
	return out
}

// lowRank reads diagonal plus low-rank systems, as real matrices on real and imaginary parts.
func (r *reader) lowRank(n, named *ir.Node) error {
	s := System{Kind: "low rank", Direction: direction(n), Inputs: 1, Outputs: 1, Frequencies: grid()}
	err := r.lowRankHeads(&s, n)
	return r.add(s, named, err)
}

func (r *reader) lowRankHeads(s *System, n *ir.Node) error {
	v, shape, err := r.all(n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
	if err != nil {
		return err
	}
	if len(shape) != 2 {
		return fmt.Errorf("expected systems (N,n), found %v", shape)
	}
	features, states := shape[0], shape[1]
	size := 2 * states
	if err := r.take(features * size); err != nil {
		return err
	}
	matrices, bRe, bIm := discreteMatrices(v, features, states), v[6], v[7]
	responses := make([][]float64, features)
	for h := range features {
		responses[h] = lowRankResponse(v, h, states, len(v[2])/max(features*states, 1), s.Frequencies)
	}
	var steps []float64
	var diagonalPart []complex128
	if d := parent(n.In(1), "essm.DiscretizeDPLR"); d != nil {
		dt, _, err := r.floats(d.In(0))
		if err != nil {
			return err
		}
		if len(dt) == features { // else states have step sizes of their own
			c, _, err := r.all(d, 5, 6, 1, 2)
			if err != nil {
				return err
			}
			diagonalPart = pairs(c[2], c[3])
			if matrices, err = r.continuousMatrices(d); err != nil {
				return err
			}
			bRe, bIm, steps, s.Method = c[0], c[1], dt, "bilinear"
			for i := range steps {
				steps[i] *= d.Attrs.Float("rate", 1)
			}
		}
	}
	// In eigenvectors if all features allow it, else by the diagonal parts.
	systems, exact := make([]*diagonal, 0, features), true
	err = r.heads(1, features, func(_, h int) error {
		if !exact {
			return nil
		}
		m := &system{n: size, h: 1, m: 1, a: part(matrices, h, size*size), method: s.Method,
			in: append(append([]float64{}, part(bRe, h, states)...), part(bIm, h, states)...)}
		m.out = append(m.out, part(v[8], h, states)...)
		for _, x := range part(v[9], h, states) {
			m.out = append(m.out, -x)
		}
		if steps != nil {
			m.step = steps[h]
		}
		d, certain, err := m.diagonalize()
		systems, exact = append(systems, d), certain
		return err
	})
	if err != nil {
		return err
	}
	if !exact {
		s.Note = "A is so far from normal that float32 weights do not decide its eigenvalues: λ is that of the " +
			"diagonal part Λ of A = Λ - PP*, and gains of single states are left out"
	}
	for h := range features {
		d := &diagonal{a: logs(part(pairs(v[0], v[1]), h, states)), step: make([]float64, states)}
		if exact {
			d = systems[h]
		} else if d.lambda = d.a; steps != nil {
			d.lambda = part(diagonalPart, h, states)
			for i := range d.step {
				d.step[i] = steps[h]
			}
		}
		head := d.head(0, h, nil)
		head.Response = responses[h]
		s.Heads = append(s.Heads, head)
	}
	return nil
}

// logs returns the logarithms of eigenvalues.
func logs(z []complex128) []complex128 {
	out := make([]complex128, len(z))
	for i, x := range z {
		out[i] = cmplx.Log(x)
	}
	return out
}

// lowRankResponse returns the gain of one feature at each frequency. z and its conjugate follow from s = Re(h z), which
// has the size of the rank.
func lowRankResponse(v [][]float64, h, n, rank int, frequencies []float64) []float64 {
	f, b, c := part(pairs(v[0], v[1]), h, n), part(pairs(v[6], v[7]), h, n), part(pairs(v[8], v[9]), h, n)
	p, q := part(pairs(v[2], v[3]), h, n*rank), part(pairs(v[4], v[5]), h, n*rank)
	out := make([]float64, len(frequencies))
	for k, w := range frequencies {
		turn := cmplx.Exp(complex(0, -2*math.Pi*w))
		// half returns ½(x y R + its conjugate system's), R = 1/(1 - f e^{-iω}).
		half := func(x, y []complex128) (sum complex128) {
			for i := range n {
				z := x[i] * y[i]
				sum += z/(1-f[i]*turn) + cmplx.Conj(z)/(1-cmplx.Conj(f[i])*turn)
			}
			return sum / 2
		}
		a, s := make([]complex128, rank*rank), make([]complex128, rank)
		for r := range rank {
			s[r] = half(part(q, r, n), b)
			for j := range rank {
				a[r*rank+j] = turn * half(part(q, r, n), part(p, j, n))
			}
			a[r*rank+r]++
		}
		if !solve(a, s, rank, 1) {
			out[k] = math.Inf(1)
			continue
		}
		y := half(c, b)
		for r := range rank {
			y -= turn * half(c, part(p, r, n)) * s[r]
		}
		out[k] = cmplx.Abs(y)
	}
	return out
}

// continuousMatrices returns the real matrices of the systems that a node discretizes.
func (r *reader) continuousMatrices(d *ir.Node) ([]float64, error) {
	t := make([]*tensor.Tensor, 4)
	for k := range t {
		x, err := r.eval.Tensor(d.In(k + 1))
		if err != nil {
			return nil, errInput
		}
		t[k] = x
	}
	a, err := spectral.LowRank(r.ctx, nil, t[0], t[1], t[2], t[3], nil)
	if err != nil {
		return nil, err
	}
	return a.Float64s()
}

// discreteMatrices returns the real matrices of z → f∘z - Σ g_r Re(Σ h_r∘z). v has f, g and h in two parts each.
func discreteMatrices(v [][]float64, features, n int) []float64 {
	rank := len(v[2]) / max(features*n, 1)
	out := make([]float64, features*4*n*n)
	for h := range features {
		m := part(out, h, 4*n*n)
		for j := range n {
			re, im := v[0][h*n+j], v[1][h*n+j]
			m[j*2*n+j], m[j*2*n+n+j], m[(n+j)*2*n+j], m[(n+j)*2*n+n+j] = re, -im, im, re
		}
		for q := range rank {
			at := (h*rank + q) * n
			for i := range n {
				for j := range n {
					x, y := v[4][at+j], -v[5][at+j]
					m[i*2*n+j] -= v[2][at+i] * x
					m[i*2*n+n+j] -= v[2][at+i] * y
					m[(n+i)*2*n+j] -= v[3][at+i] * x
					m[(n+i)*2*n+n+j] -= v[3][at+i] * y
				}
			}
		}
	}
	return out
}
