package record

import (
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// Elementwise is how this backend computes an operator on float32 numbers of which each result follows from the numbers at the
// same place of its operands. Passes and kernels ask elementwiseOf, and know of nothing else in elementwise.go.
type Elementwise struct {
	// Unary is the function, of an operator of one operand: it gives nil where attributes do not fit.
	Unary func(s *lowering.Step) func(y, x []float32)
	// Binary is the function of two operands.
	Binary *Arithmetic
	// Row makes the row kernel; it gives nil where there is none.
	Row func(s *lowering.Step) RowMaker
	// Tensor makes the kernel over whole tensors, for operands that broadcast otherwise than rows do; it gives nil where there is
	// none.
	Tensor func(s *lowering.Step) TensorMaker
	// Fused says what the operator does in a fused kernel; nil: it cannot be part of one.
	Fused FusedMaker
	// Chain is Fused of an operator that does several things, one after the other; it gives nil where that is no chain. The steps
	// may read the input that they start from again.
	Chain func(d *lowering.Binding, s *lowering.Step, at, rows, width int) []kernel.FusedStep
	// AnyLayout says that sequences may as well be rows.
	AnyLayout bool
}

// Arithmetic is a function of two operands in its forms: on two rows, on a row and a number, on a number and a row.
type Arithmetic struct {
	Rows  func(y, a, b []float32)
	Right func(y, a []float32, s float32)
	Left  func(y, b []float32, s float32)
}

// FusedMaker says what a step does to its input at, as part of a fused kernel on rows of width numbers; false where it cannot be
// part of one. X is the input of the step that is read beside, where there is one that is no constant.
type FusedMaker func(d *lowering.Binding, s *lowering.Step, at, rows, width int) (kernel.FusedStep, bool)
