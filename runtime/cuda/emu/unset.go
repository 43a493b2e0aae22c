package emu

import "slices"

// Registers that a kernel may read before any write to them. PTX leaves their values undefined.

// early is such a read.
type early struct {
	in       *instr
	register string
}

// early returns the first reads of registers that are not written on all paths to them. A write under a predicate
// counts as a write.
func (c *compiler) early() []early {
	code := c.k.code
	index := map[string]int{}
	at := func(name string) (word int, bit uint64) {
		i, ok := index[name]
		if !ok {
			i = len(index)
			index[name] = i
		}
		return i / 64, 1 << (i % 64)
	}
	for _, u := range c.used {
		for _, name := range u.writes {
			at(name)
		}
	}
	words := (len(index) + 63) / 64
	// Basic blocks: instructions that run one after the other.
	starts := make([]bool, len(code)+1)
	starts[0] = true
	for i := range code {
		switch in := &code[i]; in.flow {
		case flowBranch:
			starts[in.target], starts[i+1] = true, true
		case flowExit:
			starts[i+1] = true
		}
	}
	in := make([][]uint64, len(code)) // by block: the registers written on all paths to it; nil if it is not reached
	in[0] = make([]uint64, words)
	open := []int{0}
	flow := func(to int, have []uint64) {
		switch {
		case to >= len(code):
		case in[to] == nil:
			in[to] = slices.Clone(have)
			open = append(open, to)
		default:
			less := false
			for w, x := range have {
				less = less || in[to][w]&^x != 0
				in[to][w] &= x
			}
			if less {
				open = append(open, to)
			}
		}
	}
	through := func(from int, read func(i int, name string, have []uint64)) (last int, have []uint64) {
		have = slices.Clone(in[from])
		for i := from; ; i++ {
			for _, name := range c.used[i].reads {
				read(i, name, have)
			}
			for _, name := range c.used[i].writes {
				w, bit := at(name)
				have[w] |= bit
			}
			if starts[i+1] {
				return i, have
			}
		}
	}
	for len(open) > 0 {
		b := open[len(open)-1]
		open = open[:len(open)-1]
		i, have := through(b, func(int, string, []uint64) {})
		x := &code[i]
		if x.flow == flowBranch {
			flow(x.target, have)
		}
		if x.flow != flowBranch && x.flow != flowExit || x.guard >= 0 {
			flow(i+1, have)
		}
	}
	var found []early
	told := map[string]bool{}
	for b := range code {
		if !starts[b] || in[b] == nil {
			continue
		}
		through(b, func(i int, name string, have []uint64) {
			n, written := index[name]
			if !told[name] && (!written || have[n/64]>>(n%64)&1 == 0) {
				told[name] = true
				found = append(found, early{&code[i], name})
			}
		})
	}
	return found
}
