// Package scalar has scalar expressions, which define elementwise operators: one element of the result as a function
// of the elements at the same place of the operands. Evaluation in float64, fused kernels, code for other machines
// and derivatives are derived from them.
//
// It imports ir/tensor, for rounding to small floats, and the standard library. It depends on neither operators nor
// graphs. Expressions are immutable and hash-consed: equal expressions are identical, so == compares them, they can
// be map keys, and a repeated subexpression is stored once. Operations compute in float64 and round once each. Truth
// values are 1 and 0. NaN operands give NaN unless an operation documents otherwise; the sign and payload of a NaN
// carry no meaning.
//
// An operation is a primitive or a function. A function, such as Gelu, has a definition in terms of other
// operations. A backend may implement a function directly, or work with its definition, which Expand inserts.
package scalar

import (
	"math"
	"slices"
	"unique"
)

// MaxArgs is the greatest number of operands that an operation has.
const MaxArgs = 3

// Expr is an expression. The zero Expr represents an absent operand.
type Expr struct{ h unique.Handle[node] }

type node struct {
	op    Op
	index int32  // of an input
	bits  uint64 // of a constant
	args  [MaxArgs]Expr
}

func intern(n node) Expr { return Expr{unique.Make(n)} }

// Input is operand i; i must not be negative.
func Input(i int) Expr {
	switch {
	case i < 0 || i > math.MaxInt32:
		panic("scalar.Input: no such index")
	case i < len(first):
		return first[i]
	}
	return input(i)
}

func input(i int) Expr { return intern(node{op: OpInput, index: int32(i)}) }

// first holds the operands of nearly all expressions.
var first = func() (x [16]Expr) {
	for i := range x {
		x[i] = input(i)
	}
	return x
}()

// Inputs are the first n operands.
func Inputs(n int) []Expr {
	x := make([]Expr, n)
	for i := range x {
		x[i] = Input(i)
	}
	return x
}

// Const is a constant. 0 and -0 are different constants; all NaN are one.
func Const(v float64) Expr {
	if math.IsNaN(v) {
		v = math.NaN()
	}
	return intern(node{op: OpConst, bits: math.Float64bits(v)})
}

// Apply applies an operation to its operands. It panics if their number is wrong or one of them is the zero Expr.
func Apply(op Op, args ...Expr) Expr {
	if int(op) >= len(infos) || op <= OpConst || len(args) != infos[op].arity {
		panic("scalar.Apply: " + op.String() + " with a wrong number of operands")
	}
	n := node{op: op}
	for i, a := range args {
		if !a.Valid() {
			panic("scalar.Apply: " + op.String() + ": an operand is absent")
		}
		n.args[i] = a
	}
	return intern(n)
}

// Valid reports whether e is an expression, and not the zero Expr.
func (e Expr) Valid() bool { return e != Expr{} }

// Op is the operation at the top of e.
func (e Expr) Op() Op { return e.h.Value().op }

// Index is the number of the operand, for an OpInput.
func (e Expr) Index() int { return int(e.h.Value().index) }

// Value is the value of an OpConst; 0 for other operations.
func (e Expr) Value() float64 { return math.Float64frombits(e.h.Value().bits) }

// IsConst reports whether e is the constant v.
func (e Expr) IsConst(v float64) bool {
	n := e.h.Value()
	return n.op == OpConst && n.bits == math.Float64bits(v)
}

// Args are the operands of the operation at the top of e.
func (e Expr) Args() []Expr {
	n := e.h.Value()
	return append([]Expr(nil), n.args[:n.op.Arity()]...)
}

// Arg is operand i of the operation at the top of e.
func (e Expr) Arg(i int) Expr { return e.h.Value().args[i] }

// Reads gives the indices of the operands that e reads, in ascending order.
func (e Expr) Reads() []int {
	var out []int
	Walk(func(x Expr) {
		if x.Op() == OpInput {
			out = append(out, x.Index())
		}
	}, e)
	slices.Sort(out)
	return out
}

// Walk visits every subexpression of the given expressions once, operands before their readers.
func Walk(visit func(Expr), roots ...Expr) {
	seen := map[Expr]bool{}
	var walk func(Expr)
	walk = func(e Expr) {
		if seen[e] {
			return
		}
		seen[e] = true
		n := e.h.Value()
		for _, a := range n.args[:n.op.Arity()] {
			walk(a)
		}
		visit(e)
	}
	for _, e := range roots {
		walk(e)
	}
}
