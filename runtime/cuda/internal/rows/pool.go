package rows

import (
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "MaxPool", Takes: takesMaxPool, Build: maxPool},
		record.Record{Op: "AveragePool", Takes: takesPool, Build: averagePool},
		record.Record{Op: "LpPool", Takes: func(s *lowering.Step) bool { return takesPool(s) && takesLp(s) }, Build: lpPool},
	)
}

// takesPool accepts windows over up to three axes.
func takesPool(s *lowering.Step) bool {
	n := len(s.Node.Attrs.Ints("kernel_shape", nil))
	return float32s(1)(s) && n > 0 && n <= 3
}

// takesMaxPool accepts all but indices in column order.
func takesMaxPool(s *lowering.Step) bool {
	return takesPool(s) && (!s.Gives(1) || s.Node.Attrs.Int("storage_order", 0) == 0)
}

func maxPool(b *record.Builder, s *lowering.Step) bool {
	var at kernel.Buffer
	if s.Gives(1) {
		at = b.Buffer(s.Out[1])
	}
	return pool(b, s, kernel.PoolMax, at)
}

func averagePool(b *record.Builder, s *lowering.Step) bool {
	if s.Node.Attrs.Bool("count_include_pad", false) {
		return pool(b, s, kernel.PoolAverageAll, 0)
	}
	return pool(b, s, kernel.PoolAverage, 0)
}

func lpPool(b *record.Builder, s *lowering.Step) bool {
	if s.Node.Attrs.Int("p", 2) == 1 {
		return pool(b, s, kernel.PoolL1, 0)
	}
	return pool(b, s, kernel.PoolL2, 0)
}

func pool(b *record.Builder, s *lowering.Step, kind kernel.PoolKind, at kernel.Buffer) bool {
	d := b.Binding
	in, taps := d.ShapeOf(s, 0), s.Node.Attrs.Ints("kernel_shape", nil)
	if len(in) != len(taps)+2 || !s.Gives(0) {
		return false
	}
	win, err := ops.Windows(s.Node, len(taps))
	if err != nil {
		return false
	}
	out := d.Shape(s.Out[0])
	if record.Size(out) == 0 {
		return true
	}
	var over []kernel.PoolAxis
	for i, w := range win {
		w = w.Bind(int64(in[i+2]), taps[i])
		if w.Begin < 0 || w.End < 0 {
			return false
		}
		over = append(over, kernel.PoolAxis{In: in[i+2], Out: out[i+2], Taps: int(taps[i]), Stride: int(w.Stride),
			Dilation: int(w.Dilation), Begin: int(w.Begin), End: int(w.End)})
	}
	call, ok := kernel.Pool(kind, b.Buffer(s.Out[0]), at, b.Buffer(s.In[0]), in[0]*in[1], over)
	b.Launch(call)
	return ok
}
