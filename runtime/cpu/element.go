package cpu

import (
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// elementwise is how this backend computes an operator on float32 numbers of which each result follows from the numbers at the
// same place of its operands. Passes and kernels ask elementwiseOf, and know of nothing else in elementwise.go.
type elementwise struct {
	// unary is the function, of an operator of one operand: it gives nil where attributes do not fit.
	unary func(s *lowering.Step) func(y, x []float32)
	// binary is the function of two operands.
	binary *arithmetic
	// row makes the row kernel; it gives nil where there is none.
	row func(s *lowering.Step) rowMaker
	// tensor makes the kernel over whole tensors, for operands that broadcast otherwise than rows do; it gives nil where there is
	// none.
	tensor func(s *lowering.Step) tensorMaker
	// fused says what the operator does in a fused kernel; nil: it cannot be part of one.
	fused fusedMaker
	// anyLayout says that sequences may as well be rows.
	anyLayout bool
}

// arithmetic is a function of two operands in its forms: on two rows, on a row and a number, on a number and a row.
type arithmetic struct {
	rows  func(y, a, b []float32)
	right func(y, a []float32, s float32)
	left  func(y, b []float32, s float32)
}

// fusedMaker says what a step does to its input at, as part of a fused kernel on rows of width numbers; false where it cannot be
// part of one. X is the input of the step that is read beside, where there is one that is no constant.
type fusedMaker func(d *lowering.Binding, s *lowering.Step, at, rows, width int) (kernel.FusedStep, bool)
