package streaming

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "essm.SelectiveScan", Keeps: true,
		Streaming: record.StreamingKind{Make: streamingSelective, Constant: []int{2, 5}}})
}

// selective is a selective scan. A work item is some blocks of features of a sample, for all steps under way; in chunks,
// these are heads of one group.
type selective struct {
	record.StreamingGrid
	s               *lowering.Step
	growth          *growth
	scan            *kernel.Selective
	features, heads int
	shared          int // numbers of a row of b
	x, delta, b, c  lowering.Slot[float32]
	y               lowering.Slot[float32]
	before, after   stateSlot
	rows            int       // of a tile
	blocks          int       // of a work item
	chunked         bool      // the form
	z               []float64 // per sample, the states of its blocks
	tiles           []tile    // per work item
}

// growth is whether states may grow, by the content of the rates.
type growth struct{ grows, judged bool }

// tile is the memory of a work item: b and c of a tile in float64, and the step sizes of its features, if heads have
// several. In chunks, it also has those of a chunk, and odd means that states are too large for them.
type tile struct {
	b, c   []float64
	delta  []float32
	chunks *kernel.Chunks
	odd    bool
}

// selectiveKey identifies the constants of a scan, which the programs of a model share.
type selectiveKey struct {
	a, d                     *tensor.Tensor
	features, groups, states int
}

// Numbers of blocks of a work item, and of states of a feature's tile.
const (
	selectiveBlocks = 8
	selectiveTile   = 1024
)

func streamingSelective(s *lowering.Step) record.StreamingMaker {
	shape, groups := s.ConstShape(2), int(s.Node.Attrs.Int("groups", 1))
	for _, i := range []int{0, 1, 3, 4} {
		if !s.Float32Input(i) {
			return nil
		}
	}
	if len(shape) != 2 {
		return nil
	}
	grows := record.Keep(s, []int{2}, nil, func() *growth { return &growth{} }, func(g *growth) {
		now := slices.ContainsFunc(record.Numbers(s, 2), func(rate float32) bool { return !(rate <= 0) })
		if g.judged {
			record.Decide(s, &g.grows, now)
		}
		g.grows, g.judged = now, true
	})
	return func(d *lowering.Binding) record.StreamingKernel {
		x, delta, b := d.ShapeOf(s, 0), d.ShapeOf(s, 1), d.ShapeOf(s, 3)
		if len(x) != 3 || len(delta) != 3 || len(b) != 3 || !d.Gives(s, 0, tensor.Float32) || groups < 1 || x[2] == 0 {
			return nil
		}
		k := &selective{s: s, growth: grows, features: x[2], heads: delta[2], shared: b[2]}
		k.Batch, k.Length = x[0], x[1]
		n := k.shared / groups
		if n == 0 || k.heads == 0 || k.features%k.heads != 0 || k.heads%groups != 0 || k.shared%groups != 0 ||
			shape[0] != k.heads || shape[1] != 1 && shape[1] != n {
			return nil // refused when it is evaluated
		}
		var ok bool
		if k.before, ok = stateOf(d, at(s.In, 6), []int{k.Batch, k.features * n}); !ok {
			return nil
		}
		if k.after, ok = stateOf(d, at(s.Out, 1), []int{k.Batch, k.features * n}); !ok {
			return nil
		}
		k.scan = kernel.NewSelective(k.features, groups, n, shape[1] == 1)
		k.x, k.delta = lowering.Input[float32](d, s, 0), lowering.Input[float32](d, s, 1)
		k.b, k.c = lowering.Input[float32](d, s, 3), lowering.Input[float32](d, s, 4)
		k.y = lowering.Output[float32](d, s, 0)
		k.rows = min(max(8, min(64, selectiveTile/n)), max(1, k.Length))
		k.blocks = selectiveBlocks
		return k
	}
}

// at returns value i of a list; nil where it has none.
func at(list []*lowering.Value, i int) *lowering.Value {
	if i >= len(list) {
		return nil
	}
	return list[i]
}

// perSample returns the work items of a sample.
func (k *selective) perSample() int {
	if k.chunked {
		return k.scan.Groups() * k.perGroup()
	}
	return (k.scan.Blocks() + k.blocks - 1) / k.blocks
}

// part returns the blocks of a work item of a sample: first … last-1.
func (k *selective) part(item int) (first, last int) {
	if k.chunked {
		group := k.scan.Blocks() / k.scan.Groups()
		first = item/k.perGroup()*group + item%k.perGroup()*k.blocks
		return first, min(first+k.blocks, (item/k.perGroup()+1)*group)
	}
	return item * k.blocks, min((item+1)*k.blocks, k.scan.Blocks())
}

// tileSizes returns the numbers in float64 and in float32 of a work item's memory.
func (k *selective) tileSizes() (wide, short int) {
	wide = 2 * k.rows * k.scan.N
	if k.heads < k.features {
		short = k.rows * k.blocks * k.scan.States() / k.scan.N
	}
	return wide, short
}

func (k *selective) Bytes() int64 {
	wide, short := k.tileSizes()
	item := int64(8*wide + 4*short)
	if k.chunked {
		item += k.scan.ChunkBytes(k.features / k.heads)
	}
	return 8*int64(k.Batch*k.scan.Blocks()*k.scan.States()) + int64(k.Batch*k.perSample())*item + k.scan.Bytes()
}

func (k *selective) Attach(e record.Execution) {
	k.E = e
	id := selectiveKey{a: k.s.Fixed(2), d: k.s.Fixed(5), features: k.features, groups: k.scan.Groups(), states: k.scan.N}
	heads := k.heads
	k.scan = record.Keep(k.s, []int{2, 5}, id, k.scan.Sized, func(scan *kernel.Selective) {
		scan.Fill(heads, record.Numbers(k.s, 2), record.Numbers(k.s, 5))
	})
	k.z = make([]float64, k.Batch*k.scan.Blocks()*k.scan.States())
	wide, short := k.tileSizes()
	k.tiles = make([]tile, k.Batch*k.perSample())
	for i := range k.tiles {
		b := make([]float64, wide)
		k.tiles[i] = tile{b: b[:wide/2], c: b[wide/2:], delta: make([]float32, short)}
		if k.chunked {
			k.tiles[i].chunks = k.scan.NewChunks(k.features / k.heads)
		}
	}
}

// states returns the states of a block of a sample, and their index among the operator's states.
func (k *selective) states(sample, block int) (z []float64, first int) {
	size := k.scan.States()
	from, _ := k.scan.Block(block)
	return k.z[(sample*k.scan.Blocks()+block)*size:][:size], (sample*k.features + from) * k.scan.N
}

// load sets the states of a block before the first step, and save passes on those after the last one.
func (k *selective) load(sample, block int) {
	z, first := k.states(sample, block)
	switch f := k.E.Frame(); {
	case !k.before.wide.Absent():
		kernel.LoadStates(k.scan, block, z, k.before.wide.In(f)[first:])
	case !k.before.short.Absent():
		kernel.LoadStates(k.scan, block, z, k.before.short.In(f)[first:])
	default:
		clear(z)
	}
}

func (k *selective) save(sample, block int) {
	z, first := k.states(sample, block)
	switch f := k.E.Frame(); {
	case !k.after.wide.Absent():
		kernel.SaveStates(k.scan, block, z, k.after.wide.In(f)[first:])
	case !k.after.short.Absent():
		kernel.SaveStates(k.scan, block, z, k.after.short.In(f)[first:])
	}
}

func (k *selective) Steps(from, to int) error {
	k.From, k.To = from, to
	return k.E.Parallel(k, k.Batch*k.perSample())
}

// operands are the rows of one sample from a step on.
type operands struct{ x, delta, b, c, y []float32 }

// rowsFrom returns the operands from a step on.
func (k *selective) rowsFrom(sample, step int) operands {
	f, in := k.E.Frame(), k.s.In
	at := func(v *lowering.Value, width int) int { return k.E.At(v, sample, step, k.Length) * width }
	return operands{x: k.x.In(f)[at(in[0], k.features):], delta: k.delta.In(f)[at(in[1], k.heads):],
		b: k.b.In(f)[at(in[3], k.shared):], c: k.c.In(f)[at(in[4], k.shared):], y: k.y.In(f)[at(k.s.Out[0], k.features):]}
}

func (k *selective) Do(w *record.Workspace, item int) {
	w.Node = k.s.Source
	sample := item / k.perSample()
	first, last := k.part(item % k.perSample())
	if k.From == 0 {
		for block := first; block < last; block++ {
			k.load(sample, block)
		}
		k.tiles[item].odd = k.chunked && k.large(sample, first, last)
	}
	for from := k.From; from < k.To && !w.Stopped(); {
		if n := min(kernel.SelectiveChunk, k.To-from); k.chunked && k.chunk(w, item, sample, first, last, from, n) {
			from += n
			continue
		}
		n := min(k.rows, k.To-from)
		k.tile(item, sample, first, last, from, n)
		from += n
		k.tiles[item].odd = k.chunked && k.large(sample, first, last)
	}
	if k.To == k.Length {
		for block := first; block < last; block++ {
			k.save(sample, block)
		}
	}
}

// tile computes rows steps of blocks step by step.
func (k *selective) tile(item, sample, first, last, from, rows int) {
	o, t := k.rowsFrom(sample, from), k.tiles[item]
	lanes, per, group := k.scan.States()/k.scan.N, k.features/k.heads, -1
	for block := first; block < last; block++ {
		if g := k.scan.Group(block); g != group {
			group = g
			for r := range rows {
				for j := range k.scan.N {
					t.b[r*k.scan.N+j] = float64(o.b[r*k.shared+g*k.scan.N+j])
					t.c[r*k.scan.N+j] = float64(o.c[r*k.shared+g*k.scan.N+j])
				}
			}
		}
		e, count := k.scan.Block(block)
		steps, ldd := o.delta[e/per:], k.heads
		if per > 1 {
			steps, ldd = t.delta[(block-first)*lanes*k.rows:], lanes
			for r := range rows {
				for i := range count {
					steps[r*lanes+i] = o.delta[r*k.heads+(e+i)/per]
				}
			}
		}
		z, _ := k.states(sample, block)
		k.scan.Scan(block, o.y[e:], o.x[e:], k.features, steps, ldd, t.b, t.c, k.scan.N, rows, z)
	}
}

// Finish passes on the states of a sequence without steps.
func (k *selective) Finish() {
	for i := range k.Batch * k.scan.Blocks() {
		if k.Length == 0 {
			k.load(i/k.scan.Blocks(), i%k.scan.Blocks())
			k.save(i/k.scan.Blocks(), i%k.scan.Blocks())
		}
	}
}
