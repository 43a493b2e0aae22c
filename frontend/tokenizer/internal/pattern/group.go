package pattern

import "strings"

// group reads what begins with (. It returns false for options that cover the rest of the group around them.
func (p *parser) group() (node, bool) {
	if !strings.HasPrefix(p.s[p.at:], "(?") {
		p.at++
		p.groups++
		return p.closed(), true
	}
	switch {
	case p.accept("(?:"):
		return p.closed(), true
	case p.accept("(?="):
		return look{node: p.closed()}, true
	case p.accept("(?!"):
		return look{node: p.closed(), negative: true}, true
	case p.accept("(?>"):
		return atomic{p.closed()}, true
	case p.accept("(?<="):
		return p.behind(false), true
	case p.accept("(?<!"):
		return p.behind(true), true
	case p.accept("(?~"):
		p.unsupported("the absent operator (?~")
	case p.accept("(?("):
		p.unsupported("a condition (?(")
	case p.accept("(?{"), p.accept("(?@"), p.accept("(?y"), p.accept("(?P"):
		p.unsupported("the group " + p.s[p.at-3:p.at])
	case p.accept("(?<"), p.accept("(?'"):
		end := strings.IndexAny(p.s[p.at:], ">'")
		if end <= 0 {
			p.fail("the group has no name")
		}
		p.at += end + 1
		p.groups++
		return p.closed(), true
	}
	p.at += len("(?")
	return p.options()
}

func (p *parser) closed() node {
	n := p.alternatives()
	if !p.accept(")") {
		p.fail("a group has no )")
	}
	return n
}

// behind reads the rest of a look-behind: alternatives of fixed length each.
func (p *parser) behind(negative bool) node {
	n := p.closed()
	list := []node{n}
	if c, ok := n.(choice); ok {
		list = c.list
	}
	for i, x := range list {
		if _, ok := length(x); !ok {
			p.unsupported("look-behind of variable length, or of more than 4096 characters,")
		}
		list[i] = look{node: x, behind: true}
	}
	if len(list) == 1 {
		return look{node: list[0].(look).node, behind: true, negative: negative}
	}
	return look{node: choice{list}, negative: negative}
}

func (p *parser) options() (node, bool) {
	f, value := p.flags, true
	for {
		switch c := p.peek(); c {
		case 'i':
			f.ignoreCase = value
		case 'm':
			f.dotAll = value
		case 'x':
			f.extended = value
		case '-':
			value = false
		case ')':
			p.at++
			p.flags = f
			return nil, false
		case ':':
			p.at++
			saved := p.flags
			p.flags = f
			n := p.closed()
			p.flags = saved
			return n, true
		case 0:
			p.fail("a group has no )")
		default:
			p.unsupported("the option " + string(rune(c)) + " of a group")
		}
		p.at++
	}
}
