package cpu

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() { register(record{op: "essm.Pick", streaming: streamingKind{make: streamingPick}}) }

// pick sums a sequence up, in float64: each tile by itself, and the tiles in order, so that the answer depends on neither
// chunks nor threads.
type pick struct {
	streamingGrid
	s       *lowering.Step
	mode    string
	width   int
	lengths []int     // nil: every sequence is full
	sum     []float64 // per sample
	parts   []float64 // per work item of the steps under way
}

// pickTiles bounds the tiles of a sample that are summed up at once.
const pickTiles = 64

func streamingPick(s *lowering.Step) streamingMaker {
	if !s.Float32Input(0) {
		return nil
	}
	mode := s.Node.Attrs.Str("mode", "")
	return func(d *lowering.Binding) streamingKernel {
		in := d.ShapeOf(s, 0)
		if len(in) != 3 || !d.Gives(s, 0, tensor.Float32) {
			return nil
		}
		k := &pick{s: s, mode: mode, width: in[2]}
		k.batch, k.length = in[0], in[1]
		return k
	}
}

func (k *pick) attach(e execution) {
	k.e = e
	k.sum = make([]float64, k.batch*k.width)
	k.parts = make([]float64, k.tilesAtOnce()*k.batch*k.width)
}

func (k *pick) tilesAtOnce() int { return min(pickTiles, (k.length+streamingTile-1)/streamingTile) }

func (k *pick) bytes() int64 { return 8 * int64(1+k.tilesAtOnce()) * int64(k.batch*k.width) }

func (k *pick) start() error {
	clear(k.sum)
	var t *tensor.Tensor
	var name string
	if !k.s.Absent(1) {
		name = k.s.In[1].Name
		t, _ = k.e.datum(k.s.In[1]).(*tensor.Tensor)
	}
	k.lengths = nil
	if t == nil && k.length > 0 {
		return nil
	}
	var err error
	k.lengths, err = essm.Lengths(name, t, k.batch, k.length)
	return err
}

// counts gives the steps of a sample that are summed up.
func (k *pick) counts(sample int) (lo, hi int) {
	hi = k.length
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

func (k *pick) steps(from, to int) error {
	for ; from < to; from = k.to {
		k.from, k.to = from, min(to, from+pickTiles*streamingTile)
		items := k.items()
		if err := k.e.parallel(k, items); err != nil {
			return err
		}
		for t := range items {
			sample, part := t%k.batch, k.parts[t*k.width:(t+1)*k.width]
			for j, v := range part {
				k.sum[sample*k.width+j] += v
			}
		}
	}
	return nil
}

func (k *pick) do(_ *workspace, t int) {
	sample, from, n := k.streamingGrid.itemAt(t)
	part := k.parts[t*k.width : (t+1)*k.width]
	clear(part)
	lo, hi := k.counts(sample)
	lo, hi = max(lo, from), min(hi, from+n)
	if lo >= hi {
		return
	}
	in := k.s.In[0]
	kernel.AddRows(part, k.e.floats(in)[k.e.at(in, sample, lo, k.length)*k.width:], hi-lo)
}

func (k *pick) finish() {
	y := k.e.floats(k.s.Out[0])
	for b := range k.batch {
		lo, hi := k.counts(b)
		for j, v := range k.sum[b*k.width : (b+1)*k.width] {
			if k.mode == "pool" {
				v /= float64(hi - lo)
			}
			y[b*k.width+j] = float32(v)
		}
	}
}
