package ml

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// TreeEnsembleClassifier is for version 3. Version 1 had no tensors as attributes; version 5, deprecated in favor of
// TreeEnsemble, equals version 3.
var TreeEnsembleClassifier = ops.Same(treeClassifier(), 1)

func treeClassifier() *ir.Op {
	extra := []ir.AttrSpec{
		intsAttr("class_treeids", "tree of each vote"), intsAttr("class_nodeids", "its leaf"),
		intsAttr("class_ids", "its class"), floatsAttr("class_weights", "its weight"),
		intsAttr("classlabels_int64s", "labels"), stringsAttr("classlabels_strings", "labels"),
		tensorAttr("class_weights_as_tensor", "the same in double precision"),
	}
	return ops.Register(&ir.Op{
		Domain: Domain, Name: "TreeEnsembleClassifier", Since: 3,
		Doc: "Each tree leads a sample (row of X) to a leaf, which votes for classes; votes are summed, base_values " +
			"added, the label is that of the " +
			"class with the largest sum, and post_transform is applied to the sums. If there are two labels and " +
			"votes for one class only, the " +
			"sum s is the second label's, which is chosen if s is above 0.5, or above 0 if some vote is negative; if " +
			"the votes are for the first " +
			"class, the scores are 1-s and s, or -s and s.",
		In: ops.Sig("X:T1"), Out: ops.Sig("Y:T2[_]", "Z:float32[_,_]"), Elems: elems("T1", numeric),
		Attrs: flatAttrs(extra...),
		Infer: classified("classlabels_int64s", treeScores),
		Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
			return perRow(n, bind, listed(n, "nodes_featureids", "class_ids"))
		},
		Eval: evalTreeClassifier, Along: alongSamples, NoGradient: fitted, Tol: ir.Summing,
	})
}

// treeScores returns the number of scores per sample.
func treeScores(_ *ir.Node, l labels) int { return l.len() }

func evalTreeClassifier(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	e, err := classifier(c, c.Node)
	if err != nil {
		return nil, err
	}
	var classes []int
	var rows [][]float64
	err = e.eachSample(c, in, func(class int, scores []float64) {
		classes, rows = ops.Append(c, classes, class), ops.Append(c, rows, scores)
	})
	if err != nil {
		return nil, err
	}
	return scored(c, e.labels, classes, rows, e.Scores)
}

// classifier reads the attributes of a classifier.
func classifier(c *ir.EvalCtx, n *ir.Node) (*Ensemble, error) {
	l := labelsOf(n, "classlabels_int64s")
	e, err := flatForest(c, n, "class", l.len())
	if err != nil {
		return nil, err
	}
	base, err := floatsOrTensor(c, n, "base_values")
	if err != nil {
		return nil, err
	}
	if len(base) > l.len() {
		return nil, fmt.Errorf("base_values has %d elements for %d classes", len(base), l.len())
	}
	t := treeVerdict{labels: l, base: base, kind: ops.Str(n, "post_transform"), positive: true}
	ids := map[int]bool{}
	for _, leaf := range e.Leaves {
		c.Step(1)
		for _, v := range ops.All(c, leaf) {
			ids[v.Target] = true
			t.positive = t.positive && v.Weight >= 0
		}
	}
	t.binary = l.len() == 2 && len(ids) == 1
	if ids[1] {
		t.voted = 1
	}
	e.labels, e.Scores, e.finish = l, treeScores(n, l), t.decide
	return e, nil
}

// treeVerdict turns sums of votes into a class and scores.
type treeVerdict struct {
	labels   labels
	base     []float64
	kind     string // post_transform
	binary   bool   // there are two labels, and votes for one class only
	voted    int    // the class of all votes if binary
	positive bool   // no vote is negative
}

// decide follows ONNX Runtime, with one exception: of two classes that both have votes it returns the label of the
// larger sum, as for more classes, and not 0 or 1.
func (t treeVerdict) decide(c *ir.EvalCtx, sums []float64, none []bool) (class int, scores []float64) {
	l := t.labels.len()
	if t.binary && t.voted == 0 {
		s := sums[0]
		if len(t.base) > 0 {
			s += t.base[0]
		}
		sums[0] = s
		if t.positive {
			return binary(s > 0.5, t.labels), finish(c, t.kind, sums[:1], complement)
		}
		return binary(s > 0, t.labels), finish(c, t.kind, sums[:1], opposite)
	}
	for i, b := range ops.All(c, t.base) {
		sums[i] += b
		none[i] = false
	}
	switch {
	case l == 1:
		class, scores = binary(sums[0] > 0, t.labels), finish(c, t.kind, sums, alone)
		return class, scores
	case t.binary && t.positive:
		class = binary(sums[1] > 0.5, t.labels)
	case t.binary:
		class = binary(sums[1] > 0, t.labels)
	default:
		class = -1
		for i, s := range ops.All(c, sums) {
			if !none[i] && (class < 0 || s > sums[class]) {
				class = i
			}
		}
		class = max(class, 0)
	}
	transform(c, t.kind, sums)
	return class, sums
}
