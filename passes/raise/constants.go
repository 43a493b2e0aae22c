package raise

import (
	"errors"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/eval"
	"github.com/essmc/essmc/passes"
)

// maxEval is the maximum number of elements of a tensor that is computed from constants. A layer's kernel before the
// sum over states has states × length elements.
const maxEval = 1 << 24

// maxBytes is the maximum memory for the search for one form.
const maxBytes = 1 << 29

// memory returns a budget for the search for one form: maxBytes, and the operations that the run has left.
func memory(run *passes.Context) *ir.Budget { return run.Search().Part(maxBytes, -1) }

// constants returns an evaluator, in float64, of values that depend only on constants and on shapes with the given
// symbols.
func constants(run *passes.Context, bind map[string]int64) *eval.Constants {
	return constantsWithin(run, memory(run), bind)
}

// constantsWithin is constants with a budget that it shares with others.
func constantsWithin(run *passes.Context, b *ir.Budget, bind map[string]int64) *eval.Constants {
	return &eval.Constants{Wide: true, Bind: bind, Limit: maxEval, Budget: b, Ctx: run.Done()}
}

// constant computes a value that depends only on constants and known shapes. It returns float64 for float32.
func constant(run *passes.Context, v *ir.Value) (*tensor.Tensor, error) {
	run.Check()
	return constants(run, nil).Tensor(v)
}

// constantFloats returns the value of a real constant with its shape. It returns nothing for nil.
func constantFloats(run *passes.Context, v *ir.Value) ([]float64, []int, error) {
	if v == nil {
		return nil, nil, errors.New("it is missing")
	}
	t, err := constant(run, v)
	if err != nil {
		return nil, nil, err
	}
	x, err := t.Float64s()
	return x, t.Shape(), err
}
