package streaming

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "essm.SelectiveScan", Keeps: true,
		Streaming: record.StreamingKind{Make: streamingSelective, Constant: []int{2, 5}}})
}

// selective is a selective scan. A work item is some blocks of features of a sample, for all steps under way.
type selective struct {
	record.StreamingGrid
	s               *lowering.Step
	scan            *kernel.Selective
	features, heads int
	shared          int // numbers of a row of b
	x, delta, b, c  lowering.Slot[float32]
	y               lowering.Slot[float32]
	before, after   stateSlot
	rows            int       // of a tile
	z               []float64 // per sample, the states of its blocks
	tiles           []tile    // per work item
}

// tile is the memory of a work item: b and c of a tile in float64, and the step sizes of its features, where heads have
// several.
type tile struct {
	b, c  []float64
	delta []float32
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
	return func(d *lowering.Binding) record.StreamingKernel {
		x, delta, b := d.ShapeOf(s, 0), d.ShapeOf(s, 1), d.ShapeOf(s, 3)
		if len(x) != 3 || len(delta) != 3 || len(b) != 3 || !d.Gives(s, 0, tensor.Float32) || groups < 1 || x[2] == 0 {
			return nil
		}
		k := &selective{s: s, features: x[2], heads: delta[2], shared: b[2]}
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
func (k *selective) perSample() int { return (k.scan.Blocks() + selectiveBlocks - 1) / selectiveBlocks }

// tileSizes returns the numbers in float64 and in float32 of a work item's memory.
func (k *selective) tileSizes() (wide, short int) {
	wide = 2 * k.rows * k.scan.N
	if k.heads < k.features {
		short = k.rows * selectiveBlocks * k.scan.States() / k.scan.N
	}
	return wide, short
}

func (k *selective) Bytes() int64 {
	wide, short := k.tileSizes()
	items := k.Batch * k.perSample()
	return 8*int64(k.Batch*k.scan.Blocks()*k.scan.States()) + int64(items)*int64(8*wide+4*short) + k.scan.Bytes()
}

func (k *selective) Attach(e record.Execution) {
	k.E = e
	id := selectiveKey{a: k.s.In[2].Const, features: k.features, groups: k.scan.Groups(),
		states: k.scan.N}
	if !k.s.Absent(5) {
		id.d = k.s.In[5].Const
	}
	k.scan = record.Of(k.s).Shared.Get(id, func() any {
		return k.scan.With(k.heads, k.s.Constant(2), k.s.Constant(5))
	}).(*kernel.Selective)
	k.z = make([]float64, k.Batch*k.scan.Blocks()*k.scan.States())
	wide, short := k.tileSizes()
	k.tiles = make([]tile, k.Batch*k.perSample())
	for i := range k.tiles {
		b := make([]float64, wide)
		k.tiles[i] = tile{b[:wide/2], b[wide/2:], make([]float32, short)}
	}
}

// states returns the states of a block of a sample, and where they are among those of the operator.
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

func (k *selective) Do(w *record.Workspace, item int) {
	w.Node = k.s.Source
	sample, first := item/k.perSample(), item%k.perSample()*selectiveBlocks
	last := min(first+selectiveBlocks, k.scan.Blocks())
	f, t := k.E.Frame(), k.tiles[item]
	x, delta, b, c, y := k.x.In(f), k.delta.In(f), k.b.In(f), k.c.In(f), k.y.In(f)
	row := func(v *lowering.Value, step int) int { return k.E.At(v, sample, step, k.Length) }
	in := k.s.In
	if k.From == 0 {
		for block := first; block < last; block++ {
			k.load(sample, block)
		}
	}
	lanes, per, group := k.scan.States()/k.scan.N, k.features/k.heads, -1
	for from := k.From; from < k.To && !w.Stopped(); from += k.rows {
		rows := min(k.rows, k.To-from)
		xAt, dAt, yAt := row(in[0], from)*k.features, row(in[1], from)*k.heads, row(k.s.Out[0], from)*k.features
		bAt, cAt := row(in[3], from)*k.shared, row(in[4], from)*k.shared
		for block := first; block < last; block++ {
			if g := k.scan.Group(block); g != group || block == first {
				group = g
				for r := range rows {
					for j := range k.scan.N {
						t.b[r*k.scan.N+j] = float64(b[bAt+r*k.shared+g*k.scan.N+j])
						t.c[r*k.scan.N+j] = float64(c[cAt+r*k.shared+g*k.scan.N+j])
					}
				}
			}
			e, count := k.scan.Block(block)
			steps, ldd := delta[dAt+e/per:], k.heads
			if per > 1 {
				steps, ldd = t.delta[(block-first)*lanes*k.rows:], lanes
				for r := range rows {
					for i := range count {
						steps[r*lanes+i] = delta[dAt+r*k.heads+(e+i)/per]
					}
				}
			}
			z, _ := k.states(sample, block)
			k.scan.Scan(block, y[yAt+e:], x[xAt+e:], k.features, steps, ldd, t.b, t.c, k.scan.N, rows, z)
		}
	}
	if k.To == k.Length {
		for block := first; block < last; block++ {
			k.save(sample, block)
		}
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
