package plain

import (
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "CumProd", Build: cumProd, Takes: first},
		record.Record{Op: "LpNormalization", Build: lpNormalization, Takes: floats(0)},
		record.Record{Op: "LRN", Build: lrn, Takes: floats(0)},
		record.Record{Op: "TopK", Build: topK, Takes: first},
		record.Record{Op: "Det", Build: det, Takes: floats(0)})
}

// first accepts steps of the newest version whose first input has a type that kernels support.
func first(s *lowering.Step) bool {
	return ops.Newest(s.Node.Op) && s.Rows == nil && computed(record.Declared(s.Node.In(0)))
}

func cumProd(b *record.Builder, s *lowering.Step) bool {
	at, ok := b.Binding.Ints(s, 1)
	shape := b.Binding.ShapeOf(s, 0)
	if !ok || len(at) != 1 {
		return false
	}
	axis, err := ops.Axis(at[0], len(shape))
	if err != nil {
		return false
	}
	outer, n, inner := record.Around(shape, axis)
	c, ok := kernel.CumProd(result(b, s, 0), of(b, s, 0), outer, n, inner, s.Node.Attrs.Int("exclusive", 0) != 0,
		s.Node.Attrs.Int("reverse", 0) != 0)
	return launch(b, c, ok)
}

func lpNormalization(b *record.Builder, s *lowering.Step) bool {
	shape, p := b.Binding.ShapeOf(s, 0), s.Node.Attrs.Int("p", 2)
	axis, err := ops.Axis(s.Node.Attrs.Int("axis", -1), len(shape))
	if err != nil || p != 1 && p != 2 {
		return false
	}
	outer, n, inner := record.Around(shape, axis)
	c, ok := kernel.LpNormalize(result(b, s, 0), of(b, s, 0), int(p), outer, n, inner)
	return launch(b, c, ok)
}

func lrn(b *record.Builder, s *lowering.Step) bool {
	shape, a := b.Binding.ShapeOf(s, 0), s.Node.Attrs
	n := a.Int("size", 0)
	if len(shape) < 2 || n < 1 || n > 1<<31 {
		return false
	}
	outer, channels, inner := record.Around(shape, 1)
	c, ok := kernel.LRN(result(b, s, 0), of(b, s, 0), outer, channels, inner, int(n-1)/2, int(n)/2,
		ops.Float(s.Node, "alpha")/float64(n), ops.Float(s.Node, "beta"), ops.Float(s.Node, "bias"))
	return launch(b, c, ok)
}

func topK(b *record.Builder, s *lowering.Step) bool {
	k, ok := b.Binding.Ints(s, 1)
	shape := b.Binding.ShapeOf(s, 0)
	axis, err := ops.Axis(s.Node.Attrs.Int("axis", -1), len(shape))
	if !ok || err != nil || len(k) != 1 || k[0] < 0 || k[0] > int64(shape[axis]) {
		return false
	}
	outer, n, inner := record.Around(shape, axis)
	if k[0] == 0 {
		return true
	}
	c, ok := kernel.TopK(result(b, s, 0), result(b, s, 1).Buffer, of(b, s, 0), outer, n, inner, int(k[0]),
		s.Node.Attrs.Int("largest", 1) != 0)
	return launch(b, c, ok)
}

func det(b *record.Builder, s *lowering.Step) bool {
	shape := b.Binding.ShapeOf(s, 0)
	if len(shape) < 2 || shape[len(shape)-1] != shape[len(shape)-2] {
		return false
	}
	m, count := shape[len(shape)-1], record.Size(shape[:len(shape)-2])
	c, ok := kernel.Determinants(result(b, s, 0), of(b, s, 0), b.Scratch(8*count*m*m), count, m)
	return launch(b, c, ok)
}
