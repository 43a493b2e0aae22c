// Package rows registers the records of operators that combine numbers along axes, or bring them to a common scale:
// norms, softmax, reductions, pooling, selection of steps, searches and Fourier transforms; also masks and products
// of steps, and Resize by nearest elements.
//
// Its invariants: a record accepts a step only if at least one shape of it can be computed. Build then refuses only
// shapes beyond the limits of the kernels.
//
// The package imports ir/tensor, ops, runtime/lowering, runtime/cuda/internal/record and runtime/cuda/kernel.
package rows

import (
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/lowering"
)

// float32s accepts steps of operators in their newest versions whose first inputs are float32.
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
