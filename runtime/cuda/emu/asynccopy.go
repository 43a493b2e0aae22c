package emu

import "math/bits"

// Asynchronous copies from global to shared memory. Each arrives at some time between its issue and the wait for its
// group, chosen by the launch's seed. Until then the destination is NaN.

// copies are a warp's copies that have not arrived.
type copies struct {
	pending []copyOf
	groups  [32]int32 // number of groups that each lane has committed
}

// copyOf is one lane's copy.
type copyOf struct {
	in       *instr
	lane     int
	group    int32 // the lane's group, from 1
	dst, src uint64
	alloc    *allocation
	bytes    int
	present  int // bytes from src; the others are 0
	arrived  bool
}

func (w *warp) copies() *copies {
	c, _ := w.state.(*copies)
	if c == nil {
		c = &copies{}
		w.state = c
	}
	return c
}

// arrive writes the data of a copy.
func (w *warp) arrive(c *copyOf) {
	if c.arrived {
		return
	}
	c.arrived = true
	dst := w.block.shared[c.dst:][:c.bytes]
	clear(dst)
	if c.present > 0 {
		copy(dst, c.alloc.data[c.src-c.alloc.base:][:c.present])
	}
}

// decodeCopy decodes cp.async.
func decodeCopy(c *compiler, s *statement) (exec, error) {
	c.class = classCopy
	here := c.here()
	switch s.name() {
	case "cp.async.commit_group":
		return func(w *warp, mask uint32) {
			all := w.copies()
			lanes(mask, func(i int) { all.groups[i]++ })
		}, s.operandsAre(0)
	case "cp.async.wait_all":
		return func(w *warp, mask uint32) { w.awaitCopies(here(w), mask, -1) }, s.operandsAre(0)
	case "cp.async.wait_group":
		if err := s.operandsAre(1); err != nil {
			return nil, err
		}
		n, err := s.constant(s.operands[0])
		return func(w *warp, mask uint32) { w.awaitCopies(here(w), mask, n) }, err
	}
	if len(s.op) < 5 || s.op[1] != "async" || s.op[2] != "ca" && s.op[2] != "cg" || s.op[3] != "shared" && s.op[3] != "shared::cta" ||
		s.op[4] != "global" {
		return nil, s.unknown()
	}
	for _, q := range s.op[5:] {
		if q != "L2::64B" && q != "L2::128B" && q != "L2::256B" {
			return nil, s.unknown()
		}
	}
	if err := s.operandsAre(3, 4); err != nil {
		return nil, err
	}
	dst, err := c.address(s, s.operands[0], shared)
	if err != nil {
		return nil, err
	}
	src, err := c.address(s, s.operands[1], global)
	if err != nil {
		return nil, err
	}
	n, err := s.constant(s.operands[2])
	if err != nil {
		return nil, err
	}
	if n != 16 && (s.op[2] == "cg" || n != 4 && n != 8) {
		return nil, s.errorf("a copy of %d bytes", n)
	}
	part := int32(-1)
	if len(s.operands) == 4 {
		if part, err = c.in32(s, s.operands[3], "b32"); err != nil {
			return nil, err
		}
	}
	c.yields = true
	return func(w *warp, mask uint32) {
		in, all := here(w), w.copies()
		first := len(all.pending)
		var have [32]int
		whole, rest := uint32(0), mask
		for m := mask; m != 0; m &= m - 1 {
			i := bits.TrailingZeros32(m)
			have[i] = n
			if part >= 0 {
				if x := w.r32[part][i]; x > uint32(n) {
					w.find(in, i, "a copy of %d bytes of %d", x, n)
				} else {
					have[i] = int(x)
				}
			}
			if have[i] == n {
				whole |= 1 << i
			}
		}
		var alloc [32]*allocation
		take := func(m uint32, size int) {
			a := w.reach(in, src, global, copyLoad, m, size, n)
			lanes(m, func(i int) { alloc[i] = a.alloc[i] })
		}
		if rest &^= whole; whole != 0 {
			take(whole, n)
		}
		for m := rest; m != 0; m &= m - 1 {
			if i := bits.TrailingZeros32(m); have[i] > 0 {
				take(1<<i, have[i])
			}
		}
		a := w.reach(in, dst, shared, copyStore, mask, n, n)
		lanes(mask, func(i int) {
			b := a.bytes(i)
			for j := range b {
				b[j] = 0xff
			}
			all.pending = append(all.pending, copyOf{in: in, lane: i, group: all.groups[i] + 1, dst: a.addr[i], src: src.lane(w, i),
				alloc: alloc[i], bytes: n, present: have[i]})
		})
		// some arrive at once, some when later ones are issued, the others at the wait
		if r := w.block.launch.rand.below(4); r < 2 {
			late := all.pending[first:]
			if r == 1 {
				late = all.pending[:first]
			}
			for i := range late {
				w.arrive(&late[i])
			}
		}
	}, nil
}

// awaitCopies waits for all groups of the lanes of mask but the last n, or for all copies if n is negative.
func (w *warp) awaitCopies(in *instr, mask uint32, n int) {
	all := w.copies()
	kept := all.pending[:0]
	for i := range all.pending {
		c := &all.pending[i]
		if mask>>c.lane&1 == 0 || n >= 0 && int(c.group) > int(all.groups[c.lane])-n {
			kept = append(kept, *c)
			continue
		}
		w.arrive(c)
		a := &w.block.launch.access
		a.w, a.in, a.space, a.kind, a.mask, a.size = w, c.in, shared, copyDone, 1<<c.lane, c.bytes
		a.addr[c.lane] = c.dst
		for _, o := range w.block.launch.observers {
			o.access(a)
		}
	}
	all.pending = kept
}
