package pattern

import (
	"strings"
	"unicode/utf8"
)

// How a text is matched. An attempt at a place backtracks, which is fast for all patterns that people write. Steps are
// counted: if an attempt takes more than a few for each instruction, and for each character that no attempt has seen
// before, it begins again with a memo (memo.go), which has each state visit each place once. Bytes that lead nowhere
// are seen before states are kept. Both ways give the same answer.

// A runner holds the scratch of a matcher.
type runner struct {
	m     *Matcher
	stack []frame
	memo  memo

	steps   int // left to the present attempt
	far     int // no attempt has seen what is beyond
	careful int // attempts below this place begin with the memo
	polled  int // steps since the context was asked
	total   int // steps for this text, for tests
	aborted bool
	lastEnd int
}

// A frame is where the matcher goes on if the present path fails: at pc and pos, or, if lo is not negative, behind one
// character fewer of a loop that began at lo.
type frame struct {
	pc      int32
	pos, lo int
}

const pollEvery = 1 << 16

func (r *runner) reset(m *Matcher) {
	r.m = m
	r.far, r.careful, r.total, r.lastEnd = 0, 0, 0, 0
	r.stack = r.stack[:0]
	r.memo.reset()
}

func width(s string, at int) int {
	if at >= len(s) || s[at] < utf8.RuneSelf {
		return 1
	}
	_, n := utf8.DecodeRuneInString(s[at:])
	return n
}

func (r *runner) search(from int) (start, end int, ok bool) {
	m := r.m
	p := m.p.prog
	text := m.text
	if from < r.lastEnd {
		r.memo.reset()
	}
	for at := from; at <= len(text); at += width(text, at) {
		r.total++
		if !p.first.empty && (at == len(text) || !p.first.has(text[at])) {
			continue
		}
		end := r.attempt(at)
		if m.err != nil {
			return 0, 0, false
		}
		if end >= 0 {
			r.lastEnd = end
			return at, end, true
		}
	}
	return 0, 0, false
}

// attempt returns the end of the match that begins at a place, or -1.
func (r *runner) attempt(at int) int {
	p := r.m.p.prog
	if at >= r.careful {
		r.steps, r.aborted = 16+4*len(p.insts), false
		r.stack = r.stack[:0]
		end := r.backtrack(p, p.start, at)
		if !r.aborted {
			return end
		}
		if r.m.err != nil {
			return -1
		}
		r.careful = at + 64 + len(p.insts)
	}
	return r.remembering(at)
}

// spend takes n steps; it returns false if the attempt has to end.
func (r *runner) spend(n, pos int) bool {
	r.steps -= n
	r.total += n
	r.polled += n
	if r.steps >= 0 && r.polled < pollEvery {
		return true
	}
	if r.polled >= pollEvery && !r.poll() {
		r.aborted = true
		return false
	}
	if r.steps < 0 && pos > r.far {
		r.steps += 8 * (pos - r.far)
		r.far = pos
	}
	r.aborted = r.steps < 0
	return !r.aborted
}

func (r *runner) poll() bool {
	r.polled = 0
	if r.m.ctx != nil && r.m.ctx.Err() != nil {
		r.m.err = r.m.ctx.Err()
		return false
	}
	return true
}

// backtrack returns the end of the first match of the program from pc, or -1.
func (r *runner) backtrack(p *program, pc int32, pos int) int {
	text := r.m.text
	base := len(r.stack)
	for {
		in := &p.insts[pc]
		if !r.spend(1, pos) {
			return -1
		}
		ok := true
		switch in.op {
		case opOne:
			var n int
			if n, ok = take(in.set, text, pos); ok {
				pos += n
				pc = in.x
			}
		case opSpan:
			end := span(in.set, text, pos)
			if !r.spend(end-pos, end) {
				return -1
			}
			pos, pc = end, in.x
		case opLoop:
			end := span(in.set, text, pos)
			if !r.spend(end-pos, end) {
				return -1
			}
			if end > pos {
				r.stack = append(r.stack, frame{pc, end, pos})
			}
			pos, pc = end, in.x
		case opSplit:
			x, y := in.first.may(text, pos), in.second.may(text, pos)
			switch {
			case x && y:
				r.stack = append(r.stack, frame{in.y, pos, -1})
				pc = in.x
			case x:
				pc = in.x
			case y:
				pc = in.y
			default:
				ok = false
			}
		case opAssert:
			pc, ok = in.x, r.holds(in.what, pos)
		case opLook:
			from, enough := back(text, pos, int(in.back))
			found := enough && r.backtrack(p, in.y, from) >= 0
			if r.aborted {
				return -1
			}
			pc, ok = in.x, found != in.negative
		case opAtomic:
			end := r.backtrack(p, in.y, pos)
			if r.aborted {
				return -1
			}
			if ok = end >= 0; ok {
				pc = in.x
				if end == pos {
					pc = in.z
				}
				pos = end
			}
		case opEnd:
			r.stack = r.stack[:base]
			return pos
		}
		if ok {
			continue
		}
		if pc, pos = r.pop(p, base); pc < 0 {
			return -1
		}
	}
}

// pop returns where to go on, or -1. The stack keeps loops that have more to give back.
func (r *runner) pop(p *program, base int) (int32, int) {
	text := r.m.text
	for len(r.stack) > base {
		f := &r.stack[len(r.stack)-1]
		if f.lo < 0 {
			pc, pos := f.pc, f.pos
			r.stack = r.stack[:len(r.stack)-1]
			return pc, pos
		}
		in := &p.insts[f.pc]
		before := f.pos
		for f.pos > f.lo {
			f.pos -= widthBefore(text, f.pos)
			if in.first.may(text, f.pos) {
				break
			}
		}
		if !r.spend(before-f.pos, before) {
			return -1, 0
		}
		pos, fits := f.pos, in.first.may(text, f.pos)
		if f.pos == f.lo {
			r.stack = r.stack[:len(r.stack)-1]
		}
		if fits {
			return in.x, pos
		}
	}
	return -1, 0
}

func (f *first) may(text string, pos int) bool {
	return f.empty || pos < len(text) && f.has(text[pos])
}

func take(s *set, text string, pos int) (int, bool) {
	if pos >= len(text) {
		return 0, false
	}
	if b := text[pos]; b < utf8.RuneSelf {
		return 1, s.ascii[b>>6]>>(b&63)&1 != 0
	}
	c, n := utf8.DecodeRuneInString(text[pos:])
	return n, s.has(c)
}

func span(s *set, text string, pos int) int {
	for pos < len(text) {
		n, ok := take(s, text, pos)
		if !ok {
			break
		}
		pos += n
	}
	return pos
}

func widthBefore(text string, pos int) int {
	if text[pos-1] < utf8.RuneSelf {
		return 1
	}
	_, n := utf8.DecodeLastRuneInString(text[:pos])
	return n
}

// back steps n characters back.
func back(text string, pos, n int) (int, bool) {
	for ; n > 0; n-- {
		if pos == 0 {
			return 0, false
		}
		pos -= widthBefore(text, pos)
	}
	return pos, true
}

func (r *runner) holds(what assert, pos int) bool {
	text := r.m.text
	switch what {
	case lineStart:
		return pos == 0 || text[pos-1] == '\n' && pos < len(text)
	case lineEnd:
		return pos == len(text) || text[pos] == '\n'
	case textStart:
		return pos == 0
	case textEnd:
		return pos == len(text)
	case textEndNL:
		return pos == len(text) || pos == len(text)-1 && text[pos] == '\n'
	}
	before, after := false, false
	if pos > 0 {
		c, _ := utf8.DecodeLastRuneInString(text[:pos])
		before = wordSet().has(c)
	}
	if pos < len(text) {
		_, after = take(wordSet(), text, pos)
	}
	return (before != after) == (what == wordEdge)
}

func (m *Matcher) nextLiteral(from int) (start, end int, ok bool) {
	i := strings.Index(m.text[from:], m.p.literal)
	if i < 0 {
		return 0, 0, false
	}
	return from + i, from + i + len(m.p.literal), true
}

func (m *Matcher) nextFast(from int) (start, end int, ok bool) {
	for at := from; at < len(m.text); at += width(m.text, at) {
		if end := m.p.fast(m.text, at); end >= 0 {
			return at, end, true
		}
	}
	return 0, 0, false
}
