package cpu

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// wholeFunc computes a step from whole tensors.
type wholeFunc func(e *executable, s *step) error

// wholeMaker makes the kernel for shapes (in: nil where absent), or gives nil where they do not fit.
type wholeMaker func(in [][]int, out []int) wholeFunc

// wholes is the table of operators that have a kernel over whole tensors.
var wholes = map[string]func(s *step) wholeMaker{
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

// float32Input reports whether input i is a float32 tensor.
func (s *step) float32Input(i int) bool {
	if s.absent(i) {
		return false
	}
	v := s.in[i]
	return v.konst != nil && v.konst.DType() == tensor.Float32 || v.konst == nil && isFloat32(v.typ)
}

// wholeCopy serves operators that only change the shape.
func wholeCopy(s *step) wholeMaker {
	if !s.float32Input(0) {
		return nil
	}
	return func(in [][]int, out []int) wholeFunc {
		n, _ := tensor.Size(in[0])
		if m, _ := tensor.Size(out); m != n {
			return nil
		}
		return func(e *executable, s *step) error {
			copy(e.buf[s.out[0].id], e.buf[s.in[0].id])
			return nil
		}
	}
}

// wholePair joins the vectors of pairs.
func wholePair(s *step) wholeMaker {
	if !s.float32Input(0) {
		return nil
	}
	nli := s.node.Attrs.Bool("nli", false)
	return func(in [][]int, _ []int) wholeFunc {
		if in[0][0]%2 != 0 {
			return nil // refused when it is evaluated
		}
		p, h := in[0][0]/2, in[0][1]
		return func(e *executable, s *step) error {
			x, y := e.buf[s.in[0].id], e.buf[s.out[0].id]
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
func wholeStateOrZero(*step) wholeMaker {
	return func(in [][]int, out []int) wholeFunc {
		given := len(in) > 1 && in[1] != nil
		if given && !slices.Equal(in[1], out) {
			return nil // refused when it is evaluated
		}
		return func(e *executable, s *step) error {
			if given {
				copy(e.buf[s.out[0].id], e.buf[s.in[1].id])
			} else {
				clear(e.buf[s.out[0].id])
			}
			return nil
		}
	}
}

// runs splits a shape at an axis: how many runs, and how many numbers follow each place of the axis.
func runs(shape []int, axis int) (outer, inner int) {
	outer, inner = 1, 1
	for _, d := range shape[:axis] {
		outer *= d
	}
	for _, d := range shape[axis+1:] {
		inner *= d
	}
	return outer, inner
}

// wholeConcat joins tensors along an axis.
func wholeConcat(s *step) wholeMaker {
	for i := range s.in {
		if !s.float32Input(i) {
			return nil
		}
	}
	at := s.node.Attrs.Int("axis", 0)
	return func(in [][]int, out []int) wholeFunc {
		axis, err := ops.Axis(at, len(out))
		if err != nil {
			return nil
		}
		outer, inner := runs(out, axis)
		return func(e *executable, s *step) error {
			y, row := e.buf[s.out[0].id], out[axis]*inner
			for i, v := range s.in {
				x, n := e.buf[v.id], in[i][axis]*inner
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
func wholeSplit(s *step) wholeMaker {
	if !s.float32Input(0) || slices.Contains(s.node.Outputs, nil) {
		return nil
	}
	at := s.node.Attrs.Int("axis", 0)
	parts := s.constant64(1)
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
		} else if !s.absent(1) {
			return nil
		}
		outer, inner := runs(in[0], axis)
		return func(e *executable, s *step) error {
			x, row, from := e.buf[s.in[0].id], in[0][axis]*inner, 0
			for _, v := range s.out {
				n := e.d.shapes[v.id][axis] * inner
				y := e.buf[v.id]
				for r := range outer {
					copy(y[r*n:(r+1)*n], x[r*row+from:r*row+from+n])
				}
				from += n
			}
			return nil
		}
	}
}
