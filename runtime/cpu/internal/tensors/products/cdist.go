package products

import (
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "com.microsoft.CDist",
		Tensor: record.TensorKind{Make: record.Shaped(cdistKernel), Float32: true}})
}

// distances sums squared differences of the rows of two matrices: each row of one against all rows of the other,
// which is transposed so that its rows are adjacent columns.
type distances struct {
	n, k    int
	root    bool
	a, b, y []float32
}

func cdistKernel(s *lowering.Step) record.ShapedMaker {
	if !s.Float32Input(0) || !s.Float32Input(1) {
		return nil
	}
	root := ops.Str(s.Node, "metric") == "euclidean"
	return func(d *lowering.Binding, in [][]int, _ []int) *record.TensorKernel {
		if len(in[0]) != 2 || len(in[1]) != 2 || in[0][1] != in[1][1] {
			return nil // the evaluation reports the error
		}
		p := &distances{n: in[1][0], k: in[0][1], root: root}
		a, b, y := lowering.Input[float32](d, s, 0), lowering.Input[float32](d, s, 1), lowering.Output[float32](d, s, 0)
		return &record.TensorKernel{Temp: p.n * p.k, Scratch: p.n, Run: func(e record.Execution, c record.Call) error {
			f := e.Frame()
			p.a, p.b, p.y = a.In(f), c.Temp, y.In(f)
			rows := b.In(f)
			for j := range ops.Costly(e.Steps(), p.n, p.k) {
				for i, v := range rows[j*p.k : (j+1)*p.k] {
					p.b[i*p.n+j] = v
				}
			}
			return e.Parallel(p, in[0][0])
		}}
	}
}

func (p *distances) Do(w *record.Workspace, r int) {
	y := p.y[r*p.n : (r+1)*p.n]
	for lo, hi := range ops.Blocks(w.Steps, p.n, tensors.ReduceWidth) {
		y, t := y[lo:hi], w.Scratch[lo:hi]
		clear(y)
		for i, v := range p.a[r*p.k : (r+1)*p.k] {
			w.Steps.Step(hi - lo)
			kernel.SubS(t, p.b[i*p.n+lo:i*p.n+hi], v)
			kernel.Mul(t, t, t)
			kernel.Add(y, y, t)
		}
		if p.root {
			kernel.Sqrt(y, y)
		}
	}
}
