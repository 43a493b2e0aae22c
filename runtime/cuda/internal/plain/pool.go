package plain

import (
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "MaxPool", Rank: record.Plain, Takes: first, Build: pool},
		record.Record{Op: "LpPool", Rank: record.Plain, Takes: floats(0), Build: pool})
}

// pool handles the types, norms and index orders that the faster kernels do not support.
func pool(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	in, taps := d.ShapeOf(s, 0), s.Node.Attrs.Ints("kernel_shape", nil)
	if len(in) != len(taps)+2 || len(taps) == 0 {
		return false
	}
	win, err := ops.Windows(s.Node, len(taps))
	if err != nil {
		return false
	}
	at := result(b, s, 1).Buffer
	p := kernel.PlainPool{Columns: at != 0 && s.Node.Attrs.Int("storage_order", 0) != 0}
	if s.Node.Op.Name == "LpPool" {
		if p.Norm = float64(ops.Int(s.Node, "p")); p.Norm < 1 {
			return false
		}
	}
	out := d.Shape(s.Out[0])
	if record.Size(out) == 0 {
		return true
	}
	for i, w := range win {
		w = w.Bind(int64(in[i+2]), taps[i])
		if w.Begin < 0 || w.End < 0 || taps[i] < 1 {
			return false
		}
		p.Over = append(p.Over, kernel.PoolAxis{In: in[i+2], Out: out[i+2], Taps: int(taps[i]), Stride: int(w.Stride),
			Dilation: int(w.Dilation), Begin: int(w.Begin), End: int(w.End)})
	}
	c, ok := p.Call(result(b, s, 0), at, of(b, s, 0), in[0]*in[1])
	return launch(b, c, ok)
}
