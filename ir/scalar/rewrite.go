package scalar

import (
	"math"
	"slices"
)

// Rewrite rebuilds e bottom up: it replaces the operands of each subexpression first, and then the subexpression x by
// f(x).
func Rewrite(e Expr, f func(Expr) Expr) Expr {
	return rewriter{f, map[Expr]Expr{}}.rewrite(e)
}

type rewriter struct {
	f    func(Expr) Expr
	done map[Expr]Expr
}

func (r rewriter) rewrite(e Expr) Expr {
	if to, ok := r.done[e]; ok {
		return to
	}
	n := e.h.Value()
	changed := false
	for i, a := range n.args[:n.op.Arity()] {
		b := r.rewrite(a)
		changed = changed || a != b
		n.args[i] = b
	}
	to := e
	if changed {
		to = intern(n)
	}
	to = r.f(to)
	r.done[e] = to
	return to
}

// With replaces operand i of e by args[i]. It panics if e reads an operand that args lacks.
func (e Expr) With(args ...Expr) Expr {
	return Rewrite(e, func(x Expr) Expr {
		if x.Op() != OpInput {
			return x
		}
		a := args[x.Index()]
		if !a.Valid() {
			panic("scalar.With: " + x.String() + " is absent")
		}
		return a
	})
}

// Expand replaces the functions in e by their definitions, repeatedly, except those for which keep is true; a nil
// keep keeps none.
func Expand(e Expr, keep func(Op) bool) Expr {
	var expand func(Expr) Expr
	r := rewriter{func(x Expr) Expr { return expand(x) }, map[Expr]Expr{}}
	expand = func(x Expr) Expr {
		if op := x.Op(); !op.IsFunction() || keep != nil && keep(op) {
			return x
		}
		return r.rewrite(x.Define())
	}
	return r.rewrite(e)
}

// Simplify removes operations that have constant operands, neutral operands, or cancel each other. It does not change
// any value in any bit; NaN stays NaN.
func Simplify(e Expr) Expr { return Rewrite(e, simplify) }

func simplify(e Expr) Expr {
	n := e.h.Value()
	args := n.args[:n.op.Arity()]
	if len(args) == 0 {
		return e
	}
	constant := true
	var v [MaxArgs]float64
	for i, a := range args {
		constant = constant && a.Op() == OpConst
		v[i] = a.Value()
	}
	if constant {
		return Const(e.At())
	}
	a, b, c := n.args[0], n.args[1], n.args[2]
	switch n.op {
	case OpAdd: // the neutral element is -0: -0 + 0 is 0
		switch {
		case isNegZero(a):
			return b
		case isNegZero(b):
			return a
		case b.Op() == OpNeg:
			return simplify(Sub(a, b.Arg(0)))
		}
	case OpSub:
		switch {
		case b.IsConst(0):
			return a
		case isNegZero(a):
			return simplify(Neg(b))
		case b.Op() == OpNeg:
			return simplify(Add(a, b.Arg(0)))
		}
	case OpMul:
		switch {
		case a.IsConst(1):
			return b
		case b.IsConst(1):
			return a
		case a.IsConst(-1):
			return simplify(Neg(b))
		case b.IsConst(-1):
			return simplify(Neg(a))
		}
	case OpDiv:
		switch {
		case b.IsConst(1):
			return a
		case b.IsConst(-1):
			return simplify(Neg(a))
		}
	case OpFMA:
		switch {
		case isNegZero(c):
			return simplify(Mul(a, b))
		case a.IsConst(1):
			return simplify(Add(b, c))
		case b.IsConst(1):
			return simplify(Add(a, c))
		}
	case OpPow:
		switch {
		case b.IsConst(0), isNegZero(b), a.IsConst(1):
			return Const(1)
		case b.IsConst(1):
			return a
		}
	case OpNeg:
		if a.Op() == OpNeg {
			return a.Arg(0)
		}
	case OpAbs:
		switch a.Op() {
		case OpAbs:
			return a
		case OpNeg:
			return simplify(Abs(a.Arg(0)))
		}
	case OpMin, OpMax:
		neutral := math.Inf(1) // the neutral element
		if n.op == OpMax {
			neutral = math.Inf(-1)
		}
		switch {
		case a == b, b.IsConst(neutral):
			return a
		case a.IsConst(neutral):
			return b
		}
	case OpFloor, OpCeil, OpRound:
		switch a.Op() {
		case OpFloor, OpCeil, OpRound:
			return a
		}
	case OpSelect:
		switch {
		case b == c:
			return b
		case a.Op() == OpConst && v[0] != 0:
			return b
		case a.Op() == OpConst:
			return c
		case truth(a) && b.IsConst(1) && c.IsConst(0):
			return a
		}
	case OpFloat32, OpFloat16, OpBFloat16:
		if a.Op() == n.op || n.op == OpFloat32 && (a.Op() == OpFloat16 || a.Op() == OpBFloat16) {
			return a
		}
	}
	return e
}

func isNegZero(e Expr) bool { return e.IsConst(math.Copysign(0, -1)) }

// truth reports whether e is known to be 0 or 1.
func truth(e Expr) bool {
	switch e.Op() {
	case OpLess, OpLessEqual, OpEqual:
		return true
	}
	return false
}

// Hoist moves subexpressions out of e, for instance those that read only constants. A subexpression other than an
// operand or a constant is moved out if out is true for the sorted indices of the operands that it reads; parts of
// it then stay in it. In rest, hoisted[i] is replaced by operand from+i.
func Hoist(e Expr, from int, out func(reads []int) bool) (rest Expr, hoisted []Expr) {
	reads := map[Expr][]int{}
	Walk(func(x Expr) {
		n := x.h.Value()
		var r []int
		if n.op == OpInput {
			r = []int{int(n.index)}
		}
		for i, a := range n.args[:n.op.Arity()] {
			if i == 0 {
				r = reads[a]
			} else if a := reads[a]; !slices.Equal(a, r) {
				r = slices.Concat(r, a)
				slices.Sort(r)
				r = slices.Compact(r)
			}
		}
		reads[x] = r
	}, e)
	seen := map[Expr]Expr{}
	var walk func(Expr) Expr
	walk = func(x Expr) Expr {
		if to, ok := seen[x]; ok {
			return to
		}
		n := x.h.Value()
		to := x
		if args := n.args[:n.op.Arity()]; len(args) > 0 {
			if out(reads[x]) {
				to = Input(from + len(hoisted))
				hoisted = append(hoisted, x)
			} else {
				for i, a := range args {
					args[i] = walk(a)
				}
				to = intern(n)
			}
		}
		seen[x] = to
		return to
	}
	return walk(e), hoisted
}
