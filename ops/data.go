package ops

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// Tensor gives input i of an evaluation as a tensor; nil when it is absent.
func Tensor(in []tensor.Datum, i int) *tensor.Tensor {
	if i >= len(in) || in[i] == nil {
		return nil
	}
	t, _ := in[i].(*tensor.Tensor)
	return t
}

// F64 gives input i as float64 numbers: a copy, widened. It is nil when the input is absent or not real; Bind has checked
// the types before an evaluation runs.
func F64(in []tensor.Datum, i int) []float64 {
	t := Tensor(in, i)
	if t == nil {
		return nil
	}
	v, err := t.Float64s()
	if err != nil {
		return nil
	}
	return v
}

// Real makes a result of element type d from float64 numbers. Where float32 is carried as float64, it stays float64.
func Real(c *ir.EvalCtx, d tensor.DType, v []float64, shape ...int) (*tensor.Tensor, error) {
	if c != nil && c.Wide && d == tensor.Float32 {
		d = tensor.Float64
	}
	return tensor.FromFloat64s(d, v, shape...)
}

// One wraps the single result of an evaluation.
func One(t *tensor.Tensor, err error) ([]tensor.Datum, error) {
	if err != nil {
		return nil, err
	}
	return []tensor.Datum{t}, nil
}

// SameShape reports an error unless both shapes are equal; for evaluations whose inputs' sizes are known only when they run.
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
