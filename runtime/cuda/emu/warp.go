package emu

import (
	"fmt"
	"math/bits"

	"github.com/essmc/essmc/runtime/cuda/driver"
)

const full = 0xffffffff

type (
	lanes32 [32]uint32
	lanes64 [32]uint64
)

// warp is 32 threads that run in lockstep.
type warp struct {
	block  *block
	number int // in the block
	r32    []lanes32
	r64    []lanes64
	pred   []uint32
	local  []byte // all lanes' local memory, one lane after the other

	exist   uint32 // lanes that are threads
	alive   uint32 // threads that have not ended
	active  uint32 // threads that run now
	pc      int
	meet    int // where active lanes wait for those on the stack, or -1
	stack   []path
	waiting int // the barrier that it waits at, or -1
	done    bool
	queued  bool // whether it is queued among the warps that can run

	last  *allocation // found by the last search
	state any         // of background instructions
}

// path is lanes that run later.
type path struct {
	pc, meet int
	mask     uint32
}

// block is the threads that share memory.
type block struct {
	launch  *launch
	at      driver.Dim
	number  uint64
	warps   []*warp
	living  int // warps that are not done
	shared  []byte
	arrived [16]int // number of warps at each barrier
	expects [16]int // of bar.sync with a count; 0 means all
	shadow  any     // belongs to an observer
}

// stop ends a launch because of a fault.
type stop struct {
	code driver.Code
	text string
}

// stop reports a fault of lane as a finding, and ends the launch.
func (w *warp) stop(in *instr, lane int, code driver.Code, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	f := w.find(in, lane, "%s", text)
	panic(&stop{code, f.String()})
}

// find reports a finding about a lane of w at an instruction.
func (w *warp) find(in *instr, lane int, format string, args ...any) Finding {
	f := Finding{Kernel: in.kernel.name, Line: in.line, Text: in.text, Block: w.block.at, Thread: w.thread(lane),
		What: fmt.Sprintf(format, args...)}
	w.block.launch.report(f)
	return f
}

// thread returns the position of a lane in its block.
func (w *warp) thread(lane int) driver.Dim {
	i, d := uint32(w.number*32+lane), w.block.launch.block
	return driver.Dim{X: i % d.X, Y: i / d.X % d.Y, Z: i / d.X / d.Y}
}

// start sets the warp to the beginning of the kernel.
func (w *warp) start(b *block, number int) {
	k, l := b.launch.kernel, b.launch
	threads := int(l.block.X * l.block.Y * l.block.Z)
	w.block, w.number = b, number
	w.exist = full
	if left := threads - 32*number; left < 32 {
		w.exist = 1<<left - 1
	}
	w.alive, w.active, w.pc, w.meet = w.exist, w.exist, 0, -1
	w.stack, w.waiting, w.done, w.state = w.stack[:0], -1, false, nil
	for _, s := range k.special {
		r := &w.r32[s.at]
		for i := range r {
			r[i] = s.value(w, i)
		}
	}
}

// run executes instructions until the warp ends, waits, or has passed turns points at which others may run.
func (w *warp) run(turns int) {
	l := w.block.launch
	code, obs := l.kernel.code, l.observers
	budget := l.budget
	for {
		in := &code[w.pc]
		mask := w.active
		if in.guard >= 0 {
			p := w.pred[in.guard]
			if in.inverse {
				p = ^p
			}
			mask &= p
		}
		for _, o := range obs {
			o.issue(w, in, mask)
		}
		switch in.flow {
		case flowNext:
			if mask != 0 {
				in.run(w, mask)
			}
			w.pc++
		case flowBranch:
			w.branch(in, mask)
		case flowExit:
			w.alive &^= mask
			w.active &^= mask
			w.pc++
			if w.active == 0 && !w.next() {
				w.done = true
				l.budget = budget
				return
			}
		case flowBarrier:
			w.pc++
			if mask != 0 {
				in.run(w, mask)
			}
		}
		for w.pc == w.meet {
			w.next()
		}
		if budget--; budget < 0 {
			panic(&stop{driver.LaunchTimeout, fmt.Sprintf("kernel %s, block %v: the launch takes more than %d instructions",
				in.kernel.name, w.block.at, l.allowed)})
		}
		if w.waiting >= 0 {
			l.budget = budget
			return
		}
		if in.yields {
			if turns--; turns <= 0 {
				l.budget = budget
				return
			}
		}
	}
}

// next continues with the lanes at the top of the stack, and reports whether there are any.
func (w *warp) next() bool {
	for n := len(w.stack); n > 0; n-- {
		p := w.stack[n-1]
		w.stack = w.stack[:n-1]
		if mask := p.mask & w.alive; mask != 0 {
			w.pc, w.meet, w.active = p.pc, p.meet, mask
			return true
		}
	}
	w.active, w.meet = 0, -1
	return false
}

// branch separates the lanes of mask that take a branch from the others, which continue after the branch.
func (w *warp) branch(in *instr, taken uint32) {
	rest := w.active &^ taken
	switch {
	case rest == 0:
		w.pc = in.target
		return
	case taken == 0:
		w.pc++
		return
	}
	if in.meet != w.meet {
		w.stack = append(w.stack, path{in.meet, w.meet, w.active})
	}
	a, b := path{w.pc + 1, in.meet, rest}, path{in.target, in.meet, taken}
	if w.block.launch.rand.uint32()&1 == 0 {
		a, b = b, a
	}
	for _, p := range [2]path{a, b} {
		if p.pc != in.meet {
			w.stack = append(w.stack, p)
		}
	}
	w.next()
}

// lanes calls f for each lane of mask.
func lanes(mask uint32, f func(i int)) {
	for ; mask != 0; mask &= mask - 1 {
		f(bits.TrailingZeros32(mask))
	}
}

// member checks that mask has exactly the lanes that take part in an instruction of the warp.
func (w *warp) member(in *instr, member, mask uint32) {
	if absent := member & w.exist &^ mask; absent != 0 {
		w.find(in, bits.TrailingZeros32(absent), "thread does not take part in an instruction of its warp that names it: "+
			"expected lanes %08x, found %08x", member&w.exist, mask)
	}
	if more := mask &^ member; more != 0 {
		w.find(in, bits.TrailingZeros32(more), "thread takes part in an instruction of its warp that does not name it: "+
			"expected lanes %08x, found %08x", member, mask)
	}
}
