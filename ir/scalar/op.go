package scalar

// Op is an operation. The function of the same name documents it: Add is the documentation of OpAdd.
type Op uint8

// Operations: leaves, primitives, and functions.
const (
	OpNone  Op = iota
	OpInput    // an operand
	OpConst    // a constant

	OpAdd
	OpSub
	OpMul
	OpDiv
	OpFMA
	OpMin
	OpMax
	OpMod
	OpPow
	OpNeg
	OpAbs
	OpSqrt
	OpExp
	OpExpm1
	OpLog
	OpLog1p
	OpErf
	OpErfc
	OpSin
	OpCos
	OpTan
	OpAsin
	OpAcos
	OpAtan
	OpSinh
	OpCosh
	OpTanh
	OpAsinh
	OpAcosh
	OpAtanh
	OpFloor
	OpCeil
	OpRound
	OpLess
	OpLessEqual
	OpEqual
	OpSelect
	OpFloat32
	OpFloat16
	OpBFloat16

	OpSign
	OpRelu
	OpLeakyRelu
	OpThresholdedRelu
	OpClip
	OpShrink
	OpSigmoid
	OpHardSigmoid
	OpSwish
	OpHardSwish
	OpGelu
	OpGeluTanh
	OpElu
	OpCelu
	OpSelu
	OpSoftplus
	OpSoftsign
	OpMish
	OpFloorMod

	numOps
)

// info describes an operation. Costs count an addition as 1 and a polynomial approximation as 20; the cost of a
// function is the cost of its definition.
type info struct {
	name   string
	arity  int
	cost   int
	define func(x [MaxArgs]Expr) Expr // nil for primitives
	// derive is the derivative with respect to operand i; if it is nil, the definition is differentiated.
	derive func(e Expr, x [MaxArgs]Expr, i int) Expr
}

var infos [numOps]info

// Ops lists the operations with operands: primitives, then functions.
func Ops() []Op {
	var out []Op
	for op := OpConst + 1; op < numOps; op++ {
		out = append(out, op)
	}
	return out
}

// String is the operation's name: "add".
func (op Op) String() string {
	if op < numOps && infos[op].name != "" {
		return infos[op].name
	}
	return "none"
}

// Arity is the number of operands.
func (op Op) Arity() int {
	if op >= numOps {
		return 0
	}
	return infos[op].arity
}

// IsFunction reports whether the operation has a definition, with which Expand replaces it.
func (op Op) IsFunction() bool { return op < numOps && infos[op].define != nil }

// Define is the definition of a function, for the operands of e; the zero Expr for primitives and leaves.
func (e Expr) Define() Expr {
	n := e.h.Value()
	if !n.op.IsFunction() {
		return Expr{}
	}
	return infos[n.op].define(n.args)
}
