package kernel

// A FusedOp is what a step of a fused kernel does to the numbers that come to it: x below. a and b are what the step reads.
type FusedOp uint8

// The operators of steps, in the order of the table that _asm/fused.go writes.
const (
	fusedStore FusedOp = iota
	fusedLoad
	FusedAdd             // x + a
	FusedSub             // x - a
	FusedSubFrom         // a - x
	FusedMul             // x·a
	FusedDiv             // x/a
	FusedDivInto         // a/x
	FusedMax             // max(x, a), NaN where either is
	FusedMin             // min(x, a), NaN where either is
	FusedAffine          // x·a + b
	FusedAddProduct      // x + a·b
	FusedSigmoid         // as the functions of this package of these names; their parameters are in b
	FusedGelu            //
	FusedGeluTanh        //
	FusedTanh            //
	FusedExp             //
	FusedErf             //
	FusedRelu            //
	FusedLeakyRelu       // alpha
	FusedSwish           // alpha
	FusedClip            // lo, hi
	FusedHardSigmoid     // alpha, beta
	FusedHardSwish       //
	FusedSqrt            //
	FusedAbs             //
	FusedNeg             //
	FusedSquare          //
	FusedExpm1           //
	FusedSoftplus        //
	FusedMish            //
	FusedElu             // below, above
	FusedThresholdedRelu // alpha
	FusedShrink          // bias, lambd
	FusedFloor           //
	FusedCeil            //
	FusedRound           //
	fusedOps
)

// reads says what operators read: a, which is an operand or a constant row; b, a constant row; or so many parameters in b.
func (op FusedOp) reads() (a, b bool, params int) {
	switch op {
	case FusedAdd, FusedSub, FusedSubFrom, FusedMul, FusedDiv, FusedDivInto, FusedMax, FusedMin:
		return true, false, 0
	case FusedAffine, FusedAddProduct:
		return true, true, 0
	case FusedLeakyRelu, FusedSwish, FusedThresholdedRelu:
		return false, false, 1
	case FusedClip, FusedHardSigmoid, FusedElu, FusedShrink:
		return false, false, 2
	}
	return false, false, 0
}

// A FusedStep is one elementwise operator of a fused kernel.
type FusedStep struct {
	Op FusedOp
	X  int       // the operand of Run that is a; -1: the constant A
	A  []float32 // one number per feature
	B  []float32 // one number per feature, or parameters
}

// Constant reports whether the step reads no operand.
func (l *FusedStep) Constant() bool {
	a, _, _ := l.Op.reads()
	return !a || l.X < 0
}

// MaxFused is how many steps a fused kernel may have.
const MaxFused = 12

// A Fused is a kernel of elementwise operators, one after the other. Each number goes through all of them in registers: only what the last
// one gives is written. Answers are those of the operators by themselves, but for what is rounded once rather than twice.
type Fused struct {
	width    int
	operands []Operand
	steps    []FusedStep
	dense    bool // operands have no gaps
	repeat   int  // rows that the constants below hold, so that short rows are worked on together; 0: there are none
	tiled    []FusedStep
}

// An Operand is how a fused kernel reads an argument of Run: where in it the first row begins, and how far apart rows are, in numbers.
type Operand struct{ From, Stride int }

// hardSwish are its parameters.
var hardSwish = []float32{1.0 / 6, 0.5}

// NewFused makes a fused kernel for rows of width numbers, which is positive. There are at most MaxFused steps, whose constants have
// width numbers.
func NewFused(width int, operands []Operand, steps []FusedStep) *Fused {
	const long = 256 // numbers: what begins a row does not count any more
	c := &Fused{width: width, operands: operands, steps: steps, dense: true}
	for _, o := range operands {
		c.dense = c.dense && o == Operand{0, width}
	}
	for i := range steps {
		l := &steps[i]
		if l.Op == FusedHardSwish {
			l.B = hardSwish
		}
		if a, b, _ := l.Op.reads(); a && l.X < 0 || b {
			c.repeat = 1
		}
	}
	if c.dense && c.repeat > 0 && width < long {
		c.repeat = (long + width - 1) / width
	}
	for _, l := range steps {
		if a, b, _ := l.Op.reads(); a || b {
			l.A, l.B = tiled(l.A, c.repeat), tiled(l.B, c.repeat)
		}
		c.tiled = append(c.tiled, l)
	}
	return c
}

func tiled(v []float32, n int) []float32 {
	if n <= 1 {
		return v
	}
	w := make([]float32, 0, n*len(v))
	for range n {
		w = append(w, v...)
	}
	return w
}

// Run computes rows of y, which lie behind each other, from the same rows of operands: the first step is applied to x[0]. y may be an
// operand that lies as y does.
func (c *Fused) Run(y []float32, x [][]float32, rows int) {
	if rows == 0 {
		return
	}
	if !c.wide(y, x, rows) {
		c.portable(y, x, rows)
	}
}

// portable is the kernel in portable Go, some numbers of a row at a time.
func (c *Fused) portable(y []float32, x [][]float32, rows int) {
	var block [256]float32
	for r := range rows {
		for lo := 0; lo < c.width; lo += len(block) {
			hi := min(lo+len(block), c.width)
			v := block[:hi-lo]
			copy(v, c.rowOf(x, 0, r)[lo:hi])
			for i := range c.steps {
				l := &c.steps[i]
				a, b := l.A, l.B
				readsA, readsB, _ := l.Op.reads()
				switch {
				case readsA && l.X >= 0:
					a = c.rowOf(x, l.X, r)[lo:hi]
				case readsA:
					a = a[lo:hi]
				}
				if readsB {
					b = b[lo:hi]
				}
				l.Op.apply(v, a, b)
			}
			copy(y[r*c.width+lo:r*c.width+hi], v)
		}
	}
}

// rowOf is row r of an operand.
func (c *Fused) rowOf(x [][]float32, i, r int) []float32 {
	o := c.operands[i]
	return x[i][o.From+r*o.Stride:][:c.width]
}

// apply does to v what a step does.
func (op FusedOp) apply(v, a, b []float32) {
	switch op {
	case FusedAdd:
		Add(v, v, a)
	case FusedSub:
		Sub(v, v, a)
	case FusedSubFrom:
		Sub(v, a, v)
	case FusedMul:
		Mul(v, v, a)
	case FusedDiv:
		Div(v, v, a)
	case FusedDivInto:
		Div(v, a, v)
	case FusedMax:
		Max(v, v, a)
	case FusedMin:
		Min(v, v, a)
	case FusedAffine:
		Affine(v, v, 1, a, b)
	case FusedAddProduct:
		for i := range v {
			v[i] += a[i] * b[i]
		}
	case FusedSigmoid:
		Sigmoid(v, v)
	case FusedGelu:
		Gelu(v, v)
	case FusedGeluTanh:
		GeluTanh(v, v)
	case FusedTanh:
		Tanh(v, v)
	case FusedExp:
		Exp(v, v)
	case FusedErf:
		Erf(v, v)
	case FusedRelu:
		Relu(v, v)
	case FusedLeakyRelu:
		LeakyRelu(v, v, b[0])
	case FusedSwish:
		Swish(v, v, float64(b[0]))
	case FusedClip:
		Clip(v, v, b[0], b[1])
	case FusedHardSigmoid:
		HardSigmoid(v, v, b[0], b[1])
	case FusedHardSwish:
		HardSwish(v, v)
	case FusedSqrt:
		Sqrt(v, v)
	case FusedAbs:
		Abs(v, v)
	case FusedNeg:
		Neg(v, v)
	case FusedSquare:
		Square(v, v)
	case FusedExpm1:
		Expm1(v, v)
	case FusedSoftplus:
		Softplus(v, v)
	case FusedMish:
		Mish(v, v)
	case FusedElu:
		Elu(v, v, b[0], b[1])
	case FusedThresholdedRelu:
		ThresholdedRelu(v, v, b[0])
	case FusedShrink:
		Shrink(v, v, b[0], b[1])
	case FusedFloor:
		Floor(v, v)
	case FusedCeil:
		Ceil(v, v)
	case FusedRound:
		Round(v, v)
	}
}
