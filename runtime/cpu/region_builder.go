package cpu

import (
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

type choice = runtime.Choice

// someThreads is the number of threads by which tiles are chosen where answers would depend on them.
const someThreads = 4

// finish returns the region. It chooses the form of the recurrence, the tile, and the places of values.
func (r *regionBuilder) finish(d *binding) *region {
	g := &region{batch: r.batch, length: r.length, per: 1, node: r.steps[0].Source}
	alone := false // rows have nothing to do with each other
	switch {
	case r.recurrence != nil:
		g.node = r.steps[r.recurrenceAt].Source
	case !r.pipelined:
		g.batch, g.length, g.per, alone = d.grid(r)
	}
	if r.recurrence == nil {
		r.recurrenceAt = -1
	}
	flops := 0.0
	for i, s := range r.steps {
		f := rowFlops(d, s, r.ops[i] == nil)
		if r.pipelined { // a run can be cancelled between any two steps
			flops = max(flops, f*record.TileFlops/callFlops)
		} else {
			flops += f
		}
	}
	if alone {
		threads := d.p.Config.Threads
		if !kernel.SameAnywhere() {
			threads = someThreads
		}
		g.tile = record.RowsTile(r.rows, max(1, threads))
	} else {
		g.tile = record.TileSize(flops*float64(g.per), g.length)
	}
	g.tiles = (g.length + g.tile - 1) / g.tile
	r = r.fused(d)
	g.recurrenceAt = r.recurrenceAt
	for _, v := range r.between {
		g.between = append(g.between, v.ID)
	}
	width := func(v *lowering.Value) int {
		_, f := lowering.Features(d.Shape(v))
		return f * g.per
	}
	place0 := func(v *lowering.Value) place {
		return place{val: v.ID, buf: lowering.SlotOf[float32](d.Binding, v), width: width(v)}
	}
	for i, s := range r.steps {
		c := call{src: s.Source}
		if op := r.ops[i]; op != nil {
			if op.Refill != nil {
				g.refills = append(g.refills, op.Refill)
			}
			c.run, c.parts, c.over, c.windowed, c.transpose = op.Run, op.Parts, op.Over, op.Windowed, op.Transpose
			c.in = make([]place, len(s.In), len(s.In)+1)
			if c.scratch = op.Scratch; c.scratch > 0 {
				c.in = append(c.in, nowhere)
			}
			for j := range c.in {
				c.in[j] = nowhere
			}
			for _, j := range op.Operands {
				c.in[j] = place0(s.In[j])
			}
			c.out = place0(s.Out[0])
		}
		g.calls = append(g.calls, c)
	}
	if r.recurrence != nil {
		r.finishRecurrence(d, g, place0)
	}
	if r.pipelined {
		g.pipeline = r.pipeline(d, g)
	}
	g.samples = g.samplesPerItem(flops)
	r.order(d, g)
	r.place(d, g)
	if f := g.pipeline; f != nil {
		f.order = append(f.order, g.all[:g.mid]...)
		if r.recurrence != nil {
			f.order = append(f.order, r.recurrenceAt)
		}
		f.order = append(f.order, g.all[g.mid:]...)
	}
	g.main.g, g.short.g, g.back.g, g.fill.g, g.seq.g = g, g, g, g, g
	return g
}

// grid returns the samples and steps of a region without a recurrence. If its values are long sequences, it uses
// their steps, so that tiles match those of the units around; per is the number of rows per step. Otherwise all rows
// are independent steps of one sample, and alone is true.
func (d *binding) grid(r *regionBuilder) (batch, length, per int, alone bool) {
	for i, s := range r.steps {
		b, l, width, ok := d.Along(s.Out[0])
		_, f := lowering.Features(d.Shape(s.Out[0]))
		if !ok || l < record.LargestTile || b == 0 || f == 0 || b*l*(width/f) != r.rows || i > 0 && l != length {
			return 1, r.rows, 1, true
		}
		batch, length, per = b, l, width/f
	}
	return batch, length, per, false
}

// recurrenceInfo returns the info of a recurrence without inputs that are not given. Forms are chosen by it.
func (d *binding) recurrenceInfo(s *lowering.Step, c record.Recurrence) record.RecurrenceInfo {
	info := *c.Info()
	if info.State >= 0 && d.ZeroState(s.In[info.State]) {
		info.State = -1
	}
	return info
}

// finishRecurrence chooses the form of the recurrence and makes its kernel.
func (r *regionBuilder) finishRecurrence(d *binding, g *region, place0 func(*lowering.Value) place) {
	s := r.steps[r.recurrenceAt]
	bound := d.recurrenceInfo(s, r.recurrence)
	info := bound
	unread := -1
	if info.XIm >= 0 && d.Last(s.Out[info.XIm]) < 0 { // named only because the state comes after it
		unread, info.XIm = s.Out[info.XIm].ID, -1
	}
	in := func(i int) place {
		if i < 0 {
			return nowhere
		}
		return place0(s.In[i])
	}
	out := func(i int) place {
		if i < 0 {
			return nowhere
		}
		return place0(s.Out[i])
	}
	c := &recurrenceCall{RecurrenceInfo: info, g: g, src: s.Source, v: in(info.VRe), vi: in(info.VIm), x: out(info.XRe),
		xi: out(info.XIm), unread: unread, stateVal: -1, stateOutVal: -1}
	if info.State >= 0 {
		c.stateVal, c.state[0] = s.In[info.State].ID, stateSlotOf(d, s.In[info.State])
	}
	if info.StateOut >= 0 {
		c.stateOutVal, c.state[1] = s.Out[info.StateOut].ID, stateSlotOf(d, s.Out[info.StateOut])
	}
	tile := g.tile
	if r.pipelined {
		tile = record.TileSize(0, g.length) // as pipelinedRecurrence has chosen
	}
	c.choice = choose(d.p.Config.Kernel, d.p.costs, s, &bound, g.batch, g.length, tile)
	switch form := c.choice.Form; form {
	case essm.FormFFT, essm.FormDirect:
		c.seq = r.recurrence.Sequence(form, g.length, info.State >= 0 && info.Window > 0)
		if info.StateOut >= 0 && !c.seq.Finishes() {
			c.advance = r.recurrence.Tiled(essm.FormScan, g.tile)
		}
	default:
		c.kernel = r.recurrence.Tiled(form, g.tile)
		if j, ok := c.kernel.(record.Jumper); ok && j.Jumps() {
			c.jump = j
		}
	}
	g.recurrence = c
}

// order lists the calls of each pass, in order.
func (r *regionBuilder) order(d *binding, g *region) {
	made := map[int]int{} // value → step that computes it
	for i, s := range r.steps {
		for _, v := range s.Out {
			if v != nil {
				made[v.ID] = i
			}
		}
	}
	var need func(set map[int]bool, val int)
	need = func(set map[int]bool, val int) {
		i, ok := made[val]
		if !ok || set[i] {
			return
		}
		set[i] = true
		for _, p := range g.calls[i].in {
			if p.val >= 0 {
				need(set, p.val)
			}
		}
	}
	list := func(set map[int]bool, from, to int) (l []int) {
		for i := from; i < to; i++ {
			if set[i] && i != r.recurrenceAt {
				l = append(l, i)
			}
		}
		return l
	}
	main := map[int]bool{}
	if c := g.recurrence; c != nil {
		pre := map[int]bool{}
		for _, p := range []place{c.v, c.vi} {
			if p.val >= 0 {
				need(pre, p.val)
			}
		}
		g.pre = list(pre, 0, r.recurrenceAt)
		full := c.kernel == nil || c.Window > 0
		if g.pipeline != nil { // the recurrence's input is computed tick by tick, in any memory
			for i := range pre {
				main[i] = true
			}
		}
		for _, p := range []place{c.v, c.vi} {
			if p.val >= 0 {
				_, here := made[p.val]
				full = full || !here || !d.Inside(d.p.Values[p.val], r.covers)
			}
		}
		if !full && c.Direction != essm.Forward && r.expensive(d, g.pre, c) {
			full, c.keep = true, true
		}
		c.v.local, c.vi.local = !full, !full
		if g.pipeline != nil {
			c.v.local, c.vi.local = r.local(d, g, c.v.val, made), r.local(d, g, c.vi.val, made)
		}
		if !full {
			for i := range pre {
				main[i] = true
			}
		}
	}
	for i, s := range r.steps {
		if i == r.recurrenceAt {
			continue
		}
		for _, v := range s.Out {
			if v != nil && !d.Inside(v, r.covers) &&
				(g.recurrence == nil || v.ID != g.recurrence.v.val && v.ID != g.recurrence.vi.val) {
				need(main, v.ID)
			}
		}
	}
	if g.recurrence == nil {
		g.all = list(main, 0, len(r.steps))
		g.mid = len(g.all)
		return
	}
	g.all = list(main, 0, r.recurrenceAt)
	g.mid = len(g.all)
	g.all = append(g.all, list(main, r.recurrenceAt+1, len(r.steps))...)
}

// expensive reports whether the recurrence's input takes longer to compute than to write to memory and to read again.
func (r *regionBuilder) expensive(d *binding, pre []int, c *recurrenceCall) bool {
	const flopsPerNumber = 192 // about 2 ns
	flops := 0.0
	for _, i := range pre {
		flops += rowFlops(d, r.steps[i], false)
	}
	return flops > flopsPerNumber*float64(c.N*c.parts())
}

// place assigns memory in rings and scratch. The range of a value in scratch is free again after its last reader.
func (r *regionBuilder) place(d *binding, g *region) {
	local := map[int]bool{}
	for i, s := range r.steps {
		for _, v := range s.Out {
			if v == nil {
				continue
			}
			local[v.ID] = d.Inside(v, r.covers) && (g.pipeline == nil || g.pipeline.of[v.ID] == nil)
			if c := g.recurrence; c != nil {
				if g.pipeline == nil && (v.ID == c.v.val || v.ID == c.vi.val) {
					local[v.ID] = c.v.local
				}
				if i == r.recurrenceAt && (v.ID == c.stateOutVal || c.kernel == nil) {
					local[v.ID] = false
				}
			}
		}
	}
	last := map[int]int{} // value → last step of the region that reads it
	for i := range r.steps {
		for _, p := range g.calls[i].in {
			last[p.val] = i
		}
		if i == r.recurrenceAt {
			last[g.recurrence.v.val], last[g.recurrence.vi.val] = i, i
		}
	}
	rows := g.tile * g.samples
	a := lowering.Scratch{Align: scratchAlign, Page: scratchPage, Skew: scratchSkew}
	at := map[int]int{}
	lag, window := 0, false
	give := func(p *place) {
		if g.pipeline != nil {
			// A value in a buffer is read there if its ring has fewer rows than this call lags.
			if q := g.pipeline.of[p.val]; q != nil && (q.src.val < 0 || window ||
				q.lag < lag && q.back >= (lag-q.lag)*g.tile) {
				p.ring, p.delta = q, lag-q.lag
				return
			}
		}
		if p.val >= 0 && local[p.val] {
			p.local = true
			if _, ok := at[p.val]; !ok {
				at[p.val] = a.Take(rows * p.width)
			}
			p.off = at[p.val]
		}
	}
	free := func(i int, ps []place) {
		for _, p := range ps {
			if p.val >= 0 && p.local && last[p.val] == i {
				a.Give(p.off, rows*p.width)
				last[p.val] = -1
			}
		}
	}
	for i := range r.steps {
		c := &g.calls[i]
		if g.pipeline != nil {
			lag = g.pipeline.lag[i]
		}
		if i == r.recurrenceAt {
			k := g.recurrence
			give(&k.v)
			give(&k.vi)
			give(&k.x)
			give(&k.xi)
			if k.Window > 0 && (k.kernel != nil || k.advance != nil) {
				k.old = a.Take(g.tile * k.N)
				k.oldIm = a.Take(g.tile * k.N)
			}
			free(i, []place{k.v, k.vi})
			continue
		}
		window = c.windowed != nil
		for j := range c.in {
			give(&c.in[j])
		}
		window = false
		give(&c.out)
		own := c.scratch
		if c.windowed != nil {
			own = rows * c.windowed.Scratch
		}
		if own > 0 {
			c.tmp = a.Take(own)
			a.Give(c.tmp, own)
		}
		free(i, c.in)
		if _, read := last[c.out.val]; c.out.local && !read { // nobody reads it
			a.Give(c.out.off, rows*c.out.width)
		}
	}
	g.scratch = a.Size()
	if k := g.recurrence; k != nil {
		k.tmp = g.scratch
		switch {
		case k.kernel != nil:
			g.scratch += k.kernel.Scratch()
		case k.advance != nil:
			g.scratch = max(g.scratch+k.advance.Scratch(), k.seq.Scratch())
		default:
			g.scratch = max(g.scratch, k.seq.Scratch())
		}
		r.share(d, g)
	}
}

// local reports whether an input of a pipelined recurrence is in scratch memory: if this region computes it and
// nothing else reads it.
func (r *regionBuilder) local(d *binding, g *region, val int, made map[int]int) bool {
	_, here := made[val]
	return here && g.pipeline.of[val] == nil && d.Inside(d.p.Values[val], r.covers)
}

// share makes the recurrence's output use the memory of its input if both are whole sequences and nothing else reads
// the input.
func (r *regionBuilder) share(d *binding, g *region) {
	k := g.recurrence
	if k.kernel != nil || k.stateOutVal >= 0 {
		return
	}
	g.alias = map[int]int{}
	for _, p := range [2][2]place{{k.x, k.v}, {k.xi, k.vi}} {
		x, v := p[0].val, p[1].val
		if x < 0 || v < 0 || !d.Inside(d.p.Values[x], r.covers) || !d.Inside(d.p.Values[v], r.covers) {
			continue
		}
		wanted := false
		for i := range g.calls {
			for _, in := range g.calls[i].in {
				wanted = wanted || in.val == v
			}
		}
		if !wanted {
			g.alias[x] = v
		}
	}
}

// Ranges of scratch start at multiples of scratchAlign float32. Those of at least a page are scratchSkew longer than
// needed. Without that, the rows of a tile would often be whole pages apart, and processors delay a load that is
// whole pages away from a store in progress.
const (
	scratchAlign = 16
	scratchPage  = 4096 / 4
	scratchSkew  = scratchPage/4 + scratchAlign
)

// rowFlops estimates the work of one row of a step, in floating-point operations.
func rowFlops(d *binding, s *lowering.Step, recurrence bool) float64 {
	if w := record.Of(s).WindowedOp; w != nil {
		return w.Flops
	}
	width := 0
	for _, v := range s.Out {
		if v != nil {
			_, f := lowering.Features(d.Shape(v))
			width += f
		}
	}
	if recurrence {
		return max(10*float64(width), 5*float64(record.Of(s).Recurrence.Info().Size))
	}
	if f := record.For(s.Node.Op).Flops; f != nil {
		return f(s)
	}
	return 4 * float64(width)
}
