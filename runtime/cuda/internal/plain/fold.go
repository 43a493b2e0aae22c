package plain

import (
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "CausalConvWithState", Build: causalConv, Takes: floats(0, 1, 2, 3)},
		record.Record{Op: "LinearAttention", Build: linearAttention, Takes: floats(0, 1, 2, 3, 4, 5)},
		record.Record{Op: "Col2Im", Build: col2Im, Takes: floats(0)})
}

func causalConv(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	x, w := d.ShapeOf(s, 0), d.ShapeOf(s, 1)
	if len(x) != 3 || len(w) != 3 || w[0] != x[1] || w[1] != 1 || w[2] < 1 {
		return false
	}
	c := kernel.CausalConv{Samples: x[0], Channels: x[1], Length: x[2], Taps: w[2], SiLU: ops.Str(s.Node, "activation") != "none",
		X: of(b, s, 0), W: of(b, s, 1), Bias: of(b, s, 2), Past: of(b, s, 3)}
	if c.Bias.Type != 0 && record.Size(d.ShapeOf(s, 2)) != x[1] || c.Past.Type != 0 && !slices.Equal(d.ShapeOf(s, 3), []int{x[0], x[1], w[2] - 1}) {
		return false
	}
	calls, ok := c.Calls(result(b, s, 0), result(b, s, 1))
	return launches(b, calls, ok)
}

func linearAttention(b *record.Builder, s *lowering.Step) bool {
	d, rule := b.Binding, ops.Str(s.Node, "update_rule")
	q, v := d.ShapeOf(s, 0), d.ShapeOf(s, 2)
	hq, hkv := int(ops.Int(s.Node, "q_num_heads")), int(ops.Int(s.Node, "kv_num_heads"))
	if hkv < 1 || hq < 1 || hq%hkv != 0 || len(q) != 3 || q[2]%hq != 0 || len(v) != 3 || v[2]%hkv != 0 {
		return false
	}
	a := kernel.LinearAttention{Batch: q[0], Length: q[1], Queries: hq, Heads: hkv, K: q[2] / hq, V: v[2] / hkv,
		Gated: rule == "gated" || rule == "gated_delta", Delta: rule == "delta" || rule == "gated_delta",
		Scale: ops.Float(s.Node, "scale"), Query: of(b, s, 0), Key: of(b, s, 1), Value: of(b, s, 2), Past: of(b, s, 3),
		Decay: of(b, s, 4), Beta: of(b, s, 5), Decays: 1, Betas: 1}
	if a.Scale == 0 {
		a.Scale = 1 / math.Sqrt(float64(a.K))
	}
	if !slices.Equal(d.ShapeOf(s, 1), []int{q[0], q[1], hkv * a.K}) || !slices.Equal(v, []int{q[0], q[1], hkv * a.V}) ||
		a.Past.Type != 0 && !slices.Equal(d.ShapeOf(s, 3), []int{q[0], hkv, a.K, a.V}) || a.Gated != (a.Decay.Type != 0) ||
		a.Delta != (a.Beta.Type != 0) {
		return false
	}
	for _, x := range []struct {
		i, least, most int
		to             *int
		wanted         bool
	}{{4, hkv, hkv * a.K, &a.Decays, a.Gated}, {5, hkv, 1, &a.Betas, a.Delta}} {
		if !x.wanted {
			continue
		}
		shape := d.ShapeOf(s, x.i)
		if len(shape) != 3 || shape[0] != q[0] || shape[1] != q[1] || shape[2] != x.least && shape[2] != x.most {
			return false
		}
		*x.to = shape[2]
	}
	if b.Bytes(s.Out[0]) == 0 && (!s.Gives(1) || b.Bytes(s.Out[1]) == 0) {
		return true
	}
	if a.K == 0 || a.V == 0 {
		return false
	}
	b.Work(ir.Work{Flops: 6 * int64(record.Size(q)) * int64(a.V)})
	c, ok := a.Call(result(b, s, 0), result(b, s, 1), b.Scratch(8*a.Batch*a.Heads*a.K*a.V))
	return launch(b, c, ok)
}

func col2Im(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	x := d.ShapeOf(s, 0)
	image, ok := d.Ints(s, 1)
	block, okay := d.Ints(s, 2)
	if !ok || !okay || len(x) != 3 || len(image) == 0 || len(image) != len(block) {
		return false
	}
	win, err := ops.Windows(s.Node, len(image))
	if err != nil {
		return false
	}
	var over []kernel.FoldAxis
	taps, places := 1, 1
	for i, w := range win {
		if image[i] < 0 || image[i] > kernel.MaxRows || block[i] < 1 || block[i] > int64(x[1]) {
			return false
		}
		n, _ := w.Size(ir.Const(image[i]), ir.Const(block[i])).Known()
		a := kernel.FoldAxis{Image: int(image[i]), Block: int(block[i]), Places: int(max(0, n)), Stride: int(w.Stride),
			Dilation: int(w.Dilation), Begin: int(w.Begin)}
		over = append(over, a)
		if taps, places = taps*a.Block, places*a.Places; taps > x[1] || places > x[2] {
			return false
		}
	}
	if x[1]%taps != 0 || places != x[2] {
		return false
	}
	c, ok := kernel.Col2Im(result(b, s, 0), of(b, s, 0), x[0]*(x[1]/taps), over)
	return launch(b, c, ok)
}
