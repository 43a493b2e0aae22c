package windowed

import (
	"sync"

	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "essm.LongConv",
		Windowed: record.WindowedKind{Make: windowedLong, Constant: []int{1}, Rows: true}})
}

// windowedLong makes a convolution of rows with short kernels, one for each feature.
func windowedLong(s *lowering.Step) record.WindowedMaker {
	if dir, _ := record.ScanAttrs(s.Node); dir != essm.Forward || len(s.ConstShape(1)) != 2 {
		return nil
	}
	k, shape := record.Numbers(s, 1), s.ConstShape(1)
	n, taps := shape[0], shape[1]
	offs, ok := record.Reach(1-taps, taps, 1)
	if !ok || n == 0 {
		return nil
	}
	turned := sync.OnceValue(func() []float32 {
		return record.Keep(s, []int{1}, nil, func() []float32 { return make([]float32, n*taps) }, func(rows []float32) {
			for c := range n {
				for j := range taps {
					rows[(taps-1-j)*n+c] = k[c*taps+j]
				}
			}
		})
	})
	return func(*lowering.Binding) *record.WindowedOp {
		rows := turned()
		win := &record.WindowedOp{Offs: offs, Weights: len(rows), Flops: 2 * float64(len(rows))}
		at := win.Places(n)
		win.Run = func(y, x, _ []float32, count, _, _ int) { kernel.Depthwise(y, x, count, n, at, rows, nil) }
		return win
	}
}
