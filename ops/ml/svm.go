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

// of returns the kernel of two vectors from their product or, for RBF, the square of their distance.
func (k kernel) of(sum float64) float64 {
	switch k.kind {
	case "POLY":
		return math.Pow(k.gamma*sum+k.coef, k.degree)
	case "SIGMOID":
		return math.Tanh(k.gamma*sum + k.coef)
	case "RBF":
		return math.Exp(-k.gamma * sum)
	}
	return sum
}

// all returns the kernels of x with count concatenated vectors.
func (k kernel) all(c *ir.EvalCtx, x, vectors []float64, count int) []float64 {
	out := ops.Make[float64](c, count)
	if k.kind == "RBF" {
		distances(c, out, x, vectors)
	} else {
		dots(c, out, x, vectors)
	}
	for i, sum := range ops.All(c, out) {
		out[i] = k.of(sum)
	}
	return out
}

// distances sets out to the squares of the distances of x from concatenated vectors.
func distances(c *ir.EvalCtx, out, x, vectors []float64) { four(c, out, x, vectors, distances4) }

// dots sets out to the products of x with concatenated vectors.
func dots(c *ir.EvalCtx, out, x, vectors []float64) { four(c, out, x, vectors, dots4) }

// four computes four sums at once, which f goes on with: each in the order of the features.
func four(c *ir.EvalCtx, out, x, vectors []float64, f func(s [4]float64, x []float64, v [4][]float64) [4]float64) {
	n := len(x)
	for i := 0; i < len(out); i += 4 {
		var s [4]float64
		for lo, hi := range ops.Blocks(c, n, ir.Pace) {
			var v [4][]float64
			for j := range v { // the last one again, where there are fewer
				at := min(i+j, len(out)-1) * n
				v[j] = vectors[at+lo : at+hi]
			}
			c.Step(3 * (hi - lo))
			s = f(s, x[lo:hi], v)
		}
		c.Step(4)
		copy(out[i:], s[:])
	}
}

func distances4(s [4]float64, x []float64, v [4][]float64) [4]float64 {
	a, b, c, d := s[0], s[1], s[2], s[3]
	p, q, r, t := v[0][:len(x)], v[1][:len(x)], v[2][:len(x)], v[3][:len(x)]
	for i, x := range x {
		a += (x - p[i]) * (x - p[i])
		b += (x - q[i]) * (x - q[i])
		c += (x - r[i]) * (x - r[i])
		d += (x - t[i]) * (x - t[i])
	}
	return [4]float64{a, b, c, d}
}

func dots4(s [4]float64, x []float64, v [4][]float64) [4]float64 {
	a, b, c, d := s[0], s[1], s[2], s[3]
	p, q, r, t := v[0][:len(x)], v[1][:len(x)], v[2][:len(x)], v[3][:len(x)]
	for i, x := range x {
		a += x * p[i]
		b += x * q[i]
		c += x * r[i]
		d += x * t[i]
	}
	return [4]float64{a, b, c, d}
}
