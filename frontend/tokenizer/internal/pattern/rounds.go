package pattern

import "slices"

// Oniguruma writes a counted loop out if it is short, and counts if it is long. The matches differ if a round may take
// nothing: a written-out loop goes on with its next round, while a loop that counts ends, as * does.

// maxWritten is the number of operations up to which Oniguruma writes a counted loop out.
const maxWritten = 10

// counts reports whether a round that takes nothing ends the counted loop.
func (n repeat) counts() bool {
	switch {
	case n.max == 0 || n.max == 1 || n.max < 0 && n.min < 2 || !nullable(n.node):
		return false
	case n.max < 0:
		return operations(n.node)*n.min > maxWritten
	}
	return n.kind == lazy || (operations(n.node)+1)*n.max > maxWritten
}

// counted writes a loop that counts: it goes on at empty if it takes nothing, else at full.
func (c *compiler) counted(n repeat, empty, full int32) int32 {
	next := full
	if n.max < 0 {
		next = c.star(repeat{node: n.node, max: -1, kind: n.kind}, full, full)
	}
	for i := max(n.min, n.max); i > 0 && c.called(); i-- {
		exit := full
		if i == 1 { // nothing has been taken before the first round
			exit = empty
		}
		next = c.gen2(n.node, exit, next)
		if i > n.min {
			next = c.branch(next, exit, n.kind)
		}
	}
	return next
}

// operations returns how many operations Oniguruma makes of a node; maxWritten+1 stands for more. Groups that capture
// and loops before something that they cannot take have a few more there.
func operations(n node) int {
	sum := 0
	switch n := n.(type) {
	case one, assertion:
		sum = 1
	case foldedRun:
		sum = len(n.text)
	case sequence:
		width := 0 // of the characters of a literal, which is one operation if they are equally long
		for _, x := range n.list {
			w := literalWidth(x)
			if w == 0 || w != width {
				sum += operations(x)
			}
			if width = w; sum > maxWritten {
				break
			}
		}
	case choice:
		sum = 2 * (len(n.list) - 1)
		for _, x := range n.list {
			if sum > maxWritten {
				break
			}
			sum += operations(x)
		}
	case repeat:
		sum = n.operations(n.kind == possessive)
	case atomic:
		if r, ok := n.node.(repeat); ok {
			sum = r.operations(true)
		} else {
			sum = 2 + operations(n.node)
		}
	case look:
		sum = 2 + operations(n.node)
		if n.negative {
			sum += 3
		}
	}
	return min(sum, maxWritten+1)
}

// operations returns the number of operations of a loop, or of an atomic group of it.
func (n repeat) operations(atomic bool) int {
	body := operations(n.node)
	checked := body
	if nullable(n.node) {
		checked += 2
	}
	x, simple := n.node.(one)
	around := 0
	if atomic {
		around = 2
	}
	switch {
	case body == 0 || n.max == 0:
		return around
	case atomic && simple && n.kind != lazy && n.max < 0 && n.min <= 1:
		return n.min + 4
	case n.max < 0 && n.kind != lazy && simple && x.set.dot() && n.min <= maxWritten:
		return around + n.min + 1
	case n.max < 0 && n.min == 1 && body > maxWritten:
		return around + 3 + checked
	case n.max < 0 && (n.min <= 1 || body*n.min <= maxWritten):
		return around + body*n.min + 2 + checked
	case n.max > 0 && n.kind != lazy && (n.max == 1 || (body+1)*n.max <= maxWritten):
		return around + body*n.min + (body+1)*(n.max-n.min)
	case n.max == 1 && n.min == 0:
		return around + 2 + body
	}
	return around + 2 + checked
}

// dot reports whether the set is that of a dot.
func (s *set) dot() bool {
	return slices.Equal(s.r, []rune{0, lastRune}) || slices.Equal(s.r, []rune{0, '\n' - 1, '\n' + 1, lastRune})
}

// literalWidth returns the bytes of a node that is one character; 0 for others.
func literalWidth(n node) int {
	if x, ok := n.(one); ok && len(x.set.r) == 2 && x.set.r[0] == x.set.r[1] {
		return len(string(x.set.r[0]))
	}
	return 0
}
