package ref

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/eval"
)

// elem returns the element type at run time of data that is declared as d.
func elem(d tensor.DType, wide bool) tensor.DType {
	if wide && d == tensor.Float32 {
		return tensor.Float64
	}
	return d
}

// check compares a result with its type in the graph. It compares dimensions that are numbers, or become numbers
// with dims. A negative dimension comes from windows longer than their input; the result is then empty.
func check(c *ir.EvalCtx, d tensor.Datum, t ir.Type, dims map[string]int64, wide bool) error {
	switch t := t.(type) {
	case *ir.OptionalType:
		if d = eval.Present(d); d == nil {
			return nil
		}
		return check(c, d, t.Elem, dims, wide)
	case *ir.SequenceType:
		s, ok := d.(*tensor.Sequence)
		if !ok || s == nil {
			return fmt.Errorf("expected %v, the operator returned %v", t, describe(d))
		}
		for i, item := range s.Items {
			c.Step(64)
			if err := check(c, item, t.Elem, nil, wide); err != nil {
				return fmt.Errorf("item %d: %w", i, err)
			}
		}
		return nil
	case *ir.TensorType:
		x, ok := d.(*tensor.Tensor)
		if !ok || x == nil || x.DType() != elem(t.Elem, wide) || !t.NoRank && x.Rank() != len(t.Shape) {
			return fmt.Errorf("expected %v, the operator returned %v", t, describe(d))
		}
		for i, dim := range t.Shape {
			if dim.IsUnknown() {
				continue
			}
			want, err := dim.Eval(dims)
			if err == nil && max(0, want) != int64(x.Dim(i)) {
				return fmt.Errorf("expected %v with dimension %d = %d, the operator returned %s", t, i, want, x)
			}
		}
		return nil
	}
	return fmt.Errorf("has no type")
}

func describe(d tensor.Datum) string {
	switch d := d.(type) {
	case *tensor.Tensor:
		if d != nil {
			return d.String()
		}
	case *tensor.Sequence:
		if d != nil {
			return fmt.Sprintf("a sequence of %d", len(d.Items))
		}
	case *tensor.Optional:
		return "an optional"
	}
	return "nothing"
}
