package pattern

import "fmt"

// A memo keeps, for states of the program and places of the text, what is known: nothing, that no match follows (or
// that this is being found out), or that the body of a look or an atomic group ends well from there. Whether a path
// leads to a match depends on its state and place alone, so that all attempts in a text share the memo.
type memo struct {
	pages []*page // by place / pagePlaces
	free  []*page
	kept  int // pages before this are given up
	trail []visit
	ends  map[visit]int // of atomic groups' bodies
	stack []choicePoint
	bytes int
	most  int // bytes
}

const (
	pagePlaces = 256
	// maxMemo bounds the bytes of a matcher's memo.
	maxMemo = 32 << 20

	visitBytes  = 16
	endBytes    = 48
	choiceBytes = 24
)

type page struct{ bits []uint64 } // two for each state and place

type visit struct {
	state int32
	pos   int
}

type choicePoint struct {
	pc    int32
	pos   int
	trail int
}

type knowledge uint64

const (
	unknown knowledge = iota
	visited           // no match follows
	good              // the body ends well
)

func (m *memo) reset() {
	for i, p := range m.pages {
		m.release(i, p)
	}
	m.pages, m.kept = m.pages[:0], 0
	clear(m.ends)
	m.trail, m.stack = m.trail[:0], m.stack[:0]
	m.bytes = 0
}

func (m *memo) release(i int, p *page) {
	if p != nil {
		m.bytes -= 8 * len(p.bits)
		clear(p.bits)
		if len(m.free) < 64 {
			m.free = append(m.free, p)
		}
		m.pages[i] = nil
	}
}

// forget gives up what is known of places before from, but for those that looks step back to.
func (m *memo) forget(from int) {
	last := from/pagePlaces - 1
	for ; m.kept < min(last, len(m.pages)); m.kept++ {
		m.release(m.kept, m.pages[m.kept])
	}
}

func (m *memo) page(states, pos int) *page {
	i := pos / pagePlaces
	for len(m.pages) <= i {
		m.pages = append(m.pages, nil)
	}
	p := m.pages[i]
	if p != nil {
		return p
	}
	words := (2*states*pagePlaces + 63) / 64
	if n := len(m.free); n > 0 && len(m.free[n-1].bits) == words {
		p, m.free = m.free[n-1], m.free[:n-1]
	} else {
		p = &page{make([]uint64, words)}
	}
	m.pages[i] = p
	m.bytes += 8 * words
	return p
}

func (m *memo) get(states int, v visit) knowledge {
	bit := 2 * ((v.pos%pagePlaces)*states + int(v.state))
	return knowledge(m.page(states, v.pos).bits[bit>>6] >> (bit & 63) & 3)
}

func (m *memo) set(states int, v visit, k knowledge) {
	bit := 2 * ((v.pos%pagePlaces)*states + int(v.state))
	word := &m.page(states, v.pos).bits[bit>>6]
	*word = *word&^(3<<(bit&63)) | uint64(k)<<(bit&63)
}

func (m *memo) size() int {
	return m.bytes + len(m.trail)*visitBytes + len(m.ends)*endBytes + len(m.stack)*choiceBytes
}

// remembering is attempt with the memo.
func (r *runner) remembering(at int) int {
	p := r.m.p.prog
	r.memo.forget(at - p.back)
	if p.atomics && r.memo.ends == nil {
		r.memo.ends = make(map[visit]int)
	}
	r.memo.stack, r.memo.trail = r.memo.stack[:0], r.memo.trail[:0]
	end := r.explore(p, p.start, at, false)
	if end >= 0 {
		// States of the path at the match's end were visited and do not fail: the next attempt may begin there.
		for s, main := range p.main {
			if main {
				r.memo.set(p.states, visit{int32(s), end}, unknown)
			}
		}
		r.total += p.states
	}
	return end
}

// arrive notes that the present path reaches a state. It returns what was known before, and false if memory ran out.
func (r *runner) arrive(states int, v visit, body bool) (knowledge, bool) {
	k := r.memo.get(states, v)
	if k == unknown {
		r.memo.set(states, v, visited)
		if body {
			r.memo.trail = append(r.memo.trail, v)
		}
	}
	if r.memo.size() > r.memo.most && r.m.err == nil {
		r.m.err = fmt.Errorf("byte %d: %w: expected at most %d MiB", v.pos, ErrMemory, r.memo.most>>20)
	}
	return k, r.m.err == nil
}

// explore is backtrack with the memo; body says that it runs a look or an atomic group.
func (r *runner) explore(p *program, pc int32, pos int, body bool) int {
	text, m := r.m.text, &r.memo
	base, trail := len(m.stack), len(m.trail)
	for {
		in := &p.insts[pc]
		r.total++
		if r.polled++; r.polled >= pollEvery && !r.poll() {
			return -1
		}
		ok := true
		if in.memo >= 0 {
			v := visit{in.memo, pos}
			k, enough := r.arrive(p.states, v, body)
			if !enough {
				return -1
			}
			if k == good {
				return r.ended(p, base, trail, m.ends[v])
			}
			ok = k == unknown
		}
		if ok && in.op == opEnd {
			if body {
				return r.ended(p, base, trail, pos)
			}
			m.stack = m.stack[:base]
			return pos
		}
		if ok {
			pc, pos, ok = r.advance(p, in, pc, pos, text)
			if r.m.err != nil {
				return -1
			}
		}
		if ok {
			continue
		}
		if len(m.stack) == base {
			m.trail = m.trail[:trail]
			return -1
		}
		c := m.stack[len(m.stack)-1]
		m.stack = m.stack[:len(m.stack)-1]
		pc, pos, m.trail = c.pc, c.pos, m.trail[:c.trail]
	}
}

// ended notes that all states of a body's present path lead to its end.
func (r *runner) ended(p *program, base, trail, end int) int {
	m := &r.memo
	for _, v := range m.trail[trail:] {
		m.set(p.states, v, good)
		if m.ends != nil {
			m.ends[v] = end
		}
	}
	r.total += len(m.trail) - trail
	m.stack, m.trail = m.stack[:base], m.trail[:trail]
	return end
}

// advance takes one step from a state. Loops take one character at a time here, so that each place is a state.
func (r *runner) advance(p *program, in *inst, pc int32, pos int, text string) (int32, int, bool) {
	m := &r.memo
	switch in.op {
	case opOne:
		n, ok := take(in.set, text, pos)
		return in.x, pos + n, ok
	case opSpan, opLoop:
		n, ok := take(in.set, text, pos)
		if !ok {
			return in.x, pos, true
		}
		if in.op == opLoop {
			m.stack = append(m.stack, choicePoint{in.x, pos, len(m.trail)})
		}
		return pc, pos + n, true
	case opSplit:
		m.stack = append(m.stack, choicePoint{in.y, pos, len(m.trail)})
		return in.x, pos, true
	case opAssert:
		return in.x, pos, r.holds(in.what, pos)
	case opLook:
		from, enough := back(text, pos, int(in.back))
		r.total += int(in.back)
		found := enough && r.explore(p, in.y, from, true) >= 0
		return in.x, pos, found != in.negative
	case opAtomic:
		end := r.explore(p, in.y, pos, true)
		if end < 0 {
			return 0, 0, false
		}
		if end == pos {
			return in.z, pos, true
		}
		return in.x, end, true
	}
	panic("pattern: no instruction")
}
