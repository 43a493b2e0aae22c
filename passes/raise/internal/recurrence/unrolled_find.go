package recurrence

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// minUnrolled is the minimum number of steps of an unrolled recurrence.
const minUnrolled = 4

// leaf is one step of a sequence.
type leaf struct {
	v    *ir.Value // the sequence
	axis int
	kept bool // the step keeps the axis of time, of size 1
	at   int
}

// unrolled is a region of nodes that ends in the concatenated results of all steps.
type unrolled struct {
	run     *passes.Context
	steps   int
	joins   []*ir.Node // Concat nodes with one input per step
	outward []bool     // per join: whether its results are in the opposite order of the steps
	reverse bool       // the recurrence starts at the last step of the sequence
	axis    []int      // per join: the axis of time
	leaves  map[*ir.Value]leaf
	nodes   []*ir.Node // of the region, in the order of the graph
	inside  map[*ir.Node]bool
	key     map[*ir.Value]int // the last step that a value depends on; absent if it depends on none
	late    map[*ir.Node]int  // the step that a node is assigned to
}

// asJoin reads a Concat with one input per step.
func asJoin(n *ir.Node) (axis int, ok bool) {
	if n.Op.FullName() != "Concat" || len(n.Inputs) < minUnrolled {
		return 0, false
	}
	rank := len(n.Outputs[0].Shape())
	axis, err := ops.Axis(n.Attrs.Int("axis", 0), rank)
	if err != nil {
		return 0, false
	}
	for _, v := range n.Inputs {
		if v == nil || len(v.Shape()) != rank || !v.Shape()[axis].Equal(ir.Const(1)) || !v.Elem().IsFloat() {
			return 0, false
		}
	}
	return axis, true
}

// asLeaf reads a value that is one step of a sequence of the given length.
func asLeaf(v *ir.Value, length int) (leaf, bool) {
	n := v.Def
	if n == nil || n.Op.Domain != "" || len(n.Inputs) == 0 || n.In(0) == nil || n.In(0).Const != nil {
		return leaf{}, false
	}
	shape := n.In(0).Shape()
	fits := func(axis int64) (int, bool) {
		a, err := ops.Axis(axis, len(shape))
		return a, err == nil && shape[a].Equal(ir.Const(int64(length)))
	}
	step := func(i int64) (int, bool) {
		if i < 0 {
			i += int64(length)
		}
		return int(i), i >= 0 && i < int64(length)
	}
	switch n.Op.Name {
	case "Gather":
		i, ok := ops.ConstInts(n.In(1))
		a, fit := fits(n.Attrs.Int("axis", 0))
		if !ok || !fit || len(i) != 1 || len(n.In(1).Shape()) > 1 {
			return leaf{}, false
		}
		at, ok := step(i[0])
		return leaf{n.In(0), a, len(n.In(1).Shape()) == 1, at}, ok
	case "Slice":
		p, ok := regions.AsSlice(n)
		if !ok || p.Step != 1 {
			return leaf{}, false
		}
		a, fit := fits(int64(p.Axis))
		first, count := p.Count(int64(length))
		return leaf{n.In(0), a, true, int(first)}, fit && count == 1
	case "Split":
		a, fit := fits(n.Attrs.Int("axis", 0))
		if !fit || len(n.Outputs) != length || !v.Shape()[a].Equal(ir.Const(1)) {
			return leaf{}, false
		}
		return leaf{n.In(0), a, true, slices.Index(n.Outputs, v)}, true
	}
	return leaf{}, false
}

// findUnrolled collects the region that leads to a join, and the joins with the same number of steps that share it. It
// returns nil if the results do not depend on the steps successively.
func findUnrolled(run *passes.Context, g *ir.Graph, join *ir.Node, done map[*ir.Node]bool) *unrolled {
	axis, ok := asJoin(join)
	if !ok || done[join] || run.Search().Spend(regions.WorkOfWalk(g)) != nil {
		return nil
	}
	u := &unrolled{run: run, steps: len(join.Inputs), leaves: map[*ir.Value]leaf{}, inside: map[*ir.Node]bool{},
		key: map[*ir.Value]int{}, late: map[*ir.Node]int{}}
	u.joins, u.axis = []*ir.Node{join}, []int{axis}
	u.collect(join)
	for _, n := range g.Nodes {
		a, ok := asJoin(n)
		if !ok || n == join || done[n] || len(n.Inputs) != u.steps ||
			!slices.ContainsFunc(n.Inputs, func(v *ir.Value) bool { return v.Def != nil && u.touches(v.Def) }) {
			continue
		}
		u.joins, u.axis = append(u.joins, n), append(u.axis, a)
		u.collect(n)
	}
	u.nodes = regions.InOrder(g, u.inside)
	for _, reverse := range []bool{false, true} {
		u.reverse = reverse
		u.dependencies()
		if u.ordered() {
			return u
		}
	}
	return nil
}

// touches reports whether a node or a direct input of it is in the region.
func (u *unrolled) touches(n *ir.Node) bool {
	return u.inside[n] || slices.ContainsFunc(n.Inputs, func(v *ir.Value) bool { return v != nil && u.inside[v.Def] })
}

// collect adds the nodes from which a join is computed, up to steps of sequences.
func (u *unrolled) collect(join *ir.Node) {
	walk := regions.WalkFrom(join.Inputs...)
	for v := range walk.Values() {
		if v.Const != nil || v.Def == nil {
			continue
		}
		if l, ok := asLeaf(v, u.steps); ok {
			u.leaves[v] = l
		} else if !u.inside[v.Def] {
			u.inside[v.Def] = true
			walk.Add(v.Def.Inputs...)
		}
	}
}

// step returns the position of a sequence's step in the order in which the recurrence runs.
func (u *unrolled) step(at int) int {
	if u.reverse {
		return u.steps - 1 - at
	}
	return at
}

// dependencies finds the last step that each value depends on.
func (u *unrolled) dependencies() {
	clear(u.key)
	for v, l := range u.leaves {
		u.key[v] = u.step(l.at)
	}
	for _, n := range u.nodes {
		last := -1
		for _, v := range n.Inputs {
			if k, ok := u.key[v]; ok && v != nil {
				last = max(last, k)
			}
		}
		if last < 0 {
			continue
		}
		for _, v := range n.Outputs {
			if _, isLeaf := u.leaves[v]; v != nil && !isLeaf {
				u.key[v] = last
			}
		}
	}
}

// ordered reports whether each join holds the results of the steps in order or in the opposite order.
func (u *unrolled) ordered() bool {
	u.outward = nil
	for _, j := range u.joins {
		along, against := true, true
		for i, v := range j.Inputs {
			k, ok := u.key[v]
			along = along && ok && k == i
			against = against && ok && k == u.steps-1-i
		}
		if !along && !against {
			return false
		}
		u.outward = append(u.outward, against)
	}
	return true
}

// result returns the value that step k adds to join j.
func (u *unrolled) result(j, k int) *ir.Value {
	if u.outward[j] {
		k = u.steps - 1 - k
	}
	return u.joins[j].Inputs[k]
}

// assign assigns each node to the last step that it can be computed in. A value that is computed from a state for the
// next step belongs to the next step, so that only states pass from one step to the next.
func (u *unrolled) assign() {
	clear(u.late)
	lower := func(v *ir.Value, k int) {
		if v == nil || v.Def == nil || !u.inside[v.Def] {
			return
		}
		if _, isLeaf := u.leaves[v]; isLeaf {
			return
		}
		if old, ok := u.late[v.Def]; !ok || k < old {
			u.late[v.Def] = k
		}
	}
	for j := range u.joins {
		for k := range u.steps {
			lower(u.result(j, k), k)
		}
	}
	for _, n := range slices.Backward(u.nodes) {
		for _, v := range n.Inputs {
			lower(v, u.late[n])
		}
	}
}

// crossing lists, for each step, the values of earlier steps that its nodes and results read, in the order of the
// graph. The error names a value that is not of the previous step.
func (u *unrolled) crossing() (states [][]*ir.Value, err error) {
	states = make([][]*ir.Value, u.steps)
	seen := make([]map[*ir.Value]bool, u.steps)
	for k := range seen {
		seen[k] = map[*ir.Value]bool{}
	}
	read := func(v *ir.Value, k int) {
		key, varies := u.key[v]
		if v == nil || !varies {
			return
		}
		from := key
		if _, isLeaf := u.leaves[v]; !isLeaf {
			from = u.late[v.Def]
		}
		if from < k && !seen[k][v] {
			seen[k][v] = true
			states[k] = append(states[k], v)
			if err == nil && from != k-1 {
				err = fmt.Errorf("step %d reads %s of step %d, expected values of the previous step only", k, v.Name,
					from)
			}
		}
	}
	for _, n := range u.nodes {
		for _, v := range n.Inputs {
			read(v, u.late[n])
		}
	}
	for j := range u.joins {
		for k := range u.steps {
			read(u.result(j, k), k)
		}
	}
	position := map[*ir.Node]int{}
	for i, n := range u.nodes {
		position[n] = i
	}
	for _, s := range states {
		slices.SortStableFunc(s, func(a, b *ir.Value) int { return position[a.Def] - position[b.Def] })
	}
	return states, err
}
