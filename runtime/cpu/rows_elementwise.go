package cpu

import (
	"math"
	"slices"

	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// unaries are the operators that compute each element by itself.
var unaries = map[string]func(s *lowering.Step) func(y, x []float32){
	"Relu":      func(*lowering.Step) func(y, x []float32) { return kernel.Relu },
	"Sigmoid":   func(*lowering.Step) func(y, x []float32) { return kernel.Sigmoid },
	"Tanh":      func(*lowering.Step) func(y, x []float32) { return kernel.Tanh },
	"Erf":       func(*lowering.Step) func(y, x []float32) { return kernel.Erf },
	"Exp":       func(*lowering.Step) func(y, x []float32) { return kernel.Exp },
	"Identity":  func(*lowering.Step) func(y, x []float32) { return func(y, x []float32) { copy(y, x) } },
	"Neg":       func(*lowering.Step) func(y, x []float32) { return kernel.Neg },
	"Abs":       func(*lowering.Step) func(y, x []float32) { return kernel.Abs },
	"Sqrt":      func(*lowering.Step) func(y, x []float32) { return kernel.Sqrt },
	"LeakyRelu": leakyRelu,
	"Gelu":      gelu,
	"Swish":     swish,
	"Clip":      clip,
}

func leakyRelu(s *lowering.Step) func(y, x []float32) {
	alpha := float32(s.Node.Attrs.Float("alpha", 0.01))
	return func(y, x []float32) { kernel.LeakyRelu(y, x, alpha) }
}

func gelu(s *lowering.Step) func(y, x []float32) {
	if s.Node.Attrs.Str("approximate", "none") == "tanh" {
		return kernel.GeluTanh
	}
	return kernel.Gelu
}

func swish(s *lowering.Step) func(y, x []float32) {
	alpha := s.Node.Attrs.Float("alpha", 1)
	return func(y, x []float32) { kernel.Swish(y, x, alpha) }
}

func init() { registerUnaries(unaries) }

// registerUnaries enters operators that compute each element by itself; what gives nil does not fit.
func registerUnaries(of map[string]func(s *lowering.Step) func(y, x []float32)) {
	for name, mk := range of {
		unaries[name] = mk
		rows[name] = func(s *lowering.Step) rowMaker {
			f := mk(s)
			if f == nil {
				return nil
			}
			return elementwise(f)
		}
	}
}

// elementwise is a row kernel for f.
func elementwise(f func(y, x []float32)) rowMaker {
	return func(in [][]int, out []int) *rowOp {
		if !slices.Equal(in[0], out) {
			return nil
		}
		_, width := lowering.Features(out)
		return &rowOp{operands: first, over: first, run: func(y []float32, x [][]float32, rows int) { f(y[:rows*width], x[0][:rows*width]) }}
	}
}

var binaries = map[string]func(y, a, b []float32){
	"Add": kernel.Add, "Sub": kernel.Sub, "Mul": kernel.Mul, "Div": kernel.Div, "Max": kernel.Max, "Min": kernel.Min, "Sum": kernel.Add,
}

// rowBinary is arithmetic on two operands: each has the output's shape, or one number per row; or it is a constant with one
// number per feature, or in all.
func rowBinary(s *lowering.Step) rowMaker {
	f, g := binaries[s.Node.Op.Name], arithmetics[s.Node.Op.Name]
	if len(s.In) != 2 || s.In[0] == nil || s.In[1] == nil {
		return nil
	}
	a, b := s.Constant(0), s.Constant(1)
	return func(in [][]int, out []int) *rowOp {
		rows, width := lowering.Features(out)
		op := &rowOp{}
		ka, kb := operandKind(in[0], a != nil, rows, width), operandKind(in[1], b != nil, rows, width)
		if ka == unfit || kb == unfit || ka != full && kb != full || width == 0 {
			return nil
		}
		if ka == full || ka == perRow {
			op.operands = append(op.operands, 0)
		}
		if kb == full || kb == perRow {
			op.operands = append(op.operands, 1)
		}
		switch {
		case ka == full && kb == full:
			op.over = op.operands
			op.run = func(y []float32, x [][]float32, rows int) { f(y[:rows*width], x[0], x[1]) }
		case ka == perRow:
			op.run = func(y []float32, x [][]float32, rows int) {
				kernel.RepeatR(y, x[0], rows, width)
				f(y[:rows*width], y, x[1])
			}
		case kb == perRow:
			op.run = func(y []float32, x [][]float32, rows int) {
				kernel.RepeatR(y, x[1], rows, width)
				f(y[:rows*width], x[0], y)
			}
		case ka == repeats && len(a) == 1:
			op.run = func(y []float32, x [][]float32, rows int) { g.left(y[:rows*width], x[1][:rows*width], a[0]) }
		case kb == repeats && len(b) == 1:
			op.run = func(y []float32, x [][]float32, rows int) { g.right(y[:rows*width], x[0][:rows*width], b[0]) }
		case ka == repeats:
			v := widened(a, width)
			op.run = func(y []float32, x [][]float32, rows int) {
				for lo := 0; lo < rows*width; lo += width {
					f(y[lo:lo+width], v, x[1][lo:])
				}
			}
		default:
			v := widened(b, width)
			op.run = func(y []float32, x [][]float32, rows int) {
				for lo := 0; lo < rows*width; lo += width {
					f(y[lo:lo+width], x[0][lo:], v)
				}
			}
		}
		return op
	}
}

// clip bounds each element; the bounds are constant scalars.
func clip(s *lowering.Step) func(y, x []float32) {
	lo, hi, ok := clipBounds(s)
	if !ok {
		return nil
	}
	return func(y, x []float32) { kernel.Clip(y, x, lo, hi) }
}

// clipBounds are the bounds, infinite where absent; false where they are no constants.
func clipBounds(s *lowering.Step) (lo, hi float32, ok bool) {
	lo, hi = float32(math.Inf(-1)), float32(math.Inf(1))
	for i, b := range []*float32{&lo, &hi} {
		if s.Absent(i + 1) {
			continue
		}
		v := s.Constant(i + 1)
		if len(v) != 1 {
			return 0, 0, false
		}
		*b = v[0]
	}
	return lo, hi, true
}

// How an operand of an elementwise operator lies against rows of its result.
const (
	unfit   = iota
	full    // one number per element
	perRow  // one number per row
	repeats // a constant, the same for every row
)

// operandKind says how an operand of the given shape, which broadcasts to rows of width numbers, is read.
func operandKind(shape []int, constant bool, rows, width int) int {
	r, f := lowering.Features(shape)
	switch {
	case r*f == rows*width && f == width:
		return full
	case constant && r == 1 && (f == width || f == 1):
		return repeats
	case r == rows && f == 1:
		return perRow
	}
	return unfit
}

// widened repeats a single number width times.
func widened(v []float32, width int) []float32 {
	if len(v) == width {
		return v
	}
	w := make([]float32, width)
	for i := range w {
		w[i] = v[0]
	}
	return w
}
