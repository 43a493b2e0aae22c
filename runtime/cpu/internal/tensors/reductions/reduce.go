package reductions

import (
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "ReduceSum", Tensor: record.TensorKind{Make: reduceKernel(reduceSum, false)}},
		record.Record{Op: "ReduceMean", Tensor: record.TensorKind{Make: reduceKernel(reduceMean, false)}},
		record.Record{Op: "ReduceMax", Tensor: record.TensorKind{Make: reduceKernel(reduceMax, false)}},
		record.Record{Op: "ReduceMin", Tensor: record.TensorKind{Make: reduceKernel(reduceMin, false)}},
		record.Record{Op: "ReduceProd", Tensor: record.TensorKind{Make: reduceKernel(reduceProd, false)}},
		record.Record{Op: "ReduceL1", Tensor: record.TensorKind{Make: reduceKernel(reduceL1, false)}},
		record.Record{Op: "ReduceL2", Tensor: record.TensorKind{Make: reduceKernel(reduceL2, false)}},
		record.Record{Op: "ReduceLogSum", Tensor: record.TensorKind{Make: reduceKernel(reduceLogSum, false)}},
		record.Record{Op: "ReduceLogSumExp", Tensor: record.TensorKind{Make: reduceKernel(reduceLogSumExp, false)}},
		record.Record{Op: "ReduceSumSquare", Tensor: record.TensorKind{Make: reduceKernel(reduceSquares, false)}},
		record.Record{Op: "GlobalAveragePool", Tensor: record.TensorKind{Make: reduceKernel(reduceMean, true)}},
		record.Record{Op: "GlobalMaxPool", Tensor: record.TensorKind{Make: reduceKernel(reduceMax, true)}},
	)
}

// reduction is a kind of reduction.
type reduction int

const (
	reduceSum reduction = iota
	reduceMean
	reduceMax
	reduceMin
	reduceProd
	reduceL1
	reduceL2
	reduceLogSum
	reduceSquares
	reduceLogSumExp
)

// reducePass reduces consecutive axes: in each of outer parts, n rows of inner numbers become one row.
type reducePass struct {
	op              reduction
	outer, n, inner int
	x, y            []float32
}

// reduceKernel reduces the given axes or, if global, all axes after the channels.
func reduceKernel(op reduction, global bool) func(s *lowering.Step) record.TensorMaker {
	return func(s *lowering.Step) record.TensorMaker {
		if s.Absent(0) {
			return nil
		}
		return func(d *lowering.Binding) *record.TensorKernel { return newReduction(d, s, op, global) }
	}
}

func newReduction(d *lowering.Binding, s *lowering.Step, op reduction, global bool) *record.TensorKernel {
	in := d.ShapeOf(s, 0)
	if in == nil || s.Out[0] == nil {
		return nil
	}
	rank := len(in)
	var axes []int
	switch {
	case global:
		if rank < 3 {
			return nil
		}
		for a := 2; a < rank; a++ {
			axes = append(axes, a)
		}
	default:
		given := s.Node.Attrs.Ints("axes", nil)
		if !s.Absent(1) {
			v, ok := d.Ints(s, 1)
			if !ok {
				return nil
			}
			given = v
		}
		var err error
		if axes, err = ops.AxesOf(given, rank); err != nil {
			return nil
		}
		if len(axes) == 0 {
			if s.Node.Attrs.Bool("noop_with_empty_axes", false) {
				return nil
			}
			for a := range rank {
				axes = append(axes, a)
			}
		}
	}
	slices.Sort(axes)
	consecutive := len(axes) == 0 || axes[len(axes)-1]-axes[0] == len(axes)-1
	if !d.Typed(s, 0, tensor.Float32) || !consecutive || op == reduceLogSumExp && !endsWith(axes, rank) {
		return reduceNumbersKernel(d, s, op, axes)
	}
	if !d.Gives(s, 0, tensor.Float32) {
		return nil
	}
	p := &reducePass{op: op, outer: 1, n: 1, inner: 1}
	if len(axes) > 0 {
		for a, k := range in {
			switch {
			case a < axes[0]:
				p.outer *= k
			case a <= axes[len(axes)-1]:
				p.n *= k
			default:
				p.inner *= k
			}
		}
	}
	if p.n == 0 || p.outer == 0 || p.inner == 0 {
		return nil
	}
	slots := tensors.UnaryOf(d, s)
	scratch := p.inner
	if op == reduceLogSumExp {
		scratch = logBlock
	}
	return &record.TensorKernel{Scratch: scratch, Run: func(e record.Execution, _ record.Call) error {
		p.x, p.y = slots.In(e.Frame())
		return e.Parallel(p, (p.outer+reducePer-1)/reducePer)
	}}
}

// endsWith reports whether axes are the last ones.
func endsWith(axes []int, rank int) bool { return len(axes) > 0 && axes[len(axes)-1] == rank-1 }

// reducePer returns the number of parts of a work item.
const reducePer = 64

func (p *reducePass) Do(w *record.Workspace, k int) {
	if p.op == reduceLogSumExp {
		p.logSumExp(w, k*reducePer, min(p.outer, (k+1)*reducePer))
		return
	}
	for o := k * reducePer; o < min(p.outer, (k+1)*reducePer); o++ {
		x, y := p.x[o*p.n*p.inner:(o+1)*p.n*p.inner], p.y[o*p.inner:(o+1)*p.inner]
		if p.inner == 1 {
			y[0] = p.Row(w.Steps, x)
			continue
		}
		p.columns(w.Steps, y, x, w.Scratch[:p.inner])
	}
}

// Row reduces consecutive numbers.
func (p *reducePass) Row(c *ir.EvalCtx, x []float32) float32 {
	switch p.op {
	case reduceMax:
		best := float32(math.Inf(-1))
		for lo, hi := range ops.Blocks(c, len(x), tensors.ItemNumbers) {
			best = max(best, kernel.Greatest(x[lo:hi]))
		}
		return zeroOf(c, best, x, 0, 1)
	case reduceMin:
		best := float32(math.Inf(1))
		for lo, hi := range ops.Blocks(c, len(x), tensors.ItemNumbers) {
			least, _ := kernel.Extremes(x[lo:hi])
			best = min(best, least)
		}
		return zeroOf(c, best, x, 1<<31, 1)
	case reduceProd:
		product := 1.0
		for _, v := range ops.All(c, x) {
			product *= float64(v)
		}
		return float32(product)
	case reduceL1:
		sum := 0.0
		for _, v := range ops.All(c, x) {
			sum += math.Abs(float64(v))
		}
		return float32(sum)
	case reduceLogSum:
		return float32(math.Log(sum(c, x)))
	case reduceSum:
		return float32(sum(c, x))
	case reduceMean:
		return float32(sum(c, x) / float64(len(x)))
	}
	sum := 0.0
	for _, v := range ops.All(c, x) {
		sum += float64(v) * float64(v)
	}
	if p.op == reduceL2 {
		sum = math.Sqrt(sum)
	}
	return float32(sum)
}

// sum is kernel.Sum in parts, between which it checks the context.
func sum(c *ir.EvalCtx, x []float32) float64 {
	total := 0.0
	for lo, hi := range ops.Blocks(c, len(x), tensors.ItemNumbers) {
		total = kernel.AddSum(total, x[lo:hi])
	}
	return total
}

// columns reduces rows element by element.
func (p *reducePass) columns(c *ir.EvalCtx, y, x, tmp []float32) {
	n := p.inner
	squares := p.op == reduceSquares || p.op == reduceL2
	for i := range p.n {
		c.Step(1 + n/4)
		row := x[i*n : (i+1)*n]
		if squares {
			kernel.Square(tmp, row)
			row = tmp
		} else if p.op == reduceL1 {
			kernel.Abs(tmp, row)
			row = tmp
		}
		switch {
		case i == 0:
			copy(y, row)
		case p.op == reduceMax:
			kernel.Max(y, y, row)
		case p.op == reduceMin:
			kernel.Min(y, y, row)
		case p.op == reduceProd:
			kernel.Mul(y, y, row)
		default:
			kernel.Add(y, y, row)
		}
	}
	switch p.op {
	case reduceMax, reduceMin:
		bits := uint32(0)
		if p.op == reduceMin {
			bits = 1 << 31
		}
		for j, v := range ops.All(c, y) {
			if v == 0 {
				y[j] = zeroOf(c, v, x[j:], bits, n)
			}
		}
	case reduceMean:
		kernel.DivS(y, y, float32(p.n))
	case reduceL2:
		kernel.Sqrt(y, y)
	case reduceLogSum:
		kernel.Log(y, y)
	}
}

// zeroOf returns best, the greatest or the smallest of every stride-th number of x. If that is a zero, and x
// contains a zero with the given bits, it returns that one: +0 is greater than -0, but instructions do not
// distinguish them.
func zeroOf(c *ir.EvalCtx, best float32, x []float32, bits uint32, stride int) float32 {
	if best != 0 || math.Float32bits(best) == bits {
		return best
	}
	for i := range ops.Each(c, (len(x)+stride-1)/stride) {
		if v := x[i*stride]; math.Float32bits(v) == bits {
			return v
		}
	}
	return best
}

// logBlock is the number of exponentials that logSumExp computes at once.
const logBlock = 1 << 10

// logSumExp reduces rows from lo to hi-1. The result is the greatest number plus the logarithm of the sum of
// exponentials relative to it. Sums are in float64.
func (p *reducePass) logSumExp(w *record.Workspace, lo, hi int) {
	n, c := p.n, w.Steps
	if n > logBlock {
		for o := lo; o < hi; o++ {
			p.y[o] = p.longLogSumExp(w, p.x[o*n:(o+1)*n])
		}
		return
	}
	var sums [reducePer]float32
	for at := lo; at < hi; {
		rows := min(hi-at, logBlock/n)
		e := w.Scratch[:rows*n]
		x, y := p.x[at*n:(at+rows)*n], p.y[at:at+rows]
		c.Step(4 * len(e))
		for r := range y {
			row := x[r*n : (r+1)*n]
			y[r] = largest(row)
			from := y[r]
			if math.IsInf(float64(from), 0) {
				from = 0
			}
			for i, v := range row {
				e[r*n+i] = v - from
			}
		}
		kernel.Exp(e, e)
		for r := range y {
			sum := 0.0
			for _, v := range e[r*n : (r+1)*n] {
				sum += float64(v)
			}
			sums[r] = float32(sum)
		}
		kernel.Log(sums[:rows], sums[:rows])
		for r, most := range y {
			if !math.IsInf(float64(most), 0) {
				y[r] += sums[r]
			}
		}
		at += rows
	}
}

// largest returns the greatest element of a row, or NaN if it has a NaN.
func largest(x []float32) float32 {
	if len(x) >= 32 {
		return kernel.Greatest(x)
	}
	most := x[0]
	for _, v := range x[1:] {
		most = max(most, v)
	}
	return most
}

// longLogSumExp is logSumExp for one row.
func (p *reducePass) longLogSumExp(w *record.Workspace, x []float32) float32 {
	most := float32(math.Inf(-1))
	for lo, hi := range ops.Blocks(w.Steps, len(x), tensors.ItemNumbers) {
		most = max(most, kernel.Greatest(x[lo:hi]))
	}
	if most != most || math.IsInf(float64(most), 0) {
		return most
	}
	sum := 0.0
	for lo, hi := range ops.Blocks(w.Steps, len(x), logBlock) {
		w.Steps.Step(4 * (hi - lo))
		e := w.Scratch[:hi-lo]
		kernel.SubS(e, x[lo:hi], most)
		kernel.Exp(e, e)
		sum = kernel.AddSum(sum, e)
	}
	return most + float32(math.Log(sum))
}
