package essm

import (
	"fmt"
	"math/bits"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// maxPrepared bounds ℓ, far above any sequence in use.
const maxPrepared = 1 << 40

// RestoreDPLR recovers the output factors of a diagonal plus low-rank system from those that S4 stores.
var RestoreDPLR = ops.Register(&ir.Op{
	Domain: "essm", Name: "RestoreDPLR",
	Doc: `The output factors C of a diagonal plus low-rank system from C̃ = C(I - Āˡ), which checkpoints of S4 hold, with
ℓ = prepared; 0: C̃ is C. There are K of them for each feature. Ā is that of DiscretizeDPLR at the step sizes dt. Āˡ is
computed by squaring, N³ log ℓ operations for the N = 2n real states of a feature.`,
	In: ops.Sig("dt:float64[N,_]", "re:float64[N,n]", "im:float64[N,n]", "p_re:float64[N,R,n]", "p_im:float64[N,R,n]",
		"c_re:float64[K,N,n]", "c_im:float64[K,N,n]", "prepared:int64[]"),
	Out: ops.Sig("c_out_re:float64[K,N,n]", "c_out_im:float64[K,N,n]"),
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		prepared, err := ops.Int64s(c, ops.Tensor(in, 7))
		if err != nil || len(prepared) != 1 {
			return nil, fmt.Errorf("prepared: expected one integer, found %s", ops.Tensor(in, 7))
		}
		if prepared[0] < 0 || prepared[0] > maxPrepared {
			return nil, fmt.Errorf("prepared: expected 0 to %d, found %d", int64(maxPrepared), prepared[0])
		}
		shape := ops.Tensor(in, 5).Shape()
		re, im := ops.Clone(c, ops.F64(c, in, 5)), ops.Clone(c, ops.F64(c, in, 6))
		if prepared[0] > 0 && len(re) > 0 {
			d, err := newDPLR(c, in, 1)
			if err != nil {
				return nil, err
			}
			sys, err := d.discretize(c, ops.Make[complex128](c, len(d.lambda)))
			if err != nil {
				return nil, err
			}
			for i := range d.heads {
				mark := c.Charged()
				if err := sys.restore(c, i, int(prepared[0]), re, im); err != nil {
					return nil, fmt.Errorf("feature %d: %w", i, err)
				}
				c.Discharge(mark)
			}
		}
		return []tensor.Datum{tensor.FromSlice(re, shape...), tensor.FromSlice(im, shape...)}, nil
	},
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work { // a solution, and products of matrices
		states, products := ops.DimAt(n.In(1), 1, bind), int64(2*40)
		if t := n.In(7).Const; t != nil {
			if v, err := t.Int64s(); err == nil && len(v) == 1 && v[0] >= 0 {
				products = int64(bits.Len64(uint64(v[0])) + bits.OnesCount64(uint64(v[0])))
			}
		}
		return ops.Stated(n, bind, ops.Product(8*(1+products), ops.Count(n.In(1), bind), states, states))
	},
	NoGradient: ops.NotYet,
	Linear:     ops.LinearIn([]int{5, 6}),
	Tol:        ir.Summing,
})

// restore replaces each c̃ of one head, in two parts of all heads, by c: the row (Re c, -Im c) times I - Āˡ is
// (Re c̃, -Im c̃).
func (s *discrete) restore(c *ir.EvalCtx, head, length int, re, im []float64) error {
	n, count := 2*s.n, len(re)/(s.heads*s.n)
	power := matrixPower(c, s.matrix(c, head), n, length)
	rest, rows := ops.Make[float64](c, n*n), ops.Make[float64](c, n*count) // (I - Āˡ)ᵀ, and the rows as columns
	for i := range n {
		c.Step(n)
		for j := range n {
			rest[i*n+j] = -power[j*n+i]
		}
		rest[i*n+i]++
	}
	for k := range count {
		at := (k*s.heads + head) * s.n
		for j := range ops.Each(c, s.n) {
			rows[j*count+k], rows[(s.n+j)*count+k] = re[at+j], -im[at+j]
		}
	}
	x, err := solve(c, rest, rows, n, count)
	if err != nil {
		return fmt.Errorf("I - Ā^%d: %w", length, err)
	}
	for k := range count {
		at := (k*s.heads + head) * s.n
		for j := range ops.Each(c, s.n) {
			re[at+j], im[at+j] = x[j*count+k], -x[(s.n+j)*count+k]
		}
	}
	return nil
}

// matrixPower returns the k-th power, k ≥ 1, of a square matrix of n rows, and may change a.
func matrixPower(c *ir.EvalCtx, a []float64, n, k int) []float64 {
	var result []float64
	spare := ops.Make[float64](c, n*n)
	for ; ; k >>= 1 {
		if k&1 == 1 {
			if result == nil {
				result = ops.Clone(c, a)
			} else {
				multiply(c, spare, result, a, n)
				result, spare = spare, result
			}
		}
		if k == 1 {
			return result
		}
		multiply(c, spare, a, a, n)
		a, spare = spare, a
	}
}

// multiply sets out to the product of two square matrices of n rows, four rows of b at a time.
func multiply(c *ir.EvalCtx, out, a, b []float64, n int) {
	clear(out)
	for i := range n {
		c.Step(n * n)
		row, y := a[i*n:(i+1)*n], out[i*n:(i+1)*n]
		k := 0
		for ; k+4 <= n; k += 4 {
			p, q, r, s := b[k*n:(k+1)*n], b[(k+1)*n:(k+2)*n], b[(k+2)*n:(k+3)*n], b[(k+3)*n:(k+4)*n]
			w0, w1, w2, w3 := row[k], row[k+1], row[k+2], row[k+3]
			for j := range y {
				y[j] += w0*p[j] + w1*q[j] + w2*r[j] + w3*s[j]
			}
		}
		for ; k < n; k++ {
			w := row[k]
			for j, x := range b[k*n : (k+1)*n] {
				y[j] += w * x
			}
		}
	}
}
