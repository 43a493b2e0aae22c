package plain

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "BatchNormalization", Build: batchNorm, Takes: floats(0, 1, 2, 3, 4)})
}

// batchNorm normalizes channels by the given statistics or, in training, by their own.
func batchNorm(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	shape := d.ShapeOf(s, 0)
	if len(shape) < 2 || len(s.In) < 5 {
		return false
	}
	samples, channels, inner := record.Around(shape, 1)
	for i := 1; i < 5; i++ {
		if record.Size(d.ShapeOf(s, i)) != channels {
			return false
		}
	}
	x, scale, bias, mean, variance := of(b, s, 0), of(b, s, 1), of(b, s, 2), of(b, s, 3), of(b, s, 4)
	momentum := 1.0
	used, spread := mean, variance
	if ops.Int(s.Node, "training_mode") != 0 {
		if record.Size(shape) == 0 {
			return false
		}
		momentum = ops.Float(s.Node, "momentum")
		used = kernel.Tensor{Buffer: b.Scratch(8 * channels), Type: tensor.Float64}
		spread = kernel.Tensor{Buffer: b.Scratch(8 * channels), Type: tensor.Float64}
		c, ok := kernel.ChannelMoments(used.Buffer, spread.Buffer, x, samples, channels, inner)
		if !launch(b, c, ok) {
			return false
		}
	}
	for i, t := range []struct{ old, blended kernel.Tensor }{{mean, used}, {variance, spread}} {
		if s.Gives(i+1) && channels > 0 {
			c, ok := kernel.Blend(result(b, s, i+1), t.old, t.blended.Buffer, channels, momentum)
			if !launch(b, c, ok) {
				return false
			}
		}
	}
	if !s.Gives(0) || record.Size(shape) == 0 {
		return true
	}
	b.Work(ir.Work{Flops: 4 * int64(record.Size(shape)), Bytes: int64(2 * b.Bytes(s.Out[0]))})
	calls, ok := kernel.NormChannels(result(b, s, 0), x, scale, bias, used, spread, samples, channels, inner,
		ops.Float(s.Node, "epsilon"))
	return launches(b, calls, ok)
}
