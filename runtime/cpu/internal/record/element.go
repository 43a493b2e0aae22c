package record

import (
	"slices"

	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// Elementwise holds the kernels of an elementwise step on float32. All of them follow from the expression of the step,
// and steps with the same expression share them.
type Elementwise struct {
	// Row makes the row kernel, for the step or for a copy of it with constants in another layout.
	Row func(s *lowering.Step) RowMaker
	// Tensor makes the tensor kernel, for operands that do not broadcast as rows; nil if there is none.
	Tensor func(s *lowering.Step) TensorMaker
	// Chains has a Chain for each input that the step reads.
	Chains []Chain
}

// Chain is a step as a function of one of its inputs. It decides whether the step can be fused. Links are the
// operations applied to the input in order; nil if the step has no such form. An epilogue can apply all links, a
// fused kernel those with a Step. Function is set if the step reads no other input.
type Chain struct {
	Input    int
	Links    []Link
	Function func(y, x []float32)
}

// Link is one operation of a Chain.
type Link struct {
	Step   kernel.FusedOp // in a fused kernel; NoStep if it cannot be part of one
	Number bool           // K holds the other operand, a number; otherwise K holds parameters
	K      []float32

	// Outside of fused kernels: Unary for one operand, or F for the operand and the step's input Operand, in this order
	// or exchanged.
	Unary     func(y, x []float32)
	Operand   int // index of an input of the step; -1 for none
	F         Arithmetic
	Exchanged bool
}

// NoStep is the Step of a link that fused kernels do not have.
const NoStep kernel.FusedOp = 0

// Chain returns the chain of input at; the zero Chain if the step does not read it.
func (e *Elementwise) Chain(at int) (none Chain) {
	for _, c := range e.Chains {
		if c.Input == at {
			return c
		}
	}
	return none
}

// Fuses reports whether the step can be part of a fused kernel, if the shapes fit.
func (e *Elementwise) Fuses() bool {
	return slices.ContainsFunc(e.Chains, func(c Chain) bool { return c.Fuses() })
}

// Fuses reports whether fused kernels have all links.
func (c *Chain) Fuses() bool {
	return len(c.Links) > 0 && !slices.ContainsFunc(c.Links, func(l Link) bool { return l.Step == NoStep })
}

// Arithmetic is a function of two operands: on two rows, on a row and a number, and on a number and a row.
type Arithmetic struct {
	Rows  func(y, a, b []float32)
	Right func(y, a []float32, s float32)
	Left  func(y, b []float32, s float32)
}

// FusedMaker returns the part of a step with a row kernel of its own in a fused kernel that applies it to its input
// at, on rows of width numbers, or false if it cannot be fused. X of the part is the index of the other operand
// among the inputs of s, if that is not a constant.
type FusedMaker func(d *lowering.Binding, s *lowering.Step, at, rows, width int) (kernel.FusedStep, bool)
