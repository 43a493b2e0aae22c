package scalar

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// Bounds of Parse. They keep hostile text from demanding much memory or a deep stack.
const (
	maxText  = 1 << 16 // bytes
	maxDepth = 512     // of parentheses and calls inside each other, without names
	maxNodes = 4096    // operations
)

// MaxIndex is the largest index of an operand that Parse accepts.
const MaxIndex = 255

// Parse reads an expression as String writes it: "t0 = exp(-x0); t0/(t0 + 1)". Names are t0, t1 and so on, in their
// order. Parse(e.String()) is e, unless e is too large, or an operand has an index above MaxIndex.
func Parse(text string) (Expr, error) {
	if len(text) > maxText {
		return Expr{}, fmt.Errorf("expression of %d bytes: expected at most %d", len(text), maxText)
	}
	p := parser{text: text}
	for {
		name := fmt.Sprintf("t%d = ", len(p.names))
		named := strings.HasPrefix(p.text[p.at:], name)
		if named {
			p.at += len(name)
		}
		e := p.comparison()
		if p.err == nil && named && !p.take("; ") {
			p.fail("expected %q after the value of %s", "; ", name[:len(name)-3])
		}
		if p.err == nil && !named && p.at < len(text) {
			p.fail("unexpected %q", p.rest())
		}
		if p.err != nil {
			return Expr{}, fmt.Errorf("expression, byte %d: %w", p.at, p.err)
		}
		if !named {
			return e, nil
		}
		p.names = append(p.names, e)
	}
}

// named maps the names of operations to them.
var named = sync.OnceValue(func() map[string]Op {
	m := map[string]Op{}
	for _, op := range Ops() {
		m[op.String()] = op
	}
	return m
})

type parser struct {
	text  string
	at    int
	depth int
	nodes int
	names []Expr
	err   error
}

func (p *parser) fail(format string, args ...any) Expr {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
	return Const(0)
}

// rest is the beginning of what is left, for messages.
func (p *parser) rest() string { return p.text[p.at:min(len(p.text), p.at+20)] }

func (p *parser) take(s string) bool {
	if p.err != nil || !strings.HasPrefix(p.text[p.at:], s) {
		return false
	}
	p.at += len(s)
	return true
}

// apply counts operations.
func (p *parser) apply(op Op, args ...Expr) Expr {
	if p.nodes++; p.nodes > maxNodes {
		return p.fail("expected at most %d operations", maxNodes)
	}
	return Apply(op, args...)
}

func (p *parser) comparison() Expr {
	a := p.sum()
	for _, op := range []Op{OpLessEqual, OpLess, OpEqual} {
		if p.take(infix[op].sign) {
			return p.apply(op, a, p.sum())
		}
	}
	return a
}

func (p *parser) sum() Expr {
	var a Expr
	if p.take("-") {
		if p.number() { // a negative constant; Neg of a constant is written as a call
			p.at--
			a = p.constant()
		} else {
			a = p.apply(OpNeg, p.tight())
		}
	} else {
		a = p.product()
	}
	for p.err == nil {
		switch {
		case p.take(infix[OpAdd].sign):
			a = p.apply(OpAdd, a, p.product())
		case p.take(infix[OpSub].sign):
			a = p.apply(OpSub, a, p.product())
		default:
			return a
		}
	}
	return a
}

func (p *parser) product() Expr {
	a := p.tight()
	for p.err == nil {
		switch {
		case p.take(infix[OpMul].sign):
			a = p.apply(OpMul, a, p.tight())
		case p.take(infix[OpDiv].sign):
			a = p.apply(OpDiv, a, p.tight())
		default:
			return a
		}
	}
	return a
}

// number reports whether a constant without a sign comes next.
func (p *parser) number() bool {
	s := p.text[p.at:]
	return s != "" && s[0] >= '0' && s[0] <= '9' || strings.HasPrefix(s, "Inf")
}

func (p *parser) tight() Expr {
	if p.depth++; p.depth > maxDepth {
		return p.fail("nested deeper than %d", maxDepth)
	}
	defer func() { p.depth-- }()
	switch {
	case p.err != nil:
		return Const(0)
	case p.take("("):
		e := p.comparison()
		if !p.take(")") {
			p.fail("expected %q, found %q", ")", p.rest())
		}
		return e
	case p.number() || strings.HasPrefix(p.text[p.at:], "+Inf") || strings.HasPrefix(p.text[p.at:], "NaN"):
		return p.constant()
	}
	word := p.word()
	if i, ok := index(word, 'x'); ok {
		if i > MaxIndex {
			return p.fail("operand %s: expected an index up to %d", word, MaxIndex)
		}
		return Input(i)
	}
	if i, ok := index(word, 't'); ok {
		if i >= len(p.names) {
			return p.fail("%s has no value yet", word)
		}
		return p.names[i]
	}
	op, ok := named()[word]
	if !ok || op.Arity() == 0 {
		return p.fail("expected an operand or an operation, found %q", word+p.rest())
	}
	args := make([]Expr, op.Arity())
	for i := range args {
		sep := ", "
		if i == 0 {
			sep = "("
		}
		if !p.take(sep) {
			return p.fail("%s: expected %q, found %q", word, sep, p.rest())
		}
		args[i] = p.comparison()
	}
	if !p.take(")") {
		return p.fail("%s: expected %q, found %q", word, ")", p.rest())
	}
	return p.apply(op, args...)
}

// word reads letters and digits.
func (p *parser) word() string {
	lo := p.at
	for p.at < len(p.text) {
		if c := p.text[p.at]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			break
		}
		p.at++
	}
	return p.text[lo:p.at]
}

// index reads a letter with a number.
func index(word string, letter byte) (int, bool) {
	if len(word) < 2 || word[0] != letter || word[1] < '0' || word[1] > '9' || word[1] == '0' && len(word) > 2 {
		return 0, false
	}
	i, err := strconv.Atoi(word[1:])
	return i, err == nil
}

// constant reads a number as FormatFloat writes it.
func (p *parser) constant() Expr {
	lo := p.at
	for p.at < len(p.text) {
		c := p.text[p.at]
		sign := c == '+' || c == '-'
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '.' &&
			!(sign && (p.at == lo || p.text[p.at-1] == 'e')) {
			break
		}
		p.at++
	}
	s := p.text[lo:p.at]
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || strconv.FormatFloat(v, 'g', -1, 64) != s {
		p.at = lo
		return p.fail("%q is not a number as expressions have it", s)
	}
	return Const(v)
}
