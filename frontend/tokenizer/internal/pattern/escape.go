package pattern

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// escape reads what begins with a backslash outside of classes: a node, or a literal character.
func (p *parser) escape() (node, rune) {
	start := p.at
	p.at++
	if !p.more() {
		p.fail("the expression ends with a backslash")
	}
	switch c := p.s[p.at]; c {
	case 'A':
		p.at++
		return assertion{textStart}, 0
	case 'z':
		p.at++
		return assertion{textEnd}, 0
	case 'Z':
		p.at++
		return assertion{textEndNL}, 0
	case 'b':
		p.at++
		return assertion{wordEdge}, 0
	case 'B':
		p.at++
		return assertion{notWordEdge}, 0
	case 'N':
		p.at++
		return one{p.notNewline()}, 0
	case 'O':
		p.at++
		return one{p.named("any")}, 0
	case 'R':
		p.at++
		crlf := sequence{[]node{one{p.single('\r')}, one{p.single('\n')}}}
		return atomic{choice{[]node{crlf, one{newSet([]rune{'\n', '\r', 0x85, 0x85, 0x2028, 0x2029})}}}}, 0
	case 'k', 'g', 'G', 'K', 'X', 'y', 'Y', 'M':
		p.unsupported(`\` + string(rune(c)))
	}
	if c := p.s[p.at]; c >= '1' && c <= '9' {
		end := p.at
		for end < len(p.s) && p.s[end] >= '0' && p.s[end] <= '9' {
			end++
		}
		if n, _ := strconv.Atoi(p.s[p.at:end]); n <= 9 || n <= p.groups || c > '7' {
			p.unsupported("the back-reference " + p.s[start:end])
		}
	}
	if s := p.escapedSet(); s != nil {
		return one{s}, 0
	}
	return nil, p.escapedRune(false)
}

// escapedSet reads an escape of a class, behind the backslash, if there is one.
func (p *parser) escapedSet() *set {
	c := p.s[p.at]
	name := map[byte]string{'d': "digit", 'w': "word", 's': "space", 'h': "xdigit"}[c|0x20]
	if name != "" {
		p.at++
		s := p.named(name)
		if c&0x20 == 0 {
			return p.not(`\`+name, s)
		}
		return s
	}
	if c|0x20 != 'p' || p.at+1 >= len(p.s) || p.s[p.at+1] != '{' {
		return nil
	}
	end := strings.IndexByte(p.s[p.at:], '}')
	if end < 0 {
		p.fail("the property has no }")
	}
	body := p.s[p.at+2 : p.at+end]
	not := c == 'P'
	if strings.HasPrefix(body, "^") {
		body, not = body[1:], !not
	}
	s := p.named(body)
	if s == nil {
		p.fail("the property %q is not known: expected a general category, a script or a binary property of Unicode",
			body)
	}
	p.at += end + 1
	if not {
		return p.not(`\`+foldName(body), s)
	}
	return s
}

// not returns the set of all other characters.
func (p *parser) not(key string, s *set) *set {
	if n := p.sets[key]; n != nil {
		return n
	}
	return p.keep(key, negate(s.r))
}

var controls = map[byte]rune{'t': '\t', 'n': '\n', 'r': '\r', 'f': '\f', 'v': '\v', 'a': '\a', 'e': 0x1B}

// escapedRune reads an escape of one character, behind the backslash.
func (p *parser) escapedRune(inClass bool) rune {
	c := p.s[p.at]
	if r, ok := controls[c]; ok {
		p.at++
		return r
	}
	switch c {
	case 'b':
		if inClass {
			p.at++
			return '\b'
		}
	case 'x':
		p.at++
		if p.accept("{") {
			return p.braced(16)
		}
		return p.number(16, 0, 2)
	case 'u':
		p.at++
		return p.number(16, 4, 4)
	case 'o':
		if strings.HasPrefix(p.s[p.at:], "o{") {
			p.at += 2
			return p.braced(8)
		}
	case '0', '1', '2', '3', '4', '5', '6', '7':
		return p.number(8, 1, 3)
	case 'c':
		p.at++
		return p.control()
	case 'C':
		if !strings.HasPrefix(p.s[p.at:], "C-") {
			p.fail(`\C without a character`)
		}
		p.at += 2
		return p.control()
	case 'M':
		p.unsupported(`\M`)
	}
	return p.rune()
}

func (p *parser) control() rune {
	if !p.more() || p.peek() >= utf8.RuneSelf {
		p.fail("a control character of nothing")
	}
	c := p.peek()
	p.at++
	if c == '?' {
		return 0x7F
	}
	return rune(c & 0x1F)
}

// number reads a character's number of least to most digits.
func (p *parser) number(base, least, most int) rune {
	end := p.at
	for end < len(p.s) && end < p.at+most && strings.IndexByte("0123456789abcdef"[:base],
		p.s[end]|lower(p.s[end])) >= 0 {
		end++
	}
	if end-p.at < least {
		p.fail("an escape of %d digits has fewer", least)
	}
	n, _ := strconv.ParseUint("0"+p.s[p.at:end], base, 32)
	p.at = end
	return p.valid(n)
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'F' {
		return 0x20
	}
	return 0
}

func (p *parser) braced(base int) rune {
	end := strings.IndexByte(p.s[p.at:], '}')
	if end < 0 {
		p.fail("an escape has no }")
	}
	body := p.s[p.at : p.at+end]
	if strings.ContainsAny(body, " \n") {
		p.unsupported("an escape of several characters")
	}
	n, err := strconv.ParseUint(body, base, 32)
	if err != nil {
		p.fail("%q is not a character's number", body)
	}
	p.at += end + 1
	return p.valid(n)
}

func (p *parser) valid(n uint64) rune {
	if n > lastRune {
		p.fail("%#x is not a character's number", n)
	}
	return rune(n)
}
