package sequences

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "essm.PickStep",
		Tensor: record.TensorKind{Make: record.Shaped(pickStepKernel), Float32: true}, Keeps: true})
}

// pickStepKernel sums up the valid steps of a chunk. The sums continue in float64.
func pickStepKernel(s *lowering.Step) record.ShapedMaker {
	if !s.Float32Input(0) {
		return nil
	}
	mode := s.Node.Attrs.Str("mode", "")
	return func(d *lowering.Binding, in [][]int, _ []int) *record.TensorKernel {
		b, l, h := in[0][0], in[0][1], in[0][2]
		if !slices.Equal(in[1], []int{b, h}) || !slices.Equal(in[2], []int{b, 2}) {
			return nil // the evaluation reports the error
		}
		if !d.Typed(s, 1, tensor.Float64) || !d.Typed(s, 2, tensor.Int64) {
			return nil
		}
		for i, want := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int64} {
			if i < len(s.Out) && s.Out[i] != nil && !d.Gives(s, i, want) {
				return nil
			}
		}
		steps, result := lowering.Input[float32](d, s, 0), lowering.Output[float32](d, s, 0)
		sums, counts := lowering.Input[float64](d, s, 1), lowering.Input[int64](d, s, 2)
		newSums, newCounts := lowering.Output[float64](d, s, 1), lowering.Output[int64](d, s, 2)
		for i := 3; i < len(s.In); i++ { // lengths and ends
			if n := tensors.Product(in[i]); in[i] != nil && n != 1 && n != b {
				return nil // the evaluation reports the error
			}
		}
		lengths, ends := lowering.Input[int64](d, s, 3), lowering.Input[int64](d, s, 4)
		acc, kept := lowering.Make[float64](d, b*h), lowering.Make[int64](d, 2*b)
		spans := lowering.Make[essm.Span](d, b)
		return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
			f := e.Frame()
			c := e.Steps()
			ops.Put(c, acc, sums.In(f))
			copy(kept, counts.In(f))
			if err := essm.PickSpans(s.Node, lengths.In(f), ends.In(f), kept, l, spans); err != nil {
				return err
			}
			x, y := steps.In(f), result.In(f)
			for i, p := range spans {
				row := acc[i*h : (i+1)*h]
				for k := p.From; k < p.To; k++ {
					x := x[(i*l+k)*h : (i*l+k+1)*h]
					for lo, hi := range ops.Parts(c, h) {
						essm.PickRow(mode, row[lo:hi], x[lo:hi], p.Before == 0 && k == p.From)
					}
				}
				n := p.Before + int64(p.To-p.From)
				for j, v := range ops.All(c, row) {
					if mode == "pool" && n > 0 {
						v /= float64(n)
					}
					y[i*h+j] = float32(v)
				}
			}
			ops.Put(c, newSums.In(f), acc)
			copy(newCounts.In(f), kept)
			return nil
		}}
	}
}
