package products

import (
	"slices"

	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/cuda/ptx"
	"github.com/essmc/essmc/runtime/lowering"
)

// fusionRank is after the ranks of fusions that take whole layers.
const fusionRank = 50

func init() {
	record.RegisterFusion(fusionRank, record.Fusion{Name: "product and what follows it", Build: fuse})
}

// makers return a step as one product of matrices whose result is stored row by row, rows × columns, without the
// buffer of the result. They return false for steps that are computed otherwise.
var makers = map[string]func(b *record.Builder, s *lowering.Step) (kernel.Product, bool){
	"essm.Linear":     linearProduct,
	"essm.HeadLinear": oneHead,
	"MatMul":          denseProduct,
	"Gemm":            gemmProduct,
	"Conv":            convProduct,
}

// mostFollowers is the maximum number of steps examined after a product, mostTaken the maximum number that it takes.
const (
	mostFollowers = 32
	mostTaken     = 12
)

// follower is an elementwise step that a product computes.
type follower struct {
	step *lowering.Step
	e    scalar.Expr
	in   []operand // buffers of the inputs that e reads
}

// operand is a number that a follower reads. It is of exactly one kind.
type operand struct {
	from     *lowering.Value // the result of a taken step
	constant *float32
	read     *reading
}

// reading is a number in memory: one per element, per column, per row, per channel of the rows, or one for all.
type reading struct {
	buffer                     kernel.Buffer
	row, column, channel, flat bool
}

// fuse takes a product with the elementwise steps after it, as long as only one of their values is read elsewhere.
func fuse(b *record.Builder, steps []*lowering.Step) []*lowering.Step {
	first := steps[0]
	maker := makers[first.Node.Op.FullName()]
	if maker == nil || record.For(first) == nil || len(steps) == 1 || !b.Binding.IsFloat32(first.Out[0]) {
		return nil
	}
	d := b.Binding
	shape := d.Shape(first.Out[0])
	// Check whether there is anything to take before building the product.
	if d.Leaves(first.Out[0]) || len(shape) == 0 || slices.Contains(shape, 0) {
		return nil
	}
	channels := first.Node.Op.Name == "Conv"
	var all []follower
	taken, closed := []*lowering.Step{first}, 0
	results := first.Out
	halves := splitOf(b, steps)
	if halves != nil {
		taken, results = append(taken, halves), halves.Out
		shape = d.Shape(halves.Out[0])
	}
	before := len(taken)
	for _, s := range steps[1:min(len(steps), mostFollowers)] {
		if len(taken) == mostTaken {
			break
		}
		if s == halves {
			continue
		}
		if !slices.ContainsFunc(s.In, func(v *lowering.Value) bool { return v != nil && writes(taken, v) }) {
			continue
		}
		f, ok := followerOf(b, s, taken, shape, channels)
		if !ok {
			break
		}
		all, taken = append(all, f), append(taken, s)
		if escapes(d, taken) {
			closed = len(all)
		}
	}
	if closed == 0 {
		return nil
	}
	all, taken = all[:closed], taken[:closed+before]
	if halves != nil {
		maker = pairedLinear
	}
	p, ok := maker(b, first)
	if !ok {
		return nil
	}
	p.C.Buffer = b.Buffer(all[closed-1].step.Out[0])
	rows := p.M
	if channels {
		rows = shape[1]
	}
	p.Epilogue = epilogue(all, results, rows, p.N/len(results))
	launch(b, p)
	// In the order of the program: the split may come after others.
	return slices.DeleteFunc(slices.Clone(steps), func(s *lowering.Step) bool { return !slices.Contains(taken, s) })
}

// splitOf returns the step that splits the features of a dense layer with constant weights into halves, if nothing
// else reads the layer's result; otherwise nil.
func splitOf(b *record.Builder, steps []*lowering.Step) *lowering.Step {
	d, first := b.Binding, steps[0]
	if first.Node.Op.FullName() != "essm.Linear" || !constant(first, 1) || !first.Absent(2) && !constant(first, 2) {
		return nil
	}
	for _, s := range steps[1:min(len(steps), mostFollowers)] {
		if !slices.Contains(s.In, first.Out[0]) {
			continue
		}
		if s.Node.Op.FullName() != "Split" || len(s.Out) != 2 || s.Out[0] == nil || s.Out[1] == nil ||
			s.In[0] != first.Out[0] || !d.Inside(first.Out[0], []*lowering.Step{s}) {
			return nil
		}
		rank := len(d.Shape(first.Out[0]))
		axis := int(s.Node.Attrs.Int("axis", 0))
		if axis != -1 && axis != rank-1 || !slices.Equal(d.Shape(s.Out[0]), d.Shape(s.Out[1])) {
			return nil
		}
		return s
	}
	return nil
}

// pairedLinear returns a dense layer whose columns are reordered so that the halves of its result are neighbours.
func pairedLinear(b *record.Builder, s *lowering.Step) (kernel.Product, bool) {
	p, ok := linearProduct(b, s)
	if !ok || p.N%2 != 0 {
		return p, false
	}
	p.C.Row = p.N / 2
	half := p.N / 2
	order := func(i int) int { return i%2*half + i/2 }
	p.B = ordered(b, s.In[1], p.N, p.K, p.K, 1, "pairs of ", order)
	if p.Bias != nil {
		bias := ordered(b, s.In[2], p.N, 1, 1, 1, "pairs of ", order)
		p.Bias = &kernel.Matrix{Buffer: bias.Buffer, Inner: bias.Row}
	}
	return p, true
}

func writes(steps []*lowering.Step, v *lowering.Value) bool {
	return slices.ContainsFunc(steps, func(s *lowering.Step) bool { return slices.Contains(s.Out, v) })
}

// escapes reports whether only the last of all results is read elsewhere.
func escapes(d *lowering.Binding, taken []*lowering.Step) bool {
	for _, s := range taken[:len(taken)-1] {
		if slices.ContainsFunc(s.Out, func(v *lowering.Value) bool { return !d.Inside(v, taken) }) {
			return false
		}
	}
	return true
}

// followerOf returns an elementwise step as a follower of taken, or false if it cannot be one.
func followerOf(b *record.Builder, s *lowering.Step, taken []*lowering.Step, shape []int, channels bool) (follower, bool) {
	d := b.Binding
	if len(s.Out) != 1 || s.Out[0] == nil || !d.IsFloat32(s.Out[0]) || !slices.Equal(d.Shape(s.Out[0]), shape) {
		return follower{}, false
	}
	e, ok := ops.Element(d.Concrete(s))
	if !ok {
		return follower{}, false
	}
	f := follower{step: s, e: e, in: make([]operand, len(s.In))}
	for _, i := range e.Reads() {
		v := s.In[i]
		if v == nil {
			return follower{}, false
		}
		if writes(taken, v) {
			f.in[i].from = v
			continue
		}
		size, _ := tensor.Size(d.Shape(v))
		if t := d.Constant(v); t != nil && size == 1 {
			x, err := t.Float64s()
			if err != nil {
				return follower{}, false
			}
			c := float32(x[0])
			f.in[i].constant = &c
			continue
		}
		r, ok := readingOf(d.Shape(v), shape, channels)
		if !ok {
			return follower{}, false
		}
		switch {
		case d.IsFloat32(v) && v.Const == nil:
			r.buffer = b.Buffer(v)
		case constant(s, i):
			r.buffer = weights(b, v, 1, size, size, 1).Buffer
		default:
			return follower{}, false
		}
		f.in[i].read = &r
	}
	return f, true
}

// readingOf returns how numbers of shape v are read for results of shape, or false if they cannot be.
func readingOf(v, shape []int, channels bool) (reading, bool) {
	v = append(slices.Repeat([]int{1}, max(0, len(shape)-len(v))), v...)
	var varies []int
	for i, n := range v {
		if n != shape[i] && n != 1 || len(v) != len(shape) {
			return reading{}, false
		}
		if n == shape[i] && n > 1 {
			varies = append(varies, i)
		}
	}
	var large []int
	for i, n := range shape {
		if n > 1 {
			large = append(large, i)
		}
	}
	last := len(shape) - 1
	switch {
	case slices.Equal(varies, large):
		return reading{flat: true}, true
	case len(varies) == 0:
		return reading{}, true
	case channels: // rows are channels of samples
		return reading{channel: true}, slices.Equal(varies, []int{1})
	case slices.Equal(varies, []int{last}):
		return reading{column: true}, true
	case shape[last] > 1 && slices.Equal(varies, large[:len(large)-1]):
		return reading{row: true}, true
	}
	return reading{}, false
}

// epilogue returns the computation of the followers on a product of n columns, or on the halves of one. rows is the
// number of channels, if these are read.
func epilogue(all []follower, products []*lowering.Value, rows, n int) *kernel.Epilogue {
	e := &kernel.Epilogue{Args: []kernel.Arg{kernel.U32(rows), kernel.U32(n)}}
	var readings []*reading
	for _, f := range all {
		for _, o := range f.in {
			if o.read != nil {
				readings = append(readings, o.read)
				e.Args = append(e.Args, kernel.Ptr(o.read.buffer))
			}
		}
	}
	begin := func(k *ptx.Kernel) func(k *ptx.Kernel, row, col ptx.U32, x ...ptx.F32) ptx.F32 {
		rows, columns := k.U32Param("rows"), k.U32Param("columns")
		at := map[*reading]ptx.Addr{}
		for i, r := range readings {
			at[r] = k.PtrParam("operand" + string(rune('a'+i%26)) + string(rune('a'+i/26)))
		}
		return func(k *ptx.Kernel, row, col ptx.U32, x ...ptx.F32) (y ptx.F32) {
			values := map[*lowering.Value]ptx.F32{}
			for i, v := range products {
				values[v] = x[i]
			}
			for _, f := range all {
				in := make([]ptx.F32, len(f.in))
				for i, o := range f.in {
					switch {
					case o.from != nil:
						in[i] = values[o.from]
					case o.constant != nil:
						in[i] = ptx.F(*o.constant)
					case o.read != nil:
						in[i] = o.read.number(at[o.read], row, col, rows, columns)
					}
				}
				y = kernel.Expression(k, f.e, in...)
				values[f.step.Out[0]] = y
			}
			return y
		}
	}
	if len(products) == 2 {
		e.Pair = func(k *ptx.Kernel) kernel.PairHook {
			hook := begin(k)
			return func(k *ptx.Kernel, row, col ptx.U32, first, second ptx.F32) ptx.F32 {
				return hook(k, row, col, first, second)
			}
		}
		return e
	}
	e.Begin = func(k *ptx.Kernel) kernel.Hook {
		hook := begin(k)
		return func(k *ptx.Kernel, row, col ptx.U32, x ptx.F32) ptx.F32 { return hook(k, row, col, x) }
	}
	return e
}

func (r *reading) number(at ptx.Addr, row, col, rows, columns ptx.U32) ptx.F32 {
	switch {
	case r.flat:
		at = at.Index64(row.MulWide(columns).Add(col.Wide()), 4)
	case r.column:
		at = at.Index(col, 4)
	case r.row:
		at = at.Index(row, 4)
	case r.channel:
		at = at.Index(row.Rem(rows), 4)
	}
	return at.LoadF32(0)
}
