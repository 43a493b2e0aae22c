package tensors

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() { record.Register(record.Record{Op: "Cast", Tensor: record.TensorKind{Make: castKernel}}) }

// castKernel casts bools and integers to float32. Other casts have rounding rules that differ from the machine's.
func castKernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		if !d.Gives(s, 0, tensor.Float32) || d.ShapeOf(s, 0) == nil ||
			!slices.Equal(d.ShapeOf(s, 0), d.Shape(s.Out[0])) {
			return nil
		}
		in, y := s.In[0], lowering.Output[float32](d, s, 0)
		var run func(c *ir.EvalCtx, f *lowering.Frame)
		switch d.DType(in) {
		case tensor.Float32:
			x := lowering.SlotOf[float32](d, in)
			run = func(c *ir.EvalCtx, f *lowering.Frame) { ops.Put(c, y.In(f), x.In(f)) }
		case tensor.Bool:
			x := lowering.SlotOf[bool](d, in)
			run = func(c *ir.EvalCtx, f *lowering.Frame) {
				y := y.In(f)
				for i, b := range ops.All(c, x.In(f)) {
					y[i] = 0
					if b {
						y[i] = 1
					}
				}
			}
		case tensor.Int32:
			x := lowering.SlotOf[int32](d, in)
			run = func(c *ir.EvalCtx, f *lowering.Frame) {
				y, x := y.In(f), x.In(f)
				for lo, hi := range ops.Blocks(c, len(x), itemNumbers) {
					kernel.FloatsOfInts(y[lo:hi], x[lo:hi])
				}
			}
		case tensor.Int64:
			x := lowering.SlotOf[int64](d, in)
			run = func(c *ir.EvalCtx, f *lowering.Frame) {
				y := y.In(f)
				for i, v := range ops.All(c, x.In(f)) {
					y[i] = float32(v)
				}
			}
		default:
			return nil
		}
		return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
			run(e.Steps(), e.Frame())
			return nil
		}}
	}
}
