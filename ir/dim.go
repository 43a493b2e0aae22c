package ir

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Dim is one dimension of a shape: a polynomial with integer coefficients over symbols such as B and L, and over
// functions of them (floor division, minimum, maximum) where shapes need those. It is kept in a normal form, so equal
// expressions have equal strings. The zero Dim is the constant 0. Dims are immutable. Where a coefficient would
// overflow, the result is Unknown.
type Dim struct {
	unknown bool
	n       int64  // the constant term
	terms   []term // the others, sorted by key; no zero coefficients
}

type term struct {
	coef  int64
	atoms []atom // sorted by key; at least one
}

// atom is a symbol (fn is empty) or a function of dims.
type atom struct {
	name string
	fn   string // "floordiv", "max", "min"
	args []Dim
}

func (a atom) key() string {
	if a.fn == "" {
		return a.name
	}
	return a.fn + "(" + a.args[0].String() + "," + a.args[1].String() + ")"
}

func (t term) key() string {
	if len(t.atoms) == 1 {
		return t.atoms[0].key()
	}
	k := make([]string, len(t.atoms))
	for i, a := range t.atoms {
		k[i] = a.key()
	}
	return strings.Join(k, "*")
}

func equalAtoms(a, b atom) bool {
	return a.name == b.name && a.fn == b.fn && slices.EqualFunc(a.args, b.args, Dim.Equal)
}

// Unknown is a dimension about which nothing is known. It equals no dimension, not even itself.
var Unknown = Dim{unknown: true}

// Const returns a known dimension.
func Const(n int64) Dim { return Dim{n: n} }

// Sym returns a named dimension, equal to every other dimension of that name in the graph.
func Sym(name string) Dim { return Dim{terms: []term{{coef: 1, atoms: []atom{{name: name}}}}} }

// function returns a floor division, maximum or minimum that cannot be simplified.
func function(fn string, d, e Dim) Dim {
	return Dim{terms: []term{{1, []atom{{fn: fn, args: []Dim{d, e}}}}}}
}

// IsUnknown reports whether nothing is known about d.
func (d Dim) IsUnknown() bool { return d.unknown }

// Known returns the number when d is a constant.
func (d Dim) Known() (int64, bool) {
	if d.unknown || len(d.terms) > 0 {
		return 0, false
	}
	return d.n, true
}

// Symbol returns the name when d is a plain symbol.
func (d Dim) Symbol() (string, bool) {
	if d.unknown || d.n != 0 || len(d.terms) != 1 {
		return "", false
	}
	t := d.terms[0]
	if t.coef != 1 || len(t.atoms) != 1 || t.atoms[0].fn != "" {
		return "", false
	}
	return t.atoms[0].name, true
}

// Equal reports whether a and b are known to be the same number for every value of their symbols.
func (d Dim) Equal(e Dim) bool {
	return !d.unknown && !e.unknown && d.n == e.n && slices.EqualFunc(d.terms, e.terms, func(a, b term) bool {
		return a.coef == b.coef && slices.EqualFunc(a.atoms, b.atoms, equalAtoms)
	})
}

// same reports whether both have the same text: they are equal, or both unknown.
func (d Dim) same(e Dim) bool { return d.unknown && e.unknown || d.Equal(e) }

// fromTerms brings a sum into normal form. It changes ts.
func fromTerms(n int64, ts []term) Dim {
	if len(ts) > 1 {
		slices.SortStableFunc(ts, func(a, b term) int { return strings.Compare(a.key(), b.key()) })
	}
	out := ts[:0]
	for _, t := range ts {
		if k := len(out); k > 0 && out[k-1].key() == t.key() {
			sum, ok := add(out[k-1].coef, t.coef)
			if !ok {
				return Unknown
			}
			out[k-1].coef = sum
		} else {
			out = append(out, t)
		}
	}
	out = slices.DeleteFunc(out, func(t term) bool { return t.coef == 0 })
	return Dim{n: n, terms: out}
}

// add and mul report whether the result fits.
func add(a, b int64) (int64, bool) {
	c := a + b
	return c, (c > a) == (b > 0)
}

func mul(a, b int64) (int64, bool) {
	if a == 0 || b == 0 {
		return 0, true
	}
	c := a * b
	return c, c/b == a && !(a == -1 && b == math.MinInt64) && !(b == -1 && a == math.MinInt64)
}

// Add is d + e.
func (d Dim) Add(e Dim) Dim {
	if d.unknown || e.unknown {
		return Unknown
	}
	n, ok := add(d.n, e.n)
	switch {
	case !ok:
		return Unknown
	case len(e.terms) == 0:
		return Dim{n: n, terms: d.terms}
	case len(d.terms) == 0:
		return Dim{n: n, terms: e.terms}
	}
	return fromTerms(n, slices.Concat(d.terms, e.terms))
}

// Sum is d + e for sums of any number of dimensions: unknown if it has very many terms, which would take quadratic
// time.
func (d Dim) Sum(e Dim) Dim {
	const most = 256
	if len(d.terms)+len(e.terms) > most {
		return Unknown
	}
	return d.Add(e)
}

// Sub is d - e.
func (d Dim) Sub(e Dim) Dim { return d.Add(e.Mul(Const(-1))) }

// Mul is d * e.
func (d Dim) Mul(e Dim) Dim {
	if d.unknown || e.unknown {
		return Unknown
	}
	n, ok := mul(d.n, e.n)
	if !ok {
		return Unknown
	}
	if len(d.terms) == 0 && len(e.terms) == 0 {
		return Const(n)
	}
	var ts []term
	for _, a := range d.all() {
		for _, b := range e.all() {
			coef, ok := mul(a.coef, b.coef)
			if !ok {
				return Unknown
			}
			atoms := slices.Concat(a.atoms, b.atoms)
			if len(a.atoms) > 0 && len(b.atoms) > 0 {
				slices.SortFunc(atoms, func(x, y atom) int { return strings.Compare(x.key(), y.key()) })
			}
			if len(atoms) > 0 {
				ts = append(ts, term{coef, atoms})
			}
		}
	}
	return fromTerms(n, ts)
}

// all returns the terms. The constant one, if it is not 0, comes first and has no atoms.
func (d Dim) all() []term {
	if d.n == 0 {
		return d.terms
	}
	return append([]term{{coef: d.n}}, d.terms...)
}

// count returns the number of terms, with the constant one.
func (d Dim) count() int {
	if d.n == 0 {
		return len(d.terms)
	}
	return len(d.terms) + 1
}

// FloorDiv returns the greatest integer not above d / e. It divides where every term but the constant can be divided.
func (d Dim) FloorDiv(e Dim) Dim {
	if d.unknown || e.unknown {
		return Unknown
	}
	n, ok := e.Known()
	if ok && n == 1 {
		return d
	}
	if ok && n > 1 {
		exact := true
		for _, t := range d.terms {
			exact = exact && t.coef%n == 0
		}
		if exact {
			q := d.n / n
			if d.n%n < 0 {
				q--
			}
			ts := slices.Clone(d.terms)
			for i := range ts {
				ts[i].coef /= n
			}
			return fromTerms(q, ts)
		}
	}
	if q, ok := d.quotient(e); ok {
		return q
	}
	return function("floordiv", d, e)
}

// quotient divides by a single term where that leaves no remainder.
func (d Dim) quotient(e Dim) (Dim, bool) {
	divisor, dividend := e.all(), d.all()
	if len(divisor) != 1 || len(dividend) == 0 {
		return Dim{}, false
	}
	by := divisor[0]
	n, ts := int64(0), []term(nil)
	for _, t := range dividend {
		if by.coef == 0 || t.coef%by.coef != 0 || by.coef == -1 && t.coef == math.MinInt64 {
			return Dim{}, false
		}
		left := slices.Clone(t.atoms)
		for _, a := range by.atoms {
			i := slices.IndexFunc(left, func(x atom) bool { return equalAtoms(x, a) })
			if i < 0 {
				return Dim{}, false
			}
			left = slices.Delete(left, i, i+1)
		}
		if len(left) == 0 {
			var ok bool
			if n, ok = add(n, t.coef/by.coef); !ok {
				return Unknown, true
			}
			continue
		}
		ts = append(ts, term{t.coef / by.coef, left})
	}
	return fromTerms(n, ts), true
}

// Max returns the greater of d and e.
func (d Dim) Max(e Dim) Dim { return d.extreme("max", e) }

// Min returns the lesser of d and e.
func (d Dim) Min(e Dim) Dim { return d.extreme("min", e) }

func (d Dim) extreme(fn string, e Dim) Dim {
	if d.unknown || e.unknown {
		return Unknown
	}
	diff, ok := int64(cmp.Compare(d.n, e.n)), len(d.terms) == 0 && len(e.terms) == 0
	if !ok {
		diff, ok = d.Sub(e).Known()
	}
	if ok {
		if (diff >= 0) == (fn == "max") {
			return d
		}
		return e
	}
	if e.String() < d.String() {
		d, e = e, d
	}
	return function(fn, d, e)
}

// Symbols lists the names that d depends on, sorted, each once.
func (d Dim) Symbols() []string {
	var s []string
	for _, t := range d.terms {
		for _, a := range t.atoms {
			if a.fn == "" {
				s = append(s, a.name)
			}
			for _, x := range a.args {
				s = append(s, x.Symbols()...)
			}
		}
	}
	slices.Sort(s)
	return slices.Compact(s)
}

// Eval computes d for given values of its symbols.
func (d Dim) Eval(bind map[string]int64) (int64, error) {
	if d.unknown {
		return 0, fmt.Errorf("unknown dimension")
	}
	sum := d.n
	for _, t := range d.terms {
		p := t.coef
		for _, a := range t.atoms {
			v, err := a.eval(bind)
			if err != nil {
				return 0, err
			}
			var ok bool
			if p, ok = mul(p, v); !ok {
				return 0, fmt.Errorf("dimension %v overflows", d)
			}
		}
		var ok bool
		if sum, ok = add(sum, p); !ok {
			return 0, fmt.Errorf("dimension %v overflows", d)
		}
	}
	return sum, nil
}

func (a atom) eval(bind map[string]int64) (int64, error) {
	if a.fn == "" {
		v, ok := bind[a.name]
		if !ok {
			return 0, fmt.Errorf("dimension %s is not bound", a.name)
		}
		return v, nil
	}
	x, err := a.args[0].Eval(bind)
	if err != nil {
		return 0, err
	}
	y, err := a.args[1].Eval(bind)
	if err != nil {
		return 0, err
	}
	switch a.fn {
	case "max":
		return max(x, y), nil
	case "min":
		return min(x, y), nil
	}
	if y == 0 {
		return 0, fmt.Errorf("division by zero in dimension %s", a.key())
	}
	q := x / y
	if x%y != 0 && (x < 0) != (y < 0) {
		q--
	}
	return q, nil
}

// Subst replaces symbols by dimensions.
func (d Dim) Subst(with map[string]Dim) Dim {
	if d.unknown || len(d.terms) == 0 {
		return d
	}
	if name, ok := d.Symbol(); ok {
		if e, ok := with[name]; ok {
			return e
		}
		return d
	}
	sum := Const(d.n)
	for _, t := range d.terms {
		p := Const(t.coef)
		for _, a := range t.atoms {
			p = p.Mul(a.subst(with))
		}
		sum = sum.Add(p)
	}
	return sum
}

func (a atom) subst(with map[string]Dim) Dim {
	switch a.fn {
	case "":
		if e, ok := with[a.name]; ok {
			return e
		}
		return Sym(a.name)
	case "max":
		return a.args[0].Subst(with).Max(a.args[1].Subst(with))
	case "min":
		return a.args[0].Subst(with).Min(a.args[1].Subst(with))
	}
	return a.args[0].Subst(with).FloorDiv(a.args[1].Subst(with))
}

// String writes d as ParseDim reads it: "L", "2*L+1", "floordiv(L+1,2)", "?" when unknown.
func (d Dim) String() string {
	if d.unknown {
		return "?"
	}
	if len(d.terms) == 0 {
		return strconv.FormatInt(d.n, 10)
	}
	if len(d.terms) == 1 && d.n == 0 && d.terms[0].coef == 1 {
		return d.terms[0].key()
	}
	var b strings.Builder
	write := func(t term) {
		c := uint64(t.coef)
		if t.coef < 0 {
			b.WriteByte('-')
			c = -c
		} else if b.Len() > 0 {
			b.WriteByte('+')
		}
		switch {
		case len(t.atoms) == 0:
			b.WriteString(strconv.FormatUint(c, 10))
		case c == 1:
			b.WriteString(t.key())
		default:
			b.WriteString(strconv.FormatUint(c, 10) + "*" + t.key())
		}
	}
	for _, t := range d.terms {
		write(t)
	}
	if d.n != 0 { // the constant comes last
		write(term{coef: d.n})
	}
	return b.String()
}

// Bounds on the text of one dimension, and on the polynomial that it describes. Without them a short text could
// describe a polynomial that takes very long to bring into normal form.
const (
	maxDimText    = 4096
	maxDimTerms   = 256
	maxDimFactors = 32
)

// ParseDim reads what String writes.
func ParseDim(s string) (Dim, error) {
	if len(s) > maxDimText {
		return Dim{}, fmt.Errorf("dimension of %d characters, more than %d", len(s), maxDimText)
	}
	p := dimParser{s: strings.ReplaceAll(s, " ", "")}
	d, err := p.sum(0)
	if err == nil && p.i < len(p.s) {
		err = fmt.Errorf("unexpected %q", p.s[p.i:])
	}
	if err != nil {
		return Dim{}, fmt.Errorf("dimension %q: %w", s, err)
	}
	return d, nil
}

type dimParser struct {
	s string
	i int
}

func (p *dimParser) peek() byte {
	if p.i < len(p.s) {
		return p.s[p.i]
	}
	return 0
}

func (p *dimParser) sum(depth int) (Dim, error) {
	if depth > 16 {
		return Dim{}, fmt.Errorf("nested deeper than 16")
	}
	if p.peek() == '?' {
		p.i++
		return Unknown, nil
	}
	sum, sign := Dim{}, int64(1)
	if p.peek() == '-' {
		p.i++
		sign = -1
	}
	for {
		t, err := p.product(depth)
		if err != nil {
			return Dim{}, err
		}
		sum = sum.Add(t.Mul(Const(sign)))
		if sum.count() > maxDimTerms {
			return Dim{}, fmt.Errorf("more than %d terms", maxDimTerms)
		}
		switch p.peek() {
		case '+':
			sign = 1
		case '-':
			sign = -1
		default:
			return sum, nil
		}
		p.i++
	}
}

func (p *dimParser) product(depth int) (Dim, error) {
	d, err := p.factor(depth)
	for err == nil && p.peek() == '*' {
		p.i++
		var e Dim
		if e, err = p.factor(depth); err == nil {
			if d.count()*e.count() > maxDimTerms {
				return Dim{}, fmt.Errorf("more than %d terms", maxDimTerms)
			}
			d = d.Mul(e)
			for _, t := range d.terms {
				if len(t.atoms) > maxDimFactors {
					return Dim{}, fmt.Errorf("more than %d factors", maxDimFactors)
				}
			}
		}
	}
	return d, err
}

func isIdent(c byte, first bool) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80 ||
		!first && (c >= '0' && c <= '9' || c == '.' || c == '#' || c == '/' || c == ':')
}

func (p *dimParser) factor(depth int) (Dim, error) {
	start := p.i
	if c := p.peek(); c >= '0' && c <= '9' {
		for p.i < len(p.s) && p.s[p.i] >= '0' && p.s[p.i] <= '9' {
			p.i++
		}
		n, err := strconv.ParseInt(p.s[start:p.i], 10, 64)
		return Const(n), err
	}
	if !isIdent(p.peek(), true) {
		return Dim{}, fmt.Errorf("expected a number or a name at %q", p.s[p.i:])
	}
	for p.i < len(p.s) && isIdent(p.s[p.i], false) {
		p.i++
	}
	name := p.s[start:p.i]
	if p.peek() != '(' {
		return Sym(name), nil
	}
	p.i++
	a, err := p.sum(depth + 1)
	if err != nil {
		return Dim{}, err
	}
	if p.peek() != ',' {
		return Dim{}, fmt.Errorf("%s: expected ','", name)
	}
	p.i++
	b, err := p.sum(depth + 1)
	if err != nil {
		return Dim{}, err
	}
	if p.peek() != ')' {
		return Dim{}, fmt.Errorf("%s: expected ')'", name)
	}
	p.i++
	switch name {
	case "floordiv":
		return a.FloorDiv(b), nil
	case "max":
		return a.Max(b), nil
	case "min":
		return a.Min(b), nil
	}
	return Dim{}, fmt.Errorf("unknown function %s", name)
}
