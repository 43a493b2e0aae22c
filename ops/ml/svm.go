package ml

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// kernel is the kernel function of a support vector machine.
type kernel struct {
	kind                string
	gamma, coef, degree float64
}

func svmAttrs(extra ...ir.AttrSpec) []ir.AttrSpec {
	return append([]ir.AttrSpec{
		ops.ChoiceSpec("kernel_type", "kernel function", "LINEAR", "POLY", "RBF", "SIGMOID"),
		floatsAttr("kernel_params", "gamma, coef0 and degree"),
		floatsAttr("support_vectors", "concatenated; none: a linear model"),
		floatsAttr("coefficients", "coefficients of the support vectors, or of the features"),
		floatsAttr("rho", "added to each sum"), postTransform}, extra...)
}

func kernelOf(n *ir.Node) (kernel, error) {
	k := kernel{kind: ops.Str(n, "kernel_type")}
	p := n.Attrs.Floats("kernel_params", nil)
	if len(p) != 0 && len(p) != 3 {
		return k, fmt.Errorf("kernel_params: expected gamma, coef0 and degree, found %d numbers", len(p))
	}
	if len(p) == 3 {
		k.gamma, k.coef, k.degree = p[0], p[1], p[2]
	}
	return k, nil
}

func (k kernel) of(c *ir.EvalCtx, a, b []float64) float64 {
	switch k.kind {
	case "POLY":
		return math.Pow(k.gamma*dot(c, a, b)+k.coef, k.degree)
	case "SIGMOID":
		return math.Tanh(k.gamma*dot(c, a, b) + k.coef)
	case "RBF":
		sum := 0.0
		for i, x := range ops.All(c, a) {
			sum += (x - b[i]) * (x - b[i])
		}
		return math.Exp(-k.gamma * sum)
	}
	return dot(c, a, b)
}

// all returns the kernels of x with count concatenated vectors.
func (k kernel) all(c *ir.EvalCtx, x, vectors []float64, count int) []float64 {
	out := ops.Make[float64](c, count)
	for i := range ops.Each(c, len(out)) {
		out[i] = k.of(c, x, vectors[i*len(x):(i+1)*len(x)])
	}
	return out
}
