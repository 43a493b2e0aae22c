package regions

import (
	"errors"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/eval"
	"github.com/essmc/essmc/passes"
)

// MaxElements is the maximum number of elements of a tensor that is computed from constants. A layer's kernel before
// the sum over states has states × length elements.
const MaxElements = 1 << 24

// MaxMemory is the maximum memory for the search for one form.
const MaxMemory = 1 << 29

// Memory returns a budget for the search for one form: MaxMemory, and the operations that the run has left.
func Memory(run *passes.Context) *ir.Budget { return run.Search().Part(MaxMemory, -1) }

// Constants returns an evaluator, in float64, of values that depend only on constants and on shapes with the given
// symbols.
func Constants(run *passes.Context, bind map[string]int64) *eval.Constants {
	return ConstantsWithin(run, Memory(run), bind)
}

// ConstantsWithin is Constants with a budget that it shares with others.
func ConstantsWithin(run *passes.Context, b *ir.Budget, bind map[string]int64) *eval.Constants {
	return &eval.Constants{Wide: true, Bind: bind, Limit: MaxElements, Budget: b, Ctx: run.Done()}
}

// Constant computes a value that depends only on constants and known shapes. It returns float64 for float32.
func Constant(run *passes.Context, v *ir.Value) (*tensor.Tensor, error) {
	run.Check()
	return Constants(run, nil).Tensor(v)
}

// ConstantFloats returns the value of a real constant with its shape. It returns nothing for nil.
func ConstantFloats(run *passes.Context, v *ir.Value) ([]float64, []int, error) {
	if v == nil {
		return nil, nil, errors.New("it is missing")
	}
	t, err := Constant(run, v)
	if err != nil {
		return nil, nil, err
	}
	x, err := t.Float64s()
	return x, t.Shape(), err
}

// Dims returns the sizes of a shape with the given symbols.
func Dims(s ir.Shape, bind map[string]int64) ([]int, bool) {
	out := make([]int, len(s))
	for i, d := range s {
		k, err := d.Eval(bind)
		if err != nil || k < 0 {
			return nil, false
		}
		out[i] = int(k)
	}
	return out, true
}

// WorkPerElement is the work of making an input of a region and reading its output, in operations per element.
const WorkPerElement = 32

// ResponseTol is the largest difference, relative to the largest answer, between a region and the convolution with its
// impulse responses. It allows for constants in float32.
const ResponseTol = 1e-7
