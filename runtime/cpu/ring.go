package cpu

import (
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// pipeline has the rings of a region with steps that look back or ahead along time. Samples pass through the region
// tick by tick. At each tick, every step computes one tile: the tick's own or, after a step that looks ahead, an
// earlier one. Values of earlier tiles that a step reads are kept in rings. Several ticks of a sample may be in
// progress at once, on different threads. A tile of a step waits for earlier tiles where it must, and never for a
// later work item. The number of ticks in progress, and the size of rings, depends on the number of threads, but no
// result does.
type pipeline struct {
	rings []*ring
	of    map[int]*ring // per value
	lag   []int         // per call: the number of tiles by which it lags the tick
	last  int           // the largest of them
	loads [][]*ring     // per call: the rings that are filled from buffers before it
	fills [][]*ring     // per call: the rings that it fills
	order []int         // calls, with the recurrence among them
	carry []*carry      // per call: the state of a running sum; nil for other calls
	depth int           // ticks of a sample that may be under way at once
	ended []counter     // per sample: finished ticks
}

// ring keeps the last rows of a value for each sample. It has slots for tiles, and before the first slot a copy of the
// last rows of the last slots, so that the back rows before any slot are contiguous with it.
type ring struct {
	g     *region
	width int
	lag   int     // of the call that fills it
	back  int     // the number of rows before a slot that are read
	edge  float32 // the value of rows before the first step and after the last
	src   place   // the buffer that it is filled from; nowhere if a call fills it
	slots int
	buf   []float32
	made  []counter // per sample: tiles, in order
}

// rows returns the number of rows per sample.
func (r *ring) rows() int { return r.back + r.slots*r.g.tile }

// at returns the row of a step in tile t, or at most back steps before it.
func (r *ring) at(sample, t, step int) int {
	return sample*r.rows() + r.back + t%r.slots*r.g.tile + step - t*r.g.tile
}

// start empties the ring.
func (r *ring) start() {
	for b := range r.made {
		at := b * r.rows() * r.width
		r.clear(r.buf[at : at+r.back*r.width])
		r.made[b].n.Store(0)
	}
}

func (r *ring) clear(x []float32) {
	if r.edge == 0 {
		clear(x)
		return
	}
	for i := range x {
		x[i] = r.edge
	}
}

// load copies tile t from the buffer.
func (r *ring) load(sample, t int) {
	if t >= r.g.tiles {
		return
	}
	from, n := r.g.tileSteps(t)
	src := r.g.e.row(r.src.val, sample, from, r.g.length) * r.width
	copy(r.buf[r.at(sample, t, from)*r.width:][:n*r.width], r.src.buf.In(&r.g.e.frame)[src:])
}

// publish completes tile t, which may be after the last tile of the sequence, and waits for the tiles before it. It
// returns false when the run has failed.
func (r *ring) publish(w *worker, sample, t int) bool {
	tile := r.g.tile
	n := max(0, min(tile, r.g.length-t*tile))
	at := r.at(sample, t, t*tile)
	r.clear(r.buf[(at+n)*r.width : (at+tile)*r.width])
	// The slot's rows among the last of the ring are copied before the first slot.
	if first := r.slots*tile - r.back; t%r.slots*tile+tile > first {
		lo := max(first, t%r.slots*tile)
		to := sample*r.rows() + lo - first
		copy(r.buf[to*r.width:], r.buf[(sample*r.rows()+r.back+lo)*r.width:(at+tile)*r.width])
	}
	if !r.made[sample].wait(t, w) {
		return false
	}
	r.made[sample].done(t + 1)
	return true
}

// pipeline returns the lags and rings that the windowed operators of the region need.
func (r *regionBuilder) pipeline(d *binding, g *region) *pipeline {
	f := &pipeline{of: map[int]*ring{}, lag: make([]int, len(r.steps)), loads: make([][]*ring, len(r.steps)),
		fills: make([][]*ring, len(r.steps)), carry: make([]*carry, len(r.steps)), depth: 1}
	if d.p.Config.Threads > 1 {
		f.depth = d.p.Config.Threads + 1
	}
	made := map[int]int{} // value → the step that computes it
	need := func(i int, v *lowering.Value, back, delta int, edge float32) {
		q := f.of[v.ID]
		if q == nil {
			_, width := lowering.Features(d.Shape(v))
			q = &ring{g: g, width: width, src: nowhere}
			from, here := made[v.ID]
			if here {
				q.lag = f.lag[from]
			}
			if here && d.Inside(v, r.covers) {
				f.fills[from] = append(f.fills[from], q)
			} else {
				q.src = place{val: v.ID, buf: lowering.SlotOf[float32](d.Binding, v), width: width}
				f.loads[i] = append(f.loads[i], q)
			}
			f.of[v.ID] = q
			f.rings = append(f.rings, q)
		}
		q.back = max(q.back, back+delta*g.tile)
		if edge != 0 {
			q.edge = edge
		}
	}
	for i, s := range r.steps {
		operands := r.operands(i)
		var win *record.WindowedOp
		if r.ops[i] != nil {
			win = r.ops[i].Windowed
		}
		ahead := 0
		if win != nil {
			ahead = (win.Ahead() + g.tile - 1) / g.tile
		}
		f.lag[i] = ahead
		for _, v := range operands {
			if from, here := made[v.ID]; here {
				f.lag[i] = max(f.lag[i], f.lag[from]+ahead)
			}
		}
		for _, v := range operands {
			from, here := made[v.ID]
			switch {
			case win != nil && here:
				need(i, v, win.Back(), f.lag[i]-f.lag[from], win.Edge)
			case win != nil:
				need(i, v, win.Back(), f.lag[i], win.Edge)
			case here && f.lag[from] < f.lag[i]:
				need(i, v, 0, f.lag[i]-f.lag[from], 0)
			}
		}
		f.last = max(f.last, f.lag[i])
		if op := r.ops[i]; op != nil && op.Sums != nil {
			_, width := lowering.Features(d.Shape(s.Out[0]))
			f.carry[i] = &carry{Sums: *op.Sums, width: width}
		}
		for _, v := range s.Out {
			if v != nil {
				made[v.ID] = i
			}
		}
	}
	for _, q := range f.rings {
		// A tile is written after the tick depth ticks earlier has ended. Nothing reads the slot's old rows after that.
		q.slots = f.depth + (q.back+g.tile-1)/g.tile
	}
	return f
}

// operands returns the sequences that step i reads.
func (r *regionBuilder) operands(i int) (all []*lowering.Value) {
	s := r.steps[i]
	if i == r.recurrenceAt && r.recurrence != nil {
		info := r.recurrence.Info()
		all = append(all, s.In[info.VRe])
		if info.VIm >= 0 {
			all = append(all, s.In[info.VIm])
		}
		return all
	}
	for _, j := range r.ops[i].Operands {
		all = append(all, s.In[j])
	}
	return all
}

// bytes returns the memory of rings and running sums, in bytes.
func (f *pipeline) bytes(batch int) (sum int64) {
	for _, r := range f.rings {
		sum += int64(batch) * (int64(r.rows())*int64(r.width)*4 + counterBytes)
	}
	for _, c := range f.carry {
		if c != nil {
			sum += c.bytes(batch)
		}
	}
	return sum + int64(batch)*counterBytes
}

// attach allocates rings and running sums.
func (f *pipeline) attach(d *binding, batch int) {
	f.ended = make([]counter, batch)
	for _, r := range f.rings {
		r.buf, r.made = floats(d, batch*r.rows()*r.width), make([]counter, batch)
	}
	for _, c := range f.carry {
		if c != nil {
			c.attach(batch)
		}
	}
}

func (f *pipeline) start() {
	for _, c := range f.carry {
		if c != nil {
			c.start()
		}
	}
	for _, r := range f.rings {
		r.start()
	}
	for i := range f.ended {
		f.ended[i].n.Store(0)
	}
}

// tick computes the tiles of one tick of a sample.
func (g *region) tick(w *worker, sample, k int) {
	f := g.pipeline
	if !f.ended[sample].wait(k-f.depth+1, w) {
		return
	}
	for _, i := range f.order {
		if w.stopped() {
			return
		}
		for _, r := range f.loads[i] {
			if t := k - r.lag; t >= 0 {
				r.load(sample, t)
				if !r.publish(w, sample, t) {
					return
				}
			}
		}
		t := k - f.lag[i]
		if t < 0 {
			continue
		}
		if t < g.tiles {
			from, n := g.tileSteps(t)
			if g.recurrence == nil || i != g.recurrenceAt {
				g.call(w, i, sample, from, n)
			} else if w.Node = g.recurrence.src; !g.recurrence.tile(w, sample, t, from, n) {
				return
			}
		}
		for _, r := range f.fills[i] {
			if !r.publish(w, sample, t) {
				return
			}
		}
	}
	if f.ended[sample].wait(k, w) {
		f.ended[sample].done(k + 1)
	}
}

// runWindowed runs a windowed operator on a tile.
func (g *region) runWindowed(w *worker, i, sample, from, n int) {
	c := &g.calls[i]
	w.Node = c.src
	p := c.in[0]
	r := p.ring
	t := from/g.tile + p.delta
	lo, hi := r.at(sample, t, from+c.windowed.Offs[0]), r.at(sample, t, from+n+c.windowed.Offs[len(c.windowed.Offs)-1])
	c.windowed.Run(g.rows(w, c.out, sample, from, n), r.buf[lo*r.width:hi*r.width],
		w.Scratch[c.tmp:c.tmp+n*c.windowed.Scratch], n, from, g.length)
}

// runTranspose copies a tile of (samples, features, steps) to rows, or back.
func (g *region) runTranspose(w *worker, i, sample, from, n int) {
	c := &g.calls[i]
	w.Node = c.src
	e := g.e
	if c.transpose == lowering.ToRows {
		width := c.out.width
		src := c.in[0].buf.In(&e.frame)[sample*width*g.length+from:]
		kernel.Transpose(g.rows(w, c.out, sample, from, n), width, src, g.length, width, n)
		return
	}
	width := c.in[0].width
	dst := c.out.buf.In(&e.frame)[sample*width*g.length+from:]
	kernel.Transpose(dst, g.length, g.rows(w, c.in[0], sample, from, n), width, n, width)
}
