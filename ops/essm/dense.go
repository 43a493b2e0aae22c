package essm

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// Square matrices in row-major order, as small as the states of one head.

func identity(c *ir.EvalCtx, n int) []float64 {
	m := ops.Make[float64](c, n*n)
	for i := range ops.Each(c, n) {
		m[i*n+i] = 1
	}
	return m
}

// matMul returns the product of an (r, k) and a (k, q) matrix.
func matMul(c *ir.EvalCtx, a, b []float64, r, k, q int) []float64 {
	out := ops.Make[float64](c, r*q)
	for i := range r {
		c.Step(1)
		for l := range k {
			c.Step(1)
			x := a[i*k+l]
			for j := range ops.Each(c, q) {
				out[i*q+j] += x * b[l*q+j]
			}
		}
	}
	return out
}

// combine is a·x + b·y, element by element.
func combine(c *ir.EvalCtx, a float64, x []float64, b float64, y []float64) []float64 {
	out := ops.Make[float64](c, len(x))
	for i := range ops.Each(c, len(x)) {
		out[i] = a*x[i] + b*y[i]
	}
	return out
}

// solve returns X with A X = B for square A of size n and B of q columns, by elimination with row pivoting.
func solve(ec *ir.EvalCtx, a, b []float64, n, q int) ([]float64, error) {
	a, b = ops.Clone(ec, a), ops.Clone(ec, b)
	for c := range n {
		ec.Step(1)
		ec.Step(n - c)
		p := c
		for r := c + 1; r < n; r++ {
			if math.Abs(a[r*n+c]) > math.Abs(a[p*n+c]) {
				p = r
			}
		}
		if a[p*n+c] == 0 || math.IsNaN(a[p*n+c]) {
			return nil, fmt.Errorf("matrix of size %d is singular", n)
		}
		if p != c {
			for j := range ops.Each(ec, n) {
				a[p*n+j], a[c*n+j] = a[c*n+j], a[p*n+j]
			}
			for j := range ops.Each(ec, q) {
				b[p*q+j], b[c*q+j] = b[c*q+j], b[p*q+j]
			}
		}
		for r := c + 1; r < n; r++ {
			f := a[r*n+c] / a[c*n+c]
			if f == 0 {
				continue
			}
			ec.Step(n - c)
			for j := c; j < n; j++ {
				a[r*n+j] -= f * a[c*n+j]
			}
			for j := range ops.Each(ec, q) {
				b[r*q+j] -= f * b[c*q+j]
			}
		}
	}
	for r := n - 1; r >= 0; r-- {
		for j := range q {
			ec.Step(1)
			ec.Step(n - r)
			s := b[r*q+j]
			for k := r + 1; k < n; k++ {
				s -= a[r*n+k] * b[k*q+j]
			}
			b[r*q+j] = s / a[r*n+r]
		}
	}
	return b, nil
}

// Expm returns the exponential of a square matrix, by scaling and squaring of the Padé approximant of degree 13 (Higham
// 2005).
func Expm(c *ir.EvalCtx, a []float64, n int) ([]float64, error) {
	norm := 0.0
	for j := range n {
		c.Step(1)
		s := 0.0
		for i := range ops.Each(c, n) {
			s += math.Abs(a[i*n+j])
		}
		norm = max(norm, s)
	}
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return nil, fmt.Errorf("matrix contains NaN or infinity")
	}
	squarings := 0
	if const13 := 5.371920351148152; norm > const13 {
		squarings = int(math.Ceil(math.Log2(norm / const13)))
	}
	if squarings > 64 {
		return nil, fmt.Errorf("matrix of norm %.3g is too large for its exponential", norm)
	}
	a = combine(c, math.Ldexp(1, -squarings), a, 0, a)
	b := [...]float64{64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000,
		10559470521600,
		670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1}
	id := identity(c, n)
	a2 := matMul(c, a, a, n, n, n)
	a4 := matMul(c, a2, a2, n, n, n)
	a6 := matMul(c, a4, a2, n, n, n)
	poly := func(c6, c4, c2, c0 float64) []float64 {
		return combine(c, 1, combine(c, c6, a6, c4, a4), 1, combine(c, c2, a2, c0, id))
	}
	u := combine(c, 1, matMul(c, a6, poly(b[13], b[11], b[9], 0), n, n, n), 1, poly(b[7], b[5], b[3], b[1]))
	u = matMul(c, a, u, n, n, n)
	v := combine(c, 1, matMul(c, a6, poly(b[12], b[10], b[8], 0), n, n, n), 1, poly(b[6], b[4], b[2], b[0]))
	e, err := solve(c, combine(c, 1, v, -1, u), combine(c, 1, v, 1, u), n, n)
	if err != nil {
		return nil, err
	}
	for range squarings {
		e = matMul(c, e, e, n, n, n)
	}
	return e, nil
}
