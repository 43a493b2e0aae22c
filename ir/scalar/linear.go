package scalar

import (
	"math/bits"
	"slices"
)

// maxSubsets is the number of operands up to which Linear tries all sets of them. Of more it tries each one, and all.
const maxSubsets = 6

// Linear returns the largest sets of operands in which e is jointly linear, as its form shows, while the other operands
// are fixed: {0, 1} for x0+x1, {0} and {1} for x0·x1. Rounding to a smaller type counts as the identity.
func Linear(e Expr) [][]int {
	e = Simplify(Expand(e, nil))
	reads := e.Reads()
	var sets [][]int
	try := func(set []int) {
		if slices.ContainsFunc(sets, func(s []int) bool {
			return !slices.ContainsFunc(set, func(i int) bool { return !slices.Contains(s, i) })
		}) {
			return
		}
		l := linearity{set: set, known: map[Expr]degree{}}
		if l.of(e) == linear {
			sets = append(sets, set)
		}
	}
	if len(reads) > maxSubsets {
		try(reads)
		for _, i := range reads {
			try([]int{i})
		}
		return sets
	}
	for size := len(reads); size > 0; size-- {
		for mask := range uint(1) << len(reads) {
			if bits.OnesCount(mask) != size {
				continue
			}
			var set []int
			for k, i := range reads {
				if mask>>k&1 != 0 {
					set = append(set, i)
				}
			}
			try(set)
		}
	}
	slices.SortFunc(sets, slices.Compare)
	return sets
}

// degree is how an expression depends on the operands of a set.
type degree int

const (
	fixed  degree = iota // not at all
	zero                 // it is 0
	linear               // f(ax+by) = af(x) + bf(y)
	other
)

type linearity struct {
	set   []int
	known map[Expr]degree
}

func (l *linearity) of(e Expr) degree {
	if d, ok := l.known[e]; ok {
		return d
	}
	d := l.find(e)
	l.known[e] = d
	return d
}

func (l *linearity) find(e Expr) degree {
	switch e.Op() {
	case OpInput:
		if slices.Contains(l.set, e.Index()) {
			return linear
		}
		return fixed
	case OpConst:
		if e.Value() == 0 {
			return zero
		}
		return fixed
	}
	var d [MaxArgs]degree
	all := fixed
	for i, a := range e.Args() {
		d[i] = l.of(a)
		if d[i] == linear || d[i] == other {
			all = other
		}
	}
	if all == fixed {
		return fixed
	}
	switch e.Op() {
	case OpNeg, OpFloat32, OpFloat16, OpBFloat16:
		return d[0]
	case OpAdd, OpSub:
		return degreeOfSum(d[0], d[1])
	case OpMul:
		return degreeOfProduct(d[0], d[1])
	case OpFMA:
		return degreeOfSum(degreeOfProduct(d[0], d[1]), d[2])
	case OpDiv:
		if d[1] == fixed {
			return degreeOfProduct(d[0], fixed)
		}
	case OpSelect:
		if d[0] == fixed {
			return degreeOfSum(d[1], d[2])
		}
	}
	return other
}

func degreeOfSum(a, b degree) degree {
	switch {
	case a == b || b == zero:
		return a
	case a == zero:
		return b
	}
	return other
}

func degreeOfProduct(a, b degree) degree {
	switch {
	case a == zero || b == zero:
		return zero
	case a == fixed:
		return b
	case b == fixed:
		return a
	}
	return other
}
