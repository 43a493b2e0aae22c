package ops

import (
	"math/bits"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
)

// Linear returns the sets of inputs in which a node is jointly linear while the others are fixed (see ir.Op.Linear). It
// leaves out absent inputs, and sets without any. The arguments of Op.Linear come from files, so a panic there means
// that nothing is known.
func Linear(n *ir.Node) (sets [][]int) {
	if n.Op.Linear == nil {
		return nil
	}
	defer func() {
		if recover() != nil {
			sets = nil
		}
	}()
	for _, set := range n.Op.Linear(n) {
		set = slices.DeleteFunc(slices.Clone(set), func(i int) bool { return n.In(i) == nil })
		if len(set) > 0 {
			sets = append(sets, set)
		}
	}
	return sets
}

// LinearIn returns Op.Linear for an operator that is linear in the same sets for all attributes.
func LinearIn(sets ...[]int) func(*ir.Node) [][]int { return func(*ir.Node) [][]int { return sets } }

// LinearFirst and LinearEach are Op.Linear of operators that are linear in their first input, and in each one of two.
var (
	LinearFirst = LinearIn([]int{0})
	LinearEach  = LinearIn([]int{0}, []int{1})
)

// LinearAll is Op.Linear of operators that are linear in all their inputs together.
func LinearAll(n *ir.Node) [][]int {
	all := make([]int, len(n.Inputs))
	for i := range all {
		all[i] = i
	}
	return [][]int{all}
}

// linearElement is Op.Linear of operators with an expression, from which it follows.
func linearElement(n *ir.Node) [][]int {
	e := elementOf(n, len(n.Inputs), func(i int) bool { return n.In(i) != nil })
	if !e.Valid() {
		return nil
	}
	return scalar.Linear(e)
}

// maxLinear is the number of inputs up to which linearBody tries all sets of them. Of more it tries small sets, and
// all.
const (
	maxLinear   = 6
	smallLinear = 2
)

// linearBody is Op.Linear of operators that are defined by a body: it follows from the operators in the body.
func linearBody(n *ir.Node) [][]int {
	nodes, outs, err := bodyOf(n)
	if err != nil {
		return nil
	}
	var all []int
	for i, v := range n.Inputs {
		if v != nil {
			if t, ok := ir.AsTensor(v.Type); ok && t.Elem.IsFloat() {
				all = append(all, i)
			}
		}
	}
	if len(all) > 16 {
		return nil
	}
	var sets [][]int
	for size := len(all); size > 0; size-- {
		if len(all) > maxLinear && size > smallLinear && size < len(all) {
			continue
		}
		for mask := range uint(1) << len(all) {
			if bits.OnesCount(mask) != size {
				continue
			}
			var set []int
			for k, i := range all {
				if mask>>k&1 != 0 {
					set = append(set, i)
				}
			}
			if !slices.ContainsFunc(sets, func(s []int) bool { return covers(s, set) }) &&
				linearThrough(n, set, nodes, outs) {
				sets = append(sets, set)
			}
		}
	}
	slices.SortFunc(sets, slices.Compare)
	return sets
}

// covers reports whether set has all indices of part.
func covers(set, part []int) bool {
	return !slices.ContainsFunc(part, func(i int) bool { return !slices.Contains(set, i) })
}

// linearThrough reports whether the outputs of a body are linear in a set of the inputs of n, or do not depend on it.
func linearThrough(n *ir.Node, set []int, nodes []*ir.Node, outs []*ir.Value) bool {
	linear, zero := map[*ir.Value]bool{}, map[*ir.Value]bool{}
	for _, i := range set {
		linear[n.Inputs[i]] = true
	}
	used := map[*ir.Value]bool{} // each input of the set must have an effect
	for _, m := range nodes {
		if m.Op.OfShapes {
			continue
		}
		var varying []int
		for i, v := range m.Inputs {
			if v != nil && linear[v] {
				varying = append(varying, i)
				used[v] = true
			}
		}
		isZero := func(i int) bool { v := m.In(i); return zero[v] || v != nil && isZeros(v) }
		fits := func(s []int) bool {
			return covers(s, varying) && !slices.ContainsFunc(s,
				func(i int) bool { return !linear[m.In(i)] && !isZero(i) })
		}
		sets := Linear(m)
		switch {
		case len(varying) == 0:
			if slices.ContainsFunc(sets, func(s []int) bool {
				return !slices.ContainsFunc(s, func(i int) bool { return !isZero(i) })
			}) {
				markFloats(zero, m.Outputs)
			}
		case !slices.ContainsFunc(sets, fits):
			return false
		default:
			markFloats(linear, m.Outputs) // others do not depend on the set
		}
	}
	some := false
	for _, v := range outs {
		if v == nil {
			continue
		}
		some = some || linear[v]
		if slices.Contains(n.Inputs, v) {
			used[v] = true
		}
	}
	return some && !slices.ContainsFunc(set, func(i int) bool { return !used[n.Inputs[i]] })
}

func markFloats(m map[*ir.Value]bool, values []*ir.Value) {
	for _, v := range values {
		if v == nil {
			continue
		}
		if t, ok := v.TensorType(); !ok || t.Elem.IsFloat() {
			m[v] = true
		}
	}
}

// isZeros reports whether v is a small constant of zeros.
func isZeros(v *ir.Value) bool {
	if v.Const == nil || v.Const.Len() > 64 || !v.Const.DType().IsFloat() {
		return false
	}
	x, err := v.Const.Float64s()
	return err == nil && !slices.ContainsFunc(x, func(k float64) bool { return k != 0 })
}
