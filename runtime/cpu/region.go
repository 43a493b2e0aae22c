package cpu

import (
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// region is a list of steps that are computed together, tile by tile: row kernels, and at most one recurrence. A
// tile is a range of consecutive steps of time of one sample. Values that are read outside the region are written to
// their buffers. The others are in the scratch memory of the worker that computes the tile.
type region struct {
	e          *executable
	node       *ir.Node
	calls      []call
	recurrence *recurrenceCall
	all        []int // calls of the main pass, in order
	pre        []int // calls that compute the recurrence's input, in order
	mid        int   // number of calls in all that come before the recurrence
	batch      int
	length     int
	per        int // rows per step
	tile       int // steps of a full tile
	tiles      int // per sample
	first      int // the first tile of the passes under way
	samples    int // samples per work item; 1 unless each is one tile
	// scratch is the memory that a worker needs, in float32.
	scratch      int
	main         mainPass
	short        shortPass
	back         backPass
	fill         fillPass
	seq          sequencePass
	pipeline     *pipeline   // nil where no step looks back or ahead
	recurrenceAt int         // index of the recurrence in calls; -1: none
	between      []int       // values between fused steps: never written
	alias        map[int]int // values that share the memory of others, such as the recurrence's output and its input
	next         *region     // the region whose back pass this one's main pass runs; nil: none
	ahead        bool        // the region before runs this one's back pass
	touches      *touches    // see touched
	refills      []func()    // record.RowOp.Refill of the calls
}

// call is a row kernel with the places of its operands.
type call struct {
	run   record.RowFunc
	parts []record.RowFunc // run, divided so that a run can be cancelled between them; nil if it is short
	src   *ir.Node
	over  []int // indices in in of the operands whose rows the output may be written over
	in    []place
	out   place
	// Instead of run: a windowed operator, or a transpose.
	windowed  *record.WindowedOp
	tmp       int              // offset in scratch of the call's own memory, which windowed operators and some kernels need
	scratch   int              // numbers of it that run gets as its last operand
	transpose lowering.RowKind // ToRows or FromRows
}

// place is the place of a value's rows: a buffer, a ring, or scratch from off on.
type place struct {
	val   int // the value; -1: absent
	buf   lowering.Slot[float32]
	off   int
	local bool
	width int
	ring  *ring // holds the rows, delta tiles before its last; nil for other places
	delta int
}

var nowhere = place{val: -1}

// rows returns the rows of n steps of a sample, from step from on.
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
	return p.buf.In(&g.e.frame)[at : at+n*p.width]
}

// call runs call i on a tile.
func (g *region) call(w *worker, i, sample, from, n int) {
	c := &g.calls[i]
	switch {
	case c.windowed != nil:
		g.runWindowed(w, i, sample, from, n)
		return
	case c.transpose != 0:
		g.runTranspose(w, i, sample, from, n)
		return
	case g.pipeline != nil && g.pipeline.carry[i] != nil:
		w.Node = c.src
		g.pipeline.carry[i].tile(w, g.rows(w, c.out, sample, from, n), g.rows(w, c.in[0], sample, from, n), sample,
			from/g.tile, n)
		return
	}
	w.Node = c.src
	args := w.args[:len(c.in)]
	for j, p := range c.in {
		args[j] = g.rows(w, p, sample, from, n)
	}
	if c.scratch > 0 {
		args[len(args)-1] = w.Scratch[c.tmp : c.tmp+c.scratch]
	}
	y := g.rows(w, c.out, sample, from, n)
	for left := n * g.per; left > 0; {
		rows := min(left, c.rows(g.per))
		if c.parts == nil {
			c.run(w.Steps, y, args, rows)
		}
		for _, part := range c.parts {
			if w.stopped() {
				return
			}
			part(w.Steps, y, args, rows)
		}
		if left -= rows; left == 0 {
			return
		}
		w.Steps.Step(ir.Pace)
		y = y[rows*(c.out.width/g.per):]
		for j, p := range c.in {
			if args[j] != nil {
				args[j] = args[j][rows*(p.width/g.per):]
			}
		}
	}
}

// rows returns the number of rows that are computed between two checks of the run's context, where a step has per of them.
func (c *call) rows(per int) int {
	numbers := 1 << 17
	if c.parts == nil { // an expression of several operations, say, in portable kernels
		numbers = 1 << 16
	}
	rows := numbers / max(1, c.out.width/per)
	for _, of := range [...]int{record.LargestTile, 8} { // the number that products compute together
		if rows >= of {
			return rows / of * of
		}
	}
	return max(1, rows)
}

// tileSteps returns the first step of tile k and its number of steps.
func (g *region) tileSteps(k int) (from, n int) {
	from = k * g.tile
	return from, min(g.tile, g.length-from)
}

// mainPass computes the region's outputs.
type mainPass struct{ g *region }

// Do computes one tile. Work items count samples first, so that the tiles of a sample are handed out in order.
func (p *mainPass) Do(w *worker, k int) {
	g := p.g
	sample, t := k%g.batch, g.first+k/g.batch
	if g.pipeline != nil {
		g.tick(w, sample, t)
		return
	}
	from, n := g.tileSteps(t)
	for _, i := range g.all[:g.mid] {
		if w.stopped() {
			return
		}
		g.call(w, i, sample, from, n)
	}
	if g.recurrence != nil {
		w.Node = g.recurrence.src
		if !g.recurrence.tile(w, sample, t, from, n) {
			return
		}
	}
	for _, i := range g.all[g.mid:] {
		if w.stopped() {
			return
		}
		g.call(w, i, sample, from, n)
	}
	if g.next != nil {
		g.next.back.tile(w, sample, t)
	}
}

// backPass computes the states of a backward recurrence at the far edges of tiles. If states can jump across a tile,
// tiles do not wait for each other: each stores its own contribution at the edge before it, and join adds those of
// later tiles. Otherwise the tiles of a sample run from the last to the first.
type backPass struct{ g *region }

func (p *backPass) Do(w *worker, k int) { p.tile(w, k%p.g.batch, p.g.tiles-1-k/p.g.batch) }

func (p *backPass) tile(w *worker, sample, t int) {
	g := p.g
	c := g.recurrence
	from, n := g.tileSteps(t)
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

// edgeStates returns the size of all backward states at the edges of tiles, in float64.
func (c *recurrenceCall) edgeStates() int {
	if c.Direction == essm.Forward || c.kernel == nil {
		return 0
	}
	return c.g.batch * c.g.tiles * c.Size
}

// edge returns the backward state at the far edge of tile t. It is zero for the last tile.
func (c *recurrenceCall) edge(sample, t int) []float64 {
	at := (sample*c.g.tiles + t) * c.Size
	return c.edges[at : at+c.Size]
}

// join adds to the states at the edges the contributions of all later tiles. The last tile may be shorter than a
// jump, but there are no states after it.
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
	from, n := g.tileSteps(t)
	for _, i := range g.pre {
		g.call(w, i, sample, from, n)
	}
}

// counter counts the finished tiles of one sample, so that others can wait for them.
type counter struct{ n atomic.Int64 }

const counterBytes = int64(unsafe.Sizeof(counter{}))

// wait returns true when the first n tiles are done, and false when the run has failed. Tiles are handed out in order,
// so a worker is always at work on those that are not done.
func (c *counter) wait(n int, w *worker) bool {
	for spin := 0; c.n.Load() < int64(n); spin++ {
		if w.e.stop.Load() {
			return false
		}
		switch { // on a busy machine, the other thread may not be running
		case spin > 5000:
			time.Sleep(20 * time.Microsecond)
		case spin > 1000:
			runtime.Gosched()
		}
	}
	return true
}

func (c *counter) done(n int) { c.n.Store(int64(n)) }

// recurrenceCall is the recurrence of a region, with its form and shapes.
type recurrenceCall struct {
	record.RecurrenceInfo
	g           *region
	src         *ir.Node
	kernel      record.TileKernel // nil: seq computes the whole sequence
	seq         record.SequenceKernel
	filled      bool // the tables of seq are made
	choice      choice
	v, vi       place
	x, xi       place
	keep        bool // the back pass writes v, so that the main pass need not compute it again
	unread      int  // the value of an output's imaginary parts, if nobody reads it: it is not computed; -1: none
	stateVal    int  // value of the state before the first step; -1: zeros
	stateOutVal int
	state       [2]stateSlot      // before the first step, and after the last
	past        []float32         // the inputs before the first step that a float64 state holds, as float32
	row         []float32         // memory for one part of one step of past
	old, oldIm  int               // offsets in scratch of the delayed inputs
	tmp         int               // offset in scratch of the kernel's memory
	advance     record.TileKernel // beside seq: computes the state after the last step
	jump        record.Jumper     // kernel, if its backward states can jump across tiles; nil otherwise
	progress    []counter
	z           []float64 // per sample, while the main pass runs
	edges       []float64 // per sample and tile: the backward state at the tile's far edge; in the arena
}

// tables returns the memory of the kernel's tables, in bytes; prepare makes them.
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

// refill makes tables again, in the same memory, after the content of settled inputs has changed.
func (c *recurrenceCall) refill() {
	if c.filled = false; c.kernel != nil {
		c.kernel.Prepare()
	}
}

// input returns the input of a tile, with the delayed inputs of the given direction.
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

// delayed copies n rows of v to dst, from step from on. Rows before the first step come from the state, and are zero
// without one; rows after the last step are zero. part is 1 for imaginary parts.
func (c *recurrenceCall) delayed(dst []float32, v place, part, sample, from, n int) {
	g := c.g
	src := v.buf.In(&g.e.frame)
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

// parts returns the number of rows of N numbers in one step of the input: 2 for complex inputs.
func (c *recurrenceCall) parts() int {
	if c.vi.val >= 0 {
		return 2
	}
	return 1
}

// tile computes the recurrence on one tile of the main pass. It returns false when the run has failed.
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
		X: g.rows(w, c.x, sample, 0, g.length), Xi: g.rows(w, c.xi, sample, 0, g.length), Length: g.length,
		Parts: c.parts(), W: &w.Workspace}
	if c.stateVal >= 0 {
		s.Z = c.z[sample*c.Size : (sample+1)*c.Size]
		if c.Window > 0 {
			s.Past = c.history(sample)
		}
	}
	if c.stateOutVal >= 0 && c.advance == nil {
		s.Next = c.z[sample*c.Size : (sample+1)*c.Size]
	}
	c.seq.Run(piece, s, w.Scratch, w.state)
}

// last computes the states after the last step, for the forms that compute whole sequences without states.
func (c *recurrenceCall) last() {
	g, w := c.g, c.g.e.shared().workers[0]
	for sample := range g.batch {
		for k := range g.tiles {
			from, n := g.tileSteps(k)
			c.advance.Forward(nil, nil, c.input(w, sample, from, n, true), n, c.z[sample*c.Size:(sample+1)*c.Size],
				w.Scratch[c.tmp:])
		}
	}
}

// Grid returns the number of samples and of steps that Steps counts by.
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

// Steps computes steps from…to-1; from is the first step of a tile. If it is called for parts of a sequence, the region
// looks back only.
func (g *region) Steps(from, to int) error {
	e := g.e
	g.first = from / g.tile
	tiles := (to - from + g.tile - 1) / g.tile
	if tiles == 0 {
		return nil // an empty sequence
	}
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
	if g.samples > 1 { // whose samples are one tile
		return e.tiles(&g.short, (g.batch+g.samples-1)/g.samples)
	}
	if g.pipeline != nil {
		tiles += g.pipeline.last
	}
	return e.tiles(&g.main, g.batch*tiles)
}

// Finish writes the states after the last step.
func (g *region) Finish() {
	if c := g.recurrence; c != nil && c.stateOutVal >= 0 {
		if c.advance != nil {
			c.last()
		}
		c.finish()
	}
}
