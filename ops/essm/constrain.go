package essm

import (
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Names of the constraints, as configuration files spell them (docs/math.md, Constraints).
var (
	RealConstraints = []string{"clip", "softplus", "sigmoid", "Gaussian"}
	ImagConstraints = []string{"same", "softplus", "sigmoid", "Gaussian", "clip", "zero", "negtive"}
)

// Constrain applies the constraints that make a stored diagonal stable.
var Constrain = ops.Register(&ir.Op{
	Domain: "essm", Name: "Constrain",
	Doc: "The diagonal of A from its stored form: real and imaginary parts under the constraints of docs/math.md, " +
		"Constraints.",
	In: ops.Sig("lambda:T[C,S,n,2]"), Out: ops.Sig("re:float64[C,S,n]", "im:float64[C,S,n]"),
	Attrs: []ir.AttrSpec{
		{Name: "real", Kind: ir.AttrString, Default: "clip", OneOf: RealConstraints,
			Doc: "constraint on the real part"},
		{Name: "imag", Kind: ir.AttrString, Default: "same", OneOf: ImagConstraints,
			Doc: "constraint on the imaginary part"},
		{Name: "max_real", Kind: ir.AttrFloat, Default: 1e-4, Doc: "with clip: the real part is at most minus this"},
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		lam := ops.F64(c, in, 0)
		shape := ops.Tensor(in, 0).Shape()[:3]
		a := c.Node.Attrs
		re, im := ops.Make[float64](c, len(lam)/2), ops.Make[float64](c, len(lam)/2)
		for i := range ops.Each(c, len(re)) {
			re[i] = constrainReal(a.Str("real", "clip"), a.Float("max_real", 1e-4), lam[2*i])
			im[i] = constrainImag(a.Str("imag", "same"), lam[2*i+1])
		}
		return []tensor.Datum{tensor.FromSlice(re, shape...), tensor.FromSlice(im, shape...)}, nil
	},
	Gradient: gradConstrain,
	Tol:      ir.Rounding,
})

func constrainReal(kind string, limit, re float64) float64 {
	switch kind {
	case "softplus":
		return -softplus(re)
	case "sigmoid":
		return -1 / (1 + math.Exp(-re))
	case "Gaussian":
		return -math.Exp(-re * re)
	}
	return min(re, -limit)
}

func constrainImag(kind string, im float64) float64 {
	switch kind {
	case "softplus":
		return softplus(im)
	case "sigmoid":
		return 1 / (1 + math.Exp(-im))
	case "Gaussian":
		return math.Exp(im * im)
	case "clip":
		return min(max(im, -1), 1)
	case "zero":
		return 0
	case "negtive":
		return min(im, -1e-4)
	}
	return im
}

func softplus(x float64) float64 {
	if x > 0 {
		return x + math.Log1p(math.Exp(-x))
	}
	return math.Log1p(math.Exp(x))
}
