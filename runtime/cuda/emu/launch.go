package emu

import (
	"fmt"

	"github.com/essmc/essmc/runtime/cuda/driver"
)

// launch is a running launch of a kernel.
type launch struct {
	device      *device
	kernel      *kernel
	number      int // among the driver's launches
	grid, block driver.Dim
	dynamic     uint32 // bytes of shared memory
	params      []byte
	observers   []observer
	rand        random
	approx      uint64 // seed of the errors of approximate functions
	budget      int64  // number of warp instructions that it may still execute
	allowed     int64

	access   access
	resident []*block
	runnable []*warp
	findings int
}

// random is a small random number generator (SplitMix64).
type random struct{ state uint64 }

func (r *random) uint32() uint32 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return uint32((z ^ z>>31) >> 32)
}

// below returns a number from 0 to n-1.
func (r *random) below(n int) int { return int(uint64(r.uint32()) * uint64(n) >> 32) }

// residentBytes limits the registers of the blocks that run side by side, so that these stay in the processor's
// caches.
const residentBytes = 4 << 20

// execute runs the launch. It returns the fault that ended it, if any.
func (l *launch) execute() (fault *stop) {
	defer func() {
		if e := recover(); e != nil {
			s, ok := e.(*stop)
			if !ok {
				panic(e)
			}
			fault = s
		}
		for _, o := range l.observers {
			o.done(l)
		}
		for _, b := range l.resident {
			l.kernel.free = append(l.kernel.free, b.warps...)
		}
		l.resident = nil
	}()
	for _, o := range l.observers {
		o.launch(l)
	}
	if len(l.observers) > 0 {
		for _, e := range l.kernel.early {
			l.report(Finding{Kernel: l.kernel.name, Line: e.in.line, Text: e.in.text,
				What: "read of register " + e.register + ", which not all paths to it have written"})
		}
		l.kernel.early = nil
	}
	blocks := uint64(l.grid.X) * uint64(l.grid.Y) * uint64(l.grid.Z)
	warps := (int(l.block.X*l.block.Y*l.block.Z) + 31) / 32
	side := max(1, min(4, residentBytes/(warps*(l.kernel.n32*128+l.kernel.n64*256+1))))
	if side < 2 {
		side = 1 + l.rand.below(2)
	}
	descending := l.rand.below(4) == 0
	for started := uint64(0); started < blocks || len(l.resident) > 0; {
		for len(l.resident) < side && started < blocks {
			n := started
			if descending {
				n = blocks - 1 - started
			}
			l.begin(n, warps)
			started++
		}
		if len(l.runnable) == 0 {
			l.deadlock()
		}
		i := l.rand.below(len(l.runnable))
		w := l.runnable[i]
		w.run([8]int{1, 1, 2, 3, 6, 16, 64, 256}[l.rand.uint32()>>29])
		if w.done || w.waiting >= 0 {
			// i is still w's index, because ready only appends.
			last := len(l.runnable) - 1
			l.runnable[i] = l.runnable[last]
			l.runnable = l.runnable[:last]
			w.queued = false
		}
		if w.done {
			l.ended(w)
		}
	}
	return nil
}

// ready lets w continue.
func (l *launch) ready(w *warp) {
	if !w.queued {
		w.queued = true
		l.runnable = append(l.runnable, w)
	}
}

func (l *launch) begin(number uint64, warps int) {
	k := l.kernel
	var b *block
	if n := len(k.blocks); n > 0 {
		b, k.blocks = k.blocks[n-1], k.blocks[:n-1]
	} else {
		b = &block{}
	}
	x, y := uint64(l.grid.X), uint64(l.grid.Y)
	*b = block{launch: l, number: number, living: warps, shared: b.shared, warps: b.warps[:0],
		at: driver.Dim{X: uint32(number % x), Y: uint32(number / x % y), Z: uint32(number / x / y)}}
	if n := max(k.shared, k.dynamic+int(l.dynamic)); cap(b.shared) < n {
		b.shared = make([]byte, n)
	} else {
		b.shared = b.shared[:n]
	}
	for i := range b.shared { // remains of another block, or undefined
		b.shared[i] = 0xa5
	}
	for i := range warps {
		w := k.warp()
		w.start(b, i)
		b.warps = append(b.warps, w)
		l.ready(w)
	}
	l.resident = append(l.resident, b)
	for _, o := range l.observers {
		o.blockStarted(b)
	}
}

// warp returns a warp whose registers are undefined except for the kernel's constants.
func (k *kernel) warp() *warp {
	if n := len(k.free); n > 0 {
		w := k.free[n-1]
		k.free = k.free[:n-1]
		return w
	}
	w := &warp{r32: make([]lanes32, k.n32), r64: make([]lanes64, k.n64), pred: make([]uint32, k.np), local: make([]byte, 32*k.local)}
	for i := range w.r32 {
		for j := range w.r32[i] {
			w.r32[i][j] = 0xffc0dead
		}
	}
	for i := range w.r64 {
		for j := range w.r64[i] {
			w.r64[i][j] = 0xfff0deadfff0dead
		}
	}
	for _, c := range k.const32 {
		r := &w.r32[c.at]
		for j := range r {
			r[j] = c.value
		}
	}
	for _, c := range k.const64 {
		r := &w.r64[c.at]
		for j := range r {
			r[j] = c.value
		}
	}
	return w
}

// ended records that a warp has ended, and possibly its block.
func (l *launch) ended(w *warp) {
	b := w.block
	b.living--
	for id := range b.arrived {
		b.release(id)
	}
	if b.living > 0 {
		return
	}
	for _, o := range l.observers {
		o.blockEnded(b)
	}
	for i, r := range l.resident {
		if r == b {
			l.resident = append(l.resident[:i], l.resident[i+1:]...)
			break
		}
	}
	l.kernel.free = append(l.kernel.free, b.warps...)
	l.kernel.blocks = append(l.kernel.blocks, b)
}

// deadlock reports that no warp can continue.
func (l *launch) deadlock() {
	for _, b := range l.resident {
		for _, w := range b.warps {
			if !w.done && w.waiting >= 0 {
				in := &l.kernel.code[max(w.pc-1, 0)]
				w.stop(in, 0, driver.LaunchTimeout, "deadlock: %d of %d warps of the block wait at barrier %d", b.arrived[w.waiting],
					b.living, w.waiting)
			}
		}
	}
	panic(&stop{driver.LaunchTimeout, fmt.Sprintf("kernel %s: deadlock", l.kernel.name)})
}

// report records a finding.
func (l *launch) report(f Finding) {
	if l.findings++; l.findings <= findingsPerLaunch {
		l.device.driver.findings = append(l.device.driver.findings, f)
	}
}
