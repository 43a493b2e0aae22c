package streaming

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "essm.Pick", Streaming: record.StreamingKind{Make: streamingPick}})
}

// pick sums up a sequence in float64. It sums each tile separately, and then the sums of tiles in order, so that the
// answer depends on neither time chunks nor threads.
type pick struct {
	record.StreamingGrid
	s       *lowering.Step
	mode    string
	width   int
	x, y    lowering.Slot[float32]
	given   lowering.Slot[int64] // of lengths; absent if every sequence is full
	lengths []int
	sum     []float64 // per sample
	parts   []float64 // per work item of the steps under way
}

// pickTiles bounds the number of tiles of a sample that are summed at once.
const pickTiles = 64

func streamingPick(s *lowering.Step) record.StreamingMaker {
	if !s.Float32Input(0) {
		return nil
	}
	mode := s.Node.Attrs.Str("mode", "")
	return func(d *lowering.Binding) record.StreamingKernel {
		in := d.ShapeOf(s, 0)
		if len(in) != 3 || !d.Gives(s, 0, tensor.Float32) {
			return nil
		}
		k := &pick{s: s, mode: mode, width: in[2]}
		k.x, k.y = lowering.Input[float32](d, s, 0), lowering.Output[float32](d, s, 0)
		k.Batch, k.Length = in[0], in[1]
		if !s.Absent(1) && !d.Missing(s.In[1]) {
			if !d.Typed(s, 1, tensor.Int64) || !slices.Equal(d.ShapeOf(s, 1), []int{k.Batch}) {
				return nil // refused when it is evaluated
			}
			k.given, k.lengths = lowering.Input[int64](d, s, 1), lowering.Make[int](d, k.Batch)
		}
		return k
	}
}

func (k *pick) Attach(e record.Execution) {
	k.E = e
	k.sum = make([]float64, k.Batch*k.width)
	k.parts = make([]float64, k.tilesAtOnce()*k.Batch*k.width)
}

func (k *pick) tilesAtOnce() int {
	return min(pickTiles, (k.Length+record.StreamingTile-1)/record.StreamingTile)
}

func (k *pick) Bytes() int64 { return 8 * int64(1+k.tilesAtOnce()) * int64(k.Batch*k.width) }

func (k *pick) Start() error {
	ops.Fill(k.E.Steps(), k.sum, 0)
	if k.given.Absent() {
		return essm.CheckLengths("", nil, k.Length, nil)
	}
	return essm.CheckLengths(k.s.In[1].Name, k.given.In(k.E.Frame()), k.Length, k.lengths)
}

// counts returns the steps of a sample that are summed: lo…hi-1.
func (k *pick) counts(sample int) (lo, hi int) {
	hi = k.Length
	if k.lengths != nil {
		hi = k.lengths[sample]
	}
	switch k.mode {
	case "last":
		lo = hi - 1
	case "first":
		hi = 1
	}
	return lo, hi
}

func (k *pick) Steps(from, to int) error {
	for ; from < to; from = k.To {
		k.From, k.To = from, min(to, from+pickTiles*record.StreamingTile)
		items := k.Items()
		if err := k.E.Parallel(k, items); err != nil {
			return err
		}
		for t := range items {
			sample, part := t%k.Batch, k.parts[t*k.width:(t+1)*k.width]
			for j, v := range ops.All(k.E.Steps(), part) {
				k.sum[sample*k.width+j] += v
			}
		}
	}
	return nil
}

func (k *pick) Do(w *record.Workspace, t int) {
	sample, from, n := k.StreamingGrid.ItemAt(t)
	part := k.parts[t*k.width : (t+1)*k.width]
	w.Steps.Step(k.width)
	clear(part)
	lo, hi := k.counts(sample)
	lo, hi = max(lo, from), min(hi, from+n)
	if lo >= hi {
		return
	}
	kernel.AddRows(part, k.x.In(k.E.Frame())[k.E.At(k.s.In[0], sample, lo, k.Length)*k.width:], hi-lo)
}

func (k *pick) Finish() {
	y := k.y.In(k.E.Frame())
	for b := range k.Batch {
		lo, hi := k.counts(b)
		for j, v := range ops.All(k.E.Steps(), k.sum[b*k.width:(b+1)*k.width]) {
			if k.mode == "pool" {
				v /= float64(hi - lo)
			}
			y[b*k.width+j] = float32(v)
		}
	}
}
