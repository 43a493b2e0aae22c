package essm

import (
	"fmt"
	"math"
	"math/cmplx"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Methods are the names of the discretizations (docs/math.md, Discretization).
var Methods = []string{"zoh", "bilinear", "backward_euler", "forward_euler"}

var discretizeAttrs = []ir.AttrSpec{
	{Name: "method", Kind: ir.AttrString, Default: "zoh", OneOf: Methods, Doc: "discretization"},
	{Name: "rate", Kind: ir.AttrFloat, Default: 1.0, Doc: "factor on every step size (resampling)"},
}

// Alpha returns the weight of the new state in the generalized bilinear transform. ok is false for zero-order hold.
func Alpha(method string) (alpha float64, ok bool) {
	switch method {
	case "bilinear":
		return 0.5, true
	case "backward_euler":
		return 1, true
	case "forward_euler":
		return 0, true
	}
	return 0, false
}

// Discretize turns a continuous diagonal system into a discrete one.
var Discretize = ops.Register(&ir.Op{
	Domain: "essm", Name: "Discretize",
	Doc: `The discrete system of a continuous diagonal one (docs/math.md, Discretization): a, the log of the discrete
eigenvalue (λΔ for zero-order hold), and b, the factor on the input. Δ = rate·exp(log_dt).`,
	In:  ops.Sig("re:float64[C,S,n]", "im:float64[C,S,n]", "log_dt:T[C,S,_]"),
	Out: ops.Sig("a_re:float64[C,S,n]", "a_im:float64[C,S,n]", "b_re:float64[C,S,n]", "b_im:float64[C,S,n]"),
	Attrs: append([]ir.AttrSpec{
		{Name: "epsilon", Kind: ir.AttrFloat, Default: 0.0,
			Doc: "added to |λ|² in the denominator of b with zero-order hold"},
	}, discretizeAttrs...),
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		shape := ops.Tensor(in, 0).Shape()
		lam := pair(c, ops.F64(c, in, 0), ops.F64(c, in, 1))
		dt, err := steps(c, c.Node.Attrs, ops.Tensor(in, 2), shape)
		if err != nil {
			return nil, err
		}
		a, b := ops.Make[complex128](c, len(lam)), ops.Make[complex128](c, len(lam))
		for i := range ops.Each(c, len(lam)) {
			a[i], b[i] = discretize(c.Node.Attrs.Str("method", "zoh"), c.Node.Attrs.Float("epsilon", 0), lam[i], dt[i])
		}
		var out []tensor.Datum
		for _, z := range [][]complex128{a, b} {
			re, im := split(c, z)
			out = append(out, tensor.FromSlice(re, shape...), tensor.FromSlice(im, shape...))
		}
		return out, nil
	},
	Gradient: gradDiscretize,
	Tol:      ir.Rounding,
})

// steps returns Δ for each state of shape (C, S, n).
func steps(c *ir.EvalCtx, attrs ir.Attrs, logDt *tensor.Tensor, shape []int) ([]float64, error) {
	v, err := ops.Float64s(c, logDt)
	if err != nil {
		return nil, err
	}
	n, k := shape[2], logDt.Dim(2)
	if k != n && k != 1 {
		return nil, fmt.Errorf("log_dt: expected %d or 1 step sizes per head, found %d", n, k)
	}
	rate := attrs.Float("rate", 1)
	dt := ops.Make[float64](c, shape[0]*shape[1]*n)
	for i := range ops.Each(c, len(dt)) {
		dt[i] = rate * math.Exp(v[i/n*k+i%n%k])
	}
	return dt, nil
}

// discretize returns the logarithm of the discrete eigenvalue and the input's factor for one state.
func discretize(method string, eps float64, lam complex128, dt float64) (a, b complex128) {
	d := complex(dt, 0)
	if alpha, ok := Alpha(method); ok {
		den := 1 - complex(alpha, 0)*d*lam
		return logEigen((1 + complex(1-alpha, 0)*d*lam) / den), d / den
	}
	a = lam * d
	if eps == 0 {
		return a, d * phi1(a)
	}
	return a, expm1(a) * cmplx.Conj(lam) / (lam*cmplx.Conj(lam) + complex(eps, 0))
}

// expm1 returns exp(z) - 1 without cancellation for small z.
func expm1(z complex128) complex128 {
	x, y := real(z), imag(z)
	s, c := math.Sincos(y)
	h := math.Sin(y / 2)
	// e^x cos y - 1 = expm1(x) cos y - 2 sin²(y/2)
	return complex(math.Expm1(x)*c-2*h*h, math.Exp(x)*s)
}

// phi1 returns (exp(z)-1)/z, and 1 at 0.
func phi1(z complex128) complex128 {
	if z == 0 {
		return 1
	}
	return expm1(z) / z
}
