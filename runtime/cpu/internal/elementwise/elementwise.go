package elementwise

import (
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// Of gives what the backend has for an operator; nil where that is not elementwise.
func Of(op *ir.Op) *record.Elementwise {
	if !ops.Newest(op) {
		return nil
	}
	if e := Elements[op.FullName()]; e != nil {
		return e
	}
	return byExpression(op)
}

var Elements = map[string]*record.Elementwise{}

func registerElementwise(name string, e *record.Elementwise) {
	if Elements[name] != nil {
		panic("cpu: operator " + name + " is elementwise twice")
	}
	Elements[name] = e
}

func init() {
	registerElementwise("Abs", unary(kernel.Abs, fusedUnary(kernel.FusedAbs)))
	registerElementwise("Clip", unaryOf(clip, fusedClip))
	registerElementwise("Erf", unary(kernel.Erf, fusedUnary(kernel.FusedErf)))
	registerElementwise("Exp", unary(kernel.Exp, fusedUnary(kernel.FusedExp)))
	registerElementwise("Gelu", unaryOf(gelu, fusedGelu))
	registerElementwise("HardSigmoid", unaryOf(hardSigmoid, fusedUnary(kernel.FusedHardSigmoid, attr{"alpha", float64(float32(0.2))}, attr{"beta", 0.5})))
	registerElementwise("HardSwish", unary(kernel.HardSwish, fusedUnary(kernel.FusedHardSwish)))
	registerElementwise("Identity", unary(func(y, x []float32) { copy(y, x) }, nil))
	registerElementwise("LeakyRelu", unaryOf(leakyRelu, fusedUnary(kernel.FusedLeakyRelu, attr{"alpha", 0.01})))
	registerElementwise("Log", unary(kernel.Log, nil))
	registerElementwise("Neg", unary(kernel.Neg, fusedUnary(kernel.FusedNeg)))
	registerElementwise("Reciprocal", unary(kernel.Reciprocal, nil))
	registerElementwise("Relu", unary(kernel.Relu, fusedUnary(kernel.FusedRelu)))
	registerElementwise("Sigmoid", unary(kernel.Sigmoid, fusedUnary(kernel.FusedSigmoid)))
	registerElementwise("Sqrt", unary(kernel.Sqrt, fusedUnary(kernel.FusedSqrt)))
	registerElementwise("Swish", unaryOf(swish, fusedUnary(kernel.FusedSwish, attr{"alpha", 1})))
	registerElementwise("Tanh", unary(kernel.Tanh, fusedUnary(kernel.FusedTanh)))

	// Functions that have no form in vectors: computed in float64 and rounded once.
	registerElementwise("Acos", unary(in64(math.Acos), nil))
	registerElementwise("Acosh", unary(in64(math.Acosh), nil))
	registerElementwise("Asin", unary(in64(math.Asin), nil))
	registerElementwise("Asinh", unary(in64(math.Asinh), nil))
	registerElementwise("Atan", unary(in64(math.Atan), nil))
	registerElementwise("Atanh", unary(in64(math.Atanh), nil))
	registerElementwise("Ceil", unary(in64(math.Ceil), nil))
	registerElementwise("Cos", unary(in64(math.Cos), nil))
	registerElementwise("Cosh", unary(in64(math.Cosh), nil))
	registerElementwise("Floor", unary(in64(math.Floor), nil))
	registerElementwise("Round", unary(in64(math.RoundToEven), nil))
	registerElementwise("Sign", unary(in64(sign), nil))
	registerElementwise("Sin", unary(in64(math.Sin), nil))
	registerElementwise("Sinh", unary(in64(math.Sinh), nil))
	registerElementwise("Tan", unary(in64(math.Tan), nil))

	registerElementwise("Add", binary(record.Arithmetic{Rows: kernel.Add, Right: kernel.AddS, Left: kernel.AddS}, kernel.FusedAdd, kernel.FusedAdd))
	registerElementwise("Div", binary(record.Arithmetic{Rows: kernel.Div, Right: kernel.DivS, Left: kernel.DivIntoS}, kernel.FusedDiv, kernel.FusedDivInto))
	registerElementwise("Max", binary(record.Arithmetic{Rows: kernel.Max, Right: kernel.MaxS, Left: kernel.MaxS}, kernel.FusedMax, kernel.FusedMax))
	registerElementwise("Min", binary(record.Arithmetic{Rows: kernel.Min, Right: kernel.MinS, Left: kernel.MinS}, kernel.FusedMin, kernel.FusedMin))
	registerElementwise("Mul", binary(record.Arithmetic{Rows: kernel.Mul, Right: kernel.MulS, Left: kernel.MulS}, kernel.FusedMul, kernel.FusedMul))
	registerElementwise("Sub", binary(record.Arithmetic{Rows: kernel.Sub, Right: kernel.SubS, Left: kernel.SubFromS}, kernel.FusedSub, kernel.FusedSubFrom))
	registerElementwise("Sum", binary(record.Arithmetic{Rows: kernel.Add, Right: kernel.AddS, Left: kernel.AddS}, kernel.FusedAdd, kernel.FusedAdd))
	power := record.Arithmetic{Rows: pow, Right: powS, Left: powOfS}
	registerElementwise("Pow", &record.Elementwise{Binary: &power, Row: rowPow, Tensor: broadcastKernel(power), Fused: fusedPow})
	rectified := record.Arithmetic{Rows: prelu, Right: leakyReluS, Left: preluOfS}
	registerElementwise("PRelu", &record.Elementwise{Binary: &rectified, Tensor: broadcastKernel(rectified)})
}

func unary(f func(y, x []float32), fused record.FusedMaker) *record.Elementwise {
	return unaryOf(func(*lowering.Step) func(y, x []float32) { return f }, fused)
}

// unaryOf is a function of one operand that depends on attributes or constants.
func unaryOf(make func(s *lowering.Step) func(y, x []float32), fused record.FusedMaker) *record.Elementwise {
	return &record.Elementwise{Unary: make, Fused: fused, AnyLayout: true, Row: func(s *lowering.Step) record.RowMaker {
		f := make(s)
		if f == nil {
			return nil
		}
		return record.RowByElement(f)
	}}
}

// binary is a function of two operands; left and right are what it does in a fused kernel to its first operand and to its second.
func binary(f record.Arithmetic, left, right kernel.FusedOp) *record.Elementwise {
	return &record.Elementwise{
		Binary: &f, Fused: fusedBinary(left, right), AnyLayout: true,
		Row:    func(s *lowering.Step) record.RowMaker { return rowBinary(s, f) },
		Tensor: broadcastKernel(f),
	}
}

// in64 computes numbers in float64.
func in64(f func(x float64) float64) func(y, x []float32) {
	return func(y, x []float32) {
		for i, v := range x {
			y[i] = float32(f(float64(v)))
		}
	}
}

// sign is -1, 0 or 1, and x itself where that is 0 or NaN.
func sign(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return x
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

func hardSigmoid(s *lowering.Step) func(y, x []float32) {
	alpha, beta := float32(s.Node.Attrs.Float("alpha", float64(float32(0.2)))), float32(s.Node.Attrs.Float("beta", 0.5))
	return func(y, x []float32) { kernel.HardSigmoid(y, x, alpha, beta) }
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

func pow(y, a, b []float32) {
	for i, x := range a[:len(y)] {
		y[i] = float32(math.Pow(float64(x), float64(b[i])))
	}
}

func powS(y, a []float32, s float32) {
	if s == 2 {
		kernel.Square(y, a)
		return
	}
	for i, x := range a[:len(y)] {
		y[i] = float32(math.Pow(float64(x), float64(s)))
	}
}

func powOfS(y, b []float32, s float32) {
	for i, x := range b[:len(y)] {
		y[i] = float32(math.Pow(float64(s), float64(x)))
	}
}

// rowPow raises to a constant power that has a function of its own.
func rowPow(s *lowering.Step) record.RowMaker {
	p := s.Constant(1)
	if len(p) != 1 || !s.Float32Input(0) {
		return nil
	}
	switch p[0] {
	case 1:
		return record.RowByElement(func(y, x []float32) { copy(y, x) })
	case 2:
		return record.RowByElement(kernel.Square)
	case 0.5:
		return record.RowByElement(kernel.Sqrt)
	case -1:
		return record.RowByElement(kernel.Reciprocal)
	}
	return nil
}

func prelu(y, a, b []float32) {
	for i, x := range a[:len(y)] {
		y[i] = leaky(x, b[i])
	}
}

func leakyReluS(y, a []float32, s float32) { kernel.LeakyRelu(y, a, s) }

func preluOfS(y, b []float32, s float32) {
	for i, slope := range b {
		y[i] = leaky(s, slope)
	}
}

func leaky(x, slope float32) float32 {
	if x < 0 {
		return x * slope
	}
	return x
}

// rowBinary is arithmetic on two operands: each has the output's shape, or one number per row; or it is a constant with one
// number per feature, or in all.
func rowBinary(s *lowering.Step, f record.Arithmetic) record.RowMaker {
	if len(s.In) != 2 || s.In[0] == nil || s.In[1] == nil {
		return nil
	}
	a, b := s.Constant(0), s.Constant(1)
	return func(in [][]int, out []int) *record.RowOp {
		rows, width := lowering.Features(out)
		op := &record.RowOp{}
		ka, kb := operandKind(in[0], a != nil, rows, width), operandKind(in[1], b != nil, rows, width)
		if ka == unfit || kb == unfit || ka != full && kb != full || width == 0 {
			return nil
		}
		if ka == full || ka == perRow {
			op.Operands = append(op.Operands, 0)
		}
		if kb == full || kb == perRow {
			op.Operands = append(op.Operands, 1)
		}
		switch {
		case ka == full && kb == full:
			op.Over = op.Operands
			op.Run = func(y []float32, x [][]float32, rows int) { f.Rows(y[:rows*width], x[0], x[1]) }
		case ka == perRow:
			op.Run = func(y []float32, x [][]float32, rows int) {
				kernel.RepeatR(y, x[0], rows, width)
				f.Rows(y[:rows*width], y, x[1])
			}
		case kb == perRow:
			op.Run = func(y []float32, x [][]float32, rows int) {
				kernel.RepeatR(y, x[1], rows, width)
				f.Rows(y[:rows*width], x[0], y)
			}
		case ka == repeats && len(a) == 1:
			op.Run = func(y []float32, x [][]float32, rows int) { f.Left(y[:rows*width], x[1][:rows*width], a[0]) }
		case kb == repeats && len(b) == 1:
			op.Run = func(y []float32, x [][]float32, rows int) { f.Right(y[:rows*width], x[0][:rows*width], b[0]) }
		case ka == repeats:
			v := widened(a, width)
			op.Run = func(y []float32, x [][]float32, rows int) {
				for lo := 0; lo < rows*width; lo += width {
					f.Rows(y[lo:lo+width], v, x[1][lo:])
				}
			}
		default:
			v := widened(b, width)
			op.Run = func(y []float32, x [][]float32, rows int) {
				for lo := 0; lo < rows*width; lo += width {
					f.Rows(y[lo:lo+width], x[0][lo:], v)
				}
			}
		}
		return op
	}
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

// broadcastPass computes y = f(a, b) under broadcasting.
type broadcastPass struct {
	f    record.Arithmetic
	b    *Broadcast
	per  int
	y    []float32
	x    [2][]float32
	step *lowering.Step
}

func broadcastKernel(f record.Arithmetic) func(s *lowering.Step) record.TensorMaker {
	return func(s *lowering.Step) record.TensorMaker { return broadcastMaker(s, f) }
}

func broadcastMaker(s *lowering.Step, f record.Arithmetic) record.TensorMaker {
	if len(s.In) != 2 || s.Absent(0) || s.Absent(1) {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		if !d.Typed(s, 0, tensor.Float32) || !d.Typed(s, 1, tensor.Float32) || !d.Gives(s, 0, tensor.Float32) {
			return nil
		}
		out := d.Shape(s.Out[0])
		if shape, err := ops.Broadcast(d.ShapeOf(s, 0), d.ShapeOf(s, 1)); err != nil || !slices.Equal(shape, out) {
			return nil // refused when it is evaluated
		}
		p := &broadcastPass{f: f, step: s, b: NewBroadcast(out, d.ShapeOf(s, 0), d.ShapeOf(s, 1))}
		n := 0
		p.per, n = p.b.Items()
		return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
			p.y, p.x = e.Floats(s.Out[0]), [2][]float32{e.Floats(s.In[0]), e.Floats(s.In[1])}
			return e.Parallel(p, n)
		}}
	}
}

func (p *broadcastPass) Do(w *record.Workspace, k int) {
	w.Node = p.step.Source
	n := p.b.Inner
	for row := k * p.per; row < min(p.b.Rows, (k+1)*p.per); row++ {
		y, a, b := p.y[row*n:(row+1)*n], p.x[0][p.b.At(0, row):], p.x[1][p.b.At(1, row):]
		switch {
		case p.b.Unit[0] && p.b.Unit[1]:
			p.f.Rows(y, a[:n], b[:n])
		case p.b.Unit[0]:
			p.f.Right(y, a[:n], b[0])
		case p.b.Unit[1]:
			p.f.Left(y, b[:n], a[0])
		default:
			p.f.Rows(y[:1], a[:1], b[:1])
			for i := range y {
				y[i] = y[0]
			}
		}
	}
}

// attr is a parameter of an operator, and what it is by default.
type attr struct {
	name  string
	value float64
}

func fusedUnary(op kernel.FusedOp, params ...attr) record.FusedMaker {
	return func(_ *lowering.Binding, s *lowering.Step, at, _, _ int) (kernel.FusedStep, bool) {
		l := kernel.FusedStep{Op: op}
		for _, p := range params {
			l.B = append(l.B, float32(s.Node.Attrs.Float(p.name, p.value)))
		}
		return l, at == 0
	}
}

func fusedGelu(_ *lowering.Binding, s *lowering.Step, _, _, _ int) (kernel.FusedStep, bool) {
	if s.Node.Attrs.Str("approximate", "none") == "tanh" {
		return kernel.FusedStep{Op: kernel.FusedGeluTanh}, true
	}
	return kernel.FusedStep{Op: kernel.FusedGelu}, true
}

func fusedClip(_ *lowering.Binding, s *lowering.Step, at, _, _ int) (kernel.FusedStep, bool) {
	lo, hi, ok := clipBounds(s)
	return kernel.FusedStep{Op: kernel.FusedClip, B: []float32{lo, hi}}, ok && at == 0
}

func fusedPow(_ *lowering.Binding, s *lowering.Step, at, _, width int) (kernel.FusedStep, bool) {
	p := s.Constant(1)
	if at != 0 || len(p) != 1 {
		return kernel.FusedStep{}, false
	}
	switch p[0] {
	case 2:
		return kernel.FusedStep{Op: kernel.FusedSquare}, true
	case 0.5:
		return kernel.FusedStep{Op: kernel.FusedSqrt}, true
	case -1:
		return kernel.FusedStep{Op: kernel.FusedDivInto, X: -1, A: widened([]float32{1}, width)}, true
	}
	return kernel.FusedStep{}, false
}

// fusedBinary is arithmetic of the numbers with another operand: a tensor of the same shape, or a constant with one number per
// feature, or in all.
func fusedBinary(left, right kernel.FusedOp) record.FusedMaker {
	return func(d *lowering.Binding, s *lowering.Step, at, rows, width int) (kernel.FusedStep, bool) {
		if len(s.In) != 2 || s.In[0] == nil || s.In[1] == nil {
			return kernel.FusedStep{}, false
		}
		l := kernel.FusedStep{Op: left, X: 1 - at}
		if at == 1 {
			l.Op = right
		}
		k := s.Constant(l.X)
		switch operandKind(d.Shape(s.In[l.X]), k != nil, rows, width) {
		case full:
			return l, true
		case repeats:
			l.X, l.A = -1, widened(k, width)
			return l, true
		}
		return l, false
	}
}
