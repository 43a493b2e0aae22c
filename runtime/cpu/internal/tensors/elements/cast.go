package elements

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() { record.Register(record.Record{Op: "Cast", Tensor: record.TensorKind{Make: castKernel}}) }

// castKernel casts between bools and numbers of up to 64 bits, in the combinations that models use. Other casts are
// rare, or have rounding rules that differ from the machine's.
func castKernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		if s.Out[0] == nil || d.ShapeOf(s, 0) == nil || !slices.Equal(d.ShapeOf(s, 0), d.Shape(s.Out[0])) {
			return nil
		}
		if d.Typed(s, 0, tensor.Float32) {
			switch d.DType(s.Out[0]) {
			case tensor.Float16:
				return halfKernel(lowering.Input[float32](d, s, 0), lowering.Output[tensor.F16](d, s, 0),
					func(y []tensor.F16, x []float32) { kernel.NarrowF16(tensors.Reinterpret[uint16](y), x) })
			case tensor.BFloat16:
				return halfKernel(lowering.Input[float32](d, s, 0), lowering.Output[tensor.BF16](d, s, 0),
					func(y []tensor.BF16, x []float32) { kernel.NarrowBF16(tensors.Reinterpret[uint16](y), x) })
			}
		}
		if !d.Gives(s, 0, tensor.Float32) {
			return castNumbers(d, s)
		}
		switch d.DType(s.In[0]) {
		case tensor.Float16:
			return halfKernel(lowering.Input[tensor.F16](d, s, 0), lowering.Output[float32](d, s, 0),
				func(y []float32, x []tensor.F16) { kernel.WidenF16(y, tensors.Reinterpret[uint16](x)) })
		case tensor.BFloat16:
			return halfKernel(lowering.Input[tensor.BF16](d, s, 0), lowering.Output[float32](d, s, 0),
				func(y []float32, x []tensor.BF16) { kernel.WidenBF16(y, tensors.Reinterpret[uint16](x)) })
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
				for lo, hi := range ops.Blocks(c, len(x), tensors.ItemNumbers) {
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
			return castNumbers(d, s)
		}
		return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
			run(e.Steps(), e.Frame())
			return nil
		}}
	}
}

// halfPass casts blocks of numbers.
type halfPass[X, Y tensor.Elem] struct {
	x   []X
	y   []Y
	run func(y []Y, x []X)
}

func halfKernel[X, Y tensor.Elem](x lowering.Slot[X], y lowering.Slot[Y], run func(y []Y, x []X)) *record.TensorKernel {
	p := &halfPass[X, Y]{run: run}
	return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
		f := e.Frame()
		p.x, p.y = x.In(f), y.In(f)
		return e.Parallel(p, (len(p.x)+tensors.ItemNumbers-1)/tensors.ItemNumbers)
	}}
}

func (p *halfPass[X, Y]) Do(w *record.Workspace, item int) {
	lo := item * tensors.ItemNumbers
	hi := min(lo+tensors.ItemNumbers, len(p.x))
	w.Steps.Step((hi - lo) / 4)
	p.run(p.y[lo:hi], p.x[lo:hi])
}
