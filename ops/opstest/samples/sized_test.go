package samples_test

import (
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/opstest"
	"github.com/essmc/essmc/ops/opstest/samples"
)

// TestSizedBy checks the inputs of floats whose numbers determine shapes.
func TestSizedBy(t *testing.T) {
	found := map[string][]string{"": {"NonMaxSuppression"}, "com.microsoft": {"com.microsoft.Unique"}}
	for _, u := range samples.Suites() {
		of := u.Samples
		u.Samples = func(op *ir.Op) []opstest.Sample {
			list := of(op)
			if op.Name == "OneHot" { // with a depth in float32, too
				list = append(list, opstest.Of(tensor.FromSlice([]int64{1, 3, -2}, 3), tensor.Scalar(float32(4)),
					tensor.FromSlice([]float32{0.25, 2}, 2)))
			}
			return list
		}
		u.SizedBy(t, found[u.Domain])
	}
}
