package pattern

import "unicode/utf8"

// first is what an instruction's matches begin with: bytes, or nothing at all.
type first struct {
	bytes [4]uint64
	empty bool
}

func (f *first) has(b byte) bool { return f.bytes[b>>6]>>(b&63)&1 != 0 }

func (f *first) add(g *first) bool {
	before := *f
	for i := range f.bytes {
		f.bytes[i] |= g.bytes[i]
	}
	f.empty = f.empty || g.empty
	return *f != before
}

// bytesOf returns the first bytes of a set's characters. Bytes that are not UTF-8 are U+FFFD.
func bytesOf(s *set) first {
	f := first{bytes: [4]uint64{s.ascii[0], s.ascii[1]}}
	var buf [utf8.UTFMax]byte
	lead := func(c rune) int {
		if c >= 0xD800 && c < 0xE000 {
			return 0xED
		}
		utf8.EncodeRune(buf[:], c)
		return int(buf[0])
	}
	for i := 0; i < len(s.r); i += 2 {
		if s.r[i+1] < utf8.RuneSelf {
			continue
		}
		for b := lead(max(s.r[i], utf8.RuneSelf)); b <= lead(s.r[i+1]); b++ {
			f.bytes[b>>6] |= 1 << (b & 63)
		}
	}
	if s.has(utf8.RuneError) {
		f.bytes[2], f.bytes[3] = ^uint64(0), ^uint64(0)
	}
	return f
}

// number gives numbers to the states that the memo keeps: all but those that one instruction alone leads to and that
// take a step. The chain between two of them is short, and no two chains share an instruction.
func (p *program) number() {
	from := make([]int, len(p.insts))
	from[p.start] = 2
	for i := range p.insts {
		in := &p.insts[i]
		switch in.op {
		case opSplit:
			from[in.x]++
			from[in.y]++
		case opLook:
			from[in.x]++
			from[in.y] += 2
			p.back += int(in.back) * utf8.UTFMax
		case opAtomic:
			from[in.x]++
			from[in.z]++
			from[in.y] += 2
			p.atomics = true
		case opEnd:
		default:
			from[in.x]++
		}
	}
	for i := range p.insts {
		in := &p.insts[i]
		in.memo = -1
		if in.op == opEnd || from[i] < 2 && (in.op == opOne || in.op == opAssert) {
			continue
		}
		in.memo = int32(p.states)
		p.states++
		p.main = append(p.main, !in.body)
	}
}

// maxRounds bounds the rounds of firsts; after them, everything may begin with anything.
const maxRounds = 8

// firsts finds what each instruction's matches begin with.
func (p *program) firsts() {
	f := make([]first, len(p.insts))
	sets := make(map[*set]first)
	changed := true
	round := 0
	for ; changed && round < maxRounds; round++ {
		changed = false
		for i := range p.insts { // what follows mostly stands before
			if p.step(f, sets, int32(i)) {
				changed = true
			}
		}
	}
	if changed {
		for i := range f {
			f[i] = first{[4]uint64{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}, true}
		}
	}
	for i := range p.insts {
		in := &p.insts[i]
		switch in.op {
		case opSplit:
			in.first, in.second = &f[in.x], &f[in.y]
		case opLoop:
			in.first = &f[in.x]
		}
	}
	p.first = f[p.start]
}

func (p *program) step(f []first, sets map[*set]first, i int32) bool {
	in := &p.insts[i]
	of := func(s *set) first {
		g, ok := sets[s]
		if !ok {
			g = bytesOf(s)
			sets[s] = g
		}
		return g
	}
	switch in.op {
	case opOne:
		g := of(in.set)
		return f[i].add(&g)
	case opSpan, opLoop:
		g := of(in.set)
		changed := f[i].add(&g)
		return f[i].add(&f[in.x]) || changed
	case opSplit:
		changed := f[i].add(&f[in.x])
		return f[i].add(&f[in.y]) || changed
	case opAtomic:
		body := f[in.y]
		if body.empty {
			body.empty = false
			body.add(&f[in.x])
			body.add(&f[in.z])
		}
		return f[i].add(&body)
	case opEnd:
		return f[i].add(&first{empty: true})
	}
	return f[i].add(&f[in.x]) // assertions and looks only restrict
}
