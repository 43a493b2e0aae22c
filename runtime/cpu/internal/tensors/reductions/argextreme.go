package reductions

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "ArgMax", Tensor: record.TensorKind{Make: argExtremeKernel(false)}},
		record.Record{Op: "ArgMin", Tensor: record.TensorKind{Make: argExtremeKernel(true)}},
	)
}

// argPass finds the index of the greatest or the smallest element along the middle one of three axes: the first of
// equal elements, or the last, but always the first NaN.
type argPass[T reduced] struct {
	n, inner    int
	outer, per  int // rows of the outer axis; per work item
	least, last bool
	x           []T
	y           []int64
}

func argExtremeKernel(least bool) func(s *lowering.Step) record.TensorMaker {
	return func(s *lowering.Step) record.TensorMaker {
		if s.Absent(0) {
			return nil
		}
		return func(d *lowering.Binding) *record.TensorKernel {
			switch dtype := d.DType(s.In[0]); {
			case !d.Typed(s, 0, dtype):
			case dtype == tensor.Float32:
				return newArgExtreme[float32](d, s, least)
			case dtype == tensor.Float64:
				return newArgExtreme[float64](d, s, least)
			case dtype == tensor.Int32:
				return newArgExtreme[int32](d, s, least)
			case dtype == tensor.Int64:
				return newArgExtreme[int64](d, s, least)
			case dtype == tensor.Int8:
				return newArgExtreme[int8](d, s, least)
			case dtype == tensor.Uint8:
				return newArgExtreme[uint8](d, s, least)
			}
			return nil
		}
	}
}

func newArgExtreme[T reduced](d *lowering.Binding, s *lowering.Step, least bool) *record.TensorKernel {
	shape := d.ShapeOf(s, 0)
	axis, err := ops.Axis(s.Node.Attrs.Int("axis", 0), len(shape))
	if shape == nil || err != nil || shape[axis] == 0 || !d.Gives(s, 0, tensor.Int64) {
		return nil // the evaluation reports the error
	}
	outer, inner := lowering.Runs(shape, axis)
	p := &argPass[T]{n: shape[axis], inner: inner, outer: outer, per: max(1, tensors.ReduceItem/max(1, shape[axis]*inner)),
		least: least, last: s.Node.Attrs.Bool("select_last_index", false)}
	x, y := lowering.Input[T](d, s, 0), lowering.Output[int64](d, s, 0)
	return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
		f := e.Frame()
		p.x, p.y = x.In(f), y.In(f)
		return e.Parallel(p, (outer+p.per-1)/p.per)
	}}
}

func (p *argPass[T]) Do(w *record.Workspace, k int) {
	for o := k * p.per; o < min(p.outer, (k+1)*p.per); o++ {
		if p.inner == 1 && p.n <= argShort && !p.last {
			w.Steps.Step(p.n)
			p.y[o] = int64(p.short(p.x[o*p.n : (o+1)*p.n]))
			continue
		}
		p.part(w, o)
	}
}

// argShort is the maximum length of a row for short.
const argShort = 64

// short finds the first of a row's extremes.
func (p *argPass[T]) short(x []T) int {
	best, at := x[0], 0
	if best != best {
		return 0
	}
	for j, x := range x {
		if p.least && x < best || !p.least && x > best {
			best, at = x, j
		} else if x != x {
			return j
		}
	}
	return at
}

// part computes the results of one row of the outer axis.
func (p *argPass[T]) part(w *record.Workspace, k int) {
	x, y := p.x[k*p.n*p.inner:(k+1)*p.n*p.inner], p.y[k*p.inner:(k+1)*p.inner]
	if p.inner == 1 {
		best, at := x[0], 0
		for lo, hi := range ops.Parts(w.Steps, p.n) { // the first element changes nothing
			if p.last || best != best {
				for j, x := range x[lo:hi] {
					if p.better(x, best) {
						best, at = x, lo+j
					}
				}
				continue
			}
			if p.least {
				for j, x := range x[lo:hi] {
					if x < best || x != x && best == best {
						best, at = x, lo+j
					}
				}
				continue
			}
			for j, x := range x[lo:hi] {
				if x > best || x != x && best == best {
					best, at = x, lo+j
				}
			}
		}
		y[0] = int64(at)
		return
	}
	var best [tensors.ReduceWidth]T
	for lo := 0; lo < p.inner; lo += tensors.ReduceWidth {
		y := y[lo:min(lo+tensors.ReduceWidth, p.inner)]
		w.Steps.Step(len(y))
		copy(best[:len(y)], x[lo:])
		clear(y)
		for j := 1; j < p.n; j++ {
			w.Steps.Step(len(y))
			for i, x := range x[j*p.inner+lo:][:len(y)] {
				if p.better(x, best[i]) {
					best[i], y[i] = x, int64(j)
				}
			}
		}
	}
}

// better reports whether x replaces best.
func (p *argPass[T]) better(x, best T) bool {
	return x > best && !p.least || x < best && p.least || p.last && x == best || x != x && best == best
}
