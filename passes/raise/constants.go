package raise

import (
	"errors"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/eval"
)

// maxEval bounds the elements of one tensor that is computed from constants. It holds the states × length of a layer's kernel
// before it is summed up.
const maxEval = 1 << 24

// constants computes what depends on constants and, for given symbols, on shapes alone, in float64.
func constants(bind map[string]int64) *eval.Constants {
	return &eval.Constants{Wide: true, Bind: bind, Limit: maxEval}
}

// constant computes a value that depends on constants and known shapes alone. It gives float64 for float32.
func constant(v *ir.Value) (*tensor.Tensor, error) { return constants(nil).Tensor(v) }

// constantFloats is constant for real numbers, with the shape; of nil there are none.
func constantFloats(v *ir.Value) ([]float64, []int, error) {
	if v == nil {
		return nil, nil, errors.New("it is not there")
	}
	t, err := constant(v)
	if err != nil {
		return nil, nil, err
	}
	x, err := t.Float64s()
	return x, t.Shape(), err
}
