package ml

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Ensemble is the model of a tree operator as its attributes state it: the common form of all versions. Evaluation goes
// through it branch by branch; backends may lay it out as they like.
type Ensemble struct {
	Branches []Branch
	Leaves   [][]Vote
	Roots    []Child // of each tree, in the order in which votes are combined
	Features int     // one more than the largest feature that a branch reads
	Targets  int     // targets, or classes, that votes are for
	Combine  Combination
	Scores   int // numbers that Finish gives for a sample

	labels labels // of a classifier
	finish func(c *ir.EvalCtx, sums []float64, none []bool) (class int, scores []float64)
}

// Child is a branch or, if it is negative, the leaf ^Child.
type Child int

// Branch leads to Yes if feature Feature of a sample compares with Split according to Mode, or is an element of Set,
// or is NaN and Missing is set; to No otherwise.
type Branch struct {
	Feature int
	Mode    Comparison
	Split   float64
	Set     map[float64]bool // of Member
	Missing bool
	Yes, No Child
}

// Vote is the weight that a leaf adds to a target or class.
type Vote struct {
	Target int
	Weight float64
}

// Comparison is the comparison of a branch.
type Comparison int

// In the order of the attribute nodes_modes of version 5.
const (
	LessOrEqual Comparison = iota
	Less
	GreaterOrEqual
	Greater
	Equal
	Unequal
	Member
)

// comparisons are the comparisons of the versions before 5.
var comparisons = map[string]Comparison{"BRANCH_LEQ": LessOrEqual, "BRANCH_LT": Less, "BRANCH_GTE": GreaterOrEqual,
	"BRANCH_GT": Greater, "BRANCH_EQ": Equal, "BRANCH_NEQ": Unequal}

// test reports whether x passes, which NaN does if the comparison is true for it (as for unequal), or if Missing is
// set.
func (b *Branch) test(x float64) bool {
	if b.Missing && math.IsNaN(x) {
		return true
	}
	switch b.Mode {
	case LessOrEqual:
		return x <= b.Split
	case Less:
		return x < b.Split
	case GreaterOrEqual:
		return x >= b.Split
	case Greater:
		return x > b.Split
	case Equal:
		return x == b.Split
	case Unequal:
		return x != b.Split
	}
	return b.Set[x]
}

// Combination is the way in which the votes for a target become one number.
type Combination int

const (
	Sum Combination = iota
	Average
	Min
	Max
)

// combinations are the values of the attribute aggregate_function before version 5.
var combinations = map[string]Combination{"SUM": Sum, "AVERAGE": Average, "MIN": Min, "MAX": Max}

// EnsembleOf reads the model of a node of a tree operator in its newest version. c ends the reading.
func EnsembleOf(c *ir.EvalCtx, n *ir.Node) (*Ensemble, error) {
	switch n.Op {
	case TreeEnsemble:
		return ensemble(c, n)
	case TreeEnsembleClassifier:
		return classifier(c, n)
	case TreeEnsembleRegressor:
		return regressor(c, n)
	}
	return nil, fmt.Errorf("%s is not an operator of trees", n.Op.FullName())
}

// Finish turns the combined votes for each target into the class and the scores of a sample. none marks the targets
// without votes, whose sums are 0. The scores are stored in sums if its capacity suffices.
func (e *Ensemble) Finish(c *ir.EvalCtx, sums []float64, none []bool) (class int, scores []float64) {
	return e.finish(c, sums, none)
}

// Labels returns the labels of classes that Finish gives, as text or as integers.
func (e *Ensemble) Labels(c *ir.EvalCtx, classes []int64) *tensor.Tensor {
	return e.labels.picked(c, classes)
}

// Label returns the label of a class that Finish gives, of a classifier whose labels are integers.
func (e *Ensemble) Label(class int) int64 {
	return e.labels.label(class)
}

// votes returns the votes of the leaves that a sample reaches, one leaf per tree.
func (e *Ensemble) votes(c *ir.EvalCtx, x []float64) ([][]Vote, error) {
	if e.Features > len(x) {
		return nil, fmt.Errorf("the trees read feature %d of samples with %d features", e.Features-1, len(x))
	}
	out := ops.Make[[]Vote](c, len(e.Roots))
	for i, at := range e.Roots {
		c.Step(1)
		for steps := 0; at >= 0; steps++ {
			c.Step(4)
			if steps > len(e.Branches) {
				return nil, fmt.Errorf("tree %d has a cycle", i)
			}
			b := &e.Branches[at]
			if b.test(x[b.Feature]) {
				at = b.Yes
			} else {
				at = b.No
			}
		}
		out[i] = e.Leaves[^at]
	}
	return out, nil
}

// add adds a branch after checking its feature.
func (e *Ensemble) add(b Branch, feature int64) error {
	if feature < 0 || feature > math.MaxInt32 {
		return fmt.Errorf("branch %d: expected a feature from 0 to 2^31-1, found %d", len(e.Branches), feature)
	}
	b.Feature = int(feature)
	e.Features = max(e.Features, b.Feature+1)
	e.Branches = append(e.Branches, b)
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

// listing finds the nodes of a forest. Most files list the nodes of a tree one after the other, from number 0 on: such
// a node is found by its place, without a map of all.
type listing struct {
	trees, ids []int64
	first      map[int64]int // of each tree, the place of the node that is listed first
	to         []Child       // by place
	others     map[nodeID]int
	tree       int64 // that start is the first place of
	start      int
}

func newListing(c *ir.EvalCtx, trees, ids []int64) (*listing, error) {
	l := &listing{trees: trees, ids: ids, first: map[int64]int{}, to: ops.Make[Child](c, len(trees)),
		others: map[nodeID]int{}, start: -1}
	for i, t := range trees {
		c.Step(1)
		if i == 0 || t != trees[i-1] {
			if _, ok := l.first[t]; !ok {
				l.first[t] = i
			}
		}
	}
	for i := range trees {
		c.Step(1)
		id := nodeID{trees[i], ids[i]}
		switch at, ok := l.place(id); {
		case ok && at != i:
			return nil, fmt.Errorf("node %d of tree %d is listed twice", id.node, id.tree)
		case !ok:
			l.others[id] = i
		}
	}
	return l, nil
}

// place returns where a node is listed.
func (l *listing) place(id nodeID) (at int, ok bool) {
	if l.start < 0 || l.tree != id.tree {
		start, ok := l.first[id.tree]
		if !ok {
			return 0, false
		}
		l.tree, l.start = id.tree, start
	}
	if id.node >= 0 && id.node < int64(len(l.trees)-l.start) {
		if at = l.start + int(id.node); l.trees[at] == id.tree && l.ids[at] == id.node {
			return at, true
		}
	}
	at, ok = l.others[id]
	return at, ok
}

// find returns a node.
func (l *listing) find(tree, node int64) (Child, bool) {
	at, ok := l.place(nodeID{tree, node})
	if !ok {
		return 0, false
	}
	return l.to[at], true
}

// flatForest reads the nodes_* attributes of the classifier and the regressor, and the votes of their leaves, whose
// attributes start with prefix ("class" or "target"). The first node listed of a tree is its root.
func flatForest(ec *ir.EvalCtx, n *ir.Node, prefix string, targets int) (*Ensemble, error) {
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
	e := &Ensemble{Targets: targets}
	at, err := newListing(ec, trees, ids)
	if err != nil {
		return nil, err
	}
	for i, mode := range modes {
		ec.Step(1)
		if mode == "LEAF" {
			e.Leaves = append(e.Leaves, nil)
			at.to[i] = Child(^(len(e.Leaves) - 1))
			continue
		}
		m, ok := comparisons[mode]
		if !ok {
			return nil, fmt.Errorf("nodes_modes: unknown mode %q", mode)
		}
		at.to[i] = Child(len(e.Branches))
		if err := e.add(Branch{Mode: m, Split: splits[i], Missing: len(missing) > 0 && missing[i] != 0},
			features[i]); err != nil {
			return nil, err
		}
	}
	for i := range len(modes) {
		ec.Step(1)
		k := at.to[i]
		if (i == 0 || trees[i] != trees[i-1]) && at.first[trees[i]] == i {
			e.Roots = append(e.Roots, k)
		}
		if k < 0 {
			continue
		}
		for _, c := range []struct {
			to *Child
			id int64
		}{{&e.Branches[k].Yes, yes[i]}, {&e.Branches[k].No, no[i]}} {
			to, ok := at.find(trees[i], c.id)
			if !ok {
				return nil, fmt.Errorf("node %d of tree %d leads to node %d, which is not listed", ids[i], trees[i],
					c.id)
			}
			*c.to = to
		}
	}
	return e, e.addVotes(ec, n, prefix, targets, at)
}

func (e *Ensemble) addVotes(c *ir.EvalCtx, n *ir.Node, prefix string, targets int, at *listing) error {
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
		leaf, ok := at.find(t, ids[i])
		if !ok {
			return fmt.Errorf("%s_nodeids: node %d of tree %d is not listed", prefix, ids[i], t)
		}
		if to[i] < 0 || to[i] >= int64(targets) {
			return fmt.Errorf("%s_ids: found %d, expected less than %d", prefix, to[i], targets)
		}
		if leaf < 0 { // votes of branches do not count
			e.Leaves[^leaf] = append(e.Leaves[^leaf], Vote{int(to[i]), weights[i]})
		}
	}
	return nil
}

// combine combines the votes for each target. none marks the targets without votes.
func (e *Ensemble) combine(c *ir.EvalCtx, votes [][]Vote) (sums []float64, none []bool) {
	sums, none = ops.Make[float64](c, e.Targets), ops.Make[bool](c, e.Targets)
	for i := range ops.Each(c, len(none)) {
		none[i] = true
	}
	for _, leaf := range votes {
		c.Step(1)
		for _, v := range ops.All(c, leaf) {
			s := &sums[v.Target]
			switch {
			case none[v.Target] || e.Combine == Min && v.Weight < *s || e.Combine == Max && v.Weight > *s:
				*s = v.Weight
			case e.Combine == Sum || e.Combine == Average:
				*s += v.Weight
			}
			none[v.Target] = false
		}
	}
	if e.Combine == Average {
		for i := range ops.Each(c, len(sums)) {
			sums[i] /= float64(len(votes))
		}
	}
	return sums, none
}

// flatAttrs returns the attributes that classifier and regressor share.
func flatAttrs(extra ...ir.AttrSpec) []ir.AttrSpec {
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
	for _, name := range []string{"nodes_values", "nodes_hitrates", "base_values"} {
		out = append(out, tensorAttr(name+"_as_tensor", "the same in double precision"))
	}
	return append(out, extra...)
}

// eachSample calls each with the class and the scores of every sample of input 0.
func (e *Ensemble) eachSample(c *ir.EvalCtx, in []tensor.Datum, each func(class int, scores []float64)) error {
	v, rows, cols, err := matrix(c, in)
	if err != nil {
		return err
	}
	for r := range ops.Each(c, rows) {
		votes, err := e.votes(c, v[r*cols:(r+1)*cols])
		if err != nil {
			return err
		}
		if _, err := ops.Elems([]int{r + 1, e.Targets}); err != nil {
			return err
		}
		sums, none := e.combine(c, votes)
		each(e.finish(c, sums, none))
	}
	return nil
}

// limit returns an error if k is not a valid number of targets or classes.
func limit(name string, k int64) error {
	if k < 1 || k > ops.MaxElems {
		return fmt.Errorf("%s: expected 1 or more, found %d", name, k)
	}
	return nil
}
