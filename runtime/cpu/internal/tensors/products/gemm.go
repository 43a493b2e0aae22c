package products

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "Gemm", Tensor: record.TensorKind{Make: gemmKernel}, Whole: true})
}

// gemmPass computes alpha A B + beta C, where A and B may be transposed. It packs panels of columns of B.
type gemmPass struct {
	m, k, n     int
	turned      bool // A is transposed: it is turned into the kernel's memory before the product
	stride      int  // between columns of B
	columns     int  // per work item
	rows        int  // between two checks of the run's context
	alpha, beta float32
	c           [2]int // strides of C
	offsets     kernel.Offsets
	at, a, b    []float32 // at is A transposed
	plus, y     []float32
}

func gemmKernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) || s.Absent(1) {
		return nil
	}
	attrs := s.Node.Attrs
	turnA, turnB := attrs.Bool("transA", false), attrs.Bool("transB", false)
	return func(d *lowering.Binding) *record.TensorKernel {
		if d.Typed(s, 0, tensor.Float64) {
			return wideGemm(d, s)
		}
		a, b := d.ShapeOf(s, 0), d.ShapeOf(s, 1)
		if !d.Typed(s, 0, tensor.Float32) || !d.Typed(s, 1, tensor.Float32) || !d.Gives(s, 0, tensor.Float32) ||
			len(a) != 2 || len(b) != 2 {
			return nil
		}
		p := &gemmPass{m: a[0], k: a[1], n: b[1], turned: turnA, stride: 1, alpha: float32(attrs.Float("alpha", 1)),
			beta: float32(attrs.Float("beta", 1))}
		inner, row := b[0], b[1]
		if turnA {
			p.m, p.k = p.k, p.m
		}
		if turnB {
			p.n, inner, p.stride, row = b[0], b[1], b[1], 1
		}
		out := []int{p.m, p.n}
		if inner != p.k || p.m == 0 || p.n == 0 || p.k == 0 || p.k*p.n > 1<<30 || !slices.Equal(d.Shape(s.Out[0]), out) {
			return nil // refused by the evaluation, or empty
		}
		var plus lowering.Slot[float32]
		if !s.Absent(2) {
			shape := d.ShapeOf(s, 2)
			if all, err := ops.Broadcast(shape, out); !d.Typed(s, 2, tensor.Float32) || shape == nil || err != nil ||
				!slices.Equal(all, out) {
				return nil
			}
			p.c = [2]int(ops.BroadcastStrides(shape, out))
			plus = lowering.Input[float32](d, s, 2)
		}
		off := lowering.Make[int32](d, p.k)
		for i := range ops.Each(d.Steps(), len(off)) {
			off[i] = int32(i * row)
		}
		p.offsets = kernel.NewOffsets(off)
		all := (p.n + kernel.PanelWidth - 1) / kernel.PanelWidth
		per := min(all, max(1, tensors.ItemFlops/(2*p.m*p.k*kernel.PanelWidth)))
		p.columns = per * kernel.PanelWidth
		p.rows = max(48, 1<<15/p.k/48*48) // a multiple of the rows that kernels compute together
		left, right := lowering.Input[float32](d, s, 0), lowering.Input[float32](d, s, 1)
		result := lowering.Output[float32](d, s, 0)
		k := &record.TensorKernel{Scratch: kernel.PanelWidth * p.k}
		if turnA {
			k.Temp = p.m * p.k
		}
		k.Run = func(e record.Execution, call record.Call) error {
			f := e.Frame()
			p.a, p.b, p.plus, p.y = left.In(f), right.In(f), plus.In(f), result.In(f)
			if p.turned {
				p.at = call.Temp[:p.m*p.k]
				if err := e.Parallel(turning{p}, (p.m+turnRows-1)/turnRows); err != nil {
					return err
				}
				p.a = p.at
			}
			return e.Parallel(p, (p.n+p.columns-1)/p.columns)
		}
		return k
	}
}

// turning transposes A.
type turning struct{ p *gemmPass }

// turnRows is the number of rows of the transposed matrix that a work item makes.
const turnRows = 16

func (t turning) Do(w *record.Workspace, item int) {
	p := t.p
	lo, hi := item*turnRows, min(p.m, (item+1)*turnRows)
	for j := range ops.Each(w.Steps, p.k) {
		w.Steps.Step(turnRows)
		for i, x := range p.a[j*p.m+lo : j*p.m+hi] {
			p.at[(lo+i)*p.k+j] = x
		}
	}
}

func (p *gemmPass) Do(w *record.Workspace, part int) {
	panel := w.Scratch[:kernel.PanelWidth*p.k]
	var index [kernel.PanelWidth]int32
	for from := part * p.columns; from < min(p.n, (part+1)*p.columns); from += kernel.PanelWidth {
		count := min(kernel.PanelWidth, p.n-from)
		for j := range index {
			index[j] = int32(min(from+j, p.n-1) * p.stride)
		}
		kernel.Panel(panel, p.b, p.offsets, &index, count == kernel.PanelWidth && p.stride == 1)
		for lo := 0; lo < p.m; lo += p.rows {
			rows := min(p.rows, p.m-lo)
			w.Steps.Step(rows * p.k)
			kernel.PanelProduct(p.y[lo*p.n+from:], p.n, p.a[lo*p.k:], p.k, rows, p.k, panel, count)
			p.add(lo, rows, from, count)
		}
	}
}

// add multiplies a part of the product by alpha and adds beta C.
func (p *gemmPass) add(lo, rows, from, count int) {
	if p.alpha == 1 && p.plus == nil {
		return
	}
	for i := lo; i < lo+rows; i++ {
		y := p.y[i*p.n+from:][:count]
		if p.plus == nil {
			for j := range y {
				y[j] *= p.alpha
			}
			continue
		}
		c := p.plus[i*p.c[0]+from*p.c[1]:]
		for j := range y {
			y[j] = p.alpha*y[j] + p.beta*c[j*p.c[1]]
		}
	}
}
