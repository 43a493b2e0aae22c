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
		e, err := ensemble(c, c.Node)
		if err != nil {
			return nil, err
		}
		var out []float64
		rows := 0
		err = e.eachSample(c, in, func(_ int, scores []float64) {
			out = ops.Append(c, out, scores...)
			rows++
		})
		if err != nil {
			return nil, err
		}
		return ops.One(ops.FromFloat64s(c, ops.Tensor(in, 0).DType(), out, rows, e.Targets))
	},
	Along: alongSamples, NoGradient: fitted, Tol: ir.Summing,
})

// choice returns an attribute that is the index of one of count choices.
func choice(n *ir.Node, name string, count int64) (int, error) {
	k := ops.Int(n, name)
	if k < 0 || k >= count {
		return 0, fmt.Errorf("%s: expected 0 to %d, found %d", name, count-1, k)
	}
	return int(k), nil
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
func ensemble(c *ir.EvalCtx, n *ir.Node) (*Ensemble, error) {
	targets := ensembleTargets(n)
	if err := limit("n_targets", targets); err != nil {
		return nil, err
	}
	e := &Ensemble{Targets: int(targets), Scores: int(targets)}
	if err := e.readTrees(c, n); err != nil {
		return nil, err
	}
	how, err := choice(n, "aggregate_function", 4)
	if err != nil {
		return nil, err
	}
	post, err := choice(n, "post_transform", 5)
	if err != nil {
		return nil, err
	}
	e.Combine = [...]Combination{Average, Sum, Min, Max}[how]
	kind := [...]string{"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"}[post]
	e.finish = func(c *ir.EvalCtx, sums []float64, _ []bool) (int, []float64) {
		transform(c, kind, sums)
		return 0, sums
	}
	return e, nil
}

// readTrees reads branches, leaves and roots.
func (e *Ensemble) readTrees(c *ir.EvalCtx, n *ir.Node) error {
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
		return err
	}
	splits, err := numbers("nodes_splits")
	if err != nil {
		return err
	}
	members, err := numbers("membership_values")
	if err != nil {
		return err
	}
	weights, err := numbers("leaf_weights")
	if err != nil {
		return err
	}
	features, missing := get("nodes_featureids"), get("nodes_missing_value_tracks_true")
	yes, no, yesLeaf, noLeaf := get("nodes_truenodeids"), get("nodes_falsenodeids"), get("nodes_trueleafs"),
		get("nodes_falseleafs")
	for _, l := range [][]int64{yes, no, yesLeaf, noLeaf} {
		if len(l) != len(features) {
			return fmt.Errorf("expected %d elements in each list nodes_*, found %d", len(features), len(l))
		}
	}
	if len(modes) != len(features) || len(splits) != len(features) || len(missing) != 0 &&
		len(missing) != len(features) {
		return fmt.Errorf("expected %d modes and splits as for nodes_featureids, found %d and %d", len(features),
			len(modes), len(splits))
	}
	targetIDs := get("leaf_targetids")
	if len(targetIDs) != len(weights) {
		return fmt.Errorf("expected equal lengths of leaf_targetids and leaf_weights, found %d and %d",
			len(targetIDs), len(weights))
	}
	for i, t := range ops.All(c, targetIDs) {
		if t < 0 || t >= int64(e.Targets) {
			return fmt.Errorf("leaf_targetids: found %d, expected less than %d", t, e.Targets)
		}
		e.Leaves = append(e.Leaves, []Vote{{int(t), weights[i]}})
	}
	to := func(id, leaf int64) (Child, error) {
		switch {
		case leaf != 0 && id >= 0 && id < int64(len(e.Leaves)):
			return Child(^id), nil
		case leaf == 0 && id >= 0 && id < int64(len(features)):
			return Child(id), nil
		}
		return 0, fmt.Errorf("a node leads to %d, which is not listed (leaf: %v)", id, leaf != 0)
	}
	for i, m := range modes {
		c.Step(1)
		c.Step(64)
		b := Branch{Mode: Comparison(m), Split: splits[i], Missing: len(missing) > 0 && missing[i] != 0}
		if b.Yes, err = to(yes[i], yesLeaf[i]); err != nil {
			return err
		}
		if b.No, err = to(no[i], noLeaf[i]); err != nil {
			return err
		}
		switch k := Comparison(m); {
		case k >= LessOrEqual && k < Member:
		case k == Member:
			end := slices.IndexFunc(members, math.IsNaN)
			if end < 0 {
				return fmt.Errorf("membership_values: no set for node %d", i)
			}
			b.Set = map[float64]bool{}
			for _, x := range ops.All(c, members[:end]) {
				c.Step(64)
				b.Set[x] = true
			}
			members = members[end+1:]
		default:
			return fmt.Errorf("nodes_modes: expected 0 to 6, found %v", m)
		}
		if err := e.add(b, features[i]); err != nil {
			return err
		}
	}
	for _, r := range ops.All(c, get("tree_roots")) {
		root, err := to(r, 0)
		if err != nil {
			return fmt.Errorf("tree_roots: %w", err)
		}
		e.Roots = append(e.Roots, root)
	}
	return nil
}
