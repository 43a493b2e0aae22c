package cpu

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/lowering"
)

// wholeFunc computes a step from whole tensors.
type wholeFunc func(e *executable, s *lowering.Step) error

// wholeMaker makes the kernel for shapes (in: nil where absent), or gives nil where they do not fit.
type wholeMaker func(in [][]int, out []int) wholeFunc

// wholes is the table of operators that have a kernel over whole tensors.
var wholes = map[string]func(s *lowering.Step) wholeMaker{
	"essm.PickStep":    wholePickStep,
	"essm.Pair":        wholePair,
	"essm.StateOrZero": wholeStateOrZero,
	"Reshape":          wholeCopy,
	"Squeeze":          wholeCopy,
	"Unsqueeze":        wholeCopy,
	"Flatten":          wholeCopy,
	"Transpose":        wholeTranspose,
	"Concat":           wholeConcat,
	"Split":            wholeSplit,
}

// wholeCopy serves operators that only change the shape.
func wholeCopy(s *lowering.Step) wholeMaker {
	if !s.Float32Input(0) {
		return nil
	}
	return func(in [][]int, out []int) wholeFunc {
		n, _ := tensor.Size(in[0])
		if m, _ := tensor.Size(out); m != n {
			return nil
		}
		return func(e *executable, s *lowering.Step) error {
			copy(e.buf[s.Out[0].ID], e.buf[s.In[0].ID])
			return nil
		}
	}
}

// wholePair joins the vectors of pairs.
func wholePair(s *lowering.Step) wholeMaker {
	if !s.Float32Input(0) {
		return nil
	}
	nli := s.Node.Attrs.Bool("nli", false)
	return func(in [][]int, _ []int) wholeFunc {
		if in[0][0]%2 != 0 {
			return nil // refused when it is evaluated
		}
		p, h := in[0][0]/2, in[0][1]
		return func(e *executable, s *lowering.Step) error {
			x, y := e.buf[s.In[0].ID], e.buf[s.Out[0].ID]
			for i := range p {
				a, b := x[i*h:(i+1)*h], x[(p+i)*h:(p+i+1)*h]
				y = y[copy(y, a):]
				y = y[copy(y, b):]
				if !nli {
					continue
				}
				for j := range a {
					y[j], y[h+j] = a[j]-b[j], a[j]*b[j]
				}
				y = y[2*h:]
			}
			return nil
		}
	}
}

// wholeStateOrZero copies a state, or clears one.
func wholeStateOrZero(*lowering.Step) wholeMaker {
	return func(in [][]int, out []int) wholeFunc {
		given := len(in) > 1 && in[1] != nil
		if given && !slices.Equal(in[1], out) {
			return nil // refused when it is evaluated
		}
		return func(e *executable, s *lowering.Step) error {
			if given {
				copy(e.buf[s.Out[0].ID], e.buf[s.In[1].ID])
			} else {
				clear(e.buf[s.Out[0].ID])
			}
			return nil
		}
	}
}

// wholeConcat joins tensors along an axis.
func wholeConcat(s *lowering.Step) wholeMaker {
	for i := range s.In {
		if !s.Float32Input(i) {
			return nil
		}
	}
	at := s.Node.Attrs.Int("axis", 0)
	return func(in [][]int, out []int) wholeFunc {
		axis, err := ops.Axis(at, len(out))
		if err != nil {
			return nil
		}
		outer, inner := lowering.Runs(out, axis)
		return func(e *executable, s *lowering.Step) error {
			y, row := e.buf[s.Out[0].ID], out[axis]*inner
			for i, v := range s.In {
				x, n := e.buf[v.ID], in[i][axis]*inner
				for r := range outer {
					copy(y[r*row:r*row+n], x[r*n:(r+1)*n])
				}
				y = y[min(n, len(y)):]
			}
			return nil
		}
	}
}

// wholeSplit cuts a tensor along an axis.
func wholeSplit(s *lowering.Step) wholeMaker {
	if !s.Float32Input(0) || slices.Contains(s.Node.Outputs, nil) {
		return nil
	}
	at := s.Node.Attrs.Int("axis", 0)
	parts := s.Constant64(1)
	return func(in [][]int, _ []int) wholeFunc {
		axis, err := ops.Axis(at, len(in[0]))
		if err != nil {
			return nil
		}
		if parts != nil {
			sum := 0.0
			for _, n := range parts {
				sum += n
			}
			if sum != float64(in[0][axis]) {
				return nil // refused when it is evaluated
			}
		} else if !s.Absent(1) {
			return nil
		}
		outer, inner := lowering.Runs(in[0], axis)
		return func(e *executable, s *lowering.Step) error {
			x, row, from := e.buf[s.In[0].ID], in[0][axis]*inner, 0
			for _, v := range s.Out {
				n := e.d.Shapes[v.ID][axis] * inner
				y := e.buf[v.ID]
				for r := range outer {
					copy(y[r*n:(r+1)*n], x[r*row+from:r*row+from+n])
				}
				from += n
			}
			return nil
		}
	}
}
