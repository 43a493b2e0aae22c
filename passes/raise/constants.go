package raise

import (
	"errors"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/eval"
)

// maxEval bounds the elements of a tensor that is computed from constants. A layer's kernel before the sum over states
// has states × length elements.
const maxEval = 1 << 24

// maxEvalBytes and maxEvalWork bound what one evaluator of a rule may hold and compute.
const (
	maxEvalBytes = 1 << 29
	maxEvalWork  = 1 << 32
)

// constants returns an evaluator, in float64, of values that depend only on constants and on shapes with the given
// symbols.
func constants(bind map[string]int64) *eval.Constants {
	return &eval.Constants{Wide: true, Bind: bind, Limit: maxEval, Budget: ir.NewBudget(maxEvalBytes, maxEvalWork)}
}

// constant computes a value that depends on constants and known shapes alone. It returns float64 for float32.
func constant(v *ir.Value) (*tensor.Tensor, error) { return constants(nil).Tensor(v) }

// constantFloats returns the value of a real constant with its shape. It returns nothing for nil.
func constantFloats(v *ir.Value) ([]float64, []int, error) {
	if v == nil {
		return nil, nil, errors.New("it is missing")
	}
	t, err := constant(v)
	if err != nil {
		return nil, nil, err
	}
	x, err := t.Float64s()
	return x, t.Shape(), err
}
