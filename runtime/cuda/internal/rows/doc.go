// Package rows holds the records of operators that join numbers along axes, or bring them to a common scale: norms, softmax,
// reductions, pooling, picks of sequences, searches and Fourier transforms; also masks and products of steps,
// and Resize by nearest elements.
//
// Always: a record takes a step only if some shape of it is computed; Build refuses shapes beyond the kernels' limits, and
// nothing else that Takes lets through.
//
// The package imports ir/tensor, ops, runtime/lowering, runtime/cuda/internal/record and runtime/cuda/kernel.
package rows

import (
	"encoding/binary"
	"math"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// float32s takes steps of operators in their newest versions whose first inputs are of float32.
func float32s(inputs int) func(s *lowering.Step) bool {
	return func(s *lowering.Step) bool {
		for i := range inputs {
			if !s.Float32Input(i) {
				return false
			}
		}
		return ops.Newest(s.Node.Op)
	}
}

// numbers is a tensor in float32: a value of that type, or a constant of any.
func numbers(b *record.Builder, v *lowering.Value) (kernel.Buffer, bool) {
	t := b.Binding.Constant(v)
	switch {
	case b.Binding.IsFloat32(v):
		return b.Buffer(v), true
	case t == nil:
		return 0, false
	}
	x, err := t.Float64s()
	if err != nil {
		return 0, false
	}
	return b.Weights(t, "float32", func() []byte {
		var out []byte
		for _, v := range x {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(v)))
		}
		return out
	}), true
}

// given reports whether output i of a step is asked for.
func given(s *lowering.Step, i int) bool { return i < len(s.Out) && s.Out[i] != nil }

func size(shape []int) int {
	n, _ := tensor.Size(shape)
	return n
}

// around returns the sizes before, along and behind an axis.
func around(shape []int, axis int) (outer, n, inner int) {
	return size(shape[:axis]), shape[axis], size(shape[axis+1:])
}
