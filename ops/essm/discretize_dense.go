package essm

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// DiscretizeDense turns a continuous system with a full matrix A into a discrete one.
var DiscretizeDense = ops.Register(&ir.Op{
	Domain: "essm", Name: "DiscretizeDense",
	Doc: `The discrete system of a continuous one with full A (docs/math.md, Full matrices): Ā, and the factor Γ on the
input, B̄ = ΓB. Zero-order hold: Ā = exp(AΔ), Γ = ∫₀^Δ exp(As)ds, by one exponential of an augmented matrix. A may be
singular.`,
	In: ops.Sig("a:T[C,S,n,n]", "log_dt:T[C,S,1]"), Out: ops.Sig("abar:float64[C,S,n,n]", "gamma:float64[C,S,n,n]"),
	Attrs: discretizeAttrs,
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		t := ops.Tensor(in, 0)
		ch, s, n, _, err := rank4(t, "A")
		if err != nil {
			return nil, err
		}
		a := ops.F64(c, in, 0)
		dt, err := steps(c, c.Node.Attrs, ops.Tensor(in, 1), []int{ch, s, 1})
		if err != nil {
			return nil, err
		}
		abar, gamma := ops.Make[float64](c, len(a)), ops.Make[float64](c, len(a))
		for i := range ch * s {
			c.Step(1)
			mark := c.Charged()
			x, g, err := discretizeDense(c, c.Node.Attrs.Str("method", "zoh"), a[i*n*n:(i+1)*n*n], n, dt[i])
			if err != nil {
				return nil, fmt.Errorf("head %d: %w", i, err)
			}
			ops.Put(c, abar[i*n*n:], x)
			ops.Put(c, gamma[i*n*n:], g)
			c.Discharge(mark)
		}
		return []tensor.Datum{tensor.FromSlice(abar, t.Shape()...), tensor.FromSlice(gamma, t.Shape()...)}, nil
	},
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work { // an exponential of a matrix of twice the size
		return ops.Stated(n, bind, ops.Product(320, ops.Count(n.In(0), bind), ops.DimAt(n.In(0), 3, bind)))
	},
	NoGradient: ops.NotYet,
	Tol:        ir.Summing,
})

func discretizeDense(c *ir.EvalCtx, method string, a []float64, n int, dt float64) (abar, gamma []float64, err error) {
	if alpha, ok := Alpha(method); ok {
		id := identity(c, n)
		den := combine(c, 1, id, -alpha*dt, a)
		both := ops.Make[float64](c, 2*n*n) // (I + (1-α)ΔA | ΔI)
		for i := range n {
			c.Step(1)
			for j := range ops.Each(c, n) {
				both[i*2*n+j] = id[i*n+j] + (1-alpha)*dt*a[i*n+j]
				both[i*2*n+n+j] = dt * id[i*n+j]
			}
		}
		x, err := solve(c, den, both, n, 2*n)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: I - αΔA: %w", method, err)
		}
		return columns(c, x, n, 2*n, 0), columns(c, x, n, 2*n, n), nil
	}
	m := ops.Make[float64](c, 4*n*n) // exp [[AΔ, IΔ], [0, 0]] = [[Ā, Γ], [0, I]]
	for i := range n {
		c.Step(1)
		for j := range ops.Each(c, n) {
			m[i*2*n+j] = dt * a[i*n+j]
		}
		m[i*2*n+n+i] = dt
	}
	e, err := Expm(c, m, 2*n)
	if err != nil {
		return nil, nil, err
	}
	return columns(c, e[:2*n*n], n, 2*n, 0), columns(c, e[:2*n*n], n, 2*n, n), nil
}

// columns copies n columns from column first on out of n rows of width w.
func columns(c *ir.EvalCtx, m []float64, n, w, first int) []float64 {
	out := ops.Make[float64](c, n*n)
	for i := range ops.Each(c, n) {
		ops.Put(c, out[i*n:(i+1)*n], m[i*w+first:])
	}
	return out
}
