package sequences

import (
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "essm.Pair",
		Tensor: record.TensorKind{Make: record.Shaped(pairKernel), Float32: true}})
}

// pairKernel concatenates the vectors of pairs.
func pairKernel(s *lowering.Step) record.ShapedMaker {
	if !s.Float32Input(0) {
		return nil
	}
	nli := s.Node.Attrs.Bool("nli", false)
	return func(d *lowering.Binding, in [][]int, _ []int) *record.TensorKernel {
		if in[0][0]%2 != 0 {
			return nil // the evaluation reports the error
		}
		p, h := in[0][0]/2, in[0][1]
		slots := tensors.UnaryOf(d, s)
		return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
			x, y := slots.In(e.Frame())
			for i := range p {
				a, b := x[i*h:(i+1)*h], x[(p+i)*h:(p+i+1)*h]
				y = y[ops.Put(e.Steps(), y, a):]
				y = y[ops.Put(e.Steps(), y, b):]
				if !nli {
					continue
				}
				for j := range ops.Each(e.Steps(), len(a)) {
					y[j], y[h+j] = a[j]-b[j], a[j]*b[j]
				}
				y = y[2*h:]
			}
			return nil
		}}
	}
}
