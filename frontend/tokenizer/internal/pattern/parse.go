package pattern

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds groups and classes in each other; the parser and the compiler recurse.
const maxDepth = 100

// maxRepeat is Oniguruma's bound of counted quantifiers.
const maxRepeat = 100000

// A parser reads one expression. It panics with syntaxError; parse recovers.
type parser struct {
	s       string
	at      int
	flags   flags
	depth   int
	groups  int
	sets    map[string]*set // of properties and escapes, by name
	singles map[rune]*set
	limits  *Limits
}

type flags struct{ ignoreCase, dotAll, extended bool }

type syntaxError struct{ err error }

func parse(expr string, l *Limits) (n node, err error) {
	p := &parser{s: expr, limits: l, sets: make(map[string]*set), singles: make(map[rune]*set)}
	defer func() {
		switch e := recover().(type) {
		case nil:
		case syntaxError:
			err = e.err
		default:
			panic(e)
		}
	}()
	if !utf8.ValidString(expr) {
		p.fail("not UTF-8")
	}
	n = p.alternatives()
	if p.at < len(p.s) {
		p.fail("unmatched )")
	}
	return n, nil
}

func (p *parser) fail(format string, args ...any) {
	panic(syntaxError{fmt.Errorf("byte %d: "+format, append([]any{p.at}, args...)...)})
}

func (p *parser) unsupported(what string) { p.fail("%s is not supported", what) }

// charge takes n ranges of classes from the limits.
func (p *parser) charge(n int) {
	p.limits.ranges -= n + 8
	if p.limits.ranges < 0 {
		panic(syntaxError{fmt.Errorf("byte %d: %w: its classes have too many ranges", p.at, ErrTooLarge)})
	}
}

func (p *parser) more() bool { return p.at < len(p.s) }

func (p *parser) peek() byte {
	if p.at < len(p.s) {
		return p.s[p.at]
	}
	return 0
}

func (p *parser) accept(prefix string) bool {
	if strings.HasPrefix(p.s[p.at:], prefix) {
		p.at += len(prefix)
		return true
	}
	return false
}

func (p *parser) rune() rune {
	c, n := utf8.DecodeRuneInString(p.s[p.at:])
	p.at += n
	return c
}

func (p *parser) enter() {
	if p.depth++; p.depth > maxDepth {
		p.fail("groups or classes are nested more than %d deep", maxDepth)
	}
}

// alternatives reads up to an unmatched ) or the end. Options that it meets end with it.
func (p *parser) alternatives() node {
	depth, saved := p.depth, p.flags
	p.enter()
	var list []node
	for {
		list = append(list, p.branch())
		if !p.accept("|") {
			break
		}
	}
	p.flags, p.depth = saved, depth
	if len(list) == 1 {
		return list[0]
	}
	return choice{list}
}

// branch reads one alternative: pieces with quantifiers. Literals under (?i) are gathered, since foldings of several
// characters cross them.
func (p *parser) branch() node {
	var list []node
	var run []rune
	flush := func() {
		if len(run) > 0 {
			list = append(list, p.folded(run))
			run = nil
		}
	}
	for p.more() && p.peek() != '|' && p.peek() != ')' {
		if p.skipped() {
			continue
		}
		n, literal, ok := p.piece()
		if !ok { // options for the rest of the group
			flush()
			list = append(list, p.alternatives())
			break
		}
		if n != nil {
			flush()
			list = append(list, p.quantified(n))
			continue
		}
		if q := p.quantified(nil); q != nil {
			flush()
			r := q.(repeat)
			list = append(list, p.stacked(replace(r, p.literal(literal))))
			continue
		}
		if p.flags.ignoreCase {
			run = append(run, literal)
			continue
		}
		list = append(list, one{p.single(literal)})
	}
	flush()
	if len(list) == 1 {
		return list[0]
	}
	return sequence{list}
}

// skipped passes over comments, and over space in extended syntax.
func (p *parser) skipped() bool {
	if strings.HasPrefix(p.s[p.at:], "(?#") {
		end := strings.IndexByte(p.s[p.at:], ')')
		if end < 0 {
			p.fail("the comment has no end")
		}
		p.at += end + 1
		return true
	}
	if !p.flags.extended {
		return false
	}
	switch p.peek() {
	case ' ', '\t', '\n', '\r', '\f', '\v':
		p.at++
		return true
	case '#':
		if end := strings.IndexByte(p.s[p.at:], '\n'); end >= 0 {
			p.at += end + 1
		} else {
			p.at = len(p.s)
		}
		return true
	}
	return false
}

func (p *parser) single(c rune) *set {
	s := p.singles[c]
	if s == nil {
		s = newSet([]rune{c, c})
		p.charge(1)
		p.singles[c] = s
	}
	return s
}

func (p *parser) literal(c rune) node {
	if p.flags.ignoreCase {
		return p.folded([]rune{c})
	}
	return one{p.single(c)}
}

func (p *parser) folded(run []rune) node {
	p.charge(4 * len(run))
	text := folds().full(run)
	if foldsLonger(text) {
		return foldedRun{text}
	}
	list := make([]node, len(text))
	for i, c := range text {
		list[i] = one{folds().orbit(c)}
	}
	if len(list) == 1 {
		return list[0]
	}
	return sequence{list}
}

// quantified reads the quantifiers behind n. For n nil it returns nil if there is none, and the first one, without its
// node, if there is one.
func (p *parser) quantified(n node) node {
	r, ok := p.quantifier()
	if !ok {
		return n
	}
	if n == nil {
		return r
	}
	switch n.(type) {
	case assertion, look:
		p.fail("a quantifier behind an assertion")
	}
	return p.stacked(replace(r, n))
}

func (p *parser) stacked(n node) node {
	for {
		r, ok := p.quantifier()
		if !ok {
			return n
		}
		p.enter()
		n = replace(r, n)
	}
}

func replace(r repeat, n node) node {
	r.node = n
	return r
}

func (p *parser) quantifier() (repeat, bool) {
	for p.more() && p.skipped() {
	}
	r := repeat{min: 0, max: -1}
	switch p.peek() {
	case '*':
	case '+':
		r.min = 1
	case '?':
		r.max = 1
	case '{':
		return p.interval()
	default:
		return r, false
	}
	p.at++
	if p.accept("?") {
		r.kind = lazy
	} else if p.accept("+") {
		r.kind = possessive
	}
	return r, true
}

// interval reads {n}, {n,}, {,m} or {n,m}; anything else is literal.
func (p *parser) interval() (repeat, bool) {
	end := strings.IndexByte(p.s[p.at:], '}')
	if end < 0 || end > 16 {
		return repeat{}, false
	}
	body := p.s[p.at+1 : p.at+end]
	low, high, comma := strings.Cut(body, ",")
	if !digits(low) || !digits(high) || low == "" && high == "" {
		return repeat{}, false
	}
	r := repeat{max: -1}
	r.min, _ = strconv.Atoi(low)
	switch {
	case !comma:
		r.max = r.min
	case high != "":
		r.max, _ = strconv.Atoi(high)
	}
	if r.min > maxRepeat || r.max > maxRepeat {
		p.fail("a quantifier of more than %d", maxRepeat)
	}
	if r.max >= 0 && r.max < r.min {
		p.unsupported("a quantifier whose first number is the larger one")
	}
	p.at += end + 1
	if comma && p.accept("?") {
		r.kind = lazy
	}
	return r, true
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// piece reads one thing that a quantifier may follow: a node, or a literal character (n is nil). It returns false if it
// read options for the rest of the group.
func (p *parser) piece() (n node, literal rune, ok bool) {
	switch c := p.peek(); c {
	case '(':
		n, ok = p.group()
		return n, 0, ok
	case '[':
		return p.class(), 0, true
	case '.':
		p.at++
		if p.flags.dotAll {
			return one{p.named("any")}, 0, true
		}
		return one{p.notNewline()}, 0, true
	case '^':
		p.at++
		return assertion{lineStart}, 0, true
	case '$':
		p.at++
		return assertion{lineEnd}, 0, true
	case '*', '+', '?':
		p.fail("the quantifier %c has nothing to repeat", c)
	case '\\':
		n, literal = p.escape()
		return n, literal, true
	}
	return nil, p.rune(), true
}

func (p *parser) notNewline() *set {
	if s := p.sets["."]; s != nil {
		return s
	}
	return p.keep(".", negate([]rune{'\n', '\n'}))
}
