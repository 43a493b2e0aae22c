package cpu

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// spanKernel computes a step over sequences that treats steps of time by themselves, or sums them up, so that it can run
// chunk by chunk beside regions. The executor calls start, then steps for one stretch after the other, then finish.
type spanKernel interface {
	stage
	attach(e *executable) // makes what the kernel holds
	bytes() int64         // of that
}

// stage is what is computed along time, from the first step to the last.
type stage interface {
	// grid is the number of samples, and of the steps of each.
	grid() (batch, length int)
	start() error
	steps(from, to int) error
	finish()
}

// spanMaker makes the kernel for a binding, or gives nil where its shapes do not fit.
type spanMaker func(d *binding) spanKernel

// spans is the table of such steps.
var spans = map[string]func(s *lowering.Step) spanMaker{
	"essm.Embedding": spanEmbedding,
	"essm.Pick":      spanPick,
	"Reshape":        spanCopy,
	"Squeeze":        spanCopy,
	"Unsqueeze":      spanCopy,
	"Flatten":        spanCopy,
}

// spanTile is the steps of a ticket.
const spanTile = largestTile

// spanGrid is what spans share: samples and steps in tickets.
type spanGrid struct {
	e             *executable
	batch, length int
	from, to      int // under way
}

func (g *spanGrid) attach(e *executable)      { g.e = e }
func (g *spanGrid) grid() (batch, length int) { return g.batch, g.length }
func (g *spanGrid) start() error              { return nil }
func (g *spanGrid) finish()                   {}
func (g *spanGrid) bytes() int64              { return 0 }

// tickets of the steps under way.
func (g *spanGrid) tickets() int { return g.batch * ((g.to - g.from + spanTile - 1) / spanTile) }

// ticket k's sample and steps.
func (g *spanGrid) ticket(k int) (sample, from, n int) {
	from = g.from + k/g.batch*spanTile
	return k % g.batch, from, min(spanTile, g.to-from)
}

// embedding looks tokens up.
type embedding struct {
	spanGrid
	s     *lowering.Step
	table []float32
	vocab int
	width int
	wide  []int64
	short []int32
}

func spanEmbedding(s *lowering.Step) spanMaker {
	table := s.Constant(1)
	if table == nil || len(s.ConstShape(1)) != 2 {
		return nil
	}
	vocab, width := s.ConstShape(1)[0], s.ConstShape(1)[1]
	return func(d *binding) spanKernel {
		ids := d.ShapeOf(s, 0)
		if ids == nil || !d.Gives(s, 0, tensor.Float32) {
			return nil
		}
		k := &embedding{s: s, table: table, vocab: vocab, width: width}
		var per int
		var ok bool
		if k.batch, k.length, per, ok = d.Along(s.In[0]); !ok || per != 1 {
			k.batch = 1
			k.length, _ = tensor.Size(ids)
		}
		return k
	}
}

// start checks all tokens.
func (k *embedding) start() error {
	ids := k.e.datum(k.s.In[0]).(*tensor.Tensor)
	k.wide, k.short = nil, nil
	if ids.DType() == tensor.Int64 {
		k.wide = tensor.Data[int64](ids)
	} else {
		k.short = tensor.Data[int32](ids)
	}
	for i := range ids.Len() {
		if id := k.token(i); id < 0 || id >= int64(k.vocab) {
			return essm.TokenError(k.s.In[0].Name, ids.Shape(), i, id, k.vocab)
		}
	}
	return nil
}

func (k *embedding) token(i int) int64 {
	if k.wide != nil {
		return k.wide[i]
	}
	return int64(k.short[i])
}

func (k *embedding) steps(from, to int) error {
	k.from, k.to = from, to
	return k.e.parallel(k, k.tickets())
}

func (k *embedding) finish() { k.wide, k.short = nil, nil }

func (k *embedding) ticket(_ *worker, t int) {
	sample, from, n := k.spanGrid.ticket(t)
	out := k.s.Out[0].ID
	y := k.e.buf[out][k.e.row(out, sample, from, k.length)*k.width:]
	for i := range n {
		id := int(k.token(sample*k.length + from + i))
		copy(y[i*k.width:(i+1)*k.width], k.table[id*k.width:])
	}
}

// copying serves operators that only change the shape, and not where time lies.
type copying struct {
	spanGrid
	s     *lowering.Step
	width int
}

func spanCopy(s *lowering.Step) spanMaker {
	if !s.Float32Input(0) {
		return nil
	}
	return func(d *binding) spanKernel {
		if !d.Gives(s, 0, tensor.Float32) {
			return nil
		}
		k := &copying{s: s}
		var ok bool
		if k.batch, k.length, k.width, ok = d.Along(s.In[0]); !ok {
			return nil
		}
		if batch, length, width, ok := d.Along(s.Out[0]); !ok || batch != k.batch || length != k.length || width != k.width {
			return nil
		}
		return k
	}
}

func (k *copying) steps(from, to int) error {
	k.from, k.to = from, to
	return k.e.parallel(k, k.tickets())
}

func (k *copying) ticket(_ *worker, t int) {
	sample, from, n := k.spanGrid.ticket(t)
	in, out := k.s.In[0].ID, k.s.Out[0].ID
	copy(k.e.buf[out][k.e.row(out, sample, from, k.length)*k.width:][:n*k.width], k.e.buf[in][k.e.row(in, sample, from, k.length)*k.width:])
}

// pick sums a sequence up, in float64: each tile by itself, and the tiles in order, so that the answer depends on neither
// chunks nor threads.
type pick struct {
	spanGrid
	s       *lowering.Step
	mode    string
	width   int
	lengths []int     // nil: every sequence is full
	sum     []float64 // per sample
	parts   []float64 // per ticket of the steps under way
}

// pickTiles bounds the tiles of a sample that are summed up at once.
const pickTiles = 64

func spanPick(s *lowering.Step) spanMaker {
	if !s.Float32Input(0) {
		return nil
	}
	mode := s.Node.Attrs.Str("mode", "")
	return func(d *binding) spanKernel {
		in := d.ShapeOf(s, 0)
		if len(in) != 3 || !d.Gives(s, 0, tensor.Float32) {
			return nil
		}
		k := &pick{s: s, mode: mode, width: in[2]}
		k.batch, k.length = in[0], in[1]
		return k
	}
}

func (k *pick) attach(e *executable) {
	k.e = e
	k.sum = make([]float64, k.batch*k.width)
	k.parts = make([]float64, k.tilesAtOnce()*k.batch*k.width)
}

func (k *pick) tilesAtOnce() int { return min(pickTiles, (k.length+spanTile-1)/spanTile) }

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
		k.from, k.to = from, min(to, from+pickTiles*spanTile)
		tickets := k.tickets()
		if err := k.e.parallel(k, tickets); err != nil {
			return err
		}
		for t := range tickets {
			sample, part := t%k.batch, k.parts[t*k.width:(t+1)*k.width]
			for j, v := range part {
				k.sum[sample*k.width+j] += v
			}
		}
	}
	return nil
}

func (k *pick) ticket(_ *worker, t int) {
	sample, from, n := k.spanGrid.ticket(t)
	part := k.parts[t*k.width : (t+1)*k.width]
	clear(part)
	lo, hi := k.counts(sample)
	lo, hi = max(lo, from), min(hi, from+n)
	if lo >= hi {
		return
	}
	in := k.s.In[0].ID
	kernel.AddRows(part, k.e.buf[in][k.e.row(in, sample, lo, k.length)*k.width:], hi-lo)
}

func (k *pick) finish() {
	y := k.e.buf[k.s.Out[0].ID]
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
