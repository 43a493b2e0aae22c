package ml

import (
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// SVMClassifier classifies by support vector machines, one per pair of classes.
var SVMClassifier = ops.Register(&ir.Op{
	Domain: Domain, Name: "SVMClassifier", Since: 1,
	Doc: "Each pair of classes votes, by the sign of rho plus the sum of coefficients times kernels of a row of X " +
		"with the support vectors of both; " +
		"the label is that with most votes. Scores are these sums, or class probabilities if prob_a and prob_b are " +
		"given. Without support vectors " +
		"each class has a linear function as its score.",
	In: ops.Sig("X:T1"), Out: ops.Sig("Y:T2[_]", "Z:float32[_,_]"), Elems: elems("T1", numeric),
	Attrs: svmAttrs(intsAttr("classlabels_ints", "labels"), stringsAttr("classlabels_strings", "labels"),
		floatsAttr("prob_a", "slopes of the probabilities, one per pair"),
		floatsAttr("prob_b", "offsets of the probabilities"),
		intsAttr("vectors_per_class", "support vectors of each class")),
	Infer: classified("classlabels_ints", svmScores),
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		return perRow(n, bind, listed(n, "support_vectors", "coefficients"))
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		m, err := svmOf(c, c.Node)
		if err != nil {
			return nil, err
		}
		v, rows, cols, err := matrix(c, in)
		if err != nil {
			return nil, err
		}
		if err := m.check(cols); err != nil {
			return nil, err
		}
		classes, scores := ops.Make[int](c, rows), ops.Make[[]float64](c, rows)
		for r := range ops.Each(c, rows) {
			classes[r], scores[r] = m.decide(c, v[r*cols:(r+1)*cols])
		}
		return scored(c, m.labels, classes, scores, svmScores(c.Node, m.labels))
	},
	Along: alongSamples, Tol: ir.Summing,
})

// svmScores returns the number of scores per sample.
func svmScores(n *ir.Node, l labels) int {
	k := l.len()
	if !machines(n) || k <= 2 || len(n.Attrs.Floats("prob_a", nil)) > 0 {
		return k
	}
	return k * (k - 1) / 2
}

// machines reports whether there are support vectors.
func machines(n *ir.Node) bool {
	return slices.ContainsFunc(n.Attrs.Ints("vectors_per_class", nil), func(k int64) bool { return k > 0 })
}

type svm struct {
	kernel
	labels              labels
	post                string
	linear, positive    bool
	count               []int // support vectors of each class
	start               []int
	total               int
	vectors, coefs, rho []float64
	slope, offset       []float64
}

func svmOf(c *ir.EvalCtx, n *ir.Node) (*svm, error) {
	k, err := kernelOf(n)
	if err != nil {
		return nil, err
	}
	m := &svm{kernel: k, labels: labelsOf(n, "classlabels_ints"), post: ops.Str(n, "post_transform"),
		linear:  !machines(n),
		vectors: n.Attrs.Floats("support_vectors", nil), coefs: n.Attrs.Floats("coefficients", nil),
		rho:   n.Attrs.Floats("rho", nil),
		slope: n.Attrs.Floats("prob_a", nil), offset: n.Attrs.Floats("prob_b", nil)}
	for _, k := range n.Attrs.Ints("vectors_per_class", nil) {
		if k < 0 || k > int64(len(m.vectors)+len(m.coefs)) {
			return nil, fmt.Errorf("vectors_per_class: expected numbers of support vectors, found %d", k)
		}
		m.start = append(m.start, m.total)
		m.count = append(m.count, int(k))
		m.total += int(k)
	}
	m.positive = true
	for _, x := range ops.All(c, m.coefs) {
		m.positive = m.positive && !(x < 0)
	}
	return m, nil
}

// check compares the sizes of the attributes.
func (m *svm) check(features int) error {
	k := m.labels.len()
	pairs := k * (k - 1) / 2
	switch {
	case m.linear && (len(m.coefs) != k*features || len(m.rho) < 1):
		return fmt.Errorf("%d coefficients and %d rho for %d classes and %d features", len(m.coefs), len(m.rho), k,
			features)
	case m.linear:
		return nil
	case len(m.count) != k:
		return fmt.Errorf("vectors_per_class has %d elements for %d classes", len(m.count), k)
	case len(m.vectors) != m.total*features || len(m.coefs) < (k-1)*m.total || len(m.rho) < pairs:
		return fmt.Errorf("%d support vectors of %d features: found %d numbers, %d coefficients and %d rho", m.total,
			features, len(m.vectors), len(m.coefs), len(m.rho))
	case len(m.slope) != len(m.offset) || len(m.slope) != 0 && len(m.slope) < pairs:
		return fmt.Errorf("%d classes: found %d prob_a and %d prob_b", k, len(m.slope), len(m.offset))
	}
	return nil
}

// decide returns a sample's class and scores.
func (m *svm) decide(c *ir.EvalCtx, x []float64) (int, []float64) {
	k := m.labels.len()
	if m.linear {
		scores := ops.Make[float64](c, k)
		for i := range ops.Each(c, len(scores)) {
			scores[i] = m.rho[0] + dot(c, x, m.coefs[i*len(x):(i+1)*len(x)])
		}
		class := argmax(c, scores)
		if best := scores[class]; k == 2 && (m.positive && best >= 0.5 || !m.positive && best > 0) {
			class = 1
		}
		return class, finish(c, m.post, scores, alone)
	}
	near := m.all(c, x, m.vectors, m.total)
	var sums []float64
	votes := ops.Make[float64](c, k)
	for i := range k {
		c.Step(1)
		for j := i + 1; j < k; j++ {
			c.Step(4)
			a, b := m.start[i], m.start[j]
			s := m.rho[len(sums)] + dot(c, near[a:a+m.count[i]], m.coefs[(j-1)*m.total+a:]) + dot(c, near[b:b+m.count[j]],
				m.coefs[i*m.total+b:])
			if s > 0 {
				votes[i]++
			} else {
				votes[j]++
			}
			sums = append(sums, s)
		}
	}
	class := argmax(c, votes)
	switch {
	case len(m.slope) > 0:
		sums = m.probabilities(c, sums)
		transform(c, m.post, sums)
	case k != 2:
		sums = finish(c, m.post, sums, alone)
	case m.post == "NONE":
		sums = []float64{-sums[0], sums[0]}
	default:
		sums = finish(c, m.post, sums, complement)
	}
	return class, sums
}

// probabilities returns class probabilities from the sums of all pairs: logistic functions, coupled as in Wu, Lin and
// Weng (2004), second method.
func (m *svm) probabilities(c *ir.EvalCtx, sums []float64) []float64 {
	k := m.labels.len()
	r := make([][]float64, k)
	for i := range ops.Each(c, len(r)) {
		r[i] = ops.Make[float64](c, k)
	}
	at := 0
	for i := range k {
		c.Step(1)
		for j := i + 1; j < k; j++ {
			c.Step(4)
			p := 1 - logistic(sums[at]*m.slope[at]+m.offset[at])
			r[i][j] = min(max(p, 1e-7), 1-1e-7)
			r[j][i] = 1 - r[i][j]
			at++
		}
	}
	q := make([][]float64, k)
	p, qp := ops.Make[float64](c, k), ops.Make[float64](c, k)
	for i := range len(q) {
		c.Step(1)
		q[i], p[i] = ops.Make[float64](c, k), 1/float64(k)
		for j := range ops.Each(c, k) {
			if j != i {
				q[i][i] += r[j][i] * r[j][i]
				q[i][j] = -r[j][i] * r[i][j]
			}
		}
	}
	for range 100 {
		pqp, worst := 0.0, 0.0
		for i := range ops.Each(c, k) {
			qp[i] = dot(c, q[i], p)
			pqp += p[i] * qp[i]
		}
		for i := range ops.Each(c, k) {
			worst = max(worst, math.Abs(qp[i]-pqp))
		}
		if worst < 0.005/float64(k) {
			break
		}
		for i := range k {
			c.Step(1)
			d := (pqp - qp[i]) / q[i][i]
			p[i] += d
			pqp = (pqp + d*(d*q[i][i]+2*qp[i])) / (1 + d) / (1 + d)
			for j := range ops.Each(c, k) {
				qp[j] = (qp[j] + d*q[i][j]) / (1 + d)
				p[j] /= 1 + d
			}
		}
	}
	return p
}
