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
	record.Register(record.Record{Op: "MatMul", Tensor: record.TensorKind{Make: matMulKernel}})
}

// matMulPass multiplies two matrices that are not constant. It packs panels of columns of the second one.
type matMulPass struct {
	m, k, n        int
	at             [2][]int // per product: the offsets of the matrices
	columns, parts int      // per work item; work items per product
	rows           int      // between two checks of the run's context
	offsets        kernel.Offsets
	a, b, y        []float32
}

// fewRows is the maximum number of rows of the first matrix for which the second one is read in place. Packing it
// takes about the time of two rows.
const fewRows = 2

func matMulKernel(s *lowering.Step) record.TensorMaker {
	if len(s.In) != 2 || s.Absent(0) || s.Absent(1) {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		if d.Typed(s, 0, tensor.Float64) {
			return wideMatMul(d, s)
		}
		a, b := d.ShapeOf(s, 0), d.ShapeOf(s, 1)
		if !d.Typed(s, 0, tensor.Float32) || !d.Typed(s, 1, tensor.Float32) || !d.Gives(s, 0, tensor.Float32) ||
			len(a) < 2 || len(b) < 2 {
			return nil
		}
		p := &matMulPass{m: a[len(a)-2], k: a[len(a)-1], n: b[len(b)-1]}
		batch, err := ops.Broadcast(a[:len(a)-2], b[:len(b)-2])
		if err != nil || b[len(b)-2] != p.k || p.m == 0 || p.n == 0 || p.k == 0 || p.k*p.n > 1<<30 ||
			!slices.Equal(d.Shape(s.Out[0]), append(slices.Clone(batch), p.m, p.n)) {
			return nil // the evaluation reports the error
		}
		for i, v := range [][]int{a[:len(a)-2], b[:len(b)-2]} {
			size := []int{p.m * p.k, p.k * p.n}[i]
			p.at[i] = lowering.Offsets[int](d, batch, ops.BroadcastStrides(v, batch), 0)
			for k := range ops.Each(d.Steps(), len(p.at[i])) {
				p.at[i][k] *= size
			}
		}
		off := lowering.Make[int32](d, p.k)
		for i := range ops.Each(d.Steps(), len(off)) {
			off[i] = int32(i * p.n)
		}
		p.offsets = kernel.NewOffsets(off)
		all := (p.n + kernel.PanelWidth - 1) / kernel.PanelWidth
		per := min(all, max(1, tensors.ItemFlops/(2*p.m*p.k*kernel.PanelWidth)))
		p.columns, p.parts = per*kernel.PanelWidth, (all+per-1)/per
		p.rows = max(48, 1<<16/p.k/48*48) // a multiple of the rows that kernels compute together
		left, right := lowering.Input[float32](d, s, 0), lowering.Input[float32](d, s, 1)
		result := lowering.Output[float32](d, s, 0)
		return &record.TensorKernel{Scratch: kernel.PanelWidth * p.k, Run: func(e record.Execution, _ record.Call) error {
			f := e.Frame()
			p.a, p.b, p.y = left.In(f), right.In(f), result.In(f)
			return e.Parallel(p, len(p.at[0])*p.parts)
		}}
	}
}

func (p *matMulPass) Do(w *record.Workspace, k int) {
	product, part := k/p.parts, k%p.parts
	a, b := p.a[p.at[0][product]:][:p.m*p.k], p.b[p.at[1][product]:][:p.k*p.n]
	y := p.y[product*p.m*p.n : (product+1)*p.m*p.n]
	if p.m <= fewRows {
		from, to := part*p.columns, min(p.n, (part+1)*p.columns)
		for i := range p.m {
			w.Steps.Step((to - from) * p.k / 8)
			kernel.Taps(y[i*p.n+from:i*p.n+to], b[from:], p.offsets, a[i*p.k:][:p.k], 0)
		}
		return
	}
	panel := w.Scratch[:kernel.PanelWidth*p.k]
	var index [kernel.PanelWidth]int32
	for from := part * p.columns; from < min(p.n, (part+1)*p.columns); from += kernel.PanelWidth {
		count := min(kernel.PanelWidth, p.n-from)
		for j := range index {
			index[j] = int32(min(from+j, p.n-1))
		}
		kernel.Panel(panel, b, p.offsets, &index, count == kernel.PanelWidth)
		for lo := 0; lo < p.m; lo += p.rows {
			rows := min(p.rows, p.m-lo)
			w.Steps.Step(rows * p.k)
			kernel.PanelProduct(y[lo*p.n+from:], p.n, a[lo*p.k:], p.k, rows, p.k, panel, count)
		}
	}
}
