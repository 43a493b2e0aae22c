package ml

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// SVM is the model of SVMClassifier or SVMRegressor as its attributes state it: sums, one for each target, from
// which the scores are computed.
type SVM struct {
	Classifies, Linear       bool // linear: of the features themselves, without support vectors
	Classes, Targets, Scores int
	Kernel                   string
	Gamma, Coef, Degree      float64
	Counts                   []int     // support vectors of each class
	Vectors, Coefficients    []float64 // concatenated
	total                    int       // support vectors
	starts                   []int
	rho, slope, offset       []float64
	post                     string
	positive, inliers        bool
	labels                   labels
}

// SVMOf reads the model of a node for samples of a number of features. It returns nil for models that an evaluation
// refuses, or may refuse.
func SVMOf(c *ir.EvalCtx, n *ir.Node, features int) *SVM {
	var m *SVM
	var err error
	if n.Op == SVMClassifier {
		if m, err = svmOf(c, n); err == nil {
			err = m.labels.check()
		}
		if err == nil && !m.Linear && m.Classes < 2 {
			return nil
		}
	} else {
		m, err = svmRegressorOf(n)
	}
	if err != nil || m.check(features) != nil {
		return nil
	}
	return m
}

// Rho returns the offset of a target's sum.
func (m *SVM) Rho(target int) float64 {
	if m.Linear {
		return m.rho[0]
	}
	return m.rho[target]
}

// Pairs returns the number of rows of coefficients: each class has that many partners.
func (m *SVM) Pairs() int { return max(1, m.Classes-1) }

// Pair returns the target of a class's support vectors with the coefficients of a row.
func (m *SVM) Pair(class, row int) int {
	if m.Classes < 2 {
		return 0
	}
	i, j := row, class
	if row >= class {
		i, j = class, row+1
	}
	return i*(2*m.Classes-i-1)/2 + j - i - 1
}

// Total returns the number of support vectors.
func (m *SVM) Total() int { return m.total }

// Work returns the size of the memory that Finish needs.
func (m *SVM) Work() int { return 2*m.Classes*m.Classes + 2*m.Classes }

// Finish turns the sums of a sample into its class and its scores. The scores are stored in sums if its capacity
// suffices (at least two), or in work, which has Work() numbers.
func (m *SVM) Finish(c *ir.EvalCtx, sums, work []float64) (class int, scores []float64) {
	if m.Classifies {
		return m.decide(c, sums, work)
	}
	if m.inliers {
		if sums[0] > 0 {
			sums[0] = 1
		} else {
			sums[0] = -1
		}
	}
	return 0, finish(c, m.post, sums, alone)
}

// Label returns the label of a class, of a classifier whose labels are integers.
func (m *SVM) Label(class int) int64 { return m.labels.label(class) }

// Labels returns the labels of classes, as text or as integers.
func (m *SVM) Labels(c *ir.EvalCtx, classes []int64) *tensor.Tensor {
	return m.labels.picked(c, classes)
}

func svmAttrs(extra ...ir.AttrSpec) []ir.AttrSpec {
	return append([]ir.AttrSpec{
		ops.ChoiceSpec("kernel_type", "kernel function", "LINEAR", "POLY", "RBF", "SIGMOID"),
		floatsAttr("kernel_params", "gamma, coef0 and degree"),
		floatsAttr("support_vectors", "concatenated; none: a linear model"),
		floatsAttr("coefficients", "coefficients of the support vectors, or of the features"),
		floatsAttr("rho", "added to each sum"), postTransform}, extra...)
}

// read reads the attributes that both operators have.
func (m *SVM) read(n *ir.Node) error {
	m.Kernel, m.post = ops.Str(n, "kernel_type"), ops.Str(n, "post_transform")
	m.Vectors, m.Coefficients = n.Attrs.Floats("support_vectors", nil), n.Attrs.Floats("coefficients", nil)
	m.rho = n.Attrs.Floats("rho", nil)
	p := n.Attrs.Floats("kernel_params", nil)
	if len(p) != 0 && len(p) != 3 {
		return fmt.Errorf("kernel_params: expected gamma, coef0 and degree, found %d numbers", len(p))
	}
	if len(p) == 3 {
		m.Gamma, m.Coef, m.Degree = p[0], p[1], p[2]
	}
	return nil
}

// of returns the kernel of two vectors from their product or, for RBF, the square of their distance.
func (m *SVM) of(sum float64) float64 {
	switch m.Kernel {
	case "POLY":
		return math.Pow(m.Gamma*sum+m.Coef, m.Degree)
	case "SIGMOID":
		return math.Tanh(m.Gamma*sum + m.Coef)
	case "RBF":
		return math.Exp(-m.Gamma * sum)
	}
	return sum
}

// all returns the kernels of x with count concatenated vectors.
func (m *SVM) all(c *ir.EvalCtx, x, vectors []float64, count int) []float64 {
	out := ops.Make[float64](c, count)
	if m.Kernel == "RBF" {
		distances(c, out, x, vectors)
	} else {
		dots(c, out, x, vectors)
	}
	for i, sum := range ops.All(c, out) {
		out[i] = m.of(sum)
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
