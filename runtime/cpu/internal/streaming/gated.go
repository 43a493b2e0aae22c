package streaming

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "essm.GatedScan", Keeps: true, Streaming: record.StreamingKind{Make: streamingGated}})
}

// gated is a recurrence of the first order. A work item is some features of a sample, for all steps under way.
type gated struct {
	record.StreamingGrid
	s             *lowering.Step
	width         int
	f, v, h       lowering.Slot[float32]
	before, after stateSlot
	z             []float64
}

// gatedFeatures is the number of features of a work item; gatedRows the steps between looks at whether the run has ended.
const (
	gatedFeatures = 64
	gatedRows     = 1024
)

func streamingGated(s *lowering.Step) record.StreamingMaker {
	if !s.Float32Input(0) || !s.Float32Input(1) {
		return nil
	}
	return func(d *lowering.Binding) record.StreamingKernel {
		shape := d.ShapeOf(s, 1)
		if len(shape) != 3 || !slices.Equal(d.ShapeOf(s, 0), shape) || !d.Gives(s, 0, tensor.Float32) {
			return nil
		}
		k := &gated{s: s, width: shape[2]}
		k.Batch, k.Length = shape[0], shape[1]
		var ok bool
		if k.before, ok = stateOf(d, at(s.In, 2), []int{k.Batch, k.width}); !ok {
			return nil
		}
		if k.after, ok = stateOf(d, at(s.Out, 1), []int{k.Batch, k.width}); !ok {
			return nil
		}
		k.f, k.v = lowering.Input[float32](d, s, 0), lowering.Input[float32](d, s, 1)
		k.h = lowering.Output[float32](d, s, 0)
		return k
	}
}

func (k *gated) Bytes() int64 { return 8 * int64(k.Batch*k.width) }

func (k *gated) Attach(e record.Execution) {
	k.E = e
	k.z = make([]float64, k.Batch*k.width)
}

func (k *gated) Start() error {
	clear(k.z)
	if f := k.E.Frame(); !k.before.absent() {
		for i := range k.z {
			k.z[i] = k.before.get(f, i)
		}
	}
	return nil
}

// parts returns the work items of a sample.
func (k *gated) parts() int { return (k.width + gatedFeatures - 1) / gatedFeatures }

func (k *gated) Steps(from, to int) error {
	k.From, k.To = from, to
	return k.E.Parallel(k, k.Batch*k.parts())
}

func (k *gated) Do(w *record.Workspace, item int) {
	w.Node = k.s.Source
	sample, first := item/k.parts(), item%k.parts()*gatedFeatures
	n := min(gatedFeatures, k.width-first)
	fr := k.E.Frame()
	row := func(v *lowering.Value, step int) int { return k.E.At(v, sample, step, k.Length)*k.width + first }
	for from := k.From; from < k.To && !w.Stopped(); from += gatedRows {
		kernel.Gated(k.h.In(fr)[row(k.s.Out[0], from):], k.f.In(fr)[row(k.s.In[0], from):], k.v.In(fr)[row(k.s.In[1], from):],
			k.width, n, min(gatedRows, k.To-from), k.z[sample*k.width+first:][:n])
	}
}

func (k *gated) Finish() {
	if f := k.E.Frame(); !k.after.absent() {
		for i, v := range k.z {
			k.after.set(f, i, v)
		}
	}
}
