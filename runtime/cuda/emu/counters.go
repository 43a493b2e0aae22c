package emu

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// Counters are the counts of a driver's kernels since the last reset.
type Counters struct {
	Kernels []Count // by name
}

// Count has the counts of all launches of kernels with one name. Instructions are counted per warp: one for up to 32
// threads.
type Count struct {
	Kernel   string
	Launches int64

	Instructions int64
	Lanes        int64 // participating threads, summed over all instructions
	Integer      int64 // instructions of a class
	F32          int64
	F64          int64
	Special      int64
	Convert      int64
	Move         int64
	Matrix       int64
	Load         int64
	Store        int64
	Atomic       int64
	Copy         int64
	Shuffle      int64
	Barrier      int64
	Control      int64

	// Floating-point operations. Those of tensor cores are counted by operand type.
	OpsF32, OpsF64, OpsTF32, OpsBF16, OpsF16, OpsMatrixF64 int64
	OpsInt8                                                int64 // integer operations of tensor cores

	// Global memory, in bytes. Wanted counts the bytes that threads access. Moved counts sectors of 32 bytes, each
	// once per instruction. Distinct counts each byte once per launch, as a card with large caches reads it from
	// memory.
	ReadWanted, ReadMoved, ReadDistinct          int64
	WrittenWanted, WrittenMoved, WrittenDistinct int64

	// Shared memory: instructions, and passes over the banks. Conflicts raise the passes above the minimum.
	SharedAccesses, Wavefronts, LeastWavefronts int64

	Lines []Line // of instructions that access memory, in the order of the text
}

// Line has the counts of an instruction that accesses memory.
type Line struct {
	Line   int
	Text   string
	Issued int64
	// Wanted and Moved are bytes of global memory.
	Wanted, Moved               int64
	Wavefronts, LeastWavefronts int64 // of shared memory
}

// Conflicts returns the share of wavefronts of shared memory that bank conflicts add.
func (c *Count) Conflicts() float64 {
	if c.LeastWavefronts == 0 {
		return 0
	}
	return float64(c.Wavefronts-c.LeastWavefronts) / float64(c.LeastWavefronts)
}

// Divergence returns the share of lanes that did not take part in instructions.
func (c *Count) Divergence() float64 {
	if c.Instructions == 0 {
		return 0
	}
	return 1 - float64(c.Lanes)/float64(32*c.Instructions)
}

func (c *Count) class(k class) *int64 {
	return [classes]*int64{classInteger: &c.Integer, classF32: &c.F32, classF64: &c.F64, classSpecial: &c.Special,
		classConvert: &c.Convert, classMove: &c.Move, classMatrix: &c.Matrix, classLoad: &c.Load, classStore: &c.Store,
		classAtomic: &c.Atomic, classCopy: &c.Copy, classShuffle: &c.Shuffle, classBarrier: &c.Barrier,
		classControl: &c.Control}[k]
}

func (c *Count) numbers() []*int64 {
	all := []*int64{&c.Launches, &c.Instructions, &c.Lanes, &c.OpsF32, &c.OpsF64, &c.OpsTF32, &c.OpsBF16, &c.OpsF16,
		&c.OpsMatrixF64, &c.OpsInt8, &c.ReadWanted, &c.ReadMoved, &c.ReadDistinct, &c.WrittenWanted, &c.WrittenMoved,
		&c.WrittenDistinct, &c.SharedAccesses, &c.Wavefronts, &c.LeastWavefronts}
	for k := range classes {
		all = append(all, c.class(k))
	}
	return all
}

// Total returns the sum over all kernels, without lines.
func (c Counters) Total() Count {
	t := Count{Kernel: "all"}
	for i := range c.Kernels {
		to := t.numbers()
		for j, n := range c.Kernels[i].numbers() {
			*to[j] += *n
		}
	}
	return t
}

// Kernel returns the count of a kernel, or zeros if it was not launched.
func (c Counters) Kernel(name string) Count {
	for _, k := range c.Kernels {
		if k.Kernel == name {
			return k
		}
	}
	return Count{Kernel: name}
}

func (c Counters) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-32s %8s %12s %6s %12s %12s %12s %12s %9s\n", "kernel", "launches", "instructions", "lanes", "read B",
		"moved B", "written B", "operations", "conflicts")
	all := c.Kernels
	if len(all) > 1 {
		all = append(slices.Clip(all), c.Total())
	}
	for i := range all {
		k := &all[i]
		fmt.Fprintf(&b, "%-32s %8d %12d %5.1f%% %12d %12d %12d %12d %8.1f%%\n", k.Kernel, k.Launches, k.Instructions,
			100*(1-k.Divergence()), k.ReadWanted, k.ReadMoved, k.WrittenWanted,
			k.OpsF32+k.OpsF64+k.OpsTF32+k.OpsBF16+k.OpsF16+k.OpsMatrixF64+k.OpsInt8, 100*k.Conflicts())
	}
	return b.String()
}

// Table lists the instructions of a kernel that access memory.
func (c *Count) Table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%6s %10s %12s %12s %10s %10s  %s\n", "line", "issued", "wanted B", "moved B", "wavefronts", "least", c.Kernel)
	for _, l := range c.Lines {
		fmt.Fprintf(&b, "%6d %10d %12d %12d %10d %10d  %s\n", l.Line, l.Issued, l.Wanted, l.Moved, l.Wavefronts, l.LeastWavefronts,
			strings.TrimSpace(l.Text))
	}
	return b.String()
}

// counters counts.
type counters struct {
	now []deeds // of the launch, by instruction index
	all map[string]*Count
}

// deeds are the accesses of an instruction.
type deeds struct {
	issued, lanes                              int64
	wanted, moved, writtenWanted, writtenMoved int64
	shared, wavefronts, least                  int64
}

func (c *counters) launch(l *launch) {
	n := len(l.kernel.code)
	if cap(c.now) < n {
		c.now = make([]deeds, n)
	}
	c.now = c.now[:n]
	clear(c.now)
}

func (c *counters) issue(_ *warp, in *instr, mask uint32) {
	p := &c.now[in.pc]
	p.issued++
	p.lanes += int64(bits.OnesCount32(mask))
}

func (c *counters) access(a *access) {
	p := &c.now[a.in.pc]
	switch a.space {
	case global:
		wanted := int64(a.size * bits.OnesCount32(a.mask))
		moved := 32 * int64(sectors(a))
		if a.kind != store {
			p.wanted += wanted
			p.moved += moved
		}
		if a.kind == store || a.kind == atomic {
			p.writtenWanted += wanted
			p.writtenMoved += moved
		}
	case shared:
		if a.kind == copyDone {
			return
		}
		n, least := wavefronts(a)
		p.shared++
		p.wavefronts += int64(n)
		p.least += int64(least)
	}
}

// sectors returns the number of 32-byte sectors that an instruction touches.
func sectors(a *access) int {
	var seen [64]uint64
	n := 0
	for m := a.mask; m != 0; m &= m - 1 {
		at := a.addr[bits.TrailingZeros32(m)&31]
		for s := at >> 5; s <= (at+uint64(a.size)-1)>>5; s++ {
			if n > 0 && seen[n-1] == s || n > 1 && slices.Contains(seen[:n-1], s) {
				continue
			}
			if n < len(seen) {
				seen[n] = s
				n++
			}
		}
	}
	return n
}

// wavefronts returns the number of passes over the 32 banks of 4 bytes that an access to shared memory takes, and
// the minimum for an access with its size and lanes. Lanes that access the same word share it. Accesses of 8 bytes
// proceed by half-warps; accesses of 16 bytes, and rows of matrices, by quarters.
func wavefronts(a *access) (n, least int) {
	group := 32
	if a.size > 4 {
		group = 32 * 4 / a.size
	}
	for first := 0; first < 32; first += group {
		m := a.mask >> first << first
		if first+group < 32 {
			m &= 1<<(first+group) - 1
		}
		if m == 0 {
			continue
		}
		var words [32][32]uint32
		var count [32]uint8
		most := uint8(1)
		for ; m != 0; m &= m - 1 {
			at := uint32(a.addr[bits.TrailingZeros32(m)&31])
			for w := at >> 2; w <= (at+uint32(a.size)-1)>>2; w++ {
				b := w & 31
				if k := count[b]; !slices.Contains(words[b][:k], w) {
					words[b][k&31] = w
					count[b]++
					most = max(most, k+1)
				}
			}
		}
		n, least = n+int(most), least+1
	}
	return n, least
}

func (c *counters) done(l *launch, distinct [2]uint64) {
	if c.all == nil {
		c.all = map[string]*Count{}
	}
	k := c.all[l.kernel.name]
	if k == nil {
		k = &Count{Kernel: l.kernel.name}
		c.all[k.Kernel] = k
	}
	k.Launches++
	k.ReadDistinct += int64(distinct[0])
	k.WrittenDistinct += int64(distinct[1])
	for i := range c.now {
		p, in := &c.now[i], &l.kernel.code[i]
		if p.issued == 0 {
			continue
		}
		k.Instructions += p.issued
		k.Lanes += p.lanes
		*k.class(in.class) += p.issued
		k.ReadWanted += p.wanted
		k.ReadMoved += p.moved
		k.WrittenWanted += p.writtenWanted
		k.WrittenMoved += p.writtenMoved
		k.SharedAccesses += p.shared
		k.Wavefronts += p.wavefronts
		k.LeastWavefronts += p.least
		ops := p.lanes
		if in.op[0] == "fma" || in.op[0] == "mad" {
			ops *= 2
		}
		switch in.class {
		case classF32:
			k.OpsF32 += ops
		case classF64:
			k.OpsF64 += ops
		case classMatrix:
			k.matrix(in, p.issued)
		}
		if p.wanted|p.writtenWanted|p.shared != 0 {
			k.line(in, p)
		}
	}
}

// matrix adds the operations of products.
func (c *Count) matrix(in *instr, n int64) {
	f, ok := matrixForm(in.op[3], strings.Join(in.op[6:], "."))
	if !ok {
		return
	}
	n *= int64(2 * f.m * 8 * f.k)
	switch in.op[7] {
	case "tf32":
		c.OpsTF32 += n
	case "bf16":
		c.OpsBF16 += n
	case "f16":
		c.OpsF16 += n
	case "f64":
		c.OpsMatrixF64 += n
	default:
		c.OpsInt8 += n
	}
}

func (c *Count) line(in *instr, p *deeds) {
	i, ok := slices.BinarySearchFunc(c.Lines, in, func(l Line, in *instr) int {
		if l.Line != in.line {
			return l.Line - in.line
		}
		return strings.Compare(l.Text, in.text)
	})
	if !ok {
		c.Lines = slices.Insert(c.Lines, i, Line{Line: in.line, Text: in.text})
	}
	l := &c.Lines[i]
	l.Issued += p.issued
	l.Wanted += p.wanted + p.writtenWanted
	l.Moved += p.moved + p.writtenMoved
	l.Wavefronts += p.wavefronts
	l.LeastWavefronts += p.least
}

// Counters returns the counts since the last reset, or nothing with Options.Unchecked. Work that a stream has not
// executed yet is not counted.
func (d *Driver) Counters() Counters {
	d.mu.Lock()
	defer d.mu.Unlock()
	var c Counters
	if d.watch == nil {
		return c
	}
	for _, k := range d.watch.all {
		n := *k
		n.Lines = slices.Clone(k.Lines)
		c.Kernels = append(c.Kernels, n)
	}
	slices.SortFunc(c.Kernels, func(a, b Count) int { return strings.Compare(a.Kernel, b.Kernel) })
	return c
}

// ResetCounters sets the counters to zero.
func (d *Driver) ResetCounters() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.watch != nil {
		d.watch.all = nil
	}
}
