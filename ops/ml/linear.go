package ml

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// LinearClassifier scores each class by a linear function.
var LinearClassifier = ops.Register(&ir.Op{
	Domain: Domain, Name: "LinearClassifier", Since: 1,
	Doc: "Scores of X (samples by features): coefficients (classes by features) times x plus intercepts, after " +
		"post_transform. The label is that " +
		"of the largest score. With a single row of coefficients it is the second label if the score is above 0, and " +
		"there are two scores if " +
		"there are two labels: 1-s and s.",
	In: ops.Sig("X:T1"), Out: ops.Sig("Y:T2[_]", "Z:float32[_,_]"), Elems: elems("T1", numeric),
	Attrs: []ir.AttrSpec{intsAttr("classlabels_ints", "labels"), stringsAttr("classlabels_strings", "labels"),
		ops.Required(floatsAttr("coefficients", "one row per class")), floatsAttr("intercepts", "one per class"),
		ops.IntSpec("multi_class", 0, "not used"), postTransform},
	Infer: classified("classlabels_ints", linearScores),
	Cost:  func(n *ir.Node, bind map[string]int64) ir.Work { return perRow(n, bind, listed(n, "coefficients")) },
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		n := c.Node
		l := labelsOf(n, "classlabels_ints")
		kind := ops.Str(n, "post_transform")
		scores, err := linear(c, in, n.Attrs.Floats("coefficients", nil), n.Attrs.Floats("intercepts", nil), 0)
		if err != nil {
			return nil, err
		}
		classes := ops.Make[int](c, len(scores))
		for i, s := range scores {
			c.Step(1)
			switch {
			case len(s) > 1:
				if classes[i] = argmax(c, s); classes[i] >= l.len() {
					return nil, fmt.Errorf("class %d has no label", classes[i])
				}
			default:
				classes[i] = binary(s[0] > 0, l)
			}
			second := alone
			if l.len() == 2 {
				second = complement
			}
			scores[i] = finish(c, kind, s, second)
		}
		return scored(c, l, classes, scores, linearScores(n, l))
	},
	Along: alongSamples, NoGradient: fitted, Tol: ir.Summing,
})

// linearScores returns the number of scores per sample.
func linearScores(n *ir.Node, l labels) int {
	if k := len(n.Attrs.Floats("intercepts", nil)); k > 1 || k == 1 && l.len() != 2 {
		return k
	}
	return l.len()
}

// binary returns the class of a binary decision.
func binary(yes bool, l labels) int {
	k := 0
	if yes {
		k = 1
	}
	if l.len() == 2 {
		return k
	}
	return noLabel - k
}

// LinearRegressor computes linear functions of a sample.
var LinearRegressor = ops.Register(&ir.Op{
	Domain: Domain, Name: "LinearRegressor", Since: 1,
	Doc: "coefficients (targets by features) times each row of X, plus intercepts, after post_transform.",
	In:  ops.Sig("X:T"), Out: ops.Sig("Y:float32[_,_]"), Elems: elems("T", numeric),
	Attrs: []ir.AttrSpec{floatsAttr("coefficients", "one row per target"), floatsAttr("intercepts", "one per target"),
		ops.IntSpec("targets", 1, "number of targets"), postTransform},
	Infer: perSample(func(n *ir.Node, d ir.Dim) ([]ir.Type, error) {
		k := ops.Int(n, "targets")
		if k < 1 || k > ops.MaxElems {
			return nil, fmt.Errorf("targets: expected 1 or more, found %d", k)
		}
		return []ir.Type{ir.Tensor(tensor.Float32, d, k)}, nil
	}),
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work { return perRow(n, bind, listed(n, "coefficients")) },
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		n := c.Node
		out, err := linear(c, in, n.Attrs.Floats("coefficients", nil), n.Attrs.Floats("intercepts", nil),
			int(ops.Int(n, "targets")))
		if err != nil {
			return nil, err
		}
		for i := range ops.Each(c, len(out)) {
			out[i] = finish(c, ops.Str(n, "post_transform"), out[i], alone)
		}
		return ops.One(joined(c, out, int(ops.Int(n, "targets"))))
	},
	NoGradient: fitted,
	Linear:     linearRegressor,
	Along:      alongSamples, Tol: ir.Summing,
})

// LinearModel is the model of LinearClassifier or LinearRegressor as its attributes state it.
type LinearModel struct {
	Targets, Scores, Features int
	Coefficients, Intercepts  []float64 // targets by features; one per target, or none
	Classifies                bool

	kind   string
	second secondScore
	labels labels
}

// LinearOf reads the model of a node for samples of a number of features. It returns nil for models that an evaluation
// refuses, or may refuse.
func LinearOf(n *ir.Node, features int) *LinearModel {
	m := &LinearModel{Features: features, Coefficients: n.Attrs.Floats("coefficients", nil),
		Intercepts: n.Attrs.Floats("intercepts", nil), kind: ops.Str(n, "post_transform")}
	if m.Classifies = n.Op == LinearClassifier; m.Classifies {
		m.labels = labelsOf(n, "classlabels_ints")
		if m.Targets = len(m.Intercepts); m.Targets == 0 {
			m.Targets = len(m.Coefficients) / max(features, 1)
		}
		if m.Scores = m.Targets; m.Targets == 1 && m.labels.len() == 2 {
			m.Scores, m.second = 2, complement
		}
		if m.labels.check() != nil || m.Targets > 1 && m.Targets > m.labels.len() ||
			m.Scores != linearScores(n, m.labels) {
			return nil
		}
	} else {
		m.Targets = int(ops.Int(n, "targets"))
		m.Scores = m.Targets
	}
	if m.Targets < 1 || features < 1 || len(m.Coefficients)%m.Targets != 0 ||
		len(m.Coefficients)/m.Targets != features || len(m.Intercepts) != 0 && len(m.Intercepts) != m.Targets {
		return nil
	}
	return m
}

// Binary returns the class of a sample with one linear function, by whether that is above 0.
func (m *LinearModel) Binary(above bool) int { return binary(above, m.labels) }

// Plain reports whether the scores are the linear functions as they are.
func (m *LinearModel) Plain() bool {
	return m.Scores == m.Targets && (m.kind == "NONE" || m.Targets == 1 && m.kind != "PROBIT")
}

// Logistic reports whether the scores are logistic functions of the linear ones; or, if there are two of one, of -s and
// s.
func (m *LinearModel) Logistic() bool { return m.kind == "LOGISTIC" && m.Scores > 1 }

// Softmax reports whether the scores are a softmax of several linear functions.
func (m *LinearModel) Softmax() bool { return m.kind == "SOFTMAX" && m.Targets > 1 }

// Finish turns the linear functions of a sample into its scores, in place if the capacity of s suffices.
func (m *LinearModel) Finish(c *ir.EvalCtx, s []float64) []float64 {
	return finish(c, m.kind, s, m.second)
}

// Label returns the label of a class, of a classifier whose labels are integers.
func (m *LinearModel) Label(class int) int64 { return m.labels.label(class) }

// Labels returns the labels of classes, as text or as integers.
func (m *LinearModel) Labels(c *ir.EvalCtx, classes []int64) *tensor.Tensor {
	return m.labels.picked(c, classes)
}

// linear computes linear functions of each sample of input 0. If targets is 0, there are as many as intercepts, or as
// rows of coefficients.
func linear(c *ir.EvalCtx, in []tensor.Datum, coefficients, intercepts []float64, targets int) ([][]float64, error) {
	v, rows, cols, err := matrix(c, in)
	if err != nil {
		return nil, err
	}
	switch {
	case targets == 0 && len(intercepts) > 0:
		targets = len(intercepts)
	case targets == 0:
		targets = len(coefficients) / max(cols, 1)
	}
	if targets < 1 || len(coefficients)%targets != 0 || len(coefficients)/targets != cols {
		return nil, fmt.Errorf("%d coefficients for %d features and %d targets", len(coefficients), cols, targets)
	}
	if len(intercepts) != 0 && len(intercepts) != targets {
		return nil, fmt.Errorf("%d intercepts for %d targets", len(intercepts), targets)
	}
	if _, err := ops.Elems([]int{rows, targets}); err != nil {
		return nil, err
	}
	out, flat := ops.Make[[]float64](c, rows), ops.Make[float64](c, rows*targets)
	for r := range len(out) {
		c.Step(1)
		out[r] = flat[r*targets : (r+1)*targets : (r+1)*targets]
		if dots(c, out[r], v[r*cols:(r+1)*cols], coefficients); len(intercepts) > 0 {
			for k := range ops.All(c, out[r]) {
				out[r][k] += intercepts[k]
			}
		}
	}
	return out, nil
}

func dot(c *ir.EvalCtx, a, b []float64) float64 {
	sum := 0.0
	for i, x := range ops.All(c, a) {
		sum += x * b[i]
	}
	return sum
}

// linearRegressor is for models without intercepts and transformations of the scores.
func linearRegressor(n *ir.Node) [][]int {
	for _, k := range n.Attrs.Floats("intercepts", nil) {
		if k != 0 {
			return nil
		}
	}
	if ops.Str(n, "post_transform") != "NONE" {
		return nil
	}
	return [][]int{{0}}
}
