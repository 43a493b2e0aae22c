package recurrence

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// parallel is a part of a graph in which steps of one axis interact: by running sums, or by slices, pads and
// concatenations along that axis. Associative scans and sums in log space have that form. Its operators have
// derivatives of any order almost everywhere, so an equation that is true for random numbers is true for all.
type parallel struct {
	run     *passes.Context
	axis    int // of time, in its sequences
	steps   ir.Dim
	fixed   func(v *ir.Value) bool
	nodes   []*ir.Node  // the part, and the constants and shapes that it needs, in the order of the graph
	late    []*ir.Value // values of the part, in that order
	leaves  []*ir.Value // values that enter the part
	settled *ir.Value   // one of them that follows from parameters
	sums    int         // the number of its running sums
	moves   int         // number of slices, pads and concatenations along time
	mixes   int         // the number of its products, sums and exponentials
	scaled  int         // the number of its products with constants
	gated   int         // number of products of varying numbers, and exponentials
}

// The limits of a part.
const (
	maxLeaves   = 16
	minParallel = 4 // steps
)

// blend lists, by full name, the operators of a part that are not linear in what varies: products of varying numbers,
// and what sums in log space need.
var blend = map[string]bool{"Mul": true, "Div": true, "Exp": true, "Log": true, "ReduceMax": true,
	"ReduceLogSumExp": true, "Reciprocal": true}

// mixes lists the operators whose results are new numbers. Their count is evidence of a recurrence.
var mixes = map[string]bool{"Add": true, "Sub": true, "Mul": true, "Div": true, "Neg": true, "Sum": true, "Exp": true,
	"Log": true, "CumSum": true, "ReduceSum": true, "ReduceMax": true, "ReduceLogSumExp": true, "Reciprocal": true}

// asParallel returns the inputs of an operator of a part that vary. It returns false for other operators, and if a
// choice or an index varies. Linear operators belong to a part unless they have weights, which mix features.
func asParallel(ix *regions.Index, n *ir.Node) (in []*ir.Value, ok bool) {
	name := n.Op.FullName()
	if blend[name] {
		for i, v := range n.Inputs {
			if v == nil || ix.IsFixed(v) {
				continue
			}
			if i > 0 && name != "Mul" && name != "Div" {
				return nil, false
			}
			in = append(in, v)
		}
	} else if in, ok = ix.Affine(n); !ok || regions.Boundaries[name] || name == "DFT" || n.Op.Domain != "" ||
		len(ops.Linear(n)) != 1 {
		return nil, false
	}
	if slices.ContainsFunc(in, func(v *ir.Value) bool { return !regions.IsReal(v.Elem()) }) ||
		name == "Pad" && n.Attrs.Str("mode", "constant") != "constant" {
		return nil, false
	}
	return in, len(in) > 0
}

// meets reports whether a node joins or selects steps of an axis, or sums over them.
func meets(n *ir.Node, axis int, steps ir.Dim) bool {
	has := func(v *ir.Value) bool { s := v.Shape(); return axis < len(s) && s[axis].Equal(steps) }
	is := func(v *ir.Value, a int64) bool {
		got, err := ops.Axis(a, len(v.Shape()))
		return err == nil && got == axis
	}
	switch n.Op.FullName() {
	case "CumSum":
		a, ok := ops.ConstInts(n.In(1))
		return ok && len(a) == 1 && has(n.In(0)) && is(n.In(0), a[0])
	case "Slice":
		if s, ok := regions.AsSlice(n); ok {
			in := n.In(0).Shape()
			if s.Axis != axis || axis >= len(in) {
				return false
			}
			return s.Step < 0 || !n.Outputs[0].Shape()[axis].Equal(in[axis])
		}
		return false
	case "Gather", "Split":
		return is(n.In(0), n.Attrs.Int("axis", 0))
	case "Concat":
		return is(n.Outputs[0], n.Attrs.Int("axis", 0))
	case "Pad":
		in, out := n.In(0).Shape(), n.Outputs[0].Shape()
		return axis < len(in) && axis < len(out) && !in[axis].Equal(out[axis])
	case "ScatterND", "ScatterElements":
		return has(n.In(0))
	case "Reshape": // into pairs of steps
		out := n.Outputs[0].Shape()
		return axis+1 < len(out) && has(n.In(0)) && out[axis+1].Equal(ir.Const(2)) &&
			out[axis].Mul(ir.Const(2)).Equal(steps)
	}
	return false
}

// key is an axis that may be time, with its size.
type key struct {
	axis  int
	steps ir.Dim
	count int // number of nodes along it
}

// findKeys lists the axes along which running sums, or several slices, are taken.
func findKeys(ix *regions.Index) []key {
	var out []key
	note := func(axis int, steps ir.Dim, weight int) {
		if n, ok := steps.Known(); steps.IsUnknown() || ok && n < minParallel {
			return
		}
		for i := range out {
			if out[i].axis == axis && out[i].steps.Equal(steps) {
				out[i].count += weight
				return
			}
		}
		out = append(out, key{axis, steps, weight})
	}
	for _, n := range ix.G.Nodes {
		if len(n.Outputs) == 0 || ix.IsFixed(n.Outputs[0]) {
			continue
		}
		switch n.Op.FullName() {
		case "CumSum":
			shape := n.In(0).Shape()
			if a, ok := ops.ConstInts(n.In(1)); ok && len(a) == 1 {
				if axis, err := ops.Axis(a[0], len(shape)); err == nil {
					note(axis, shape[axis], ofSteps(n))
				}
			}
		case "Slice":
			if sl, ok := regions.AsSlice(n); ok {
				note(sl.Axis, n.In(0).Shape()[sl.Axis], ofSteps(n))
			}
		}
	}
	out = slices.DeleteFunc(out, func(k key) bool { return k.count < minOfSteps })
	slices.SortStableFunc(out, func(a, b key) int { return b.count - a.count })
	return out
}

// minOfSteps is the minimum sum of ofSteps along the axis of a scan.
const minOfSteps = 2

// ofSteps is the weight of a node as evidence of a parallel scan: a sum over all steps, or a sum of two halves of
// them.
func ofSteps(n *ir.Node) int {
	switch n.Op.FullName() {
	case "CumSum":
		return 2
	case "Slice":
		return 1
	}
	return 0
}

// findParallels lists the parts of a graph along one axis.
func findParallels(ix *regions.Index, k key) []*parallel {
	group := map[*ir.Value]*ir.Value{} // late values, as joined sets
	find := func(v *ir.Value) *ir.Value {
		for group[v] != v {
			group[v] = group[group[v]]
			v = group[v]
		}
		return v
	}
	var late []*ir.Node
	for _, n := range ix.G.Nodes {
		if len(n.Outputs) == 0 || n.Outputs[0] == nil || ix.IsFixed(n.Outputs[0]) {
			continue
		}
		in, ok := asParallel(ix, n)
		if !ok {
			continue
		}
		var before []*ir.Value
		for _, v := range in {
			if group[v] != nil {
				before = append(before, v)
			}
		}
		if len(before) == 0 && !meets(n, k.axis, k.steps) {
			continue
		}
		late = append(late, n)
		for _, o := range n.Outputs {
			if o == nil {
				continue
			}
			group[o] = o
			for _, v := range before {
				group[find(v)] = o
			}
		}
		for _, o := range n.Outputs[1:] {
			if o != nil {
				group[find(o)] = find(n.Outputs[0])
			}
		}
	}
	sets := map[*ir.Value]*parallel{}
	var out []*parallel
	for _, n := range late {
		root := find(n.Outputs[0])
		p := sets[root]
		if p == nil {
			p = &parallel{run: ix.Run, axis: k.axis, steps: k.steps, fixed: ix.IsFixed}
			sets[root] = p
			out = append(out, p)
		}
		p.nodes = append(p.nodes, n)
		for _, o := range n.Outputs {
			if o != nil {
				p.late = append(p.late, o)
			}
		}
		switch in, _ := asParallel(ix, n); n.Op.FullName() {
		case "Mul", "Div":
			if len(in) == 1 {
				p.scaled++
			} else {
				p.gated++
			}
		case "Exp", "ReduceLogSumExp":
			p.gated++
		}
		switch {
		case n.Op.FullName() == "CumSum":
			p.sums++
		case meets(n, k.axis, k.steps):
			p.moves++
		case mixes[n.Op.FullName()]:
			p.mixes++
		}
	}
	out = slices.DeleteFunc(out, func(p *parallel) bool { return !p.plausible() })
	for _, p := range out {
		p.enter(ix, group)
	}
	return out
}

// plausible reports whether a part has enough operators for a recurrence over all its steps.
func (p *parallel) plausible() bool {
	if p.sums > 0 {
		return p.mixes > 0
	}
	n, ok := p.steps.Known()
	rounds := bits.Len64(uint64(n) - 1)
	return ok && p.moves >= rounds && p.mixes >= 2*rounds-1
}

// mayBeSystem reports whether a part has the products of a system with constants.
func (p *parallel) mayBeSystem() bool {
	n, ok := p.steps.Known()
	return ok && p.scaled >= bits.Len64(uint64(n)-1) && p.scaled >= p.gated
}

// enter finds a part's leaves and the constants that it needs.
func (p *parallel) enter(ix *regions.Index, late map[*ir.Value]*ir.Value) {
	inside := map[*ir.Node]bool{}
	for _, n := range p.nodes {
		inside[n] = true
	}
	needed := regions.WalkFrom()
	leaf := map[*ir.Value]bool{}
	for _, n := range p.nodes {
		for _, v := range n.Inputs {
			if v == nil || late[v] != nil {
				continue
			}
			if ix.IsFixed(v) {
				needed.Add(v)
				continue
			}
			for !leaf[v] && v.Def != nil && slices.Contains([]string{"Unsqueeze", "Identity", "Expand"},
				v.Def.Op.FullName()) &&
				!ix.IsFixed(v.Def.In(0)) { // the sequence itself, not the same one with another axis
				inside[v.Def] = true
				needed.Add(v.Def.In(1))
				v = v.Def.In(0)
			}
			if !leaf[v] {
				leaf[v] = true
				p.leaves = append(p.leaves, v)
				if ix.Settled[v] && p.settled == nil {
					p.settled = v
				}
			}
		}
	}
	for v := range needed.Values() {
		if v.Const != nil || v.Def == nil || inside[v.Def] {
			continue
		}
		inside[v.Def] = true
		if !v.Def.Op.OfShapes {
			needed.Add(v.Def.Inputs...)
		}
	}
	p.nodes = regions.InOrder(ix.G, inside)
}

// last returns the last node of a part.
func (p *parallel) last() *ir.Node { return p.late[len(p.late)-1].Def }

// skip returns why a part is skipped, or "".
func (p *parallel) skip() string {
	switch {
	case len(p.nodes) > regions.MaxNodes:
		return fmt.Sprintf("%d operators compute it, more than are tried (%d)", len(p.nodes), regions.MaxNodes)
	case p.settled != nil: // neither a sequence nor a number to compare with
		return fmt.Sprintf("it reads %s, which follows from parameters", p.settled.Name)
	case len(p.leaves) > maxLeaves:
		return fmt.Sprintf("it is computed from %d values, more than are tried (%d)", len(p.leaves), maxLeaves)
	}
	return ""
}
