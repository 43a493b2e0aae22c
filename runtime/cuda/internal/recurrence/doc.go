// Package recurrence holds the records of operators that carry a state from one step of time to the next: diagonal, gated
// and selective scans, diagonal systems, RNN, GRU and LSTM, and the fusion of a state-space layer into the kernels of
// kernel.Layer. Systems of one input and one output, and those with full matrices, are also convolutions, as LongConv,
// SoftmaxConv, MatrixConv and ContinuousConv are.
//
// Always: states before the first and after the last step are those of the operators, in float64 or in the type of the
// data; coefficients and powers are made on the host in float64.
//
// The package imports ir/scalar, ir/tensor, ops, ops/essm, runtime/lowering, runtime/cuda/kernel, and the package record.
package recurrence

import (
	"math"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// small reports whether all numbers can be counted in 32 bits, with room for the rest of a tile.
func small(numbers ...int) bool {
	for _, n := range numbers {
		if n < 0 || n > math.MaxInt32 {
			return false
		}
	}
	return true
}

// constants reports whether inputs of a step are constants, where they are given.
func constants(s *lowering.Step, inputs ...int) bool {
	for _, i := range inputs {
		if !s.Absent(i) && s.Constant64(i) == nil {
			return false
		}
	}
	return true
}

// singles reports whether inputs of a step are float32 tensors, where they are given.
func singles(s *lowering.Step, inputs ...int) bool {
	for _, i := range inputs {
		if !s.Absent(i) && !s.Float32Input(i) {
			return false
		}
	}
	return true
}

// stateType reports whether a state is of a type that kernels have, and whether it is float32.
func stateType(b *record.Builder, in, out *lowering.Value) (single, ok bool) {
	for _, v := range []*lowering.Value{in, out} {
		if v == nil || b.Binding.Missing(v) {
			continue
		}
		t := b.Binding.DType(v)
		if t != tensor.Float32 && t != tensor.Float64 {
			return false, false
		}
		single = t == tensor.Float32
	}
	return single, true
}

// at returns value i of a list; nil beyond it.
func at(list []*lowering.Value, i int) *lowering.Value {
	if i < len(list) {
		return list[i]
	}
	return nil
}

// pairs makes complex numbers of two constants.
func pairs(re, im []float64) []complex128 {
	z := make([]complex128, len(re))
	for i := range z {
		z[i] = complex(re[i], im[i])
	}
	return z
}

// directions returns the directions of a scan.
func directions(s *lowering.Step) (forward, backward bool) {
	d := s.Node.Attrs.Str("direction", essm.Forward)
	return d != essm.Backward, d != essm.Forward
}
