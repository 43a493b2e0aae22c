package elementwise

import (
	"slices"
	"sync"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// An operator that has an expression (ir.Op.Element), and neither a body nor kernels of its own, is computed as its expression
// says: each instruction of the linear form is a function of package kernel on a block of numbers. Results are rounded to
// float32 after each instruction. An expression that has an instruction without such a function is evaluated.

const (
	blockSize    = 256 // numbers that go through all instructions at once
	maxRegisters = 8   // blocks between instructions
	maxOperands  = 4
)

// expressions holds what byExpression has found, by operator.
var expressions sync.Map

// byExpression gives how an operator is computed by its expression; nil where it is not.
func byExpression(op *ir.Op) *record.Elementwise {
	if op.Element == nil || op.Body != nil || record.For(op) != record.None || len(op.In) == 0 || op.In[len(op.In)-1].Variadic {
		return nil
	}
	if e, ok := expressions.Load(op); ok {
		return e.(*record.Elementwise)
	}
	var e *record.Elementwise
	if compile(declared(op)) != nil {
		e = &record.Elementwise{
			AnyLayout: len(op.In) == 1,
			Row:       rowExpression,
			Chain:     chain,
		}
		if len(op.In) == 1 {
			e.Unary = unaryExpression
		}
	}
	found, _ := expressions.LoadOrStore(op, e)
	return found.(*record.Elementwise)
}

// declared is an operator's expression where all inputs are there, and attributes have their defaults.
func declared(op *ir.Op) scalar.Expr {
	n := &ir.Node{Op: op}
	for range op.In {
		n.Inputs = append(n.Inputs, &ir.Value{Type: &ir.TensorType{Elem: tensor.Float32}})
	}
	return op.Element(n, scalar.Inputs(len(op.In)))
}

// expressionOf is the expression of a step, with the constants of one number in it; false where it is none of float32 numbers.
func expressionOf(s *lowering.Step) (scalar.Expr, bool) {
	e, ok := ops.Element(s.Node)
	if !ok || len(s.In) < len(s.Node.Inputs) {
		return e, false
	}
	x := scalar.Inputs(len(s.In))
	for i := range x {
		if k := s.Constant(i); len(k) == 1 {
			x[i] = scalar.Const(float64(k[0]))
		}
	}
	return e.With(x...), true
}

// A program is an expression as calls of functions of package kernel.
type program struct {
	code      []instruction
	registers int
	reads     []int // the inputs that are read, which are its operands
}

// An instruction computes numbers from x and a. These are registers, or operands behind these; the last instruction gives the
// result.
type instruction struct {
	op     kernel.FusedOp
	x, a   int
	scalar bool      // a is the number in k
	k      []float64 // a, or parameters
	to     int
}

// logarithm is the one function that no step of fused kernels has.
const logarithm = kernel.FusedOp(255)

// functions are the operations of one operand, and parameters that are constants.
var functions = map[scalar.Op]kernel.FusedOp{
	scalar.OpAbs: kernel.FusedAbs, scalar.OpErf: kernel.FusedErf, scalar.OpExp: kernel.FusedExp, scalar.OpLog: logarithm,
	scalar.OpNeg: kernel.FusedNeg, scalar.OpSqrt: kernel.FusedSqrt, scalar.OpTanh: kernel.FusedTanh,
	scalar.OpClip: kernel.FusedClip, scalar.OpGelu: kernel.FusedGelu, scalar.OpGeluTanh: kernel.FusedGeluTanh,
	scalar.OpHardSigmoid: kernel.FusedHardSigmoid, scalar.OpHardSwish: kernel.FusedHardSwish,
	scalar.OpLeakyRelu: kernel.FusedLeakyRelu, scalar.OpRelu: kernel.FusedRelu, scalar.OpSigmoid: kernel.FusedSigmoid,
	scalar.OpSwish: kernel.FusedSwish,
}

// arithmetics are the operations of two operands, and what they are with these exchanged.
var arithmetics = map[scalar.Op][2]kernel.FusedOp{
	scalar.OpAdd: {kernel.FusedAdd, kernel.FusedAdd}, scalar.OpSub: {kernel.FusedSub, kernel.FusedSubFrom},
	scalar.OpMul: {kernel.FusedMul, kernel.FusedMul}, scalar.OpDiv: {kernel.FusedDiv, kernel.FusedDivInto},
	scalar.OpMax: {kernel.FusedMax, kernel.FusedMax}, scalar.OpMin: {kernel.FusedMin, kernel.FusedMin},
}

// exchanged is what an operation of two operands is with these exchanged.
func exchanged(op kernel.FusedOp) kernel.FusedOp {
	for _, f := range arithmetics {
		if i := slices.Index(f[:], op); i >= 0 {
			return f[1-i]
		}
	}
	return op
}

// compile makes the program of an expression; nil where there is none.
func compile(e scalar.Expr) *program {
	if !e.Valid() {
		return nil
	}
	l := scalar.Linearize(func(op scalar.Op) bool { _, ok := functions[op]; return ok }, scalar.Simplify(e))
	last := len(l.Code) - 1
	if l.Results[0] != last || l.Code[last].Arity() == 0 || l.Slots > maxRegisters {
		return nil
	}
	p := &program{registers: l.Slots}
	at := make([]int, len(l.Code)) // where the values are
	for i := range l.Code {
		c := &l.Code[i]
		at[i] = c.Slot
		switch {
		case c.Op == scalar.OpInput:
			at[i] = l.Slots + len(p.reads)
			p.reads = append(p.reads, c.Index)
		case c.Op != scalar.OpConst:
			in, ok := instructionOf(l, c, at)
			if !ok {
				return nil
			}
			p.code = append(p.code, in)
		}
	}
	if len(p.reads) == 0 || len(p.reads) > maxOperands {
		return nil
	}
	return p
}

// instructionOf is the function of package kernel for an instruction; false where there is none.
func instructionOf(l *scalar.Program, c *scalar.Instr, at []int) (in instruction, ok bool) {
	in.to = c.Slot
	args := c.Args[:c.Arity()]
	constant := func(i int) bool { return l.Code[args[i]].Op == scalar.OpConst }
	value := func(i int) float64 { return l.Code[args[i]].Value }
	if f, ok := functions[c.Op]; ok {
		in.op, in.x = f, at[args[0]]
		for i := range args[1:] {
			if !constant(i + 1) {
				return in, false
			}
			in.k = append(in.k, value(i+1))
		}
		return in, !constant(0)
	}
	if c.Op == scalar.OpPow {
		in.op, in.x = kernel.FusedSquare, at[args[0]]
		if constant(0) || !constant(1) {
			return in, false
		}
		switch value(1) {
		case 2:
		case 0.5:
			in.op = kernel.FusedSqrt
		case -1:
			in.op, in.scalar, in.k = kernel.FusedDivInto, true, []float64{1}
		default:
			return in, false
		}
		return in, true
	}
	f, ok := arithmetics[c.Op]
	if !ok {
		return in, false
	}
	in.op, in.x, in.a = f[0], at[args[0]], at[args[1]]
	switch {
	case constant(0) && constant(1):
		return in, false
	case constant(0):
		in.op, in.x, in.a, in.scalar, in.k = f[1], in.a, 0, true, []float64{value(0)}
	case constant(1):
		in.a, in.scalar, in.k = 0, true, []float64{value(1)}
	case in.x == in.a && in.op == kernel.FusedMul:
		in.op = kernel.FusedSquare
	}
	return in, true
}

// run computes an instruction; y may be x or a.
func (in *instruction) run(y, x, a []float32) {
	switch in.op {
	case kernel.FusedAbs:
		kernel.Abs(y, x)
	case kernel.FusedErf:
		kernel.Erf(y, x)
	case kernel.FusedExp:
		kernel.Exp(y, x)
	case logarithm:
		kernel.Log(y, x)
	case kernel.FusedNeg:
		kernel.Neg(y, x)
	case kernel.FusedSqrt:
		kernel.Sqrt(y, x)
	case kernel.FusedSquare:
		kernel.Square(y, x)
	case kernel.FusedTanh:
		kernel.Tanh(y, x)
	case kernel.FusedClip:
		kernel.Clip(y, x, float32(in.k[0]), float32(in.k[1]))
	case kernel.FusedGelu:
		kernel.Gelu(y, x)
	case kernel.FusedGeluTanh:
		kernel.GeluTanh(y, x)
	case kernel.FusedHardSigmoid:
		kernel.HardSigmoid(y, x, float32(in.k[0]), float32(in.k[1]))
	case kernel.FusedHardSwish:
		kernel.HardSwish(y, x)
	case kernel.FusedLeakyRelu:
		kernel.LeakyRelu(y, x, float32(in.k[0]))
	case kernel.FusedRelu:
		kernel.Relu(y, x)
	case kernel.FusedSigmoid:
		kernel.Sigmoid(y, x)
	case kernel.FusedSwish:
		kernel.Swish(y, x, in.k[0])
	default:
		if in.scalar {
			in.runScalar(y, x, float32(in.k[0]))
		} else {
			in.runRows(y, x, a)
		}
	}
}

func (in *instruction) runScalar(y, x []float32, k float32) {
	switch in.op {
	case kernel.FusedAdd:
		kernel.AddS(y, x, k)
	case kernel.FusedSub:
		kernel.SubS(y, x, k)
	case kernel.FusedSubFrom:
		kernel.SubFromS(y, x, k)
	case kernel.FusedMul:
		kernel.MulS(y, x, k)
	case kernel.FusedDiv:
		kernel.DivS(y, x, k)
	case kernel.FusedDivInto:
		kernel.DivIntoS(y, x, k)
	case kernel.FusedMax:
		kernel.MaxS(y, x, k)
	case kernel.FusedMin:
		kernel.MinS(y, x, k)
	}
}

func (in *instruction) runRows(y, x, a []float32) {
	switch in.op {
	case kernel.FusedAdd:
		kernel.Add(y, x, a)
	case kernel.FusedSub:
		kernel.Sub(y, x, a)
	case kernel.FusedMul:
		kernel.Mul(y, x, a)
	case kernel.FusedDiv:
		kernel.Div(y, x, a)
	case kernel.FusedMax:
		kernel.Max(y, x, a)
	case kernel.FusedMin:
		kernel.Min(y, x, a)
	}
}

// unaryExpression is the function of an operator of one operand.
func unaryExpression(s *lowering.Step) func(y, x []float32) {
	e, ok := expressionOf(s)
	if !ok {
		return nil
	}
	p := compile(e)
	if p == nil {
		return nil
	}
	r := &rowProgram{program: p, operands: []rowOperand{{kind: full}}, width: 1, chunk: blockSize}
	return func(y, x []float32) { r.run(y, [][]float32{x}, len(y)) }
}

// rowProgram is a program on rows of width numbers.
type rowProgram struct {
	*program
	operands []rowOperand
	width    int
	// chunk is the numbers that a block holds: whole rows where an operand repeats, and rows are no longer than a block.
	chunk   int
	repeats bool
}

// rowOperand is how an operand lies against rows.
type rowOperand struct {
	kind, input int
	table       []float32 // of one that repeats: its numbers, as often as a block may hold them
	register    int       // of one that has a number per row: where it is spread
}

// rowExpression is the row kernel of a step.
func rowExpression(s *lowering.Step) record.RowMaker {
	e, ok := expressionOf(s)
	if !ok {
		return nil
	}
	p := compile(e)
	if p == nil {
		return nil
	}
	return func(in [][]int, out []int) *record.RowOp {
		_, width := lowering.Features(out)
		if width == 0 {
			return nil
		}
		r, op := p.bind(s, in, out)
		if r == nil || len(op.Over) == 0 {
			return nil
		}
		op.Run = r.run
		return op
	}
}

// bind fits a program to shapes; nil where operands broadcast otherwise than rows do.
func (p *program) bind(s *lowering.Step, in [][]int, out []int) (*rowProgram, *record.RowOp) {
	rows, width := lowering.Features(out)
	r, op := &rowProgram{program: p, width: width, chunk: blockSize}, &record.RowOp{}
	spread := p.registers
	for _, i := range p.reads {
		k := s.Constant(i)
		o := rowOperand{kind: readKind(s, i, in[i], rows, width), input: i}
		switch o.kind {
		case full:
			op.Operands, op.Over = append(op.Operands, i), append(op.Over, i)
		case perRow:
			op.Operands = append(op.Operands, i)
			o.register = spread
			spread++
		case repeats:
			for o.table = widened(k, width); len(o.table)+width <= blockSize; {
				o.table = append(slices.Clip(o.table), widened(k, width)...)
			}
		default:
			return nil, nil
		}
		r.repeats = r.repeats || o.kind != full
		r.operands = append(r.operands, o)
	}
	if spread > maxRegisters {
		return nil, nil
	}
	if r.repeats && width <= blockSize {
		r.chunk = blockSize / width * width
	}
	return r, op
}

// readKind is operandKind of input i: constants of other types, such as truth values, may repeat but are not read as rows.
func readKind(s *lowering.Step, i int, shape []int, rows, width int) int {
	kind := operandKind(shape, s.Constant(i) != nil, rows, width)
	if kind != repeats && !s.Float32Input(i) {
		return unfit
	}
	return kind
}

// run computes rows block by block.
func (r *rowProgram) run(y []float32, x [][]float32, rows int) {
	var registers [maxRegisters][blockSize]float32
	var views [maxRegisters + maxOperands][]float32
	last := len(r.code) - 1
	for lo, total := 0, rows*r.width; lo < total; {
		n := min(r.chunk, total-lo)
		if r.repeats && r.width > blockSize {
			n = min(n, r.width-lo%r.width)
		}
		for i := range r.registers {
			views[i] = registers[i][:n]
		}
		for i := range r.operands {
			o, at := &r.operands[i], r.registers+i
			switch o.kind {
			case full:
				views[at] = x[o.input][lo : lo+n]
			case repeats:
				views[at] = o.table[lo%r.width:][:n]
			case perRow:
				views[at] = registers[o.register][:n]
				width := min(n, r.width)
				kernel.RepeatR(views[at], x[o.input][lo/r.width:], n/width, width)
			}
		}
		for i := range r.code {
			in := &r.code[i]
			to := views[in.to]
			if i == last {
				to = y[lo : lo+n]
			}
			in.run(to, views[in.x], views[in.a])
		}
		lo += n
	}
}

// chain says what a step does to its input at as steps of a fused kernel, one after the other; nil where an instruction reads
// more than what the one before gives and an input.
func chain(d *lowering.Binding, s *lowering.Step, at, rows, width int) []kernel.FusedStep {
	e, ok := expressionOf(s)
	if !ok {
		return nil
	}
	p := compile(e)
	if p == nil {
		return nil
	}
	before := -1 // where the numbers are that come to the instruction
	if i := slices.Index(p.reads, at); i >= 0 {
		before = p.registers + i
	}
	var steps []kernel.FusedStep
	for i := range p.code {
		in := p.code[i]
		arithmetic := in.readsTwo()
		if arithmetic && in.x != before {
			in.op, in.x, in.a = exchanged(in.op), in.a, in.x
		}
		if in.x != before || in.op == logarithm || arithmetic && in.a < p.registers {
			return nil
		}
		l := kernel.FusedStep{Op: in.op}
		switch {
		case in.scalar:
			l.X, l.A = -1, widened(record.Narrow(in.k), width)
		case !arithmetic:
			l.B = record.Narrow(in.k)
		default:
			l.X = p.reads[in.a-p.registers]
			k := s.Constant(l.X)
			switch readKind(s, l.X, d.Shape(s.In[l.X]), rows, width) {
			case full:
			case repeats:
				l.X, l.A = -1, widened(k, width)
			default:
				return nil
			}
		}
		steps = append(steps, l)
		before = in.to
	}
	return steps
}

// readsTwo reports whether an instruction reads two blocks.
func (in *instruction) readsTwo() bool {
	for _, f := range arithmetics {
		if slices.Contains(f[:], in.op) {
			return !in.scalar
		}
	}
	return false
}
