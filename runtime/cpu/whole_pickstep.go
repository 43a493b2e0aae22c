package cpu

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/essm"
)

// wholePickStep sums up what counts of a chunk; the sums go on in float64.
func wholePickStep(s *step) wholeMaker {
	if !s.float32Input(0) {
		return nil
	}
	mode := s.node.Attrs.Str("mode", "")
	return func(in [][]int, _ []int) wholeFunc {
		b, l, h := in[0][0], in[0][1], in[0][2]
		if !slices.Equal(in[1], []int{b, h}) || !slices.Equal(in[2], []int{b, 2}) {
			return nil // refused when it is evaluated
		}
		sum, count := tensor.New(tensor.Float64, b, h), tensor.New(tensor.Int64, b, 2)
		spans, args := make([]essm.Span, b), make([]tensor.Datum, len(s.in))
		return func(e *executable, s *step) error {
			for i := range args {
				if args[i] = nil; i > 0 && !s.absent(i) {
					args[i] = e.datum(s.in[i])
				}
			}
			acc, kept := tensor.Data[float64](sum), tensor.Data[int64](count)
			copy(acc, tensor.Data[float64](args[1].(*tensor.Tensor)))
			copy(kept, tensor.Data[int64](args[2].(*tensor.Tensor)))
			if err := essm.PickSpans(s.node, args, kept, l, spans); err != nil {
				return err
			}
			x, y := e.buf[s.in[0].id], e.buf[s.out[0].id]
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
			for i, v := range s.out[1:] {
				if v != nil {
					e.data[v.id] = [...]*tensor.Tensor{sum, count}[i]
				}
			}
			return nil
		}
	}
}
