package reductions

import (
	"math"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "LRN", Tensor: record.TensorKind{Make: lrnKernel}})
}

// lrnPass divides numbers by powers of sums of squares of neighbouring channels. A work item is one channel, with up
// to lrnWidth positions.
type lrnPass[T float32 | float64] struct {
	channels, inner   int
	below, above      int
	alpha, beta, bias float64
	x, y              []T
	// divide replaces the sums in y by x/(bias + alpha·sum)^beta.
	divide func(p *lrnPass[T], w *record.Workspace, y, x []T)
}

// lrnWidth is the maximum number of positions of a work item.
const lrnWidth = 1 << 11

func lrnKernel(s *lowering.Step) record.TensorMaker {
	size := s.Node.Attrs.Int("size", 0)
	if s.Absent(0) || size < 1 || size > 1<<31-1 {
		return nil // the evaluation reports the error
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		if d.Typed(s, 0, tensor.Float64) {
			return newLRN(d, s, int(size), tensor.Float64, divideByPowers)
		}
		return newLRN(d, s, int(size), tensor.Float32, divideByRoots)
	}
}

func newLRN[T float32 | float64](d *lowering.Binding, s *lowering.Step, size int, dtype tensor.DType,
	divide func(p *lrnPass[T], w *record.Workspace, y, x []T)) *record.TensorKernel {
	shape := d.ShapeOf(s, 0)
	if len(shape) < 2 || tensors.Product(shape) == 0 || !d.Typed(s, 0, dtype) || !d.Gives(s, 0, dtype) {
		return nil
	}
	p := &lrnPass[T]{channels: shape[1], inner: tensors.Product(shape[2:]), below: (size - 1) / 2, above: size / 2,
		alpha: ops.Float(s.Node, "alpha") / float64(size), beta: ops.Float(s.Node, "beta"),
		bias: ops.Float(s.Node, "bias"), divide: divide}
	parts := (p.inner + lrnWidth - 1) / lrnWidth
	x, y := lowering.Input[T](d, s, 0), lowering.Output[T](d, s, 0)
	return &record.TensorKernel{Scratch: 2 * lrnWidth, Run: func(e record.Execution, _ record.Call) error {
		f := e.Frame()
		p.x, p.y = x.In(f), y.In(f)
		return e.Parallel(p, shape[0]*p.channels*parts)
	}}
}

func (p *lrnPass[T]) Do(w *record.Workspace, k int) {
	parts := (p.inner + lrnWidth - 1) / lrnWidth
	row, from := k/parts, k%parts*lrnWidth
	n, c := min(lrnWidth, p.inner-from), row%p.channels
	at := row*p.inner + from
	y := p.y[at : at+n]
	clear(y)
	for j := max(0, c-p.below); j <= min(p.channels-1, c+p.above); j++ {
		w.Steps.Step(n)
		addSquares(w, y, p.x[at+(j-c)*p.inner:][:n])
	}
	w.Steps.Step(4 * n)
	p.divide(p, w, y, p.x[at:at+n])
}

// addSquares adds squares to sums.
func addSquares[T float32 | float64](w *record.Workspace, y, x []T) {
	if x, ok := any(x).([]float32); ok {
		y, squares := any(y).([]float32), w.Scratch[:len(x)]
		kernel.Mul(squares, x, x)
		kernel.Add(y, y, squares)
		return
	}
	y = y[:len(x)]
	for i, v := range x {
		y[i] += v * v
	}
}

// divideByRoots works by vectors, if the power consists of square roots.
func divideByRoots(p *lrnPass[float32], w *record.Workspace, y, x []float32) {
	kernel.ScaleShift(y, y, float32(p.alpha), float32(p.bias))
	roots, quarters := w.Scratch[:len(y)], w.Scratch[lrnWidth:][:len(y)]
	switch p.beta {
	case 1:
	case 0.5:
		kernel.Sqrt(y, y)
	case 0.75:
		kernel.Sqrt(roots, y)
		kernel.Sqrt(quarters, roots)
		kernel.Mul(y, roots, quarters)
	default:
		for i, v := range y {
			y[i] = float32(math.Pow(float64(v), p.beta))
		}
	}
	kernel.Div(y, x, y)
}

func divideByPowers(p *lrnPass[float64], _ *record.Workspace, y, x []float64) {
	for i, sum := range y {
		switch v := p.bias + p.alpha*sum; p.beta {
		case 1:
			y[i] = x[i] / v
		case 0.5:
			y[i] = x[i] / math.Sqrt(v)
		case 0.75:
			r := math.Sqrt(v)
			y[i] = x[i] / (r * math.Sqrt(r))
		default:
			y[i] = x[i] / math.Pow(v, p.beta)
		}
	}
}
