package scalar

import (
	"fmt"
	"strconv"
	"strings"
)

// String prints e as a formula of operands x0, x1 and so on. Common subexpressions come first and have names:
// "t0 = exp(-x0); t0/(t0 + 1)". Parse reads it.
func (e Expr) String() string {
	if !e.Valid() {
		return "none"
	}
	w := writer{uses: map[Expr]int{}, names: map[Expr]string{}}
	Walk(func(x Expr) {
		for _, a := range x.Args() {
			w.uses[a]++
		}
	}, e)
	s := w.text(e, 0)
	return strings.Join(append(w.lines, s), "; ")
}

type writer struct {
	uses  map[Expr]int
	names map[Expr]string
	lines []string
}

// Precedences, from the operator that binds least.
const (
	loose = iota
	comparison
	sum
	product
	tight
)

var infix = map[Op]struct {
	sign string
	prec int
}{
	OpAdd: {" + ", sum}, OpSub: {" - ", sum}, OpMul: {"*", product}, OpDiv: {"/", product},
	OpLess: {" < ", comparison}, OpLessEqual: {" <= ", comparison}, OpEqual: {" == ", comparison},
}

// text prints e, in parentheses if it binds less than prec.
func (w *writer) text(e Expr, prec int) string {
	if name := w.names[e]; name != "" {
		return name
	}
	if w.uses[e] > 1 && e.Op().Arity() > 0 {
		w.uses[e] = 0
		s := w.text(e, loose)
		w.names[e] = fmt.Sprintf("t%d", len(w.names))
		w.lines = append(w.lines, w.names[e]+" = "+s)
		return w.names[e]
	}
	var s string
	own := tight
	switch op := e.Op(); {
	case op == OpInput:
		return fmt.Sprintf("x%d", e.Index())
	case op == OpConst:
		s = strconv.FormatFloat(e.Value(), 'g', -1, 64)
		if s[0] == '-' {
			own = sum
		}
	case op == OpNeg && e.Arg(0).Op() != OpConst: // "-2" is a constant
		s, own = "-"+w.text(e.Arg(0), tight), sum
	case infix[op].sign != "":
		in := infix[op]
		own = in.prec
		left, right := own, own+1
		if own == comparison {
			left++
		}
		s = w.text(e.Arg(0), left) + in.sign + w.text(e.Arg(1), right)
	default:
		var args []string
		for _, a := range e.Args() {
			args = append(args, w.text(a, loose))
		}
		return op.String() + "(" + strings.Join(args, ", ") + ")"
	}
	if own < prec {
		return "(" + s + ")"
	}
	return s
}
