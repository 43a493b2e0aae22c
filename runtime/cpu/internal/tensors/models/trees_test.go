package models_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

// treeMaker makes random forests for features whose values are few, so that equality is frequent.
type treeMaker struct {
	Gen
	features, targets, votes int
	modes                    []string
	missing                  bool

	treeids, nodeids, featureids, yes, no, tracks []int64
	mode                                          []string
	values, weights                               []float64
	voteTree, voteNode, voteID                    []int64
}

// number returns a number that features and splits have.
func (m *treeMaker) number() float64 {
	switch m.IntN(12) {
	case 0:
		return math.Copysign(0, -1)
	case 1:
		return math.Inf(1 - 2*m.IntN(2))
	case 2:
		return math.NaN()
	}
	return float64(m.IntN(9)-4) / 2
}

// tree adds a tree of a depth, and returns its node.
func (m *treeMaker) tree(tree int64, next *int64, depth int) int64 {
	id, at := *next, len(m.treeids)
	*next++
	m.treeids, m.nodeids = append(m.treeids, tree), append(m.nodeids, id)
	m.featureids, m.tracks = append(m.featureids, int64(m.IntN(m.features))), append(m.tracks, int64(m.IntN(2)))
	m.mode, m.values = append(m.mode, m.modes[m.IntN(len(m.modes))]), append(m.values, m.number())
	m.yes, m.no = append(m.yes, 0), append(m.no, 0)
	if depth > 0 && m.IntN(8) > 0 {
		m.yes[at] = m.tree(tree, next, depth-1)
		m.no[at] = m.tree(tree, next, depth-1)
		return id
	}
	m.mode[at] = "LEAF"
	for range m.votes {
		m.voteTree, m.voteNode = append(m.voteTree, tree), append(m.voteNode, id)
		m.voteID = append(m.voteID, int64(m.IntN(m.targets)))
		m.weights = append(m.weights, m.NormFloat64())
	}
	return id
}

func (m *treeMaker) attrs(prefix string, trees, depth int) []ir.Attr {
	for t := range trees {
		next := int64(m.IntN(3))
		m.tree(int64(t), &next, depth)
	}
	list := []ir.Attr{ir.A("nodes_treeids", m.treeids), ir.A("nodes_nodeids", m.nodeids),
		ir.A("nodes_featureids", m.featureids), ir.A("nodes_modes", m.mode), ir.A("nodes_values", m.values),
		ir.A("nodes_truenodeids", m.yes), ir.A("nodes_falsenodeids", m.no),
		ir.A(prefix+"_treeids", m.voteTree), ir.A(prefix+"_nodeids", m.voteNode), ir.A(prefix+"_ids", m.voteID),
		ir.A(prefix+"_weights", m.weights)}
	if m.missing {
		list = append(list, ir.A("nodes_missing_value_tracks_true", m.tracks))
	}
	return list
}

// samples returns samples of an element type.
func (m *treeMaker) samples(d tensor.DType, shape ...int) *tensor.Tensor {
	x := tensor.New(d, shape...)
	for i := range x.Len() {
		switch v := m.number(); d {
		case tensor.Float32:
			tensor.Data[float32](x)[i] = float32(v)
		case tensor.Float64:
			tensor.Data[float64](x)[i] = v
		case tensor.Int32:
			tensor.Data[int32](x)[i] = int32(m.IntN(5) - 2)
		case tensor.Int64:
			tensor.Data[int64](x)[i] = int64(m.IntN(5) - 2)
		}
	}
	return x
}

var allModes = []string{"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"}

func TestTrees(t *testing.T) { sameTrees(t, NewGen(141), 20) }

// TestTree checks models of one tree, which have a kernel of their own.
func TestTree(t *testing.T) { sameTrees(t, NewGen(142), 1) }

// sameTrees tries models of up to most trees.
func sameTrees(t *testing.T, r Gen, most int) {
	for i, rows := range []int{1, 2, 7, 8, 9, 16, 31, 64, 65, 150, 600, 0} {
		for j, modes := range append([][]string{allModes}, allModes[:1], allModes[1:2], allModes[2:3], allModes[3:4],
			allModes[4:5], allModes[5:]) {
			k := i + j
			dtype := []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float32, tensor.Int64, tensor.Int32}[k%5]
			m := &treeMaker{Gen: r, features: 1 + r.IntN(9), targets: 1 + k%3, votes: 1 + k%2, modes: modes, missing: k%3 == 0}
			if k%7 == 0 {
				m.votes = 0
			}
			x := m.samples(dtype, rows, m.features+k%2)
			attrs := m.attrs("target", 1+r.IntN(most), 1+r.IntN(6))
			attrs = append(attrs, ir.A("n_targets", m.targets), ir.A("aggregate_function",
				[]string{"SUM", "AVERAGE", "MIN", "MAX"}[k%4]), ir.A("post_transform",
				[]string{"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"}[r.IntN(5)]))
			if k%2 == 0 {
				attrs = append(attrs, ir.A("base_values", make([]float64, m.targets)))
			}
			on.Same(t, "ai.onnx.ml.TreeEnsembleRegressor", 1, []Operand{Given(x)}, attrs...)

			m = &treeMaker{Gen: r, features: 5, targets: 1 + k%4, votes: 1 + k%3, modes: modes, missing: k%3 == 1}
			attrs = append(m.attrs("class", 1+r.IntN(most), 1+r.IntN(6)), ir.A("post_transform",
				[]string{"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"}[r.IntN(5)]))
			labels, text := make([]int64, max(2, m.targets)-r.IntN(2)*k%2), []string(nil)
			for i := range labels {
				labels[i], text = int64(i+5), append(text, fmt.Sprint("class ", i))
			}
			if len(labels) < m.targets {
				labels, text = append(labels, 1), append(text, "last")
			}
			if k%3 == 0 {
				attrs = append(attrs, ir.A("classlabels_strings", text))
			} else {
				attrs = append(attrs, ir.A("classlabels_int64s", labels))
			}
			on.Same(t, "ai.onnx.ml.TreeEnsembleClassifier", 2, []Operand{Given(m.samples(dtype, rows, 5))}, attrs...)
		}
	}
	m := &treeMaker{Gen: r, features: 5, targets: 1, votes: 1, modes: allModes}
	on.Same(t, "ai.onnx.ml.TreeEnsembleRegressor", 1, []Operand{Given(m.samples(tensor.Float32, 5))},
		m.attrs("target", min(most, 3), 3)...)
}

// TestTreesInTables checks the operator of version 5: trees that share nodes, sets of numbers, splits in double
// precision.
func TestTreesInTables(t *testing.T) {
	r := NewGen(142)
	for k := range 60 {
		nodes, leaves, targets := 1+r.IntN(40), 1+r.IntN(20), 1+r.IntN(3)
		m := &treeMaker{Gen: r, features: 4}
		var features, yes, no, yesLeaf, noLeaf, tracks, ids, roots []int64
		var splits, weights, members []float64
		var modes []uint8
		for i := range nodes {
			features, splits, modes = append(features, int64(r.IntN(4))), append(splits, m.number()), append(modes, uint8(r.IntN(7)))
			if modes[i] == 6 {
				for range r.IntN(9) {
					if x := m.number(); x == x {
						members = append(members, x)
					}
				}
				members = append(members, math.NaN())
			}
			tracks = append(tracks, int64(r.IntN(2)))
			to := func() (int64, int64) { // a node after this one, or a leaf
				if left := nodes - i - 1; left > 0 && r.IntN(4) > 0 {
					return int64(i + 1 + r.IntN(left)), 0
				}
				return int64(r.IntN(leaves)), 1
			}
			a, b := to()
			yes, yesLeaf = append(yes, a), append(yesLeaf, b)
			a, b = to()
			no, noLeaf = append(no, a), append(noLeaf, b)
		}
		for range leaves {
			ids, weights = append(ids, int64(r.IntN(targets))), append(weights, r.NormFloat64())
		}
		for range 1 + r.IntN(12) {
			roots = append(roots, int64(r.IntN(nodes)))
		}
		numbers := func(v []float64) *tensor.Tensor { return tensor.FromSlice(v, len(v)) }
		attrs := []ir.Attr{ir.A("tree_roots", roots), ir.A("nodes_featureids", features),
			ir.A("nodes_modes", tensor.FromSlice(modes, nodes)), ir.A("nodes_splits", numbers(splits)),
			ir.A("nodes_truenodeids", yes), ir.A("nodes_trueleafs", yesLeaf), ir.A("nodes_falsenodeids", no),
			ir.A("nodes_falseleafs", noLeaf), ir.A("leaf_targetids", ids), ir.A("leaf_weights", numbers(weights)),
			ir.A("n_targets", targets), ir.A("aggregate_function", k%4), ir.A("post_transform", k%5)}
		if len(members) > 0 {
			attrs = append(attrs, ir.A("membership_values", numbers(members)))
		}
		if k%2 == 0 {
			attrs = append(attrs, ir.A("nodes_missing_value_tracks_true", tracks))
		}
		x := m.samples([]tensor.DType{tensor.Float32, tensor.Float64}[k%2], []int{1, 8, 21, 70}[r.IntN(4)], 4)
		on.Same(t, "ai.onnx.ml.TreeEnsemble", 1, []Operand{Given(x)}, attrs...)
	}
}
