package integers_test

import (
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

// TestIntegerPair adds and multiplies operands that repeat in each way.
func TestIntegerPair(t *testing.T) {
	r := NewGen(23)
	for _, c := range [][2][]int{{{3, 5}, {3, 5}}, {{2, 3, 40, 41}, {2, 3, 1, 1}}, {{2, 3, 40, 41}, {1, 3, 1, 1}},
		{{1, 4, 1, 1}, {1, 4, 5, 7}}, {{2, 3, 4}, {4}}, {{2, 3, 4}, {1}}, {{7}, {1, 2, 1, 1}}, {{2, 1, 1, 1}, {2, 3, 33, 35}},
		{{2, 3, 4}, {3, 1}}, {{5, 1}, {1, 6}}, {{}, {2, 50, 90}}, {{}, {}}, {{33, 70}, {70}}} {
		for _, types := range []tensor.DType{tensor.Uint8, tensor.Int8} {
			for _, op := range []string{"com.microsoft.QLinearAdd", "com.microsoft.QLinearMul"} {
				in := []Operand{Given(r.Bytes(types, c[0]...)), Fixed(r.Scales(0.01)), Fixed(r.Bytes(types)),
					Given(r.Bytes(types, c[1]...)), Fixed(r.Scales(0.02)), Fixed(r.Bytes(types)), Fixed(r.Scales(0.3)),
					Fixed(r.Bytes(types))}
				on.Same(t, op, 1, in)
			}
		}
	}
	// An axis of size 1 between others has no kernel.
	one, zero := Fixed(r.Scales(1)), Fixed(r.Bytes(tensor.Int8))
	on.SameAnyhow(t, "com.microsoft.QLinearAdd", 1, []Operand{Given(r.Bytes(tensor.Int8, 2, 3, 4)), one, zero,
		Given(r.Bytes(tensor.Int8, 2, 1, 4)), one, zero, one, zero})
}
