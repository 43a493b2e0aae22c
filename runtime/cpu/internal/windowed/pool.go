package windowed

import (
	"math"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "MaxPool", Windowed: record.WindowedKind{Make: windowedPool(false)}},
		record.Record{Op: "AveragePool", Windowed: record.WindowedKind{Make: windowedPool(true)}},
	)
}

// windowedPool makes a pool along time: the maximum of each window, or its average.
func windowedPool(average bool) func(s *lowering.Step) record.WindowedMaker {
	return func(s *lowering.Step) record.WindowedMaker {
		shape := s.Node.Attrs.Ints("kernel_shape", nil)
		if len(shape) != 1 || len(s.Node.Outputs) != 1 {
			return nil
		}
		return func(d *lowering.Binding) *record.WindowedOp { return newWindowedPool(d, s, int(shape[0]), average) }
	}
}

func newWindowedPool(d *lowering.Binding, s *lowering.Step, taps int, average bool) *record.WindowedOp {
	all := average && ops.Int(s.Node, "count_include_pad") != 0
	if !d.Typed(s, 0, tensor.Float32) || !d.Gives(s, 0, tensor.Float32) {
		return nil
	}
	in := d.ShapeOf(s, 0)
	c, ok := Planar(s.Node, in, d.Shape(s.Out[0]), 1, taps)
	offs, short := record.Reach(-c.Left, taps, max(1, c.Dw))
	if !ok || !short || c.Sw != 1 {
		return nil
	}
	width, apart := c.C, c.C*c.Dw
	win := &record.WindowedOp{Offs: offs, Flops: float64(taps * width)}
	if !average {
		win.Edge = float32(math.Inf(-1))
		win.Run = func(y, x, _ []float32, rows, _, _ int) { joinTaps(y[:rows*width], x, apart, taps, kernel.Max) }
		return win
	}
	win.Run = func(y, x, _ []float32, rows, from, length int) {
		joinTaps(y[:rows*width], x, apart, taps, kernel.Add)
		for r := range rows {
			count := taps
			if !all {
				count = meeting(offs, from+r, length)
			}
			row := y[r*width : (r+1)*width]
			kernel.DivS(row, row, float32(count))
		}
	}
	return win
}

// joinTaps computes y = f(…f(f(x, x[apart:]), x[2·apart:])…) over all taps, for as many numbers as y has.
func joinTaps(y, x []float32, apart, taps int, f func(y, a, b []float32)) {
	if taps == 1 {
		copy(y, x)
		return
	}
	f(y, x[:len(y)], x[apart:apart+len(y)])
	for j := 2; j < taps; j++ {
		f(y, y, x[j*apart:j*apart+len(y)])
	}
}

// meeting returns the number of offsets from step t that lead to one of length steps.
func meeting(offs []int, t, length int) int {
	n := 0
	for _, o := range offs {
		if t+o >= 0 && t+o < length {
			n++
		}
	}
	return n
}
