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
		work := ops.Make[float64](c, m.Work())
		for r := range ops.Each(c, rows) {
			sums := m.sums(c, v[r*cols:(r+1)*cols])
			classes[r], scores[r] = m.Finish(c, sums, work)
			scores[r] = ops.Append(c, nil, scores[r]...)
		}
		return scored(c, m.labels, classes, scores, svmScores(c.Node, m.labels))
	},
	Along: alongSamples, NoGradient: fitted, Tol: ir.Summing,
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

func svmOf(c *ir.EvalCtx, n *ir.Node) (*SVM, error) {
	m := &SVM{Classifies: true, labels: labelsOf(n, "classlabels_ints"), Linear: !machines(n),
		slope: n.Attrs.Floats("prob_a", nil), offset: n.Attrs.Floats("prob_b", nil)}
	if err := m.read(n); err != nil {
		return nil, err
	}
	m.Classes, m.Scores = m.labels.len(), svmScores(n, m.labels)
	if m.Targets = m.Classes * (m.Classes - 1) / 2; m.Linear {
		m.Targets = m.Classes
	}
	for _, k := range n.Attrs.Ints("vectors_per_class", nil) {
		if k < 0 || k > int64(len(m.Vectors)+len(m.Coefficients)) {
			return nil, fmt.Errorf("vectors_per_class: expected numbers of support vectors, found %d", k)
		}
		m.starts = append(m.starts, m.total)
		m.Counts = append(m.Counts, int(k))
		m.total += int(k)
	}
	m.positive = true
	for _, x := range ops.All(c, m.Coefficients) {
		m.positive = m.positive && !(x < 0)
	}
	return m, nil
}

// check compares the sizes of the attributes.
func (m *SVM) check(features int) error {
	k := m.Classes
	pairs := k * (k - 1) / 2
	switch {
	case !m.Classifies && len(m.rho) != 1:
		return fmt.Errorf("rho: expected 1 number, found %d", len(m.rho))
	case !m.Classifies && (m.Linear && len(m.Coefficients) != features ||
		!m.Linear && (len(m.Coefficients) != m.total || len(m.Vectors) != m.total*features)):
		return fmt.Errorf("%d support vectors of %d features: found %d numbers and %d coefficients", m.total, features,
			len(m.Vectors), len(m.Coefficients))
	case !m.Classifies:
		return nil
	case m.Linear && (len(m.Coefficients) != k*features || len(m.rho) < 1):
		return fmt.Errorf("%d coefficients and %d rho for %d classes and %d features", len(m.Coefficients), len(m.rho),
			k, features)
	case m.Linear:
		return nil
	case len(m.Counts) != k:
		return fmt.Errorf("vectors_per_class has %d elements for %d classes", len(m.Counts), k)
	case len(m.Vectors) != m.total*features || len(m.Coefficients) < (k-1)*m.total || len(m.rho) < pairs:
		return fmt.Errorf("%d support vectors of %d features: found %d numbers, %d coefficients and %d rho", m.total,
			features, len(m.Vectors), len(m.Coefficients), len(m.rho))
	case len(m.slope) != len(m.offset) || len(m.slope) != 0 && len(m.slope) < pairs:
		return fmt.Errorf("%d classes: found %d prob_a and %d prob_b", k, len(m.slope), len(m.offset))
	}
	return nil
}

// sums returns the sums of a sample, with capacity for two.
func (m *SVM) sums(c *ir.EvalCtx, x []float64) []float64 {
	k := m.Classes
	sums := ops.Make[float64](c, max(2, m.Targets))[:0]
	if m.Linear {
		for i := range ops.Each(c, k) {
			sums = append(sums, m.rho[0]+dot(c, x, m.Coefficients[i*len(x):(i+1)*len(x)]))
		}
		return sums
	}
	near := m.all(c, x, m.Vectors, m.total)
	for i := range k {
		c.Step(1)
		for j := i + 1; j < k; j++ {
			c.Step(4)
			a, b := m.starts[i], m.starts[j]
			sums = append(sums, m.rho[len(sums)]+dot(c, near[a:a+m.Counts[i]], m.Coefficients[(j-1)*m.total+a:])+
				dot(c, near[b:b+m.Counts[j]], m.Coefficients[i*m.total+b:]))
		}
	}
	return sums
}

// decide returns a sample's class and scores from its sums, in place if the capacity suffices.
func (m *SVM) decide(c *ir.EvalCtx, sums, work []float64) (int, []float64) {
	k := m.Classes
	if m.Linear {
		class := argmax(c, sums)
		if best := sums[class]; k == 2 && (m.positive && best >= 0.5 || !m.positive && best > 0) {
			class = 1
		}
		return class, finish(c, m.post, sums, alone)
	}
	votes := work[:k]
	clear(votes)
	at := 0
	for i := range k {
		c.Step(1)
		for j := i + 1; j < k; j++ {
			c.Step(4)
			if sums[at] > 0 {
				votes[i]++
			} else {
				votes[j]++
			}
			at++
		}
	}
	class := argmax(c, votes)
	switch {
	case len(m.slope) > 0:
		sums = m.probabilities(c, sums, work)
		transform(c, m.post, sums)
	case k != 2:
		sums = finish(c, m.post, sums, alone)
	case m.post == "NONE":
		sums = append(sums[:0], -sums[0], sums[0])
	default:
		sums = finish(c, m.post, sums, complement)
	}
	return class, sums
}

// probabilities returns class probabilities from the sums of all pairs: logistic functions, coupled as in Wu, Lin
// and Weng (2004), second method. They are stored in work.
func (m *SVM) probabilities(c *ir.EvalCtx, sums, work []float64) []float64 {
	k := m.Classes
	p, qp, work := work[:k], work[k:2*k], work[2*k:]
	r, q := work[:k*k], work[k*k:2*k*k] // by rows
	at := 0
	for i := range k {
		c.Step(1)
		for j := i + 1; j < k; j++ {
			c.Step(4)
			p := 1 - logistic(sums[at]*m.slope[at]+m.offset[at])
			r[i*k+j] = min(max(p, 1e-7), 1-1e-7)
			r[j*k+i] = 1 - r[i*k+j]
			at++
		}
	}
	for i := range k {
		c.Step(1)
		row := q[i*k : (i+1)*k]
		row[i], p[i] = 0, 1/float64(k)
		for j := range ops.Each(c, k) {
			if j != i {
				row[i] += r[j*k+i] * r[j*k+i]
				row[j] = -r[j*k+i] * r[i*k+j]
			}
		}
	}
	for range 100 {
		pqp, worst := 0.0, 0.0
		for i := range ops.Each(c, k) {
			qp[i] = dot(c, q[i*k:(i+1)*k], p)
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
			d := (pqp - qp[i]) / q[i*k+i]
			p[i] += d
			pqp = (pqp + d*(d*q[i*k+i]+2*qp[i])) / (1 + d) / (1 + d)
			for j := range ops.Each(c, k) {
				qp[j] = (qp[j] + d*q[i*k+j]) / (1 + d)
				p[j] /= 1 + d
			}
		}
	}
	return p
}
