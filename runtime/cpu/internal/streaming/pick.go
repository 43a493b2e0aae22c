package streaming

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "essm.Pick", Streaming: record.StreamingKind{Make: streamingPick}})
}

// pick sums a sequence up, in float64. It sums each tile by itself, and then the sums of tiles in order, so that the
// answer depends on neither time chunks nor threads.
type pick struct {
	record.StreamingGrid
	s       *lowering.Step
	mode    string
	width   int
	lengths []int     // nil if every sequence is full
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
		k.Batch, k.Length = in[0], in[1]
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
	clear(k.sum)
	var t *tensor.Tensor
	var name string
	if !k.s.Absent(1) {
		name = k.s.In[1].Name
		t, _ = k.E.Datum(k.s.In[1]).(*tensor.Tensor)
	}
	k.lengths = nil
	if t == nil && k.Length > 0 {
		return nil
	}
	var err error
	k.lengths, err = essm.Lengths(nil, name, t, k.Batch, k.Length)
	return err
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
			for j, v := range part {
				k.sum[sample*k.width+j] += v
			}
		}
	}
	return nil
}

func (k *pick) Do(_ *record.Workspace, t int) {
	sample, from, n := k.StreamingGrid.ItemAt(t)
	part := k.parts[t*k.width : (t+1)*k.width]
	clear(part)
	lo, hi := k.counts(sample)
	lo, hi = max(lo, from), min(hi, from+n)
	if lo >= hi {
		return
	}
	in := k.s.In[0]
	kernel.AddRows(part, k.E.Floats(in)[k.E.At(in, sample, lo, k.Length)*k.width:], hi-lo)
}

func (k *pick) Finish() {
	y := k.E.Floats(k.s.Out[0])
	for b := range k.Batch {
		lo, hi := k.counts(b)
		for j, v := range k.sum[b*k.width : (b+1)*k.width] {
			if k.mode == "pool" {
				v /= float64(hi - lo)
			}
			y[b*k.width+j] = float32(v)
		}
	}
}
