package reductions

import (
	"cmp"
	"math/bits"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() { record.Register(record.Record{Op: "TopK", Tensor: record.TensorKind{Make: topKKernel}}) }

// topKPass finds the k greatest or smallest elements of each row along the middle one of three axes, in order. Equal
// elements keep their order. NaN counts as the greatest.
type topKPass[T topKType] struct {
	n, k, inner int
	largest     bool
	x, y        []T
	at          []int64
}

type topKType interface {
	float64 | int64
	tensor.Elem
}

func topKKernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) || s.Absent(1) {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		switch {
		case d.Typed(s, 0, tensor.Float32):
			return newTopKKeys(d, s, floatKey)
		case d.Typed(s, 0, tensor.Int32):
			return newTopKKeys(d, s, integerKey[int32])
		case d.Typed(s, 0, tensor.Int8):
			return newTopKKeys(d, s, integerKey[int8])
		case d.Typed(s, 0, tensor.Uint8):
			return newTopKKeys(d, s, integerKey[uint8])
		case d.Typed(s, 0, tensor.Int64):
			return newTopK[int64](d, s)
		case d.Typed(s, 0, tensor.Float64):
			return newTopK[float64](d, s)
		}
		return nil
	}
}

// topKShape returns what the kernels of all types need to know about a step. ok is false if the evaluation refuses
// it.
func topKShape(d *lowering.Binding, s *lowering.Step) (n, most, outer, inner int, ok bool) {
	shape := d.ShapeOf(s, 0)
	k, ok := d.Ints(s, 1)
	axis, err := ops.Axis(s.Node.Attrs.Int("axis", -1), len(shape))
	if !ok || len(k) != 1 || err != nil || k[0] < 1 || k[0] > int64(shape[axis]) || len(s.Out) != 2 ||
		s.Out[0] != nil && !d.Gives(s, 0, d.DType(s.In[0])) || s.Out[1] != nil && !d.Gives(s, 1, tensor.Int64) {
		return 0, 0, 0, 0, false
	}
	outer, inner = lowering.Runs(shape, axis)
	return shape[axis], int(k[0]), outer, inner, true
}

func newTopK[T topKType](d *lowering.Binding, s *lowering.Step) *record.TensorKernel {
	n, most, outer, inner, ok := topKShape(d, s)
	if !ok {
		return nil
	}
	p := &topKPass[T]{n: n, k: most, inner: inner, largest: s.Node.Attrs.Bool("largest", true)}
	x, y, at := lowering.Input[T](d, s, 0), lowering.Output[T](d, s, 0), lowering.Output[int64](d, s, 1)
	return &record.TensorKernel{Scratch: p.k, Run: func(e record.Execution, _ record.Call) error {
		f := e.Frame()
		p.x, p.y, p.at = x.In(f), y.In(f), at.In(f)
		return e.Parallel(p, outer)
	}}
}

// before reports whether element i of a row comes before element j.
func (p *topKPass[T]) before(row []T, i, j int32) bool {
	a, b := row[int(i)*p.inner], row[int(j)*p.inner]
	if p.largest {
		a, b = b, a
	}
	if c := cmp.Compare(a, b); c != 0 {
		// cmp orders NaN first.
		return (c < 0) == (a == a && b == b)
	}
	return i < j
}

func (p *topKPass[T]) Do(w *record.Workspace, t int) {
	all := tensors.Int32s(w.Scratch)
	for i := range p.inner {
		row := p.x[t*p.n*p.inner+i:]
		// A heap of the best elements so far, with the worst at the top.
		heap := all[:p.k]
		for j := range ops.Each(w.Steps, len(heap)) {
			heap[j] = int32(j)
		}
		for j := p.k/2 - 1; j >= 0; j-- {
			p.sink(w, row, heap, j)
		}
		for j := p.k; j < p.n; j++ {
			if j%ir.Pace == 0 {
				w.Steps.Step(ir.Pace)
			}
			if x, worst := row[j*p.inner], row[int(heap[0])*p.inner]; p.largest && x <= worst ||
				!p.largest && x >= worst {
				continue // the usual case
			}
			if p.before(row, int32(j), heap[0]) {
				heap[0] = int32(j)
				p.sink(w, row, heap, 0)
			}
		}
		for left := p.k - 1; left > 0; left-- { // move the worst to the end
			heap[0], heap[left] = heap[left], heap[0]
			p.sink(w, row, heap[:left], 0)
		}
		for j, from := range ops.All(w.Steps, heap) {
			at := (t*p.k+j)*p.inner + i
			if p.y != nil {
				p.y[at] = row[int(from)*p.inner]
			}
			if p.at != nil {
				p.at[at] = int64(from)
			}
		}
	}
}

// sink moves entry j of a heap down to its position.
func (p *topKPass[T]) sink(w *record.Workspace, row []T, heap []int32, j int) {
	w.Steps.Step(bits.Len(uint(len(heap))) * 4)
	for {
		child := 2*j + 1
		if child >= len(heap) {
			return
		}
		if child+1 < len(heap) && p.before(row, heap[child], heap[child+1]) {
			child++
		}
		if !p.before(row, heap[j], heap[child]) {
			return
		}
		heap[j], heap[child] = heap[child], heap[j]
		j = child
	}
}
