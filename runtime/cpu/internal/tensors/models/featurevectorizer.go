package models

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "ai.onnx.ml.FeatureVectorizer",
		Tensor: record.TensorKind{Make: featureVectorizerKernel}})
}

// featureColumns copies the features of an input to their columns, as float32.
type featureColumns func(c *ir.EvalCtx, f *lowering.Frame, y []float32, rows, cols int)

// featureVectorizerKernel concatenates the features of inputs, each truncated or padded with zeros.
func featureVectorizerKernel(s *lowering.Step) record.TensorMaker {
	dims := s.Node.Attrs.Ints("inputdimensions", nil)
	if len(s.In) == 0 || dims != nil && len(dims) != len(s.In) {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		rows, cols := -1, 0
		var parts []featureColumns
		for i := range s.In {
			shape := d.ShapeOf(s, i)
			if s.Absent(i) || len(shape) < 1 || len(shape) > 2 {
				return nil
			}
			r, k := 1, shape[len(shape)-1]
			if len(shape) == 2 {
				r = shape[0]
			}
			width := k
			if dims != nil {
				width = int(dims[i])
			}
			if rows >= 0 && r != rows || width < 0 {
				return nil // the evaluation reports the error
			}
			part := columnsOf(d, s, i, k, width, cols)
			if part == nil {
				return nil
			}
			rows, parts = r, append(parts, part)
			cols += width
		}
		if !d.Gives(s, 0, tensor.Float32) || !slices.Equal(d.Shape(s.Out[0]), []int{rows, cols}) {
			return nil
		}
		y := lowering.Output[float32](d, s, 0)
		return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
			f := e.Frame()
			for _, p := range parts {
				p(e.Steps(), f, y.In(f), rows, cols)
			}
			return nil
		}}
	}
}

// columnsOf copies the first width of k features of input i to the columns from at on.
func columnsOf(d *lowering.Binding, s *lowering.Step, i, k, width, at int) featureColumns {
	switch {
	case d.Typed(s, i, tensor.Float32):
		return copyColumns[float32](d, s, i, k, width, at)
	case d.Typed(s, i, tensor.Float64):
		return copyColumns[float64](d, s, i, k, width, at)
	case d.Typed(s, i, tensor.Int32):
		return copyColumns[int32](d, s, i, k, width, at)
	case d.Typed(s, i, tensor.Int64):
		return copyColumns[int64](d, s, i, k, width, at)
	}
	return nil
}

func copyColumns[T float32 | float64 | int32 | int64](d *lowering.Binding, s *lowering.Step,
	i, k, width, at int) featureColumns {
	slot, n := lowering.Input[T](d, s, i), min(k, width)
	return func(c *ir.EvalCtx, f *lowering.Frame, y []float32, rows, cols int) {
		x := slot.In(f)
		for r := range rows {
			c.Step(1 + width)
			to := y[r*cols+at : r*cols+at+width]
			for j, v := range x[r*k : r*k+n] {
				to[j] = float32(float64(v))
			}
			clear(to[n:])
		}
	}
}
