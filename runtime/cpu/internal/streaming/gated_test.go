package streaming_test

import (
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

// TestGatedScan checks recurrences with given factors, at sizes around those of vectors and work items.
func TestGatedScan(t *testing.T) {
	r := NewGen(12)
	for i, c := range [][3]int{{1, 1, 1}, {2, 70, 64}, {1, 7, 17}, {2, 2100, 65}, {3, 5, 130}} {
		f := r.Floats(1, c[0], c[1], c[2])
		for i, v := range tensor.Data[float32](f) {
			tensor.Data[float32](f)[i] = v / (1 + max(v, -v))
		}
		in := []Operand{Given(f), Given(r.Floats(1, c[0], c[1], c[2])), {}}
		outs := 1
		if i%2 == 1 {
			in[2], outs = Given(r.Floats(1, c[0], c[2])), 2
		}
		on.Node(t, "essm.GatedScan", outs, in)
	}
}
