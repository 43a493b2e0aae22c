package tensors

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "essm.PickStep",
		Tensor: record.TensorKind{Make: record.Shaped(pickStepKernel), Float32: true}, Keeps: true})
}

// pickStepKernel sums up what counts of a chunk; the sums go on in float64.
func pickStepKernel(s *lowering.Step) record.ShapedMaker {
	if !s.Float32Input(0) {
		return nil
	}
	mode := s.Node.Attrs.Str("mode", "")
	return func(in [][]int, _ []int) *record.TensorKernel {
		b, l, h := in[0][0], in[0][1], in[0][2]
		if !slices.Equal(in[1], []int{b, h}) || !slices.Equal(in[2], []int{b, 2}) {
			return nil // refused when it is evaluated
		}
		sum, count := tensor.New(tensor.Float64, b, h), tensor.New(tensor.Int64, b, 2)
		spans, args := make([]essm.Span, b), make([]tensor.Datum, len(s.In))
		return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
			for i := range args {
				if args[i] = nil; i > 0 && !s.Absent(i) {
					args[i] = e.Datum(s.In[i])
				}
			}
			acc, kept := tensor.Data[float64](sum), tensor.Data[int64](count)
			copy(acc, tensor.Data[float64](args[1].(*tensor.Tensor)))
			copy(kept, tensor.Data[int64](args[2].(*tensor.Tensor)))
			if err := essm.PickSpans(nil, s.Node, args, kept, l, spans); err != nil {
				return err
			}
			x, y := e.Floats(s.In[0]), e.Floats(s.Out[0])
			for i, p := range spans {
				row := acc[i*h : (i+1)*h]
				for k := p.From; k < p.To; k++ {
					essm.PickRow(mode, row, x[(i*l+k)*h:(i*l+k+1)*h], p.Before == 0 && k == p.From)
				}
				n := p.Before + int64(p.To-p.From)
				for j, v := range row {
					if mode == "pool" && n > 0 {
						v /= float64(n)
					}
					y[i*h+j] = float32(v)
				}
			}
			for i, v := range s.Out[1:] {
				if v != nil {
					e.Keep(v, [...]*tensor.Tensor{sum, count}[i])
				}
			}
			return nil
		}}
	}
}
