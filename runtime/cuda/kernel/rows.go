package kernel

import (
	"fmt"
	"math/bits"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// MaxRows is the maximum number of rows, or of columns, for kernels on them.
const MaxRows = 1<<31 - 1

// rowForm is how threads share the work on rows of contiguous numbers. A part of a warp, a warp or a block has a row
// in its registers, so that it is read once. Longer rows are read once per pass. The form depends only on the width,
// and so does the order of each sum.
type rowForm struct {
	width   int // numbers per row
	vec     int // numbers that a thread reads at once
	group   int // threads that share a row
	steps   int // reads per thread; 0 means a loop
	threads int // per block
}

const (
	warpRow  = 1024 // maximum length of a row in a warp's registers
	blockRow = 8192 // maximum length of a row in a block's registers
)

func rowFormOf(width int) rowForm {
	f := rowForm{width: width, vec: 1}
	for f.vec < 4 && width%(2*f.vec) == 0 {
		f.vec *= 2
	}
	reads := width / f.vec
	switch {
	case width <= warpRow:
		f.threads, f.group = 128, min(32, 1<<bits.Len(uint(max(1, reads)-1)))
		f.steps = (reads + f.group - 1) / f.group
	case width <= blockRow:
		f.threads, f.group = 256, 256
		f.steps = (reads + f.group - 1) / f.group
	default:
		f.threads, f.group = 512, 512
	}
	return f
}

// perBlock returns the number of rows of a block.
func (f rowForm) perBlock() int { return f.threads / f.group }

// grid returns the grid for a number of rows.
func (f rowForm) grid(rows int) driver.Dim {
	if rows > MaxRows {
		panic(fmt.Sprintf("kernel: %d rows", rows))
	}
	return driver.Dim{X: uint32((rows + f.perBlock() - 1) / f.perBlock()), Y: 1, Z: 1}
}

// rowThread is one of the threads that share a row.
type rowThread struct {
	k *ptx.Kernel
	rowForm
	row  ptx.U32  // its index
	lane ptx.U32  // the thread's index among those of the row
	real ptx.Pred // whether the row exists; otherwise nothing is stored
	own  bool     // whether real must be checked
}

// begin returns the thread's row of rows.
func (f rowForm) begin(k *ptx.Kernel, rows ptx.U32) *rowThread {
	t := &rowThread{k: k, rowForm: f}
	if f.group == f.threads {
		t.row, t.lane = k.BlockX(), k.ThreadX()
		return t
	}
	shift := bits.TrailingZeros(uint(f.group))
	t.lane = k.ThreadX().And(ptx.U(f.group - 1))
	row := k.BlockX().MAD(ptx.U(f.perBlock()), k.ThreadX().Shr(ptx.U(shift)))
	t.real, t.own = row.Lt(rows), true
	t.row = row.Min(rows.Sub(ptx.U(1))) // all threads of a warp take part in its shuffles
	return t
}

// at returns the address of the row in a tensor of rows of numbers of size bytes.
func (t *rowThread) at(x ptx.Addr, size int) ptx.Addr {
	return x.Index64(t.row.MulWide(ptx.U(t.width)), size)
}

// rowPart is the numbers that a thread reads at once: vec of them from index i of the row.
type rowPart struct {
	i    ptx.U32
	step int       // -1 in a loop
	ok   *ptx.Pred // whether they are in the row; nil means yes
}

// each calls body for all parts of the thread.
func (t *rowThread) each(body func(p rowPart)) {
	if t.steps == 0 {
		t.k.For(t.lane.Mul(ptx.U(t.vec)), ptx.U(t.width), ptx.U(t.group*t.vec), func(i ptx.U32) { body(rowPart{i, -1, nil}) })
		return
	}
	for s := range t.steps {
		p := rowPart{step: s, i: t.lane.MAD(ptx.U(t.vec), ptx.U(t.group*t.vec*s))}
		if t.group*t.vec*(s+1) > t.width {
			ok := p.i.Lt(ptx.U(t.width))
			p.ok = &ok
		}
		body(p)
	}
}

// read reads a part of the numbers that start at x, with fill outside the row. nc: no launch writes them meanwhile.
func (t *rowThread) read(x ptx.Addr, p rowPart, fill float32, nc bool) []ptx.F32 {
	load := func() []ptx.F32 {
		a := x.Index(p.i, 4)
		switch {
		case t.vec == 1 && nc:
			return []ptx.F32{a.ConstF32(0)}
		case t.vec == 1:
			return []ptx.F32{a.LoadF32(0)}
		case nc:
			return a.ConstF32s(0, t.vec)
		}
		return a.LoadF32s(0, t.vec)
	}
	if p.ok == nil {
		return load()
	}
	v := make([]ptx.F32, t.vec)
	for i := range v {
		v[i] = t.k.VarF32(ptx.F(fill))
	}
	t.k.Guard(*p.ok, func() {
		for i, x := range load() {
			v[i].Set(x)
		}
	})
	return v
}

// write writes a part of the row that starts at y.
func (t *rowThread) write(y ptx.Addr, p rowPart, v []ptx.F32) {
	a := y.Index(p.i, 4)
	store := func() {
		if t.vec == 1 {
			a.StoreF32(0, v[0])
		} else {
			a.StoreF32s(0, v...)
		}
	}
	switch {
	case p.ok != nil && t.own:
		t.k.Guard(t.real.And(*p.ok), store)
	case p.ok != nil:
		t.k.Guard(*p.ok, store)
	case t.own:
		t.k.Guard(t.real, store)
	default:
		store()
	}
}

// first runs body in the first thread of a row.
func (t *rowThread) first(body func()) {
	p := t.lane.Eq(ptx.U(0))
	if t.own {
		p = p.And(t.real)
	}
	t.k.If(p, body)
}

// rowInput is a row that is read once if registers can keep it.
type rowInput struct {
	t    *rowThread
	at   ptx.Addr
	fill float32 // value outside the row
	kept [][]ptx.F32
}

func (t *rowThread) input(at ptx.Addr, fill float32) *rowInput {
	return &rowInput{t, at, fill, make([][]ptx.F32, t.steps)}
}

func (x *rowInput) get(p rowPart) []ptx.F32 {
	if p.step < 0 {
		return x.t.read(x.at, p, x.fill, false)
	}
	if x.kept[p.step] == nil {
		x.kept[p.step] = x.t.read(x.at, p, x.fill, false)
	}
	return x.kept[p.step]
}

// set replaces a number of get, if registers keep the row.
func (x *rowInput) set(p rowPart, v []ptx.F32) {
	if p.step >= 0 {
		x.kept[p.step] = v
	}
}

// fold64 combines all numbers of the row: f adds a number to a thread's sum, join adds the sums of two threads. All
// threads get the result.
func (t *rowThread) fold64(first float64, f func(acc ptx.F64, p rowPart) []ptx.F64, join func(a, b ptx.F64) ptx.F64) ptx.F64 {
	acc := make([]ptx.F64, t.vec) // one accumulator for each position in a part, to shorten dependency chains
	for i := range acc {
		acc[i] = t.k.VarF64(ptx.D(first))
	}
	t.each(func(p rowPart) {
		for i, x := range f(acc[0], p) {
			x = join(acc[i], x)
			if p.ok != nil {
				x = p.ok.SelectF64(x, acc[i])
			}
			acc[i].Set(x)
		}
	})
	return t.join64(tree(acc, join), join)
}

// sum returns the sum of f over the row, in float64.
func (t *rowThread) sum(f func(p rowPart) []ptx.F64) ptx.F64 {
	return t.fold64(0, func(_ ptx.F64, p rowPart) []ptx.F64 { return f(p) }, ptx.F64.Add)
}

// fold32 is fold64 in float32.
func (t *rowThread) fold32(first float32, f func(p rowPart) []ptx.F32, join func(a, b ptx.F32) ptx.F32) ptx.F32 {
	acc := make([]ptx.F32, t.vec)
	for i := range acc {
		acc[i] = t.k.VarF32(ptx.F(first))
	}
	t.each(func(p rowPart) {
		for i, x := range f(p) {
			x = join(acc[i], x)
			if p.ok != nil {
				x = p.ok.SelectF32(x, acc[i])
			}
			acc[i].Set(x)
		}
	})
	x := tree(acc, join)
	for by := min(t.group, 32) / 2; by > 0; by /= 2 {
		x = join(x, x.ShuffleXor(ptx.U(by)))
	}
	if t.group <= 32 {
		return x
	}
	part := t.k.SharedArray(4*t.group/32, 16)
	t.k.Guard(t.k.Lane().Eq(ptx.U(0)), func() { part.Index(t.k.ThreadX().Shr(ptx.U(5)), 4).StoreF32(0, x) })
	t.k.Barrier()
	var all []ptx.F32
	for i := 0; i < t.group/32; i += 4 {
		all = append(all, part.LoadF32s(4*i, 4)...)
	}
	return tree(all, join)
}

// join64 combines the sums of the threads of a row.
func (t *rowThread) join64(x ptx.F64, join func(a, b ptx.F64) ptx.F64) ptx.F64 {
	for by := min(t.group, 32) / 2; by > 0; by /= 2 {
		x = join(x, x.ShuffleXor(ptx.U(by)))
	}
	if t.group <= 32 {
		return x
	}
	part := t.k.SharedArray(8*t.group/32, 16)
	t.k.Guard(t.k.Lane().Eq(ptx.U(0)), func() { part.Index(t.k.ThreadX().Shr(ptx.U(5)), 8).StoreF64(0, x) })
	t.k.Barrier()
	var all []ptx.F64
	for i := 0; i < t.group/32; i += 2 {
		all = append(all, part.LoadF64s(8*i, 2)...)
	}
	return tree(all, join)
}

// tree combines neighbours, then their results.
func tree[T any](x []T, join func(a, b T) T) T {
	for len(x) > 1 {
		var next []T
		for i := 0; i+1 < len(x); i += 2 {
			next = append(next, join(x[i], x[i+1]))
		}
		if len(x)%2 == 1 {
			next = append(next, x[len(x)-1])
		}
		x = next
	}
	return x[0]
}

// wide64 applies f to each number in float64.
func wide64(x []ptx.F32, f func(x ptx.F64) ptx.F64) []ptx.F64 {
	out := make([]ptx.F64, len(x))
	for i, v := range x {
		if out[i] = v.F64(); f != nil {
			out[i] = f(out[i])
		}
	}
	return out
}
