package products

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/std"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// wideProduct multiplies matrices of float64: y = alpha A B + beta C. It packs panels of columns of B.
type wideProduct struct {
	m, k, n        int
	at             [2][]int // per product: the offsets of the matrices
	aRow, aTerm    int      // strides of A
	bTerm, bColumn int      // strides of B
	c              [2]int   // strides of C
	columns, parts int      // per work item; work items per product
	alpha, beta    float64
	a, b, plus, y  []float64
}

// wideRows is the number of rows between two checks of the run's context, a multiple of the rows that the kernel
// computes together.
const wideRows = 64

// wideTurned is the number of rows of a transposed A that are copied together; there they are adjacent.
const wideTurned = 4

// wideMatMul is MatMul for float64.
func wideMatMul(d *lowering.Binding, s *lowering.Step) *record.TensorKernel {
	a, b := d.ShapeOf(s, 0), d.ShapeOf(s, 1)
	if len(a) < 2 || len(b) < 2 || b[len(b)-2] != a[len(a)-1] {
		return nil
	}
	batch, err := ops.Broadcast(a[:len(a)-2], b[:len(b)-2])
	if err != nil {
		return nil // the evaluation reports the error
	}
	p := &wideProduct{m: a[len(a)-2], k: a[len(a)-1], n: b[len(b)-1], alpha: 1}
	for i, v := range [][]int{a[:len(a)-2], b[:len(b)-2]} {
		p.at[i] = lowering.Offsets[int](d, batch, ops.BroadcastStrides(v, batch), 0)
		for k := range ops.Each(d.Steps(), len(p.at[i])) {
			p.at[i][k] *= []int{p.m * p.k, p.k * p.n}[i]
		}
	}
	p.aRow, p.aTerm, p.bTerm, p.bColumn = p.k, 1, p.n, 1
	return p.kernel(d, s, append(slices.Clone(batch), p.m, p.n), -1)
}

// wideGemm is Gemm for float64.
func wideGemm(d *lowering.Binding, s *lowering.Step) *record.TensorKernel {
	a, b, attrs := d.ShapeOf(s, 0), d.ShapeOf(s, 1), s.Node.Attrs
	if len(a) != 2 || len(b) != 2 {
		return nil
	}
	p := &wideProduct{m: a[0], k: a[1], n: b[1], at: [2][]int{{0}, {0}}, aRow: a[1], aTerm: 1, bTerm: b[1], bColumn: 1,
		alpha: attrs.Float("alpha", 1), beta: attrs.Float("beta", 1)}
	inner := b[0]
	if attrs.Bool("transA", false) {
		p.m, p.k, p.aRow, p.aTerm = a[1], a[0], 1, a[1]
	}
	if attrs.Bool("transB", false) {
		p.n, inner, p.bTerm, p.bColumn = b[0], b[1], 1, b[1]
	}
	if inner != p.k {
		return nil // the evaluation reports the error
	}
	return p.kernel(d, s, []int{p.m, p.n}, 2)
}

// wideLinear is essm.Linear for float64.
func wideLinear(d *lowering.Binding, s *lowering.Step) *record.TensorKernel {
	a, b := d.ShapeOf(s, 0), d.ShapeOf(s, 1)
	if len(a) < 1 || len(b) != 2 || a[len(a)-1] != b[1] || b[1] == 0 {
		return nil
	}
	p := &wideProduct{m: tensors.Product(a) / b[1], k: b[1], n: b[0], at: [2][]int{{0}, {0}}, aRow: b[1], aTerm: 1, bTerm: 1,
		bColumn: b[1], alpha: 1, beta: 1}
	return p.kernel(d, s, append(slices.Clone(a[:len(a)-1]), b[0]), 2)
}

// wideEinsum is Einsum of two tensors of float64, if it consists of matrix products whose rows, columns and terms
// have even strides.
func wideEinsum(d *lowering.Binding, s *lowering.Step, equation string) *record.TensorKernel {
	a, b, y := d.ShapeOf(s, 0), d.ShapeOf(s, 1), d.Shape(s.Out[0])
	if a == nil || b == nil || y == nil {
		return nil
	}
	in, out, err := std.EinsumTerms(equation, []int{len(a), len(b)})
	if err != nil {
		return nil // the evaluation reports the error
	}
	e, second := newEinsum(d, in, out, [][]int{a, b}, y)
	if e == nil || second {
		return nil
	}
	c := d.Steps()
	p := &wideProduct{m: e.m, k: e.k, n: e.n, at: [2][]int{e.at[0], e.at[1]}, alpha: 1}
	p.aRow, p.aTerm, p.bTerm, p.bColumn = even(c, e.aRow), even(c, e.aSum), even(c, e.bSum), even(c, e.bColumn)
	if min(p.aRow, p.aTerm, p.bTerm, p.bColumn) == 0 || p.aTerm != 1 && p.aRow != 1 ||
		even(c, e.yColumn) != 1 || len(e.yRow) > 1 && even(c, e.yRow) != p.n {
		return nil
	}
	for i, at := range ops.All(c, e.at[2]) {
		if at != i*p.m*p.n {
			return nil
		}
	}
	return p.kernel(d, s, y, -1)
}

// kernel multiplies inputs 0 and 1 of the step. It adds input plus, if there is one.
func (p *wideProduct) kernel(d *lowering.Binding, s *lowering.Step, out []int, plus int) *record.TensorKernel {
	if p.m == 0 || p.k == 0 || p.n == 0 || p.k > 1<<26 || !d.Typed(s, 0, tensor.Float64) ||
		!d.Typed(s, 1, tensor.Float64) || !d.Gives(s, 0, tensor.Float64) || !slices.Equal(d.Shape(s.Out[0]), out) {
		return nil
	}
	var added lowering.Slot[float64]
	if plus >= 0 && !s.Absent(plus) {
		shape, all := d.ShapeOf(s, plus), []int{p.m, p.n}
		if fit, err := ops.Broadcast(shape, all); !d.Typed(s, plus, tensor.Float64) || err != nil || !slices.Equal(fit, all) {
			return nil
		}
		p.c = [2]int(ops.BroadcastStrides(shape, all))
		added = lowering.Input[float64](d, s, plus)
	}
	all := (p.n + kernel.WideWidth - 1) / kernel.WideWidth
	per := min(all, max(1, tensors.ItemFlops/(2*p.m*p.k*kernel.WideWidth)))
	p.columns, p.parts = per*kernel.WideWidth, (all+per-1)/per
	left, right := lowering.Input[float64](d, s, 0), lowering.Input[float64](d, s, 1)
	result := lowering.Output[float64](d, s, 0)
	scratch := kernel.WideWidth * p.k
	if p.aTerm != 1 {
		scratch += wideTurned * p.k
	}
	return &record.TensorKernel{Scratch: 2 * scratch, Run: func(e record.Execution, _ record.Call) error {
		f := e.Frame()
		p.a, p.b, p.plus, p.y = left.In(f), right.In(f), added.In(f), result.In(f)
		return e.Parallel(p, len(p.at[0])*p.parts)
	}}
}

func (p *wideProduct) Do(w *record.Workspace, item int) {
	of, part := item/p.parts, item%p.parts
	a, b, y := p.a[p.at[0][of]:], p.b[p.at[1][of]:], p.y[of*p.m*p.n:(of+1)*p.m*p.n]
	panel := tensors.Reinterpret[float64](w.Scratch[:2*kernel.WideWidth*p.k])
	for from := part * p.columns; from < min(p.n, (part+1)*p.columns); from += kernel.WideWidth {
		count := min(kernel.WideWidth, p.n-from)
		for i := range ops.Costly(w.Steps, p.k, kernel.WideWidth) {
			row := panel[i*kernel.WideWidth:][:kernel.WideWidth]
			for j := range row {
				row[j] = b[i*p.bTerm+(from+min(j, count-1))*p.bColumn]
			}
		}
		if p.aTerm != 1 {
			turned := tensors.Reinterpret[float64](w.Scratch[2*kernel.WideWidth*p.k:])[:wideTurned*p.k]
			for lo := 0; lo < p.m; lo += wideTurned {
				rows := min(wideTurned, p.m-lo)
				for i := range ops.Costly(w.Steps, p.k, 4*rows) {
					for r, v := range a[lo*p.aRow+i*p.aTerm:][:rows] {
						turned[r*p.k+i] = v
					}
				}
				kernel.WideProduct(y[lo*p.n+from:], p.n, turned, p.k, rows, p.k, panel, count)
				for r := lo; r < lo+rows; r++ {
					p.add(y, r, from, count)
				}
			}
			continue
		}
		for lo := 0; lo < p.m; lo += wideRows {
			rows := min(wideRows, p.m-lo)
			w.Steps.Step(rows * p.k)
			kernel.WideProduct(y[lo*p.n+from:], p.n, a[lo*p.aRow:], p.aRow, rows, p.k, panel, count)
			for r := lo; r < lo+rows; r++ {
				p.add(y, r, from, count)
			}
		}
	}
}

// add multiplies a part of a row by alpha and adds beta C.
func (p *wideProduct) add(y []float64, row, from, count int) {
	if p.alpha == 1 && p.plus == nil {
		return
	}
	y = y[row*p.n+from:][:count]
	if p.plus == nil {
		for j := range y {
			y[j] *= p.alpha
		}
		return
	}
	c := p.plus[row*p.c[0]+from*p.c[1]:]
	for j := range y {
		y[j] = p.alpha*y[j] + p.beta*c[j*p.c[1]]
	}
}
