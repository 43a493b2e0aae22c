package recurrence

import (
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "essm.GatedScan",
		Takes: func(s *lowering.Step) bool { return singles(s, 0, 1) }, Build: buildGated})
}

func buildGated(b *record.Builder, s *lowering.Step) bool {
	shape := b.Binding.ShapeOf(s, 1)
	first, last := at(s.In, 2), at(s.Out, 1)
	single, ok := stateType(b, first, last)
	batch, length, n := shape[0], shape[1], shape[2]
	if !ok || !small(batch, n*(length+kernel.ScanTile)) {
		return false
	}
	scan := kernel.GatedScan{Batch: batch, Length: length, Features: n, State32: single, F: b.Buffer(s.In[0]),
		V: b.Buffer(s.In[1]), H: b.Buffer(at(s.Out, 0)), First: b.Buffer(first), Last: b.Buffer(last)}
	scan.Scratch = b.Scratch(scan.ScratchBytes())
	scanned(b, noOther)
	b.Launch(scan.Calls()...)
	return true
}
