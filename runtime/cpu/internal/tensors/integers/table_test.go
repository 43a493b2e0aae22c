package integers_test

import (
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestByteTable(t *testing.T) {
	r := NewGen(24)
	for _, types := range []tensor.DType{tensor.Uint8, tensor.Int8} {
		for _, shape := range [][]int{{}, {7}, {3, 5, 67}, {2, 1 << 15, 3}} {
			for _, op := range []string{"com.microsoft.QLinearSigmoid", "com.microsoft.QLinearLeakyRelu"} {
				on.Same(t, op, 1, []Operand{Given(r.Bytes(types, shape...)), Fixed(r.Scales(0.03)), Fixed(r.Bytes(types)),
					Fixed(r.Scales(0.01)), Fixed(r.Bytes(types))})
			}
			for _, to := range []tensor.DType{tensor.Uint8, tensor.Int8} {
				on.Same(t, "essm.ByteTable", 1, []Operand{Given(r.Bytes(types, shape...)), Fixed(r.Bytes(to, 256))})
			}
		}
	}
}
