package cpu

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
)

// region is steps that are computed together, tile by tile: row kernels, and at most one recurrence. A tile is some consecutive
// steps of time of one sample. What is read outside of the region is written to its buffer, all else lies in the scratch of
// the worker that computes the tile.
type region struct {
	e          *executable
	node       *ir.Node
	calls      []call
	recurrence *recurrenceCall
	all        []int // calls of the main pass, in order
	pre        []int // calls that the recurrence's input needs; a prefix of the order
	mid        int   // how many of all come before the recurrence
	batch      int
	length     int
	per        int // rows of a step
	tile       int // steps of a full tile
	tiles      int // per sample
	first      int // the tile that the passes under way start from
	group      int // samples that are computed together; 1 unless each is one tile
	// scratch is the float32 numbers that a worker needs.
	scratch      int
	main         mainPass
	groups       groupPass
	back         backPass
	fill         fillPass
	seq          sequencePass
	pipeline     *pipeline   // nil where no step looks back or ahead
	recurrenceAt int         // the recurrence among calls; -1: none
	between      []int       // values between steps that are fused: they are never written
	alias        map[int]int // values that take the place of others: the recurrence's output that of its input
	next         *region     // the region whose back pass this one's main pass runs; nil: none
	ahead        bool        // the region before runs this one's back pass
}

// call is one row kernel.
type call struct {
	run   record.RowFunc
	parts []record.RowFunc // run in parts; nil where it is short
	src   *ir.Node
	over  []int // of in: places whose rows the output's may be written over
	in    []place
	out   place
	// What a step that looks back or ahead has in place of run, and one that brings sequences into another layout.
	windowed  *record.WindowedOp
	tmp       int // scratch of the window
	transpose record.Transpose
}

// place says where rows of a value lie: in a buffer, or in scratch from off on.
type place struct {
	val   int // -1: absent
	off   int
	local bool
	width int
	ring  *ring // where the rows lie, delta tiles before the last that is there; nil for the others
	delta int
}

var nowhere = place{val: -1}

// rows gives the rows of steps from..from+n of a sample.
func (g *region) rows(w *worker, p place, sample, from, n int) []float32 {
	switch {
	case p.val < 0:
		return nil
	case p.ring != nil:
		at := p.ring.at(sample, from/g.tile+p.delta, from) * p.width
		return p.ring.buf[at : at+n*p.width]
	case p.local:
		at := p.off + w.local*p.width
		return w.Scratch[at : at+n*p.width]
	}
	at := g.e.row(p.val, sample, from, g.length) * p.width
	return g.e.Float32[p.val][at : at+n*p.width]
}

// call runs one row kernel on a tile.
func (g *region) call(w *worker, i, sample, from, n int) {
	c := &g.calls[i]
	switch {
	case c.windowed != nil:
		g.runWindowed(w, i, sample, from, n)
		return
	case c.transpose != record.NoTranspose:
		g.runTurn(w, i, sample, from, n)
		return
	case g.pipeline != nil && g.pipeline.carry[i] != nil:
		w.Node = c.src
		g.pipeline.carry[i].tile(w, g.rows(w, c.out, sample, from, n), g.rows(w, c.in[0], sample, from, n), sample, from/g.tile, n)
		return
	}
	w.Node = c.src
	args := w.args[:len(c.in)]
	for j, p := range c.in {
		args[j] = g.rows(w, p, sample, from, n)
	}
	y := g.rows(w, c.out, sample, from, n)
	if c.parts == nil {
		c.run(y, args, n*g.per)
	}
	for _, part := range c.parts {
		if w.stopped() {
			return
		}
		part(y, args, n*g.per)
	}
}

// span gives tile k of a sample: its first step and its number of steps.
func (g *region) span(k int) (from, n int) {
	from = k * g.tile
	return from, min(g.tile, g.length-from)
}

// mainPass computes the region's outputs.
type mainPass struct{ g *region }

// Do computes one tile; work items count samples first, so that the tiles of a sample are handed out in order.
func (p *mainPass) Do(w *worker, k int) {
	g := p.g
	sample, t := k%g.batch, g.first+k/g.batch
	if g.pipeline != nil {
		g.tick(w, sample, t)
		return
	}
	from, n := g.span(t)
	for _, i := range g.all[:g.mid] {
		g.call(w, i, sample, from, n)
	}
	if g.recurrence != nil {
		w.Node = g.recurrence.src
		if !g.recurrence.tile(w, sample, t, from, n) {
			return
		}
	}
	for _, i := range g.all[g.mid:] {
		g.call(w, i, sample, from, n)
	}
	if g.next != nil {
		g.next.back.tile(w, sample, t)
	}
}

// backPass finds the states of a backward recurrence at the tiles' far edges. Where states can jump across a tile, tiles do
// not wait for each other: each leaves at the edge before it what it gives by itself, and join adds the rest. Otherwise they
// run from the last to the first.
type backPass struct{ g *region }

func (p *backPass) Do(w *worker, k int) { p.tile(w, k%p.g.batch, p.g.tiles-1-k/p.g.batch) }

func (p *backPass) tile(w *worker, sample, t int) {
	g := p.g
	c := g.recurrence
	from, n := g.span(t)
	if t == 0 && c.v.local {
		return // nobody reads the state before the first step
	}
	if c.v.local || c.keep {
		for _, i := range g.pre {
			g.call(w, i, sample, from, n)
		}
	}
	if t == 0 {
		return
	}
	w.Node = c.src
	in := c.input(w, sample, from, n, false)
	next := c.edge(sample, t-1)
	if c.jump != nil {
		clear(next)
		c.kernel.Backward(nil, nil, in, n, next, w.Scratch[c.tmp:], false)
		return
	}
	if !c.progress[sample].wait(g.tiles-1-t, w) {
		return
	}
	copy(next, c.edge(sample, t))
	c.kernel.Backward(nil, nil, in, n, next, w.Scratch[c.tmp:], false)
	c.progress[sample].done(g.tiles - t)
}

// edgeStates is the numbers of all backward states at tiles' edges.
func (c *recurrenceCall) edgeStates() int {
	if c.Direction == essm.Forward || c.kernel == nil {
		return 0
	}
	return c.g.batch * c.g.tiles * c.Size
}

// edge is the backward state at the far edge of a tile; zero at that of the last.
func (c *recurrenceCall) edge(sample, t int) []float64 {
	at := (sample*c.g.tiles + t) * c.Size
	return c.edges[at : at+c.Size]
}

// join makes the states at the edges whole. The last tile may be shorter than a jump, but nothing comes from beyond it.
func (c *recurrenceCall) join() {
	if c.jump == nil {
		return
	}
	for b := range c.g.batch {
		for t := c.g.tiles - 2; t > 0; t-- {
			c.jump.Jump(c.edge(b, t-1), c.edge(b, t))
		}
	}
}

// fillPass computes the recurrence's input for the whole sequence.
type fillPass struct{ g *region }

func (p *fillPass) Do(w *worker, k int) {
	g := p.g
	sample, t := k%g.batch, g.first+k/g.batch
	from, n := g.span(t)
	for _, i := range g.pre {
		g.call(w, i, sample, from, n)
	}
}

// counter lets tiles of one sample wait for each other.
type counter struct{ n atomic.Int64 }

// wait returns when the first n tiles are done; false when the run has failed meanwhile. Tiles are handed out in order, so
// what is waited for is always being worked on.
func (c *counter) wait(n int, w *worker) bool {
	for spin := 0; c.n.Load() < int64(n); spin++ {
		if w.e.stop.Load() {
			return false
		}
		switch { // the other thread may not be running at all, on a busy machine
		case spin > 5000:
			time.Sleep(20 * time.Microsecond)
		case spin > 1000:
			runtime.Gosched()
		}
	}
	return true
}

func (c *counter) done(n int) { c.n.Store(int64(n)) }

// recurrenceCall is the recurrence of a region, in one form, for one set of shapes.
type recurrenceCall struct {
	record.RecurrenceInfo
	g           *region
	src         *ir.Node
	kernel      record.TileKernel // nil: seq computes the whole sequence
	seq         record.SequenceKernel
	filled      bool // seq has its tables
	choice      choice
	v, vi       place
	x, xi       place
	keep        bool // the backward pass writes v for the main pass, rather than that this computes it again
	unread      int  // value of imaginary parts that nobody reads, so that they are not computed; -1: none
	stateVal    int  // value of the state before the first step; -1: zeros
	stateOutVal int
	past        []float32         // of a float64 state, the inputs before the first step, rounded to what they were
	row         []float32         // as much of it as one step has, one part
	old, oldIm  int               // scratch of the delayed inputs
	tmp         int               // scratch of the kernel
	advance     record.TileKernel // beside seq: finds the state after the last step
	jump        record.Jumper     // kernel, where its backward states can jump; nil where they cannot, and where there are none
	progress    []counter
	z           []float64 // per sample, while the main pass runs
	edges       []float64 // per sample and tile: the backward state at the tile's far edge; in the arena
}

// tables is the memory of the kernel's constants for this shape; prepare makes them.
func (c *recurrenceCall) tables() int64 {
	if c.kernel != nil {
		return c.kernel.Bytes()
	}
	return c.seq.Bytes()
}

func (c *recurrenceCall) prepare() {
	if c.kernel != nil {
		c.kernel.Prepare()
	} else {
		c.seq.Prepare()
	}
}

// input gathers the input of a tile.
func (c *recurrenceCall) input(w *worker, sample, from, n int, forward bool) *record.TileInput {
	g := c.g
	in := &w.in
	*in = record.TileInput{Re: g.rows(w, c.v, sample, from, n), Im: g.rows(w, c.vi, sample, from, n)}
	if c.Window > 0 {
		lag := c.Window
		if !forward {
			lag = -c.Window
		}
		in.OldRe = w.Scratch[c.old : c.old+n*c.N]
		c.delayed(in.OldRe, c.v, 0, sample, from-lag, n)
		if c.vi.val >= 0 {
			in.OldIm = w.Scratch[c.oldIm : c.oldIm+n*c.N]
			c.delayed(in.OldIm, c.vi, 1, sample, from-lag, n)
		}
	}
	return in
}

// delayed copies n rows of v from a step on that may lie before the first step, where the state's history is, or after
// the last, where there are zeros. part is 1 for imaginary parts.
func (c *recurrenceCall) delayed(dst []float32, v place, part, sample, from, n int) {
	g := c.g
	src := g.e.Float32[v.val]
	for i := range n {
		row := dst[i*c.N : (i+1)*c.N]
		switch t := from + i; {
		case t >= 0 && t < g.length:
			copy(row, src[g.e.row(v.val, sample, t, g.length)*c.N:])
		case t < 0 && t >= -c.Window && c.stateVal >= 0:
			copy(row, c.before(sample, t+c.Window, part))
		default:
			clear(row)
		}
	}
}

// parts is how many rows of N numbers one step of history takes.
func (c *recurrenceCall) parts() int {
	if c.vi.val >= 0 {
		return 2
	}
	return 1
}

// tile computes the recurrence on one tile of the main pass; false when the run has failed meanwhile.
func (c *recurrenceCall) tile(w *worker, sample, t, from, n int) bool {
	if c.kernel == nil {
		return true // computed before
	}
	g := c.g
	x, xi := g.rows(w, c.x, sample, from, n), g.rows(w, c.xi, sample, from, n)
	backward := c.Direction != essm.Forward
	if c.Direction != essm.Backward {
		in := c.input(w, sample, from, n, true)
		if !c.progress[sample].wait(t, w) {
			return false
		}
		c.kernel.Forward(x, xi, in, n, c.z[sample*c.Size:(sample+1)*c.Size], w.Scratch[c.tmp:])
		c.progress[sample].done(t + 1)
	}
	if backward {
		in := c.input(w, sample, from, n, false)
		z := w.state[:c.Size]
		copy(z, c.edge(sample, t))
		c.kernel.Backward(x, xi, in, n, z, w.Scratch[c.tmp:], c.Direction == essm.Bidirectional)
	}
	return true
}

// sequencePass computes the recurrence over whole sequences.
type sequencePass struct{ g *region }

func (p *sequencePass) Do(w *worker, k int) {
	g := p.g
	c := g.recurrence
	w.Node = c.src
	sample, piece := k/c.seq.Pieces(), k%c.seq.Pieces()
	s := &w.seq
	*s = record.Sequence{V: g.rows(w, c.v, sample, 0, g.length), Vi: g.rows(w, c.vi, sample, 0, g.length),
		X: g.rows(w, c.x, sample, 0, g.length), Xi: g.rows(w, c.xi, sample, 0, g.length), Length: g.length, Parts: c.parts(), W: &w.Workspace}
	if c.stateVal >= 0 {
		s.Z = c.z[sample*c.Size : (sample+1)*c.Size]
		if c.Window > 0 {
			s.Past = c.history(sample)
		}
	}
	c.seq.Run(piece, s, w.Scratch, w.state)
}

// last advances the states to the last step, where whole sequences were convolved and no recurrence ran.
func (c *recurrenceCall) last() {
	g, w := c.g, c.g.e.shared().workers[0]
	for sample := range g.batch {
		for k := range g.tiles {
			from, n := g.span(k)
			c.advance.Forward(nil, nil, c.input(w, sample, from, n, true), n, c.z[sample*c.Size:(sample+1)*c.Size], w.Scratch[c.tmp:])
		}
	}
}

// Grid says how the region cuts samples and steps: what it can be computed by, chunk by chunk.
func (g *region) Grid() (batch, length int) { return g.batch, g.length }

// Start sets the states before the first step.
func (g *region) Start() error {
	if g.recurrence != nil {
		g.recurrence.start()
	}
	if g.pipeline != nil {
		g.pipeline.start()
	}
	return nil
}

// Steps computes steps from..to; from is the start of a tile. Where not everything is computed at once, what is computed looks
// back only.
func (g *region) Steps(from, to int) error {
	e := g.e
	g.first = from / g.tile
	tiles := (to - from + g.tile - 1) / g.tile
	if c := g.recurrence; c != nil {
		if len(g.pre) > 0 && !c.v.local && !c.keep && g.pipeline == nil {
			if err := e.tiles(&g.fill, g.batch*tiles); err != nil {
				return err
			}
		}
		if c.kernel == nil {
			if !c.filled {
				p := e.shared()
				c.seq.Fill(&p.workers[0].Workspace)
				if p.stop.Load() {
					return p.err
				}
				c.filled = true
			}
			if err := e.tiles(&g.seq, g.batch*c.seq.Pieces()); err != nil {
				return err
			}
		} else if c.Direction != essm.Forward {
			for b := range g.batch {
				clear(c.edge(b, g.tiles-1))
			}
			if !g.ahead {
				if err := e.tiles(&g.back, g.batch*g.tiles); err != nil {
					return err
				}
			}
			c.join()
			for i := range c.progress {
				c.progress[i].n.Store(0)
			}
		}
	}
	if g.group > 1 { // whose samples are one tile
		return e.tiles(&g.groups, (g.batch+g.group-1)/g.group)
	}
	if g.pipeline != nil {
		tiles += g.pipeline.last
	}
	return e.tiles(&g.main, g.batch*tiles)
}

// Finish writes the states after the last step.
func (g *region) Finish() {
	if c := g.recurrence; c != nil && c.stateOutVal >= 0 {
		if c.kernel == nil {
			c.last()
		}
		c.finish()
	}
}
