package products

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "AffineGrid", Whole: true, Tensor: record.TensorKind{Make: affineGridKernel}})
}

// affineGrid maps the positions of an image by matrices, one row of the last axis per work item.
type affineGrid[T float32 | float64] struct {
	sizes    []int       // of the image, first axis first
	at       [][]float64 // coordinates along each axis
	theta, y []T
}

func affineGridKernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) || s.Absent(1) {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		if d.Typed(s, 0, tensor.Float64) {
			return newAffineGrid[float64](d, s, tensor.Float64)
		}
		return newAffineGrid[float32](d, s, tensor.Float32)
	}
}

func newAffineGrid[T float32 | float64](d *lowering.Binding, s *lowering.Step, dtype tensor.DType) *record.TensorKernel {
	size, ok := d.Ints(s, 1)
	k := len(size) - 2
	if !ok || k != 2 && k != 3 || !d.Typed(s, 0, dtype) || !d.Gives(s, 0, dtype) {
		return nil
	}
	out := d.Shape(s.Out[0])
	if len(out) != k+2 || out[k+1] != k || !slices.Equal(d.ShapeOf(s, 0), []int{out[0], k, k + 1}) {
		return nil
	}
	for a, n := range out[1 : k+1] {
		if int64(n) != size[a+2] {
			return nil
		}
	}
	p := &affineGrid[T]{sizes: out[1 : k+1]}
	corners := ops.Int(s.Node, "align_corners") != 0
	for _, n := range p.sizes {
		at := lowering.Make[float64](d, n)
		for i := range ops.Each(d.Steps(), n) {
			switch {
			case !corners:
				at[i] = (2*float64(i)+1)/float64(n) - 1
			case n > 1:
				at[i] = 2*float64(i)/float64(n-1) - 1
			default:
				at[i] = -1
			}
		}
		p.at = append(p.at, at)
	}
	theta, y := lowering.Input[T](d, s, 0), lowering.Output[T](d, s, 0)
	rows := tensors.Product(out[:k])
	return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
		f := e.Frame()
		p.theta, p.y = theta.In(f), y.In(f)
		return e.Parallel(p, rows)
	}}
}

func (p *affineGrid[T]) Do(w *record.Workspace, row int) {
	k := len(p.sizes)
	last, height := p.at[k-1], p.sizes[k-2]
	b, second := row/height, p.at[k-2][row%height]
	var first float64
	if k == 3 {
		first = p.at[0][b%p.sizes[0]]
		b /= p.sizes[0]
	}
	y := p.y[row*len(last)*k : (row+1)*len(last)*k]
	for r := range k {
		// Sums have the same terms, in the same order, as in the operator's evaluation.
		t := p.theta[(b*k+r)*(k+1) : (b*k+r+1)*(k+1)]
		shift, x, step := float64(t[k]), float64(t[0]), float64(t[1])*second
		w.Steps.Step(2 * len(last))
		if k == 2 {
			for i, v := range last {
				y[2*i+r] = T(shift + x*v + step)
			}
			continue
		}
		far := float64(t[2]) * first
		for i, v := range last {
			y[3*i+r] = T(shift + x*v + step + far)
		}
	}
}
