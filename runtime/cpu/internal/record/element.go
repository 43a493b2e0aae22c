package record

import (
	"slices"

	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// Elementwise is how a step is computed on float32 numbers of which each result follows from the numbers at the same place of
// its operands. All of it follows from the expression, and serves all steps that have it.
type Elementwise struct {
	// Row makes the row kernel, for the step or one like it whose constants lie otherwise.
	Row func(s *lowering.Step) RowMaker
	// Tensor makes the kernel over whole tensors, for operands that broadcast otherwise than rows do; nil: there is none.
	Tensor func(s *lowering.Step) TensorMaker
	// Chains say for each input that is read what the step does to it.
	Chains []Chain
}

// A Chain is what a step does to one of its inputs. By it is decided whether steps fuse. What the step does one thing after the
// other has links, all of which a fused kernel can do that have a step, and an epilogue in any case. What reads no other input is
// a function, too.
type Chain struct {
	Input    int
	Links    []Link
	Function func(y, x []float32)
}

// A Link is one thing that is done to numbers.
type Link struct {
	Step   kernel.FusedOp // in a fused kernel; NoStep: it cannot be part of one
	Number bool           // the number in K is the step's operand; otherwise that has parameters
	K      []float32

	// Outside of fused kernels: a function of the numbers, or of them and an input of the step, which come to F in this order
	// or exchanged.
	Unary     func(y, x []float32)
	Operand   int // -1: none
	F         Arithmetic
	Exchanged bool
}

// NoStep says that no step of fused kernels does it.
const NoStep kernel.FusedOp = 0

// Chain is what the step does to its input at; the zero Chain where it does not read that.
func (e *Elementwise) Chain(at int) (none Chain) {
	for _, c := range e.Chains {
		if c.Input == at {
			return c
		}
	}
	return none
}

// Fuses reports whether the step can be part of a fused kernel, shapes permitting.
func (e *Elementwise) Fuses() bool {
	return slices.ContainsFunc(e.Chains, func(c Chain) bool { return c.Fuses() })
}

// Fuses reports whether a fused kernel can do all links.
func (c *Chain) Fuses() bool {
	return len(c.Links) > 0 && !slices.ContainsFunc(c.Links, func(l Link) bool { return l.Step == NoStep })
}

// Arithmetic is a function of two operands in its forms: on two rows, on a row and a number, on a number and a row.
type Arithmetic struct {
	Rows  func(y, a, b []float32)
	Right func(y, a []float32, s float32)
	Left  func(y, b []float32, s float32)
}

// FusedMaker says what a step whose operator has a row kernel does to its input at, as part of a fused kernel on rows of width
// numbers; false where it cannot be part of one. X is the input of the step that is read beside, where there is one that is no
// constant.
type FusedMaker func(d *lowering.Binding, s *lowering.Step, at, rows, width int) (kernel.FusedStep, bool)
