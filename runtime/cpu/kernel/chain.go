package kernel

// A LinkOp is what a link of a chain does to the numbers that come to it: x below. a and b are what the link reads.
type LinkOp uint8

// The operators of links, in the order of the table that _asm/chain.go writes.
const (
	chainStore LinkOp = iota
	chainLoad
	LinkAdd         // x + a
	LinkSub         // x - a
	LinkSubFrom     // a - x
	LinkMul         // x·a
	LinkDiv         // x/a
	LinkDivInto     // a/x
	LinkMax         // max(x, a), NaN where either is
	LinkMin         // min(x, a), NaN where either is
	LinkAffine      // x·a + b
	LinkAddProduct  // x + a·b
	LinkSigmoid     // as the functions of this package of these names; their parameters are in b
	LinkGelu        //
	LinkGeluTanh    //
	LinkTanh        //
	LinkExp         //
	LinkErf         //
	LinkRelu        //
	LinkLeakyRelu   // alpha
	LinkSwish       // alpha
	LinkClip        // lo, hi
	LinkHardSigmoid // alpha, beta
	LinkHardSwish   //
	LinkSqrt        //
	LinkAbs         //
	LinkNeg         //
	LinkSquare      //
	chainOps
)

// reads says what operators read: a, which is an operand or a constant row; b, a constant row; or so many parameters in b.
func (op LinkOp) reads() (a, b bool, params int) {
	switch op {
	case LinkAdd, LinkSub, LinkSubFrom, LinkMul, LinkDiv, LinkDivInto, LinkMax, LinkMin:
		return true, false, 0
	case LinkAffine, LinkAddProduct:
		return true, true, 0
	case LinkLeakyRelu, LinkSwish:
		return false, false, 1
	case LinkClip, LinkHardSigmoid:
		return false, false, 2
	}
	return false, false, 0
}

// A Link is one operator of a chain.
type Link struct {
	Op LinkOp
	X  int       // the operand of Run that is a; -1: the constant A
	A  []float32 // one number per feature
	B  []float32 // one number per feature, or parameters
}

// Constant reports whether the link reads no operand.
func (l *Link) Constant() bool {
	a, _, _ := l.Op.reads()
	return !a || l.X < 0
}

// MaxLinks is how many links a chain may have.
const MaxLinks = 12

// A Chain is elementwise operators, one after the other. Each number goes through all of them in registers: only what the last
// one gives is written. Answers are those of the operators by themselves, but for what is rounded once rather than twice.
type Chain struct {
	width    int
	operands []Operand
	links    []Link
	dense    bool // operands have no gaps
	repeat   int  // rows that the constants below hold, so that short rows are worked on together; 0: there are none
	tiled    []Link
}

// An Operand is how a chain reads an argument of Run: where in it the first row begins, and how far apart rows are, in numbers.
type Operand struct{ From, Stride int }

// hardSwish are its parameters.
var hardSwish = []float32{1.0 / 6, 0.5}

// NewChain makes a chain on rows of width numbers, which is positive. There are at most MaxLinks links, whose constants have
// width numbers.
func NewChain(width int, operands []Operand, links []Link) *Chain {
	const long = 256 // numbers: what begins a row does not count any more
	c := &Chain{width: width, operands: operands, links: links, dense: true}
	for _, o := range operands {
		c.dense = c.dense && o == Operand{0, width}
	}
	for i := range links {
		l := &links[i]
		if l.Op == LinkHardSwish {
			l.B = hardSwish
		}
		if a, b, _ := l.Op.reads(); a && l.X < 0 || b {
			c.repeat = 1
		}
	}
	if c.dense && c.repeat > 0 && width < long {
		c.repeat = (long + width - 1) / width
	}
	for _, l := range links {
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

// Run computes rows of y, which lie behind each other, from the same rows of operands: the chain begins with x[0]. y may be an
// operand that lies as y does.
func (c *Chain) Run(y []float32, x [][]float32, rows int) {
	if rows == 0 {
		return
	}
	if !c.wide(y, x, rows) {
		c.portable(y, x, rows)
	}
}

// portable is the chain in portable Go, some numbers of a row at a time.
func (c *Chain) portable(y []float32, x [][]float32, rows int) {
	var block [256]float32
	for r := range rows {
		for lo := 0; lo < c.width; lo += len(block) {
			hi := min(lo+len(block), c.width)
			v := block[:hi-lo]
			copy(v, c.rowOf(x, 0, r)[lo:hi])
			for i := range c.links {
				l := &c.links[i]
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
func (c *Chain) rowOf(x [][]float32, i, r int) []float32 {
	o := c.operands[i]
	return x[i][o.From+r*o.Stride:][:c.width]
}

// apply does to v what a link does.
func (op LinkOp) apply(v, a, b []float32) {
	switch op {
	case LinkAdd:
		Add(v, v, a)
	case LinkSub:
		Sub(v, v, a)
	case LinkSubFrom:
		Sub(v, a, v)
	case LinkMul:
		Mul(v, v, a)
	case LinkDiv:
		Div(v, v, a)
	case LinkDivInto:
		Div(v, a, v)
	case LinkMax:
		Max(v, v, a)
	case LinkMin:
		Min(v, v, a)
	case LinkAffine:
		Affine(v, v, 1, a, b)
	case LinkAddProduct:
		for i := range v {
			v[i] += a[i] * b[i]
		}
	case LinkSigmoid:
		Sigmoid(v, v)
	case LinkGelu:
		Gelu(v, v)
	case LinkGeluTanh:
		GeluTanh(v, v)
	case LinkTanh:
		Tanh(v, v)
	case LinkExp:
		Exp(v, v)
	case LinkErf:
		Erf(v, v)
	case LinkRelu:
		Relu(v, v)
	case LinkLeakyRelu:
		LeakyRelu(v, v, b[0])
	case LinkSwish:
		Swish(v, v, float64(b[0]))
	case LinkClip:
		Clip(v, v, b[0], b[1])
	case LinkHardSigmoid:
		HardSigmoid(v, v, b[0], b[1])
	case LinkHardSwish:
		HardSwish(v, v)
	case LinkSqrt:
		Sqrt(v, v)
	case LinkAbs:
		Abs(v, v)
	case LinkNeg:
		Neg(v, v)
	case LinkSquare:
		Square(v, v)
	}
}
