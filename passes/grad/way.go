package grad

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// Way is how the gradient of a node comes about.
type Way string

// The ways, in the order in which they are preferred.
const (
	Stated    Way = "stated"
	ByElement Way = "expression"
	ByMoves   Way = "moves"
	ByBody    Way = "body"
)

// Unstated is the reason why an operator has no gradient that states none. None of essmc's operators has it.
const Unstated = "neither a gradient nor a body is stated"

// WayOf returns how the gradient of a node comes about. The error, an *ops.NoGradientError, names the node and the
// reason why there is none.
func WayOf(n *ir.Node) (Way, error) {
	fail := func(why string) (Way, error) {
		return "", fmt.Errorf("node %v: operator %s %w", n, n.Op.FullName(), &ops.NoGradientError{Why: why})
	}
	if n.Op.NoGradient != "" {
		return fail("it " + n.Op.NoGradient)
	}
	for _, list := range [][]*ir.Value{n.Inputs, n.Outputs} {
		for _, v := range list {
			if v == nil {
				continue
			}
			if _, ok := v.Type.(*ir.TensorType); !ok && hasFloats(v.Type) {
				return fail("it has sequences or optionals among its inputs or outputs")
			}
		}
	}
	if n.Op.Gradient != nil {
		return Stated, nil
	}
	if _, ok := ops.Element(n); ok {
		return ByElement, nil
	}
	if _, ok := ops.Moves(n); ok {
		return ByMoves, nil
	}
	if n.Op.Body != nil || n.Op.GradientBody != nil {
		return ByBody, nil
	}
	return fail(Unstated)
}
