package ml

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// forest is a list of decision trees, the common form of all versions of the tree operators.
type forest struct {
	branches []branch
	leaves   [][]vote
	roots    []child
	features int // one more than the largest feature that a branch reads
}

// child is a branch or, if it is negative, the leaf ^child.
type child int

type branch struct {
	feature int
	test    func(x float64) bool
	missing bool // whether NaN passes
	yes, no child
}

// vote is the weight that a leaf adds to a target or class.
type vote struct {
	target int
	weight float64
}

// tests returns the comparison of a branch. NaN passes if the comparison is true for it (as for unequal), or if the
// branch's missing is set.
var tests = map[string]func(split float64) func(float64) bool{
	"BRANCH_LEQ": func(s float64) func(float64) bool { return func(x float64) bool { return x <= s } },
	"BRANCH_LT":  func(s float64) func(float64) bool { return func(x float64) bool { return x < s } },
	"BRANCH_GTE": func(s float64) func(float64) bool { return func(x float64) bool { return x >= s } },
	"BRANCH_GT":  func(s float64) func(float64) bool { return func(x float64) bool { return x > s } },
	"BRANCH_EQ":  func(s float64) func(float64) bool { return func(x float64) bool { return x == s } },
	"BRANCH_NEQ": func(s float64) func(float64) bool { return func(x float64) bool { return x != s } },
}

// votes returns the votes of the leaves that a sample reaches, one leaf per tree.
func (f *forest) votes(c *ir.EvalCtx, x []float64) ([][]vote, error) {
	if f.features > len(x) {
		return nil, fmt.Errorf("the trees read feature %d of samples with %d features", f.features-1, len(x))
	}
	out := ops.Make[[]vote](c, len(f.roots))
	for i, at := range f.roots {
		c.Step(1)
		for steps := 0; at >= 0; steps++ {
			c.Step(4)
			if steps > len(f.branches) {
				return nil, fmt.Errorf("tree %d has a cycle", i)
			}
			b := &f.branches[at]
			v := x[b.feature]
			if b.test(v) || b.missing && math.IsNaN(v) {
				at = b.yes
			} else {
				at = b.no
			}
		}
		out[i] = f.leaves[^at]
	}
	return out, nil
}

// add adds a branch to the forest after checking its feature.
func (f *forest) add(b branch, feature int64) error {
	if feature < 0 || feature > math.MaxInt32 {
		return fmt.Errorf("branch %d: expected a feature from 0 to 2^31-1, found %d", len(f.branches), feature)
	}
	b.feature = int(feature)
	f.features = max(f.features, b.feature+1)
	f.branches = append(f.branches, b)
	return nil
}

// floatsOrTensor reads an attribute that is a list of floats or a tensor.
func floatsOrTensor(c *ir.EvalCtx, n *ir.Node, name string) ([]float64, error) {
	v, t := n.Attrs.Floats(name, nil), n.Attrs.Tensor(name+"_as_tensor")
	if t == nil {
		return v, nil
	}
	if v != nil {
		return nil, fmt.Errorf("both %s and %s_as_tensor are given", name, name)
	}
	return ops.Float64s(c, t)
}

type nodeID struct{ tree, node int64 }

// flatForest reads the nodes_* attributes of the classifier and the regressor, and the votes of their leaves, whose
// attributes start with prefix ("class" or "target"). The first node listed of a tree is its root.
func flatForest(ec *ir.EvalCtx, n *ir.Node, prefix string, targets int) (*forest, error) {
	get := func(name string) []int64 { return n.Attrs.Ints(name, nil) }
	trees, ids, features := get("nodes_treeids"), get("nodes_nodeids"), get("nodes_featureids")
	yes, no, missing := get("nodes_truenodeids"), get("nodes_falsenodeids"), get("nodes_missing_value_tracks_true")
	modes := n.Attrs.Strs("nodes_modes", nil)
	splits, err := floatsOrTensor(ec, n, "nodes_values")
	if err != nil {
		return nil, err
	}
	for name, k := range map[string]int{"nodes_nodeids": len(ids), "nodes_featureids": len(features),
		"nodes_truenodeids": len(yes), "nodes_falsenodeids": len(no), "nodes_modes": len(modes),
		"nodes_values": len(splits)} {
		if k != len(trees) {
			return nil, fmt.Errorf("%s: expected %d elements as for nodes_treeids, found %d", name, len(trees), k)
		}
	}
	if len(missing) != 0 && len(missing) != len(trees) {
		return nil, fmt.Errorf("nodes_missing_value_tracks_true: expected %d elements as for nodes_treeids, found %d",
			len(trees), len(missing))
	}
	f := &forest{}
	at := map[nodeID]child{}
	for i, mode := range modes {
		ec.Step(1)
		id := nodeID{trees[i], ids[i]}
		if _, twice := at[id]; twice {
			return nil, fmt.Errorf("node %d of tree %d is listed twice", id.node, id.tree)
		}
		if mode == "LEAF" {
			f.leaves = append(f.leaves, nil)
			at[id] = child(^(len(f.leaves) - 1))
			continue
		}
		test, ok := tests[mode]
		if !ok {
			return nil, fmt.Errorf("nodes_modes: unknown mode %q", mode)
		}
		at[id] = child(len(f.branches))
		if err := f.add(branch{test: test(splits[i]), missing: len(missing) > 0 && missing[i] != 0},
			features[i]); err != nil {
			return nil, err
		}
	}
	rooted := map[int64]bool{}
	for i := range len(modes) {
		ec.Step(1)
		k := at[nodeID{trees[i], ids[i]}]
		if !rooted[trees[i]] {
			rooted[trees[i]] = true
			f.roots = append(f.roots, k)
		}
		if k < 0 {
			continue
		}
		for _, c := range []struct {
			to *child
			id int64
		}{{&f.branches[k].yes, yes[i]}, {&f.branches[k].no, no[i]}} {
			to, ok := at[nodeID{trees[i], c.id}]
			if !ok {
				return nil, fmt.Errorf("node %d of tree %d leads to node %d, which is not listed", ids[i], trees[i],
					c.id)
			}
			*c.to = to
		}
	}
	return f, f.addVotes(ec, n, prefix, targets, at)
}

func (f *forest) addVotes(c *ir.EvalCtx, n *ir.Node, prefix string, targets int, at map[nodeID]child) error {
	trees, ids, to := n.Attrs.Ints(prefix+"_treeids", nil), n.Attrs.Ints(prefix+"_nodeids", nil),
		n.Attrs.Ints(prefix+"_ids", nil)
	weights, err := floatsOrTensor(c, n, prefix+"_weights")
	if err != nil {
		return err
	}
	if len(ids) != len(trees) || len(to) != len(trees) || len(weights) != len(trees) {
		return fmt.Errorf("%s_treeids, _nodeids, _ids and _weights: expected equal lengths, found %d, %d, %d and %d",
			prefix, len(trees), len(ids), len(to), len(weights))
	}
	for i, t := range trees {
		c.Step(1)
		c.Step(64)
		leaf, ok := at[nodeID{t, ids[i]}]
		if !ok {
			return fmt.Errorf("%s_nodeids: node %d of tree %d is not listed", prefix, ids[i], t)
		}
		if to[i] < 0 || to[i] >= int64(targets) {
			return fmt.Errorf("%s_ids: found %d, expected less than %d", prefix, to[i], targets)
		}
		if leaf < 0 { // votes of branches do not count
			f.leaves[^leaf] = append(f.leaves[^leaf], vote{int(to[i]), weights[i]})
		}
	}
	return nil
}

// aggregate combines the votes for each target. none marks the targets without votes.
func aggregate(c *ir.EvalCtx, how string, votes [][]vote, targets int) (sums []float64, none []bool) {
	sums, none = ops.Make[float64](c, targets), ops.Make[bool](c, targets)
	for i := range ops.Each(c, len(none)) {
		none[i] = true
	}
	for _, leaf := range votes {
		c.Step(1)
		for _, v := range ops.All(c, leaf) {
			s := &sums[v.target]
			switch {
			case none[v.target] || how == "MIN" && v.weight < *s || how == "MAX" && v.weight > *s:
				*s = v.weight
			case how == "SUM" || how == "AVERAGE":
				*s += v.weight
			}
			none[v.target] = false
		}
	}
	if how == "AVERAGE" {
		for i := range ops.Each(c, len(sums)) {
			sums[i] /= float64(len(votes))
		}
	}
	return sums, none
}

// flatAttrs returns the attributes that classifier and regressor share. Tensors are allowed since version 3.
func flatAttrs(since int, extra ...ir.AttrSpec) []ir.AttrSpec {
	out := []ir.AttrSpec{
		intsAttr("nodes_treeids", "tree of each node"), intsAttr("nodes_nodeids", "number of each node in its tree"),
		intsAttr("nodes_featureids", "feature that each node reads"),
		stringsAttr("nodes_modes", "BRANCH_LEQ, _LT, _GTE, _GT, _EQ, _NEQ or LEAF"),
		floatsAttr("nodes_values", "threshold of each node"), floatsAttr("nodes_hitrates", "not used"),
		intsAttr("nodes_truenodeids", "next node if the comparison is true"),
		intsAttr("nodes_falsenodeids", "next node if the comparison is false"),
		intsAttr("nodes_missing_value_tracks_true", "whether the comparison is true for NaN"),
		floatsAttr("base_values", "added to the sums of votes"), postTransform,
	}
	if since >= 3 {
		for _, name := range []string{"nodes_values", "nodes_hitrates", "base_values"} {
			out = append(out, tensorAttr(name+"_as_tensor", "the same in double precision"))
		}
	}
	return append(out, extra...)
}

// eachSample calls each with the votes on every sample of input 0.
func (f *forest) eachSample(c *ir.EvalCtx, in []tensor.Datum, each func(votes [][]vote) error) error {
	v, rows, cols, err := matrix(c, in)
	if err != nil {
		return err
	}
	for r := range ops.Each(c, rows) {
		votes, err := f.votes(c, v[r*cols:(r+1)*cols])
		if err != nil {
			return err
		}
		if err := each(votes); err != nil {
			return err
		}
	}
	return nil
}

// limit returns an error if k is no valid number of targets or classes.
func limit(name string, k int64) error {
	if k < 1 || k > ops.MaxElems {
		return fmt.Errorf("%s: expected 1 or more, found %d", name, k)
	}
	return nil
}
