package reductions

import (
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/lowering"
)

// Reductions of float64 and of integers, and of float32 over axes that are not consecutive, in float64 or exactly.

type reduced interface {
	float32 | float64 | int32 | int64 | int8 | uint8
}

// reduceNumbers is a reduction of elements of type T, computed in type A. The axes of the shape are grouped so that
// kept and reduced ones alternate. If the last group is reduced, each result is computed from runs along it.
// Otherwise it is computed from single elements, and many adjacent results are computed together.
type reduceNumbers[T, A reduced] struct {
	op         reduction
	base       []int // offset of each result's elements, or of each row of results
	runs       []int // relative to that: offset of each run, or of each row with one element per result
	run, inner int   // of a run; of a row of results: one of them is 1
	n          int   // number of elements per result
	per        int   // results, or rows of them, per work item
	x, y       []T
}

// reduceNumbersKernel is the reduction over any axes, which must be sorted.
func reduceNumbersKernel(d *lowering.Binding, s *lowering.Step, op reduction, axes []int) *record.TensorKernel {
	if !d.Gives(s, 0, d.DType(s.In[0])) {
		return nil
	}
	exact := op <= reduceProd && op != reduceMean || op == reduceL1 || op == reduceSquares
	switch dtype := d.DType(s.In[0]); {
	case dtype == tensor.Float32:
		return newReduceNumbers[float32, float64](d, s, op, axes)
	case dtype == tensor.Float64:
		return newReduceNumbers[float64, float64](d, s, op, axes)
	case !exact:
	case dtype == tensor.Int32:
		return newReduceNumbers[int32, int64](d, s, op, axes)
	case dtype == tensor.Int64:
		return newReduceNumbers[int64, int64](d, s, op, axes)
	case dtype == tensor.Int8:
		return newReduceNumbers[int8, int64](d, s, op, axes)
	case dtype == tensor.Uint8:
		return newReduceNumbers[uint8, int64](d, s, op, axes)
	}
	return nil
}

func newReduceNumbers[T, A reduced](d *lowering.Binding, s *lowering.Step, op reduction, axes []int) *record.TensorKernel {
	p := &reduceNumbers[T, A]{op: op, n: 1, run: 1, inner: 1}
	shape := d.ShapeOf(s, 0)
	strides := ops.Strides(shape)
	goes := make([]bool, len(shape))
	for _, a := range axes {
		goes[a] = true
		p.n *= shape[a]
	}
	last := len(shape)
	for last > 0 && goes[last-1] == goes[len(shape)-1] { // trailing axes that are all kept, or all reduced
		last--
	}
	for a := last; a < len(shape); a++ {
		if goes[a] {
			p.run *= shape[a]
		} else {
			p.inner *= shape[a]
		}
	}
	var kept, gone, keptBy, goneBy []int
	for a, k := range shape[:last] {
		if goes[a] {
			gone, goneBy = append(gone, k), append(goneBy, strides[a])
		} else {
			kept, keptBy = append(kept, k), append(keptBy, strides[a])
		}
	}
	if tensors.Product(shape) == 0 {
		return nil
	}
	p.base = lowering.Offsets[int](d, kept, keptBy, 0)
	p.runs = lowering.Offsets[int](d, gone, goneBy, 0)
	p.per = max(1, tensors.ReduceItem/max(1, p.n*p.inner))
	x, y := lowering.Input[T](d, s, 0), lowering.Output[T](d, s, 0)
	return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
		f := e.Frame()
		p.x, p.y = x.In(f), y.In(f)
		return e.Parallel(p, (len(p.base)+p.per-1)/p.per)
	}}
}

func (p *reduceNumbers[T, A]) Do(w *record.Workspace, k int) {
	for o := k * p.per; o < min(len(p.base), (k+1)*p.per); o++ {
		if p.inner == 1 {
			p.y[o] = T(p.single(w.Steps, p.base[o]))
			continue
		}
		var sums [tensors.ReduceWidth]A
		for lo := 0; lo < p.inner; lo += tensors.ReduceWidth {
			n := min(tensors.ReduceWidth, p.inner-lo)
			p.several(w.Steps, sums[:n], p.base[o]+lo)
			for j, v := range sums[:n] {
				p.y[o*p.inner+lo+j] = T(p.finish(v))
			}
		}
	}
}

// start returns the initial value: the first element x if the operation is idempotent.
func (p *reduceNumbers[T, A]) start(x T) A {
	switch p.op {
	case reduceProd:
		return 1
	case reduceMax, reduceMin:
		return A(x)
	}
	return 0
}

// finish turns the combined value into the result.
func (p *reduceNumbers[T, A]) finish(v A) A {
	switch p.op {
	case reduceMean:
		return v / A(p.n)
	case reduceL2:
		return A(math.Sqrt(float64(v)))
	case reduceLogSum:
		return A(math.Log(float64(v)))
	}
	return v
}

// single combines the elements of one result.
func (p *reduceNumbers[T, A]) single(c *ir.EvalCtx, base int) A {
	if p.op == reduceLogSumExp {
		return A(p.logSumExp(c, base))
	}
	total := p.start(p.x[base])
	for _, at := range p.runs {
		x := p.x[base+at:][:p.run]
		for lo, hi := range ops.Parts(c, len(x)) {
			total = joinRun(p.op, total, x[lo:hi])
		}
	}
	return p.finish(total)
}

// joinRun combines elements with v, with sums in four parts.
func joinRun[T, A reduced](op reduction, v A, x []T) A {
	switch op {
	case reduceMax:
		best := T(v)
		for _, x := range x {
			best = max(best, x)
		}
		return A(best)
	case reduceMin:
		best := T(v)
		for _, x := range x {
			best = min(best, x)
		}
		return A(best)
	case reduceProd:
		for _, x := range x {
			v *= A(x)
		}
		return v
	}
	var b, c, d A
	i := 0
	switch op {
	case reduceL1:
		for _, x := range x {
			a := A(x)
			if a < 0 {
				a = -a
			}
			v += a
		}
		return v
	case reduceL2, reduceSquares:
		for ; i+4 <= len(x); i += 4 {
			x := x[i : i+4 : i+4]
			v += A(x[0]) * A(x[0])
			b += A(x[1]) * A(x[1])
			c += A(x[2]) * A(x[2])
			d += A(x[3]) * A(x[3])
		}
		for _, x := range x[i:] {
			v += A(x) * A(x)
		}
	default:
		for ; i+4 <= len(x); i += 4 {
			x := x[i : i+4 : i+4]
			v += A(x[0])
			b += A(x[1])
			c += A(x[2])
			d += A(x[3])
		}
		for _, x := range x[i:] {
			v += A(x)
		}
	}
	return v + c + (b + d)
}

// several combines the elements of adjacent results.
func (p *reduceNumbers[T, A]) several(c *ir.EvalCtx, sums []A, base int) {
	if p.op == reduceLogSumExp {
		for j := range sums {
			sums[j] = A(p.logSumExp(c, base+j))
		}
		return
	}
	for j, x := range p.x[base:][:len(sums)] {
		sums[j] = p.start(x)
	}
	for _, at := range p.runs {
		c.Step(len(sums))
		x := p.x[base+at:][:len(sums)]
		switch p.op {
		case reduceMax:
			for j, x := range x {
				sums[j] = max(sums[j], A(x))
			}
		case reduceMin:
			for j, x := range x {
				sums[j] = min(sums[j], A(x))
			}
		case reduceProd:
			for j, x := range x {
				sums[j] *= A(x)
			}
		case reduceL1:
			for j, x := range x {
				if a := A(x); a < 0 {
					sums[j] -= a
				} else {
					sums[j] += a
				}
			}
		case reduceL2, reduceSquares:
			for j, x := range x {
				sums[j] += A(x) * A(x)
			}
		default:
			for j, x := range x {
				sums[j] += A(x)
			}
		}
	}
}

// logSumExp returns the logarithm of a sum of exponentials: the greatest number, plus the logarithm of the sum of
// exponentials relative to it.
func (p *reduceNumbers[T, A]) logSumExp(c *ir.EvalCtx, base int) float64 {
	most := math.Inf(-1)
	for _, at := range p.runs {
		for _, x := range ops.All(c, p.x[base+at:][:p.run]) {
			most = max(most, float64(x))
		}
	}
	if math.IsInf(most, 0) || math.IsNaN(most) {
		return most
	}
	sum := 0.0
	for _, at := range p.runs {
		x := p.x[base+at:][:p.run]
		for i := range ops.Costly(c, len(x), 8) {
			sum += math.Exp(float64(x[i]) - most)
		}
	}
	return most + math.Log(sum)
}
