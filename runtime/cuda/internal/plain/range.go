package plain

import (
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "Range", Build: ranged, Takes: func(s *lowering.Step) bool {
		return ops.Newest(s.Node.Op) && s.Rows == nil && computed(record.Declared(s.Node.In(0)))
	}})
	// Their results depend on a few numbers, which are bound like shapes.
	bound := func(*record.Builder, *lowering.Step) bool { return false }
	for _, name := range []string{"BlackmanWindow", "HannWindow", "HammingWindow"} {
		record.Register(record.Record{Op: name, Build: bound})
	}
	record.Register(record.Record{Op: "MelWeightMatrix", Numbers: []int{3, 4}, Build: bound})
}

// ranged computes a range whose length depends only on shapes.
func ranged(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	c, ok := kernel.Range(b.Buffer(s.Out[0]), b.Buffer(s.In[0]), b.Buffer(s.In[2]), d.DType(s.Out[0]), record.Size(d.Shape(s.Out[0])))
	return launch(b, c, ok)
}
