package products

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/std"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "Einsum", Tensor: record.TensorKind{Make: einsumKernel}})
}

// einsumPass computes a sum of products over one or two tensors as matrix products. Letters in both tensors and in
// the output count the products; letters only in the first and the output are rows, those only in the second and the
// output are columns; all others are summed over. The positions of letters matter only for the tables of offsets.
type einsumPass struct {
	m, k, n           int
	at                [3][]int // per product: its offsets in a, b and y
	aRow, aSum        []int    // offsets of a row and of a term
	bColumn           []int
	bSum              []int
	yRow, yColumn     []int
	offsets           kernel.Offsets // bSum
	lda               int            // stride of contiguous rows of a; 0 if rows are copied
	ldy               int            // stride of contiguous rows of y; 0 if rows are scattered
	rows, columns     int            // per work item
	down, across      int            // work items per product
	scalar            bool           // products are too small for kernels
	alone             bool           // there is no second tensor
	a, b, y, gathered []float32
}

func einsumKernel(s *lowering.Step) record.TensorMaker {
	if len(s.In) > 2 {
		return nil
	}
	equation := s.Node.Attrs.Str("equation", "")
	if len(s.In) == 2 && !s.Absent(0) && !s.Absent(1) && !s.Float32Input(0) && !s.Float32Input(1) {
		return func(d *lowering.Binding) *record.TensorKernel { return wideEinsum(d, s, equation) }
	}
	for i := range s.In {
		if !s.Float32Input(i) {
			return nil
		}
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		shapes, ranks := make([][]int, len(s.In)), make([]int, len(s.In))
		for i := range s.In {
			if shapes[i] = d.ShapeOf(s, i); shapes[i] == nil {
				return nil
			}
			ranks[i] = len(shapes[i])
		}
		if !d.Gives(s, 0, tensor.Float32) {
			return nil
		}
		in, out, err := std.EinsumTerms(equation, ranks)
		if err != nil {
			return nil
		}
		p, second := newEinsum(d, in, out, shapes, d.Shape(s.Out[0]))
		if p == nil {
			return nil
		}
		temp, scratch := 0, 0
		if !p.scalar {
			scratch = kernel.PanelWidth * (p.k + p.rows)
			if p.lda == 0 {
				temp = len(p.at[0]) * p.m * p.k
			}
		}
		if temp > tensors.MaxMoved<<4 {
			return nil
		}
		a, b := lowering.Input[float32](d, s, 0), lowering.Input[float32](d, s, len(s.In)-1)
		y := lowering.Output[float32](d, s, 0)
		return &record.TensorKernel{Temp: temp, Scratch: scratch, Run: func(e record.Execution, call record.Call) error {
			f := e.Frame()
			p.a, p.b, p.y, p.gathered = a.In(f), b.In(f), y.In(f), call.Temp
			if second {
				p.a, p.b = p.b, p.a
			}
			if temp > 0 {
				if err := e.Parallel((*einsumRows)(p), len(p.at[0])); err != nil {
					return err
				}
			}
			return e.Parallel(p, len(p.at[0])*p.down*p.across)
		}}
	}
}

// mostOffsets is the maximum size of each table of offsets.
const mostOffsets = 1 << 22

// letter is an axis of the sum, with its strides in the two tensors and in the output.
type letter struct {
	size    int
	place   int // position in the output
	strides [3]int
	in      [3]bool
}

// newEinsum plans the sum, or returns nil if shapes do not fit. If the last axis of the output is only in the first
// tensor, the tensors are exchanged, so that columns are contiguous.
func newEinsum(d *lowering.Binding, in [][]rune, out []rune, shapes [][]int,
	result []int) (p *einsumPass, second bool) {
	all, order := map[rune]*letter{}, []rune{}
	for t, term := range append(slices.Clone(in), out) {
		shape, at := result, 2
		if t < len(in) {
			shape, at = shapes[t], t
		}
		if len(shape) != len(term) {
			return nil, false
		}
		for i, stride := range ops.Strides(shape) {
			l := all[term[i]]
			if l == nil {
				l = &letter{size: 1}
				all[term[i]] = l
				order = append(order, term[i])
			}
			if l.in[at] = true; shape[i] != 1 {
				if l.size != 1 && l.size != shape[i] {
					return nil, false
				}
				l.size = shape[i]
				l.strides[at] += stride
			}
		}
	}
	for i, l := range out {
		if all[l].size != result[i] {
			return nil, false
		}
		all[l].place = i
	}
	if len(out) > 0 {
		last := all[out[len(out)-1]]
		second = len(in) == 2 && last.in[0] && !last.in[1]
	}
	first, other := 0, 1
	if second {
		first, other = 1, 0
	}
	var products, rows, columns, sums []*letter
	for _, r := range order {
		switch l := all[r]; {
		case !l.in[2]:
			sums = append(sums, l)
		case l.in[first] && l.in[other]:
			products = append(products, l)
		case l.in[other]:
			columns = append(columns, l)
		default:
			rows = append(rows, l)
		}
	}
	for _, group := range [][]*letter{products, rows, columns} {
		slices.SortFunc(group, func(a, b *letter) int { return a.place - b.place })
	}
	slices.SortStableFunc(sums, func(a, b *letter) int { return b.strides[first] - a.strides[first] })
	p = &einsumPass{alone: len(in) == 1}
	for _, group := range [][]*letter{products, rows, columns, sums} {
		n := 1
		for _, l := range group {
			if n *= l.size; n == 0 || n > mostOffsets {
				return nil, false
			}
		}
	}
	for i, t := range []int{first, other, 2} {
		p.at[i] = offsetsOf(d, products, t)
	}
	p.aRow, p.yRow = offsetsOf(d, rows, first), offsetsOf(d, rows, 2)
	p.bColumn, p.yColumn = offsetsOf(d, columns, other), offsetsOf(d, columns, 2)
	p.aSum, p.bSum = offsetsOf(d, sums, first), offsetsOf(d, sums, other)
	p.m, p.n, p.k = len(p.aRow), len(p.bColumn), len(p.aSum)
	p.plan(d)
	return p, second
}

// offsetsOf returns the offsets of all indices of some letters in a tensor. The last letter varies fastest.
func offsetsOf(d *lowering.Binding, letters []*letter, tensor int) []int {
	all := []int{0}
	for _, l := range letters {
		next := lowering.Make[int](d, len(all)*l.size)[:0]
		for _, o := range all {
			for i := range ops.Each(d.Steps(), l.size) {
				next = append(next, o+i*l.strides[tensor])
			}
		}
		all = next
	}
	return all
}

// even returns the distance between successive offsets, or 0 if it varies.
func even(c *ir.EvalCtx, offsets []int) int {
	if len(offsets) == 1 {
		return 1
	}
	d, next := offsets[1]-offsets[0], offsets[0]
	for _, o := range ops.All(c, offsets) {
		if o != next {
			return 0
		}
		next += d
	}
	return max(d, 0)
}

func (p *einsumPass) plan(d *lowering.Binding) {
	if p.scalar = p.alone || p.m*p.n < 8; p.scalar {
		p.down, p.across = 1, 1
		return
	}
	c := d.Steps()
	if ld := even(c, p.aRow); even(c, p.aSum) == 1 && (ld >= p.k || p.m == 1) {
		p.lda = max(ld, p.k)
	}
	if ld := even(c, p.yRow); even(c, p.yColumn) == 1 && (ld >= p.n || p.m == 1) {
		p.ldy = max(ld, p.n)
	}
	off := lowering.Make[int32](d, p.k)
	for i, o := range ops.All(c, p.bSum) {
		off[i] = int32(o)
	}
	p.offsets = kernel.NewOffsets(off)
	const block = 1 << 16
	panels := (p.n + kernel.PanelWidth - 1) / kernel.PanelWidth
	p.rows = min(p.m, max(48, block/p.k/6*6))
	per := min(panels, max(1, tensors.ItemFlops/(2*p.rows*p.k*kernel.PanelWidth)))
	p.columns, p.across = per*kernel.PanelWidth, (panels+per-1)/per
	p.down = (p.m + p.rows - 1) / p.rows
}

// einsumRows copies the rows of one product, to make them contiguous.
type einsumRows einsumPass

func (p *einsumRows) Do(w *record.Workspace, k int) {
	a, dst := p.a[p.at[0][k]:], p.gathered[k*p.m*p.k:(k+1)*p.m*p.k]
	for i, r := range p.aRow {
		row := dst[i*p.k : (i+1)*p.k]
		for j, o := range ops.All(w.Steps, p.aSum) {
			row[j] = a[r+o]
		}
	}
}

func (p *einsumPass) Do(w *record.Workspace, t int) {
	product, down, across := t/(p.down*p.across), t/p.across%p.down, t%p.across
	b, y := p.b[p.at[1][product]:], p.y[p.at[2][product]:]
	if p.scalar {
		p.each(w, y, p.a[p.at[0][product]:], b)
		return
	}
	from := down * p.rows
	rows := min(p.rows, p.m-from)
	a, lda := p.gathered, p.k
	if p.lda > 0 {
		a, lda = p.a[p.at[0][product]+p.aRow[from]:], p.lda
	} else {
		a = a[(product*p.m+from)*p.k:]
	}
	panel, tile := w.Scratch[:kernel.PanelWidth*p.k], w.Scratch[kernel.PanelWidth*p.k:kernel.PanelWidth*(p.k+rows)]
	var index [kernel.PanelWidth]int32
	for left := across * p.columns; left < min(p.n, (across+1)*p.columns); left += kernel.PanelWidth {
		n := min(kernel.PanelWidth, p.n-left)
		consecutive := n == kernel.PanelWidth
		for j := range index {
			index[j] = int32(p.bColumn[min(left+j, p.n-1)])
			consecutive = consecutive && index[j] == index[0]+int32(j)
		}
		kernel.Panel(panel, b, p.offsets, &index, consecutive)
		if p.ldy > 0 {
			kernel.PanelProduct(y[p.yRow[from]+p.yColumn[left]:], p.ldy, a, lda, rows, p.k, panel, n)
			continue
		}
		kernel.PanelProduct(tile, kernel.PanelWidth, a, lda, rows, p.k, panel, kernel.PanelWidth)
		for i, r := range p.yRow[from : from+rows] {
			for j, c := range p.yColumn[left : left+n] {
				y[r+c] = tile[i*kernel.PanelWidth+j]
			}
		}
	}
}

// each computes elements one by one. It also handles a single tensor.
func (p *einsumPass) each(w *record.Workspace, y, a, b []float32) {
	for i, r := range p.aRow {
		for j, c := range p.bColumn {
			sum := 0.0
			for k, o := range ops.All(w.Steps, p.aSum) {
				x := float64(a[r+o])
				if !p.alone {
					x *= float64(b[c+p.bSum[k]])
				}
				sum += x
			}
			y[p.yRow[i]+p.yColumn[j]] = float32(sum)
		}
	}
}
