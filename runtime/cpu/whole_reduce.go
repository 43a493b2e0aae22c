package cpu

import (
	"math"
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	for _, name := range []string{"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceLogSum", "ReduceSumSquare", "ReduceL2", "GlobalAveragePool", "GlobalMaxPool"} {
		kernels[name] = reduceKernel
	}
}

// reducePass reduces axes that follow each other: for each of outer parts, n rows of inner numbers become one.
type reducePass struct {
	op              string
	outer, n, inner int
	x, y            []float32
}

func reduceKernel(s *lowering.Step) kernelMaker {
	if s.Absent(0) {
		return nil
	}
	op := s.Node.Op.Name
	return func(d *binding) *boundKernel {
		in := d.ShapeOf(s, 0)
		if !d.Typed(s, 0, tensor.Float32) || !d.Gives(s, 0, tensor.Float32) {
			return nil
		}
		rank := len(in)
		var axes []int
		switch {
		case op == "GlobalAveragePool" || op == "GlobalMaxPool":
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
		p := &reducePass{op: op, outer: 1, n: 1, inner: 1}
		if len(axes) > 0 {
			if axes[len(axes)-1]-axes[0] != len(axes)-1 {
				return nil
			}
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
		return &boundKernel{scratch: p.inner, run: func(e *executable, _ *unit) error {
			p.x, p.y = e.buf[s.In[0].ID], e.buf[s.Out[0].ID]
			return e.parallel(p, (p.outer+reducePer-1)/reducePer)
		}}
	}
}

// reducePer is the parts that a ticket takes.
const reducePer = 64

func (p *reducePass) ticket(w *worker, k int) {
	for o := k * reducePer; o < min(p.outer, (k+1)*reducePer); o++ {
		x, y := p.x[o*p.n*p.inner:(o+1)*p.n*p.inner], p.y[o*p.inner:(o+1)*p.inner]
		if p.inner == 1 {
			y[0] = p.row(x)
			continue
		}
		p.columns(y, x, w.scratch[:p.inner])
	}
}

// row reduces consecutive numbers.
func (p *reducePass) row(x []float32) float32 {
	switch p.op {
	case "ReduceMax", "GlobalMaxPool":
		return kernel.Greatest(x)
	case "ReduceMin":
		lo, _ := kernel.Extremes(x)
		return lo
	case "ReduceProd":
		product := 1.0
		for _, v := range x {
			product *= float64(v)
		}
		return float32(product)
	case "ReduceL1":
		sum := 0.0
		for _, v := range x {
			sum += math.Abs(float64(v))
		}
		return float32(sum)
	case "ReduceLogSum":
		return float32(math.Log(kernel.Sum(x)))
	case "ReduceSum":
		return float32(kernel.Sum(x))
	case "ReduceMean", "GlobalAveragePool":
		return float32(kernel.Sum(x) / float64(len(x)))
	}
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	if p.op == "ReduceL2" {
		sum = math.Sqrt(sum)
	}
	return float32(sum)
}

// columns reduces rows element by element.
func (p *reducePass) columns(y, x, tmp []float32) {
	n := p.inner
	squares := p.op == "ReduceSumSquare" || p.op == "ReduceL2"
	for i := range p.n {
		row := x[i*n : (i+1)*n]
		if squares {
			kernel.Square(tmp, row)
			row = tmp
		} else if p.op == "ReduceL1" {
			kernel.Abs(tmp, row)
			row = tmp
		}
		switch {
		case i == 0:
			copy(y, row)
		case p.op == "ReduceMax" || p.op == "GlobalMaxPool":
			kernel.Max(y, y, row)
		case p.op == "ReduceMin":
			kernel.Min(y, y, row)
		case p.op == "ReduceProd":
			kernel.Mul(y, y, row)
		default:
			kernel.Add(y, y, row)
		}
	}
	switch p.op {
	case "ReduceMean", "GlobalAveragePool":
		kernel.DivS(y, y, float32(p.n))
	case "ReduceL2":
		kernel.Sqrt(y, y)
	case "ReduceLogSum":
		kernel.Log(y, y)
	}
}
