package toy

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/lowering"
)

// The backend has sequences as rows for the sake of the lowering's layouts: each kind of step on rows is a loop,
// and windows are convolutions. It takes them however short they are.

// LeastSteps is 1.
func (backend) LeastSteps() int { return 1 }

// Looks reports whether s is a convolution over one axis with fixed weights.
func (backend) Looks(s *lowering.Step) bool {
	return s.Node.Op.Name == "Conv" && ops.Newest(s.Node.Op) && s.Fixed(1) != nil && len(s.ConstShape(1)) == 3 &&
		(s.Absent(2) || s.Fixed(2) != nil)
}

// Takes reports whether there is a loop.
func (backend) Takes(d *lowering.Binding, s *lowering.Step, r *lowering.OnRows, in [][]int, out []int) bool {
	switch r.Kind {
	case lowering.RowsAlone:
		e, ok := ops.Element(s.Node)
		var shapes [][]int
		for _, i := range e.Reads() {
			shapes = append(shapes, in[i])
		}
		b, err := ops.Broadcast(shapes...)
		return ok && err == nil && slices.Equal(b, out)
	case lowering.RowsWindow:
		w, err := ops.Windows(s.Node, 1)
		if err != nil || w[0].Stride != 1 || in[0][2] != s.ConstShape(1)[1]*int(ops.Int(s.Node, "group")) {
			return false
		}
		taps := s.ConstShape(1)[2]
		first := r.Shift - int(w[0].Bind(int64(d.ShapeOf(s, 0)[2]), int64(taps)).Begin)
		r.Impl = maker(func(d *lowering.Binding, q *lowering.Step) kernel {
			return window(d, q, s, first, int(w[0].Dilation))
		})
	}
	return true
}

// Make finds the loop.
func (backend) Make(s *lowering.Step) {
	switch r := s.Rows; r.Kind {
	case lowering.RowsAlone:
		s.Impl = maker(elementwise)
	case lowering.RowsWindow:
		s.Impl = r.Impl
	default:
		s.Impl = maker(movedRows)
	}
}

// window is a convolution whose first tap reads the step first steps ahead; of has the weights.
func window(d *lowering.Binding, s, of *lowering.Step, first, dilation int) kernel {
	x, y := d.ShapeOf(s, 0), d.Shape(s.Out[0])
	w, bias, shape := numbers(d, of, 1), numbers(d, of, 2), of.ConstShape(1)
	perGroup := shape[0] / int(ops.Int(of.Node, "group"))
	return func(c *ir.EvalCtx, out, in [][]float32) {
		for i := range ops.Costly(c, len(out[0]), shape[1]*shape[2]) {
			m, t, sample := i%y[2], i/y[2]%y[1], i/y[2]/y[1]
			sum := 0.0
			if bias != nil {
				sum = bias[m]
			}
			for ch := range shape[1] {
				for j := range shape[2] {
					if at := t + first + j*dilation; at >= 0 && at < x[1] {
						row := in[0][(sample*x[1]+at)*x[2]:]
						sum += w[(m*shape[1]+ch)*shape[2]+j] * float64(row[m/perGroup*shape[1]+ch])
					}
				}
			}
			out[0][i] = float32(sum)
		}
	}
}

// movedRows moves numbers, or sums them up: the sample, the step and the feature of each number of the result say
// where its number is.
func movedRows(d *lowering.Binding, s *lowering.Step) kernel {
	x, y, r := d.ShapeOf(s, 0), d.Shape(s.Out[0]), s.Rows
	return func(steps *ir.EvalCtx, out, in [][]float32) {
		for i := range ops.Each(steps, len(out[0])) {
			a, b, c := i/y[2]/y[1], i/y[2]%y[1], i%y[2]
			at := func(b, c int) float32 { return in[0][(a*x[1]+b)*x[2]+c] }
			switch r.Kind {
			case lowering.ToRows, lowering.FromRows:
				out[0][i] = at(c, b)
			case lowering.RowsCut:
				out[0][i] = at(b, c+r.From)
			case lowering.RowsShift:
				if out[0][i] = 0; b+r.Shift >= 0 && b+r.Shift < x[1] {
					out[0][i] = at(b+r.Shift, c)
				}
			case lowering.RowsSum:
				sum, last := 0.0, b
				if r.Exclusive {
					last--
				}
				for t := range ops.Each(steps, last+1) {
					sum += float64(at(t, c))
				}
				out[0][i] = float32(sum)
			case lowering.RowsJoin:
				k := 0
				for c >= d.ShapeOf(s, k)[2] {
					c -= d.ShapeOf(s, k)[2]
					k++
				}
				out[0][i] = in[k][(a*y[1]+b)*d.ShapeOf(s, k)[2]+c]
			}
		}
	}
}
