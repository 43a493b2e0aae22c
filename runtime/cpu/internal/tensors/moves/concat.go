package moves

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "Concat", Tensor: record.TensorKind{Make: concatKernel}})
}

// concatKernel concatenates tensors of any type of whole bytes along an axis.
func concatKernel(s *lowering.Step) record.TensorMaker {
	at := s.Node.Attrs.Int("axis", 0)
	return func(d *lowering.Binding) *record.TensorKernel {
		if s.Out[0] == nil || d.Shape(s.Out[0]) == nil {
			return nil
		}
		out, dtype := d.Shape(s.Out[0]), d.DType(s.Out[0])
		axis, err := ops.Axis(at, len(out))
		if err != nil || dtype == tensor.String || dtype == tensor.Invalid || dtype.Bits()%8 != 0 {
			return nil
		}
		var shapes [][]int
		for i := range s.In {
			if s.Absent(i) || !d.Typed(s, i, dtype) || d.ShapeOf(s, i) == nil {
				return nil
			}
			shapes = append(shapes, d.ShapeOf(s, i))
		}
		if !joins(shapes, out, axis) {
			return nil // the evaluation reports the error
		}
		outer, inner := lowering.Runs(out, axis)
		size := inner * dtype.Bits() / 8
		p := &concatPass{parts: make([][]byte, len(s.In)), ends: make([]int, len(s.In)), row: out[axis] * size}
		var parts []lowering.Bytes
		for i, v := range s.In {
			parts = append(parts, lowering.BytesOf(d, v))
			if p.ends[i] = shapes[i][axis] * size; i > 0 {
				p.ends[i] += p.ends[i-1]
			}
		}
		var joins []int
		if outer == 1 {
			for i, end := range p.ends {
				joins = append(joins, end-shapes[i][axis]*size)
			}
		}
		result := lowering.BytesOf(d, s.Out[0])
		return &record.TensorKernel{Joins: joins, Run: func(e record.Execution, _ record.Call) error {
			f := e.Frame()
			p.y = result.In(f)
			there := joins != nil // all parts
			for i, part := range parts {
				p.parts[i] = part.In(f)
				there = there && (len(p.parts[i]) == 0 || &p.parts[i][0] == &p.y[joins[i]])
			}
			if there {
				return nil
			}
			return e.Parallel(p, (outer*p.row+concatItem-1)/concatItem)
		}}
	}
}

// concatItem is the size of a work item's output in bytes.
const concatItem = 4 * tensors.ItemNumbers

// concatPass copies parts of rows one after the other.
type concatPass struct {
	row  int   // bytes of a row of the output
	ends []int // ends of the parts in it

	// Set during a run:
	parts [][]byte
	y     []byte
}

func (p *concatPass) Do(w *record.Workspace, k int) {
	lo, hi := k*concatItem, min(len(p.y), (k+1)*concatItem)
	row, at := lo/p.row, lo%p.row
	for lo < hi {
		begin := 0
		for i, end := range p.ends {
			if at < end && lo < hi {
				n := min(end-at, hi-lo)
				if from := p.parts[i][row*(end-begin)+at-begin:]; &from[0] != &p.y[lo] {
					ops.Put(w.Steps, p.y[lo:lo+n], from)
				}
				lo, at = lo+n, at+n
			}
			begin = end
		}
		row, at = row+1, 0
	}
}

// joins reports whether tensors of the shapes in, concatenated along an axis, have the shape out. Types with open
// dimensions do not show this.
func joins(in [][]int, out []int, axis int) bool {
	total := 0
	for _, shape := range in {
		if len(shape) != len(out) {
			return false
		}
		for i, n := range shape {
			if i != axis && n != out[i] {
				return false
			}
		}
		total += shape[axis]
	}
	return total == out[axis]
}
