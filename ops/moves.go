package ops

import "github.com/essmc/essmc/ir"

// Moves returns the pieces of inputs that the outputs of a node consist of; ok is false if its operator does not
// only move elements, or they are not known. The arguments of Op.Moves come from files, so a panic there means
// false, too.
func Moves(n *ir.Node) (pieces []ir.Piece, ok bool) {
	if n.Op.Moves == nil {
		return nil, false
	}
	for _, v := range n.Inputs {
		if n.Step(1); v != nil {
			if t, ok := ir.AsTensor(v.Type); !ok || t.NoRank {
				return nil, false
			}
		}
	}
	defer func() {
		if v := recover(); v != nil {
			ir.PassOn(v)
			pieces, ok = nil, false
		}
	}()
	return n.Op.Moves(n)
}

// Sums returns the axis along which a node sums up its first input; ok is false if its operator does something
// else, or the axis is not known.
func Sums(n *ir.Node) (sum ir.RunningSum, ok bool) {
	if n.Op.Sums == nil {
		return sum, false
	}
	defer func() {
		if v := recover(); v != nil {
			ir.PassOn(v)
			sum, ok = ir.RunningSum{}, false
		}
	}()
	return n.Op.Sums(n)
}
