package moves

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "ai.onnx.ml.ArrayFeatureExtractor",
		Tensor: record.TensorKind{Make: extractorKernel}})
}

// extractorKernel picks features of samples, for any type of whole bytes.
func extractorKernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) || s.Absent(1) {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		dtype, shape := d.DType(s.In[0]), d.ShapeOf(s, 0)
		index, ok := IndicesOf(d, s, 1)
		if !ok || len(shape) == 0 || !tensors.Cut(dtype) || !d.Gives(s, 0, dtype) {
			return nil
		}
		n, cols := tensors.Product(d.ShapeOf(s, 1)), shape[len(shape)-1]
		out := append(slices.Clone(shape[:len(shape)-1]), n)
		if len(out) == 1 {
			out = []int{1, n}
		}
		rows := tensors.Product(out[:len(out)-1])
		if cols == 0 || !slices.Equal(d.Shape(s.Out[0]), out) {
			return nil // the evaluation reports the error
		}
		at := lowering.Make[int](d, n)
		from, to := lowering.BytesOf(d, s.In[0]), lowering.BytesOf(d, s.Out[0])
		return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
			f := e.Frame()
			wide, _ := index.In(f)
			for i, k := range ops.All(e.Steps(), wide) {
				if k < 0 || k >= int64(cols) {
					return e.Fallback(s) // the evaluation reports the error
				}
				at[i] = int(k)
			}
			extract(e.Steps(), to.In(f), from.In(f), at, rows, cols, dtype.Bits()/8)
			return nil
		}}
	}
}

// extract gathers the elements at the given columns of each row.
func extract(c *ir.EvalCtx, dst, src []byte, at []int, rows, cols, size int) {
	n := len(at) * size
	for r := range rows {
		gatherRuns(c, dst[r*n:(r+1)*n], src[r*cols*size:(r+1)*cols*size], at, 1, size)
	}
}
