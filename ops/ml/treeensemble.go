package ml

import (
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// TreeEnsemble is the tree operator of version 5.
var TreeEnsemble = ops.Register(&ir.Op{
	Domain: Domain, Name: "TreeEnsemble", Since: 5,
	Doc: "Each tree leads a sample (row of X) to a leaf, which adds a weight to one target. Per target, the weights " +
		"are averaged or summed, or the smallest or " +
		"largest is taken, and post_transform is applied.",
	In: ops.Sig("X:T"), Out: ops.Sig("Y:T[_,_]"),
	Elems: elems("T", []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16}),
	Attrs: []ir.AttrSpec{
		ops.Required(intsAttr("tree_roots", "index of each tree's root in nodes_*")),
		ops.Required(intsAttr("nodes_featureids", "feature that each node reads")),
		ops.Required(tensorAttr("nodes_modes", "0 to 6: <=, <, >=, >, ==, !=, in a set")),
		ops.Required(tensorAttr("nodes_splits", "threshold of each node")),
		ops.Required(intsAttr("nodes_truenodeids", "next node if the comparison is true")),
		ops.Required(intsAttr("nodes_trueleafs", "whether that is a leaf")),
		ops.Required(intsAttr("nodes_falsenodeids", "next node if the comparison is false")),
		ops.Required(intsAttr("nodes_falseleafs", "whether that is a leaf")),
		ops.Required(intsAttr("leaf_targetids", "target of each leaf")),
		ops.Required(tensorAttr("leaf_weights", "its weight")),
		tensorAttr("membership_values", "the sets of nodes of mode 6 in their order, each ended by NaN"),
		tensorAttr("nodes_hitrates", "not used"),
		intsAttr("nodes_missing_value_tracks_true", "whether the comparison is true for NaN"),
		ops.IntSpec("n_targets", nil, "number of targets; absent: from leaf_targetids"),
		ops.IntSpec("aggregate_function", 1, "0 average, 1 sum, 2 smallest, 3 largest"),
		ops.IntSpec("post_transform", 0, "0 none, 1 softmax, 2 logistic, 3 softmax without zeros, 4 probit")},
	Infer: perSample(func(n *ir.Node, d ir.Dim) ([]ir.Type, error) {
		k := ensembleTargets(n)
		if err := limit("n_targets", k); err != nil {
			return nil, err
		}
		return []ir.Type{ir.Tensor(n.In(0).Elem(), d, k)}, nil
	}),
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		return perRow(n, bind, listed(n, "nodes_featureids", "leaf_targetids"))
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		n := c.Node
		targets := ensembleTargets(n)
		if err := limit("n_targets", targets); err != nil {
			return nil, err
		}
		f, err := ensemble(c, n, int(targets))
		if err != nil {
			return nil, err
		}
		how, err := choice(n, "aggregate_function", "AVERAGE", "SUM", "MIN", "MAX")
		if err != nil {
			return nil, err
		}
		post, err := choice(n, "post_transform", "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
		if err != nil {
			return nil, err
		}
		var out []float64
		rows := 0
		err = f.eachSample(c, in, func(votes [][]vote) error {
			if _, err := ops.Elems([]int{rows + 1, int(targets)}); err != nil {
				return err
			}
			sums, _ := aggregate(c, how, votes, int(targets))
			transform(c, post, sums)
			out = ops.Append(c, out, sums...)
			rows++
			return nil
		})
		if err != nil {
			return nil, err
		}
		return ops.One(ops.FromFloat64s(c, ops.Tensor(in, 0).DType(), out, rows, int(targets)))
	},
	Along: alongSamples, Tol: ir.Summing,
})

func choice(n *ir.Node, name string, names ...string) (string, error) {
	k := ops.Int(n, name)
	if k < 0 || k >= int64(len(names)) {
		return "", fmt.Errorf("%s: expected 0 to %d, found %d", name, len(names)-1, k)
	}
	return names[k], nil
}

func ensembleTargets(n *ir.Node) int64 {
	if n.Attrs.Has("n_targets") {
		return ops.Int(n, "n_targets")
	}
	ids := n.Attrs.Ints("leaf_targetids", nil)
	if len(ids) == 0 {
		return 1
	}
	return slices.Max(ids) + 1
}

// ensemble reads the attributes of version 5.
func ensemble(c *ir.EvalCtx, n *ir.Node, targets int) (*forest, error) {
	get := func(name string) []int64 { return n.Attrs.Ints(name, nil) }
	numbers := func(name string) ([]float64, error) {
		t := n.Attrs.Tensor(name)
		if t == nil {
			return nil, nil
		}
		v, err := ops.Float64s(c, t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return v, nil
	}
	modes, err := numbers("nodes_modes")
	if err != nil {
		return nil, err
	}
	splits, err := numbers("nodes_splits")
	if err != nil {
		return nil, err
	}
	members, err := numbers("membership_values")
	if err != nil {
		return nil, err
	}
	weights, err := numbers("leaf_weights")
	if err != nil {
		return nil, err
	}
	features, missing := get("nodes_featureids"), get("nodes_missing_value_tracks_true")
	yes, no, yesLeaf, noLeaf := get("nodes_truenodeids"), get("nodes_falsenodeids"), get("nodes_trueleafs"),
		get("nodes_falseleafs")
	for _, l := range [][]int64{yes, no, yesLeaf, noLeaf} {
		if len(l) != len(features) {
			return nil, fmt.Errorf("expected %d elements in each list nodes_*, found %d", len(features), len(l))
		}
	}
	if len(modes) != len(features) || len(splits) != len(features) || len(missing) != 0 &&
		len(missing) != len(features) {
		return nil, fmt.Errorf("expected %d modes and splits as for nodes_featureids, found %d and %d", len(features),
			len(modes), len(splits))
	}
	f := &forest{}
	targetIDs := get("leaf_targetids")
	if len(targetIDs) != len(weights) {
		return nil, fmt.Errorf("expected equal lengths of leaf_targetids and leaf_weights, found %d and %d",
			len(targetIDs), len(weights))
	}
	for i, t := range ops.All(c, targetIDs) {
		if t < 0 || t >= int64(targets) {
			return nil, fmt.Errorf("leaf_targetids: found %d, expected less than %d", t, targets)
		}
		f.leaves = append(f.leaves, []vote{{int(t), weights[i]}})
	}
	to := func(id, leaf int64) (child, error) {
		switch {
		case leaf != 0 && id >= 0 && id < int64(len(f.leaves)):
			return child(^id), nil
		case leaf == 0 && id >= 0 && id < int64(len(features)):
			return child(id), nil
		}
		return 0, fmt.Errorf("a node leads to %d, which is not listed (leaf: %v)", id, leaf != 0)
	}
	names := []string{"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"}
	for i, m := range modes {
		c.Step(1)
		c.Step(64)
		b := branch{missing: len(missing) > 0 && missing[i] != 0}
		if b.yes, err = to(yes[i], yesLeaf[i]); err != nil {
			return nil, err
		}
		if b.no, err = to(no[i], noLeaf[i]); err != nil {
			return nil, err
		}
		switch k := int(m); {
		case k >= 0 && k < len(names):
			b.test = tests[names[k]](splits[i])
		case k == len(names):
			end := slices.IndexFunc(members, math.IsNaN)
			if end < 0 {
				return nil, fmt.Errorf("membership_values: no set for node %d", i)
			}
			set := map[float64]bool{}
			for _, x := range ops.All(c, members[:end]) {
				c.Step(64)
				set[x] = true
			}
			members = members[end+1:]
			b.test = func(x float64) bool { return set[x] }
		default:
			return nil, fmt.Errorf("nodes_modes: expected 0 to 6, found %v", m)
		}
		if err := f.add(b, features[i]); err != nil {
			return nil, err
		}
	}
	for _, r := range ops.All(c, get("tree_roots")) {
		root, err := to(r, 0)
		if err != nil {
			return nil, fmt.Errorf("tree_roots: %w", err)
		}
		f.roots = append(f.roots, root)
	}
	return f, nil
}
