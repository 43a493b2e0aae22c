package ops

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// Tensor returns input i of an evaluation as a tensor, or nil if it is absent.
func Tensor(in []tensor.Datum, i int) *tensor.Tensor {
	if i >= len(in) || in[i] == nil {
		return nil
	}
	t, _ := in[i].(*tensor.Tensor)
	return t
}

// F64 returns a copy of input i in float64. It is nil if the input is absent or not real; Bind has checked the types
// before an evaluation.
func F64(c *ir.EvalCtx, in []tensor.Datum, i int) []float64 {
	t := Tensor(in, i)
	if t == nil {
		return nil
	}
	v, err := Float64s(c, t)
	if err != nil {
		return nil
	}
	return v
}

// Real makes a result of element type d from float64 numbers. In a wide evaluation float32 stays float64.
func Real(c *ir.EvalCtx, d tensor.DType, v []float64, shape ...int) (*tensor.Tensor, error) {
	if c != nil && c.Wide && d == tensor.Float32 {
		d = tensor.Float64
	}
	return FromFloat64s(c, d, v, shape...)
}

// One wraps the single result of an evaluation.
func One(t *tensor.Tensor, err error) ([]tensor.Datum, error) {
	if err != nil {
		return nil, err
	}
	return []tensor.Datum{t}, nil
}

// SameShape returns an error unless both shapes are equal. Evaluations use it to check sizes that inference does not
// know.
func SameShape(a, b []int) error {
	if len(a) == len(b) {
		same := true
		for i := range a {
			same = same && a[i] == b[i]
		}
		if same {
			return nil
		}
	}
	return fmt.Errorf("shapes %v and %v differ", a, b)
}
