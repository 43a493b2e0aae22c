package plain

import (
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "Range", Build: ranged, Takes: func(s *lowering.Step) bool {
		return ops.Newest(s.Node.Op) && s.Rows == nil && computed(elem(s.Node.In(0)))
	}})
	// Their results depend on a few numbers, which are bound like shapes.
	for _, name := range []string{"BlackmanWindow", "HannWindow", "HammingWindow", "MelWeightMatrix"} {
		record.Register(record.Record{Op: name, Build: func(*record.Builder, *lowering.Step) bool { return false }})
	}
}

// ranged computes a range whose length depends only on shapes.
func ranged(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	c, ok := kernel.Range(b.Buffer(s.Out[0]), b.Buffer(s.In[0]), b.Buffer(s.In[2]), d.DType(s.Out[0]), size(d.Shape(s.Out[0])))
	return launch(b, c, ok)
}
