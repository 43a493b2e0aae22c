package products

import (
	"slices"

	"github.com/essmc/essmc/ir/scalar"
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

// fuse takes a product with the elementwise steps after it, as long as only one of their values is read elsewhere.
func fuse(b *record.Builder, steps []*lowering.Step) []*lowering.Step {
	d, first := b.Binding, steps[0]
	maker := makers[first.Node.Op.FullName()]
	if maker == nil || record.For(first) == nil || len(steps) == 1 || !d.IsFloat32(first.Out[0]) {
		return nil
	}
	shape := d.Shape(first.Out[0])
	// Check whether there is anything to take before building the product.
	if d.Leaves(first.Out[0]) || len(shape) == 0 || slices.Contains(shape, 0) {
		return nil
	}
	taken, results := steps[:1:1], first.Out
	if halves := splitOf(b, steps); halves != nil {
		maker, taken, results = pairedLinear, append(taken, halves), halves.Out
		shape = d.Shape(halves.Out[0])
	}
	channels := first.Node.Op.Name == "Conv"
	f := lowering.NewFusion(d, shape, func(_ scalar.Expr, s *lowering.Step, operands []*lowering.Value) bool {
		return d.IsFloat32(s.Out[0]) && !slices.ContainsFunc(operands[len(results):], func(v *lowering.Value) bool {
			return spreadOf(d.Shape(v), shape, channels) == lowering.General || !d.IsFloat32(v) && !float(v.Fixed())
		})
	}, results...)
	more := d.Follow(taken, steps[1:min(len(steps), mostFollowers)], mostTaken-len(taken), nil, f.Add)
	if len(more) == 0 {
		return nil
	}
	p, ok := maker(b, first)
	if !ok {
		return nil
	}
	last, rows := more[len(more)-1].Out[0], p.M
	p.C.Buffer = b.Buffer(last)
	if channels {
		rows = shape[1]
	}
	p.Epilogue = epilogue(b, f, last, len(results), rows, p.N/len(results), channels)
	launch(b, p)
	// In the order of the program: the split may come after others.
	taken = append(taken, more...)
	return slices.DeleteFunc(slices.Clone(steps), func(s *lowering.Step) bool { return !slices.Contains(taken, s) })
}

// spreadOf is lowering.SpreadOf. If channels is set, rows are the channels of samples, and operands with a number for
// each channel are PerRow.
func spreadOf(v, shape []int, channels bool) lowering.Spread {
	spread := lowering.SpreadOf(v, shape)
	switch {
	case !channels || spread == lowering.Same || spread == lowering.Single:
		return spread
	case lowering.PerChannel(v, shape):
		return lowering.PerRow
	}
	return lowering.General
}

// splitOf returns the step that splits the features of a dense layer with constant weights into halves, if nothing
// else reads the layer's result; otherwise nil.
func splitOf(b *record.Builder, steps []*lowering.Step) *lowering.Step {
	d, first := b.Binding, steps[0]
	if first.Node.Op.FullName() != "essm.Linear" || !constant(first, 1) || !first.Absent(2) && !constant(first, 2) {
		return nil
	}
	s := d.Sole(first.Out[0])
	if s == nil || s.Node.Op.FullName() != "Split" || len(s.Out) != 2 || !s.Gives(0) || !s.Gives(1) ||
		s.In[0] != first.Out[0] || !slices.Contains(steps[:min(len(steps), mostFollowers)], s) {
		return nil
	}
	rank, axis := len(d.Shape(first.Out[0])), int(s.Node.Attrs.Int("axis", 0))
	if axis != -1 && axis != rank-1 || !slices.Equal(d.Shape(s.Out[0]), d.Shape(s.Out[1])) {
		return nil
	}
	return s
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

// epilogue returns the computation of the value last on a product of n columns, or on the halves of one, which are the
// first operands of f, as many as results. rows is the number of channels, if rows are channels.
func epilogue(b *record.Builder, f *lowering.Fusion, last *lowering.Value, results, rows, n int,
	channels bool) *kernel.Epilogue {
	d, expr := b.Binding, f.Of(last)
	e := &kernel.Epilogue{Pairs: results == 2, Args: []kernel.Arg{kernel.U32(rows), kernel.U32(n)}}
	spreads := map[int]lowering.Spread{} // of operands in memory
	reads := slices.DeleteFunc(expr.Reads(), func(i int) bool { return i < results })
	for _, i := range reads {
		v := f.Operands[i]
		x, _ := b.Float32(v) // fuse has checked the type
		e.Args, spreads[i] = append(e.Args, kernel.Ptr(x)), spreadOf(d.Shape(v), d.Shape(last), channels)
	}
	e.Begin = func(k *ptx.Kernel) kernel.Hook {
		rows, columns := k.U32Param("rows"), k.U32Param("columns")
		base := map[int]ptx.Addr{}
		for j, i := range reads {
			base[i] = k.PtrParam("operand" + string(rune('a'+j%26)) + string(rune('a'+j/26)))
		}
		return func(k *ptx.Kernel, row, col ptx.U32, x ...ptx.F32) ptx.F32 {
			in := append(slices.Clip(x), make([]ptx.F32, len(f.Operands)-results)...)
			for _, i := range reads {
				at := base[i]
				switch spreads[i] {
				case lowering.Same:
					at = at.Index64(row.MulWide(columns).Add(col.Wide()), 4)
				case lowering.PerFeature:
					at = at.Index(col, 4)
				case lowering.PerRow:
					r := row
					if channels {
						r = row.Rem(rows)
					}
					at = at.Index(r, 4)
				}
				in[i] = at.LoadF32(0)
			}
			return kernel.Expression(k, expr, in...)
		}
	}
	return e
}
