package kernel

// FusedOp is the operation of a step of a fused kernel. Below, x is the result of the step before, and a and b are the
// operands of the step.
type FusedOp uint8

// The operations, in the order of the table that _asm/fused.go writes.
const (
	fusedStore FusedOp = iota
	fusedLoad
	FusedAdd             // x + a
	FusedSub             // x - a
	FusedSubFrom         // a - x
	FusedMul             // x·a
	FusedDiv             // x/a
	FusedDivInto         // a/x
	FusedMax             // max(x, a); NaN if either is NaN
	FusedMin             // min(x, a); NaN if either is NaN
	FusedAffine          // x·a + b
	FusedAddProduct      // x + a·b
	FusedSigmoid         // this and the following: as the functions of these names, with parameters in b
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
	FusedSoftplus        //
	FusedMish            //
	FusedElu             // below, above
	FusedThresholdedRelu // alpha
	FusedShrink          // bias, lambd
	FusedFloor           //
	FusedCeil            //
	FusedRound           //
	FusedFloat16         //
	FusedBFloat16        //
	fusedOps
)

// reads returns whether op reads a, an operand or a constant row, and b, a constant row, and the number of parameters
// in b.
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

// FusedStep is a step of a fused kernel.
type FusedStep struct {
	Op FusedOp
	X  int       // index in Run of the operand a; -1 for the constant A
	A  []float32 // one number per feature
	B  []float32 // one number per feature, or parameters
	// The single numbers that A and B repeat, if these can change; nil otherwise.
	OfA, OfB []float32
}

// Constant reports whether the step reads no operand.
func (l *FusedStep) Constant() bool {
	a, _, _ := l.Op.reads()
	return !a || l.X < 0
}

// MaxFused is the largest number of steps of a fused kernel.
const MaxFused = 12

// Fused is a kernel of several elementwise steps. Each number goes through all of them in registers, and only the last
// result is written. Results are those of the separate functions, except that some are rounded once rather than twice.
type Fused struct {
	width    int
	operands []Operand
	steps    []FusedStep
	dense    bool // the rows of all operands are contiguous
	repeat   int  // rows of the constants in tiled, so that several short rows are computed together; 0 without constants
	tiled    []FusedStep
}

// Operand is the position of an operand in an argument of Run: the beginning of the first row, and the distance between
// rows, in float32.
type Operand struct{ From, Stride int }

// hardSwish holds the parameters of FusedHardSwish.
var hardSwish = []float32{1.0 / 6, 0.5}

// NewFused returns a fused kernel for rows of width > 0 numbers. There may be at most MaxFused steps. Their constants
// have width numbers.
func NewFused(width int, operands []Operand, steps []FusedStep) *Fused {
	const long = 256 // numbers of a row for which the work at its beginning does not matter
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

// Refill copies the constants again, after their numbers have changed in place.
func (c *Fused) Refill() {
	for i, l := range c.steps {
		repeat(l.A, l.OfA)
		repeat(l.B, l.OfB)
		if a, b, _ := l.Op.reads(); c.repeat > 1 && (a || b) {
			repeat(c.tiled[i].A, l.A)
			repeat(c.tiled[i].B, l.B)
		}
	}
}

// repeat copies v to w as often as it fits; nothing if v is empty.
func repeat(w, v []float32) {
	for len(v) > 0 && len(w) >= len(v) {
		w = w[copy(w, v):]
	}
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

// Run computes contiguous rows of y from the same rows of operands. The first step is applied to x[0]. y may be an
// operand with contiguous rows.
func (c *Fused) Run(y []float32, x [][]float32, rows int) {
	if rows == 0 {
		return
	}
	if !c.wide(y, x, rows) {
		c.portable(y, x, rows)
	}
}

// portable runs the kernel in portable Go, on parts of a row.
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

// rowOf returns row r of operand i.
func (c *Fused) rowOf(x [][]float32, i, r int) []float32 {
	o := c.operands[i]
	return x[i][o.From+r*o.Stride:][:c.width]
}

// apply applies the operation to v, in place.
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
	case FusedFloat16:
		Float16(v, v)
	case FusedBFloat16:
		BFloat16(v, v)
	}
}
