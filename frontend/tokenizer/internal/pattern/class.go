package pattern

import (
	"slices"
	"strings"
)

// class reads a bracketed class, with its full foldings under (?i).
func (p *parser) class() node {
	r, not := p.classRanges()
	if !p.flags.ignoreCase {
		return one{p.sealed(r, not)}
	}
	p.charge(len(folds().orbits) / 16)
	closed := folds().close(r)
	n := one{p.sealed(closed, not)}
	if not {
		return n
	}
	list := []node{n}
	s := newSet(r)
	var longer []rune
	for c := range foldings {
		if s.has(c) {
			longer = append(longer, c)
		}
	}
	slices.Sort(longer)
	for _, c := range longer {
		list = append(list, foldedRun{folds().full([]rune{c})})
	}
	if len(list) == 1 {
		return n
	}
	return choice{list}
}

func (p *parser) sealed(r []rune, not bool) *set {
	if not {
		r = negate(r)
	}
	p.charge(len(r))
	s := newSet(r)
	s.seal()
	return s
}

// classRanges reads a class from its [; not says that it began with ^.
func (p *parser) classRanges() (ranges []rune, not bool) {
	p.enter()
	defer func() { p.depth-- }()
	p.at++
	not = p.accept("^")
	var met []rune // the intersection of the operands of && before
	var pairs []rune
	first, and := true, false
	for {
		if !p.more() {
			p.fail("a class has no ]")
		}
		switch {
		case p.peek() == ']' && (!first || !strings.Contains(p.s[p.at+1:], "]")):
			if first {
				p.fail("the class is empty")
			}
			p.at++
			ranges = normalize(pairs)
			if and {
				ranges = intersect(met, ranges)
			}
			return ranges, not
		case p.accept("&&"):
			operand := normalize(pairs)
			if and {
				operand = intersect(met, operand)
			}
			met, pairs, and = operand, nil, true
		default:
			pairs = append(pairs, p.member()...)
			p.limits.ranges -= 2
			p.charge(-8)
		}
		first = false
	}
}

// member reads one member of a class: a nested class, a POSIX bracket, an escape, a character or a range.
func (p *parser) member() []rune {
	if p.peek() == '[' {
		if r := p.posix(); r != nil {
			p.charge(len(r))
			return r
		}
		r, not := p.classRanges()
		if not {
			r = negate(r)
		}
		p.charge(len(r))
		return r
	}
	if p.peek() == '\\' && p.at+1 < len(p.s) {
		p.at++
		if c := p.peek(); c == 'R' || c == 'X' {
			p.unsupported(`\` + string(rune(c)) + " in a class")
		}
		if s := p.escapedSet(); s != nil {
			p.noRange()
			p.charge(len(s.r))
			return s.r
		}
		p.at--
	}
	low := p.classRune()
	if p.peek() != '-' || p.at+1 >= len(p.s) || p.s[p.at+1] == ']' {
		return []rune{low, low}
	}
	if strings.HasPrefix(p.s[p.at:], "-&&") {
		return []rune{low, low}
	}
	p.at++
	if p.peek() == '[' {
		p.fail("a range ends with a class")
	}
	if p.peek() == '\\' && p.at+1 < len(p.s) && strings.IndexByte("dDwWsShHpP", p.s[p.at+1]) >= 0 {
		p.fail("a range ends with a class")
	}
	high := p.classRune()
	if high < low {
		p.fail("the range %q-%q is empty", low, high)
	}
	if p.peek() == '-' && p.at+1 < len(p.s) && p.s[p.at+1] != ']' { // [a-c-e]: the second - is itself
		p.at++
		return []rune{low, high, '-', '-'}
	}
	return []rune{low, high}
}

// noRange refuses [\d-a], as Oniguruma does.
func (p *parser) noRange() {
	if p.peek() == '-' && p.at+1 < len(p.s) && p.s[p.at+1] != ']' {
		p.fail("a range begins with a class")
	}
}

func (p *parser) classRune() rune {
	if p.peek() != '\\' {
		return p.rune()
	}
	p.at++
	if !p.more() {
		p.fail("a class has no ]")
	}
	return p.escapedRune(true)
}

// posix reads [:name:] or [:^name:], or nothing: what begins with [: may be a class with a colon, such as [:].
func (p *parser) posix() []rune {
	rest, ok := strings.CutPrefix(p.s[p.at:], "[:")
	if !ok {
		return nil
	}
	end := strings.IndexAny(rest, ":]")
	if end < 1 || end > 20 || !strings.HasPrefix(rest[end:], ":]") {
		return nil
	}
	name := rest[:end]
	not := strings.HasPrefix(name, "^")
	s := p.bracket(strings.TrimPrefix(name, "^"))
	if s == nil {
		p.fail("the POSIX bracket [:%s:] is not known", name)
	}
	p.at += len("[:") + end + len(":]")
	p.noRange()
	if not {
		return negate(s.r)
	}
	return s.r
}
