package regions

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// LinearIn reports whether a node is linear in its given inputs together, while the others are fixed. So it may be
// affine: fixed inputs of the same set, such as a bias, only add something.
func LinearIn(n *ir.Node, inputs []int) bool {
	return slices.ContainsFunc(ops.Linear(n), func(set []int) bool {
		return !slices.ContainsFunc(inputs, func(i int) bool { return !slices.Contains(set, i) })
	})
}

// AffineIn returns the inputs of a node that vary. ok is false if there are none, or the node is not affine in them.
func AffineIn(n *ir.Node, varies func(v *ir.Value) bool) (in []*ir.Value, ok bool) {
	var at []int
	for i, v := range n.Inputs {
		if v != nil && varies(v) {
			in, at = append(in, v), append(at, i)
		}
	}
	return in, len(in) > 0 && LinearIn(n, at)
}
