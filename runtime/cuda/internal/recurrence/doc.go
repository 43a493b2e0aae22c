// Package recurrence registers the records of operators that carry a state from one step of time to the next:
// diagonal, gated and selective scans, diagonal systems, RNN, GRU and LSTM, and the fusion of a state-space layer
// into the kernels of kernel.Layer. Systems of one input and one output, and systems with full matrices, can also
// run as convolutions, like LongConv, SoftmaxConv, MatrixConv and ContinuousConv.
//
// Its invariants: states before the first and after the last step are the operators' own, in float64 or in the type
// of the data; coefficients and powers are computed on the host in float64.
//
// The package imports ir/scalar, ir/tensor, ops, ops/essm, runtime/lowering, runtime/cuda/kernel, and the package
// record.
package recurrence

import (
	"math"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// small reports whether all numbers fit in 32 bits, with a margin for the rest of a tile.
func small(numbers ...int) bool {
	for _, n := range numbers {
		if n < 0 || n > math.MaxInt32 {
			return false
		}
	}
	return true
}

// fixed reports whether the inputs of a step with the given numbers are constants or settled, or absent.
func fixed(s *lowering.Step, inputs ...int) bool { return record.Fixed(s, inputs...) }

// numbers returns the content of an input that fixed accepts: see record.Numbers.
func numbers(s *lowering.Step, i int) []float64 { return record.Numbers(s, i) }

// singles reports whether the inputs of a step with the given numbers are float32 tensors or absent.
func singles(s *lowering.Step, inputs ...int) bool {
	for _, i := range inputs {
		if !s.Absent(i) && !s.Float32Input(i) {
			return false
		}
	}
	return true
}

// stateType reports whether kernels support the type of a state, and whether it is float32.
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

// at returns value i of a list, or nil beyond its end.
func at(list []*lowering.Value, i int) *lowering.Value {
	if i < len(list) {
		return list[i]
	}
	return nil
}

// stateBefore returns the state before the first step, which is input i; nil for zeros.
func stateBefore(b *record.Builder, s *lowering.Step, i int) *lowering.Value {
	v := at(s.In, i)
	if v == nil || b.Binding.ZeroState(v) {
		return nil
	}
	return v
}

// pairs combines two lists to complex numbers.
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
