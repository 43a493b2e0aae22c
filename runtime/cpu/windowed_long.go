package cpu

import (
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// windowedLong is a convolution of rows with short kernels, one for each feature.
func windowedLong(s *lowering.Step) windowedMaker {
	if dir, _ := scanAttrs(s.Node); dir != essm.Forward || len(s.ConstShape(1)) != 2 {
		return nil
	}
	k, shape := s.Constant(1), s.ConstShape(1)
	n, taps := shape[0], shape[1]
	offs, ok := reach(1-taps, taps, 1)
	if !ok || n == 0 {
		return nil
	}
	return func(*lowering.Binding) *windowedOp {
		rows := make([]float32, n*taps)
		for c := range n {
			for j := range taps {
				rows[(taps-1-j)*n+c] = k[c*taps+j]
			}
		}
		win := &windowedOp{offs: offs, weights: len(rows), flops: 2 * float64(len(rows))}
		at := win.places(n)
		win.run = func(y, x, _ []float32, count, _, _ int) { kernel.Depthwise(y, x, count, n, at, rows, nil) }
		return win
	}
}
