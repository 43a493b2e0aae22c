package models

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/lowering"
)

// Operators of ONNX's domain for classical machine learning that compute features of samples: Scaler and Imputer.
func init() {
	record.Register(
		record.Record{Op: "ai.onnx.ml.Scaler", Tensor: record.TensorKind{Make: scalerKernel}},
		record.Record{Op: "ai.onnx.ml.Imputer", Tensor: record.TensorKind{Make: imputerKernel}},
	)
}

type numbers interface {
	float32 | float64 | int32 | int64
}

// featureRows is the shape of a tensor as rows of features, which are the elements of the last axis. A work item has
// some rows.
type featureRows struct{ rows, cols, per int }

func newFeatureRows(shape []int) (f featureRows, ok bool) {
	if len(shape) == 0 || shape[len(shape)-1] == 0 {
		return f, false
	}
	f.cols = shape[len(shape)-1]
	f.rows = tensors.Product(shape) / f.cols
	f.per = max(1, tensors.IntegerPer/f.cols)
	return f, true
}

func (f *featureRows) items() int { return (f.rows + f.per - 1) / f.per }

// of returns the rows of a work item.
func (f *featureRows) of(item int) (lo, hi int) { return item * f.per, min(f.rows, (item+1)*f.per) }

// perFeature returns a value per feature, given one for all or one per feature, or nil for any other number of
// values.
func perFeature(d *lowering.Binding, v []float64, cols int) []float64 {
	if len(v) != 1 && len(v) != cols {
		return nil
	}
	all := lowering.Make[float64](d, cols)
	for i := range ops.Each(d.Steps(), cols) {
		all[i] = v[min(i, len(v)-1)]
	}
	return all
}

// scalerPass computes (x-offset)·scale in float64.
type scalerPass[T numbers] struct {
	featureRows
	offset, scale []float64 // per feature
	x             []T
	y             []float32
}

func scalerKernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		switch {
		case !d.Gives(s, 0, tensor.Float32):
		case d.Typed(s, 0, tensor.Float32):
			return newScaler[float32](d, s)
		case d.Typed(s, 0, tensor.Float64):
			return newScaler[float64](d, s)
		case d.Typed(s, 0, tensor.Int32):
			return newScaler[int32](d, s)
		case d.Typed(s, 0, tensor.Int64):
			return newScaler[int64](d, s)
		}
		return nil
	}
}

func newScaler[T numbers](d *lowering.Binding, s *lowering.Step) *record.TensorKernel {
	rows, ok := newFeatureRows(d.ShapeOf(s, 0))
	if !ok {
		return nil
	}
	a := s.Node.Attrs
	p := &scalerPass[T]{featureRows: rows, offset: perFeature(d, a.Floats("offset", []float64{0}), rows.cols),
		scale: perFeature(d, a.Floats("scale", []float64{1}), rows.cols)}
	if p.offset == nil || p.scale == nil {
		return nil // the evaluation reports the error
	}
	x, y := lowering.Input[T](d, s, 0), lowering.Output[float32](d, s, 0)
	return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
		f := e.Frame()
		p.x, p.y = x.In(f), y.In(f)
		return e.Parallel(p, p.items())
	}}
}

func (p *scalerPass[T]) Do(w *record.Workspace, item int) {
	lo, hi := p.of(item)
	for r := lo; r < hi; r++ {
		for from, to := range ops.Parts(w.Steps, p.cols) {
			x := p.x[r*p.cols+from : r*p.cols+to]
			y, offset, scale := p.y[r*p.cols+from:][:len(x)], p.offset[from:][:len(x)], p.scale[from:][:len(x)]
			for i, v := range x {
				y[i] = float32((float64(v) - offset[i]) * scale[i])
			}
		}
	}
}

// imputerPass replaces elements that equal old, or are NaN.
type imputerPass[T numbers] struct {
	featureRows
	nan  bool // old is NaN
	old  T
	fill []T // per feature
	x, y []T
}

func imputerKernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		a, dtype := s.Node.Attrs, d.DType(s.In[0])
		if !d.Typed(s, 0, dtype) || !d.Gives(s, 0, dtype) {
			return nil
		}
		floats, ints := a.Floats("imputed_value_floats", nil), a.Ints("imputed_value_int64s", nil)
		old, oldInt := ops.Float(s.Node, "replaced_value_float"), ops.Int(s.Node, "replaced_value_int64")
		switch dtype {
		case tensor.Float32:
			if x := float32(old); float64(x) == old || old != old {
				return newImputer(d, s, floats, x)
			}
		case tensor.Float64:
			return newImputer(d, s, floats, old)
		case tensor.Int64:
			return newImputer(d, s, ints, oldInt)
		}
		return nil
	}
}

func newImputer[T, A numbers](d *lowering.Binding, s *lowering.Step, fill []A, old T) *record.TensorKernel {
	rows, ok := newFeatureRows(d.ShapeOf(s, 0))
	if !ok || len(fill) != 1 && len(fill) != rows.cols {
		return nil // the evaluation reports the error
	}
	p := &imputerPass[T]{featureRows: rows, nan: old != old, old: old, fill: lowering.Make[T](d, rows.cols)}
	for i := range ops.Each(d.Steps(), rows.cols) {
		p.fill[i] = T(fill[min(i, len(fill)-1)])
	}
	x, y := lowering.Input[T](d, s, 0), lowering.Output[T](d, s, 0)
	return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
		f := e.Frame()
		p.x, p.y = x.In(f), y.In(f)
		return e.Parallel(p, p.items())
	}}
}

func (p *imputerPass[T]) Do(w *record.Workspace, item int) {
	lo, hi := p.of(item)
	for r := lo; r < hi; r++ {
		for from, to := range ops.Parts(w.Steps, p.cols) {
			x := p.x[r*p.cols+from : r*p.cols+to]
			y, fill := p.y[r*p.cols+from:][:len(x)], p.fill[from:][:len(x)]
			for i, v := range x {
				if v == p.old || p.nan && v != v {
					v = fill[i]
				}
				y[i] = v
			}
		}
	}
}
