package moves

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "Trilu", Tensor: record.TensorKind{Make: triluKernel}})
}

// triluKernel keeps a triangle of each matrix, for any element type of whole bytes.
func triluKernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) {
		return nil
	}
	upper := s.Node.Attrs.Bool("upper", true)
	return func(d *lowering.Binding) *record.TensorKernel {
		shape, dtype, diagonal := d.ShapeOf(s, 0), d.DType(s.In[0]), 0
		if len(shape) < 2 || !tensors.Cut(dtype) || !d.Gives(s, 0, dtype) {
			return nil
		}
		rows, columns := shape[len(shape)-2], shape[len(shape)-1]
		if !s.Absent(1) {
			k, ok := d.Ints(s, 1)
			if !ok || len(k) != 1 {
				return nil
			}
			diagonal = int(min(max(k[0], -int64(rows)), int64(columns)))
		}
		all := tensors.Product(shape[:len(shape)-1])
		whole, triangle, size := lowering.BytesOf(d, s.In[0]), lowering.BytesOf(d, s.Out[0]), tensor.ByteSize(dtype, 1)
		return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
			f := e.Frame()
			x, y := whole.In(f), triangle.In(f)
			for r := range all {
				from, to := min(max(r%rows+diagonal, 0), columns), columns
				if !upper {
					from, to = 0, min(max(r%rows+diagonal+1, 0), columns)
				}
				c := e.Steps()
				line, kept := y[r*columns*size:(r+1)*columns*size], x[r*columns*size:(r+1)*columns*size]
				for lo, hi := range ops.Blocks(c, from*size, tensors.ItemNumbers) {
					clear(line[lo:hi])
				}
				ops.Put(c, line[from*size:to*size], kept[from*size:])
				for lo, hi := range ops.Blocks(c, (columns-to)*size, tensors.ItemNumbers) {
					clear(line[to*size+lo : to*size+hi])
				}
			}
			return nil
		}}
	}
}
