package acme

import (
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/kernels/kernelstest"
)

// TestKernel compares the kernel with Eval at several sizes, on one thread and two, as a whole and in chunks.
func TestKernel(t *testing.T) {
	for _, features := range []int{1, 5, 256} {
		kernelstest.Check(t, kernelstest.Case{Op: Center, In: []any{ir.Tensor(tensor.Float32, "B", "L", features)}})
	}
}
