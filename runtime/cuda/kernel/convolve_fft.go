package kernel

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// convFFT is the transform of a block: width columns of n complex numbers in shared memory, n a power of two.
// Butterflies work in place, so the result is in the order convOrder, with which the inverse starts.
type convFFT struct {
	n, width, threads int
	radices, strides  []int
}

func newConvFFT(n int) *convFFT {
	f := &convFFT{n: n, width: convGroup, radices: convRadices(n)}
	for f.width < 32*convGroup && f.width*2*n <= convPoints/4 {
		f.width *= 2
	}
	s := n
	for _, r := range f.radices {
		s /= r
		f.strides = append(f.strides, s)
	}
	f.threads = min(256, f.width*n/8)
	return f
}

// convRadices returns the factors of a power of two. The last one is 8 if n is large enough.
func convRadices(n int) (list []int) {
	p := bitsOf(n)
	switch {
	case p%3 == 1 && p > 1:
		list, p = append(list, 4, 4), p-4
	case p%3 != 0:
		list, p = append(list, 1<<(p%3)), p-p%3
	}
	for ; p > 0; p -= 3 {
		list = append(list, 8)
	}
	return list
}

// convOrder returns the index of the result at each position.
func convOrder(n int) []int {
	at, done, s := make([]int, n), 1, n
	for _, r := range convRadices(n) {
		s /= r
		for i := range at {
			at[i] += done * (i / s % r)
		}
		done *= r
	}
	return at
}

// table returns the roots e^(-2πij/m) that butterflies start with, for each pass but the last: m is its length, and
// j is below its stride.
func (f *convFFT) table(m Memory) Buffer {
	return m.Constant(fmt.Sprintf("butterflies %d", f.n), func() []byte {
		var z []complex128
		for i, r := range f.radices {
			for j := range f.strides[i] {
				s, c := math.Sincos(-2 * math.Pi * float64(j) / float64(r*f.strides[i]))
				z = append(z, complex(c, s))
			}
		}
		return complexBytes(z)
	})
}

// convBlock is a transform in a kernel.
type convBlock struct {
	*convFFT
	k             *ptx.Kernel
	shared, roots ptx.Shared
}

// begin reads the table.
func (f *convFFT) begin(k *ptx.Kernel, table ptx.Addr) *convBlock {
	bytes, roots := 8*f.width*f.n, 0
	for _, s := range f.strides {
		roots += s
	}
	shared := k.DynamicShared(bytes + 8*roots)
	b := &convBlock{convFFT: f, k: k, shared: shared, roots: shared.Add(ptx.U(bytes))}
	k.For(k.ThreadX(), ptx.U(roots), ptx.U(f.threads), func(i ptx.U32) {
		v := table.Index(i, 8).ConstF32s(0, 2)
		b.roots.Index(i, 8).StoreF32s(0, v...)
	})
	k.Barrier()
	return b
}

// moved returns the position of a number in memory. It puts the 8-apart neighbours of the last pass in different
// banks.
func (b *convBlock) moved(place int) int {
	if b.width > convGroup {
		return place
	}
	return place ^ place>>bitsOf(b.radices[len(b.radices)-1])&1
}

// butterflyAt locates a butterfly.
type butterflyAt struct {
	column, base, j ptx.U32 // base is the position of its first number; j the position within the pass
	offset          ptx.U32 // of its first number in shared memory, in bytes
}

// pass calls body for all butterflies of a pass.
func (b *convBlock) pass(i int, body func(at butterflyAt)) {
	r, s := b.radices[i], b.strides[i]
	each := func(item ptx.U32) {
		at := butterflyAt{column: item.And(ptx.U(b.width - 1))}
		n := item.Shr(ptx.U(bitsOf(b.width)))
		at.j = n.And(ptx.U(s - 1))
		at.base = n.Shr(ptx.U(bitsOf(s))).Shl(ptx.U(bitsOf(s * r))).Or(at.j)
		place := at.base
		if b.width == convGroup {
			place = place.Xor(place.Shr(ptx.U(bitsOf(b.radices[len(b.radices)-1]))).And(ptx.U(1)))
		}
		at.offset = place.MAD(ptx.U(b.width), at.column).Shl(ptx.U(3))
		body(at)
	}
	if items := b.width * b.n / r; items == b.threads {
		each(b.k.ThreadX())
	} else {
		b.k.For(b.k.ThreadX(), ptx.U(items), ptx.U(b.threads), each)
	}
}

// number returns the address of number q of a butterfly.
func (b *convBlock) number(at butterflyAt, pass, q int) ptx.Shared {
	return b.shared.Add(at.offset.Xor(ptx.U(8 * b.width * b.moved(q*b.strides[pass]))))
}

func (b *convBlock) load(at butterflyAt, pass int) []complexF32 {
	a := make([]complexF32, b.radices[pass])
	for q := range a {
		v := b.number(at, pass, q).LoadF32s(0, 2)
		a[q] = complexF32{v[0], v[1]}
	}
	return a
}

func (b *convBlock) store(at butterflyAt, pass int, a []complexF32) {
	for q, x := range a {
		b.number(at, pass, q).StoreF32s(0, x.re, x.im)
	}
}

// turn multiplies the numbers of a butterfly by powers of its root.
func (b *convBlock) turn(at butterflyAt, pass int, a []complexF32, inverse bool) {
	if b.strides[pass] == 1 {
		return
	}
	first := 0
	for _, s := range b.strides[:pass] {
		first += s
	}
	v := b.roots.Index(at.j, 8).LoadF32s(8*first, 2)
	if inverse {
		v[1] = v[1].Neg()
	}
	w := make([]complexF32, len(a))
	for q := 1; q < len(a); q++ {
		if w[q] = (complexF32{v[0], v[1]}); q > 1 {
			w[q] = w[q/2].mul(w[q-q/2])
		}
		a[q] = a[q].mul(w[q])
	}
}

// place returns the position of number q of a butterfly.
func (b *convBlock) place(at butterflyAt, pass, q int) ptx.U32 {
	return at.base.Add(ptx.U(q * b.strides[pass]))
}

// source returns the number of a column at a position; sink receives it.
type (
	source func(column ptx.U32) func(place ptx.U32) complexF32
	sink   func(column ptx.U32) func(place ptx.U32, x complexF32)
)

// forward reads numbers from a source and transforms them in all passes. It hands the numbers of the last pass to
// last.
func (b *convBlock) forward(from source, last func(at butterflyAt, a []complexF32)) {
	for i := range b.radices {
		b.pass(i, func(at butterflyAt) {
			var a []complexF32
			if i == 0 {
				read := from(at.column)
				for q := range b.radices[i] {
					a = append(a, read(b.place(at, i, q)))
				}
			} else {
				a = b.load(at, i)
			}
			a = butterfly(a, false)
			b.turn(at, i, a, false)
			if i == len(b.radices)-1 {
				last(at, a)
			} else {
				b.store(at, i, a)
			}
		})
		if i < len(b.radices)-1 {
			b.k.Barrier()
		}
	}
}

// backward transforms back, from pass on, and gives the numbers to to. first returns the numbers of a butterfly of
// that pass; if it is nil, they are in shared memory.
func (b *convBlock) backward(pass int, first func(at butterflyAt) []complexF32, to sink) {
	for i := pass; i >= 0; i-- {
		b.pass(i, func(at butterflyAt) {
			var a []complexF32
			if i == pass && first != nil {
				a = first(at)
			} else {
				a = b.load(at, i)
			}
			b.turn(at, i, a, true)
			a = butterfly(a, true)
			if i > 0 {
				b.store(at, i, a)
				return
			}
			write := to(at.column)
			for q, x := range a {
				write(b.place(at, i, q), x)
			}
		})
		if i > 0 {
			b.k.Barrier()
		}
	}
}

// through transforms, multiplies by factor at each position, and transforms back.
func (b *convBlock) through(from source, factor func(column ptx.U32) func(place ptx.U32) complexF32, to sink) {
	end := len(b.radices) - 1
	b.forward(from, func(at butterflyAt, a []complexF32) {
		read := factor(at.column)
		for q := range a {
			a[q] = a[q].mul(read(b.place(at, end, q)))
		}
		b.store(at, end, butterfly(a, true))
	})
	b.k.Barrier()
	b.backward(end-1, nil, to)
}

// convPieces locates the pieces of sequences for the kernels of a convolution.
type convPieces struct {
	k                                             *ptx.Kernel
	lines, pieces, step, length, inputs, channels ptx.U32
	ahead, skip                                   ptx.U32
}

func newConvPieces(k *ptx.Kernel) *convPieces {
	return &convPieces{k, k.U32Param("lines"), k.U32Param("pieces"), k.U32Param("step"), k.U32Param("length"), k.U32Param("inputs"),
		k.U32Param("channels"), k.U32Param("ahead"), k.U32Param("skip")}
}

// channel returns the channel of a column: the lowest digit of columns counts the channels of the block's group.
func (p *convPieces) channel(column ptx.U32) ptx.U32 {
	return p.k.BlockY().MAD(ptx.U(convGroup), column.And(ptx.U(convGroup-1)))
}

// line returns the first step of a piece, and the memory row at which its sequence starts.
func (p *convPieces) line(line ptx.U32) (there ptx.Pred, first ptx.U32, row ptx.U64) {
	sample := line.Div(p.pieces)
	return line.Lt(p.lines), line.Sub(sample.Mul(p.pieces)).Mul(p.step), sample.MulWide(p.length)
}

// read returns a function that reads a channel of a pair of pieces at the points of their transform.
func (p *convPieces) read(u ptx.Addr, pair, channel ptx.U32) func(point ptx.U32) complexF32 {
	k := p.k
	input := channel.Rem(p.inputs).Wide()
	var there [2]ptx.Pred
	var first [2]ptx.U32
	var at [2]ptx.Addr
	for i := range at {
		var row ptx.U64
		there[i], first[i], row = p.line(pair.MAD(ptx.U(2), ptx.U(i)))
		there[i] = there[i].And(channel.Lt(p.channels))
		first[i] = first[i].Add(p.ahead).Sub(p.skip) // negative means far after the last step
		at[i] = u.Index64(row.MAD(p.inputs.Wide(), input), 4)
	}
	return func(point ptx.U32) complexF32 {
		var v [2]ptx.F32
		for i := range v {
			v[i] = k.VarF32(ptx.F(0))
			t := first[i].Add(point)
			k.Guard(there[i].And(t.Lt(p.length)), func() { v[i].Set(at[i].Index64(t.MulWide(p.inputs), 4).ConstF32(0)) })
		}
		return complexF32{v[0], v[1]}
	}
}

// write returns a function that writes those points of a pair of pieces that are steps of their outputs.
func (p *convPieces) write(y ptx.Addr, pair, channel ptx.U32) func(point ptx.U32, x complexF32) {
	k := p.k
	var there [2]ptx.Pred
	var first [2]ptx.U32
	var at [2]ptx.Addr
	for i := range at {
		var row ptx.U64
		there[i], first[i], row = p.line(pair.MAD(ptx.U(2), ptx.U(i)))
		there[i] = there[i].And(channel.Lt(p.channels))
		at[i] = y.Index64(row.MAD(p.channels.Wide(), channel.Wide()), 4)
	}
	return func(point ptx.U32, x complexF32) {
		step := point.Sub(p.skip) // far after the piece for points before the first
		for i, v := range []ptx.F32{x.re, x.im} {
			t := first[i].Add(step)
			k.Guard(there[i].And(step.Lt(p.step)).And(t.Lt(p.length)), func() {
				at[i].Index64(t.MulWide(p.channels), 4).StoreF32(0, v)
			})
		}
	}
}

// factor returns a function that reads the spectrum of a channel.
func (p *convPieces) factor(spectra ptx.Addr, channel ptx.U32) func(place ptx.U32) complexF32 {
	at := spectra.Index(channel.Min(p.channels.Sub(ptx.U(1))), 8)
	return func(place ptx.U32) complexF32 {
		v := at.Index64(place.MulWide(p.channels), 8).ConstF32s(0, 2)
		return complexF32{v[0], v[1]}
	}
}

// convolveCode convolves pairs of pieces in one kernel.
func convolveCode(f *convFFT) *Code {
	return New(fmt.Sprintf("convolve_%d", f.n), f.threads, func(k *ptx.Kernel) {
		k.MinBlocks = 1
		p := newConvPieces(k)
		u, y, spectra, table := k.PtrParam("u"), k.PtrParam("y"), k.PtrParam("spectra"), k.PtrParam("table")
		b := f.begin(k, table)
		pair := func(column ptx.U32) ptx.U32 {
			return k.BlockX().MAD(ptx.U(f.width/convGroup), column.Shr(ptx.U(bitsOf(convGroup))))
		}
		b.through(func(column ptx.U32) func(ptx.U32) complexF32 { return p.read(u, pair(column), p.channel(column)) },
			func(column ptx.U32) func(ptx.U32) complexF32 { return p.factor(spectra, p.channel(column)) },
			func(column ptx.U32) func(ptx.U32, complexF32) { return p.write(y, pair(column), p.channel(column)) })
	})
}

// convLevels describes the memory between the kernels of two levels: (pairs, rows, columns, channels).
type convLevels struct {
	*convPieces
	from, count, rows, columns ptx.U32
}

func newConvLevels(k *ptx.Kernel) *convLevels {
	return &convLevels{newConvPieces(k), k.U32Param("from"), k.U32Param("count"), k.U32Param("rows"), k.U32Param("columns")}
}

// at returns the address of a number.
func (l *convLevels) at(middle ptx.Addr, pair, row, column, channel ptx.U32) ptx.Addr {
	n := pair.MulWide(l.rows).Add(row.Wide()).MAD(l.columns.Wide(), column.Wide())
	return middle.Index64(n.MAD(l.channels.Wide(), channel.Wide()), 8)
}

// block returns the pair of the block, and a function from a column of the block to its line among all lines of the
// pair. The number of lines is a multiple of the block's columns.
func (l *convLevels) block(f *convFFT, all ptx.U32) (pair ptx.U32, line func(column ptx.U32) ptx.U32) {
	k := l.k
	each := f.width / convGroup
	blocks := all.Div(ptx.U(each))
	pair = k.BlockX().Div(blocks)
	first := k.BlockX().Sub(pair.Mul(blocks)).Mul(ptx.U(each))
	return pair, func(column ptx.U32) ptx.U32 { return first.Add(column.Shr(ptx.U(bitsOf(convGroup)))) }
}

// convolveColumns returns the first kernel of two levels, which transforms over every columns-th point, or the last
// one, which transforms back.
func convolveColumns(f *convFFT, back bool) *Code {
	name := "convolve_columns"
	if back {
		name += "_back"
	}
	return New(fmt.Sprintf("%s_%d", name, f.n), f.threads, func(k *ptx.Kernel) {
		k.MinBlocks = 1
		l := newConvLevels(k)
		outside, middle, table := k.PtrParam("outside"), k.PtrParam("middle"), k.PtrParam("table")
		pair, line := l.block(f, l.columns)
		all := pair.Add(l.from)
		b := f.begin(k, table)
		end := len(f.radices) - 1
		if !back {
			b.forward(func(column ptx.U32) func(ptx.U32) complexF32 {
				read, j := l.read(outside, all, l.channel(column)), line(column)
				return func(place ptx.U32) complexF32 { return read(place.MAD(l.columns, j)) }
			}, func(at butterflyAt, a []complexF32) {
				channel, j := l.channel(at.column), line(at.column)
				there := channel.Lt(l.channels)
				for q, x := range a {
					to := l.at(middle, pair, b.place(at, end, q), j, channel)
					k.Guard(there, func() { to.StoreF32s(0, x.re, x.im) })
				}
			})
			return
		}
		b.backward(end, func(at butterflyAt) []complexF32 {
			channel, j := l.channel(at.column), line(at.column)
			a := make([]complexF32, f.radices[end])
			for q := range a {
				v := l.at(middle, pair, b.place(at, end, q), j, channel.Min(l.channels.Sub(ptx.U(1)))).LoadF32s(0, 2)
				a[q] = complexF32{v[0], v[1]}
			}
			return a
		}, func(column ptx.U32) func(ptx.U32, complexF32) {
			write, j := l.write(outside, all, l.channel(column)), line(column)
			return func(place ptx.U32, x complexF32) { write(place.MAD(l.columns, j), x) }
		})
	})
}

// convolveHalf transforms pairs of pieces and stores each as one row, or transforms such rows back.
func convolveHalf(f *convFFT, back bool) *Code {
	name := "convolve_half"
	if back {
		name += "_back"
	}
	return New(fmt.Sprintf("%s_%d", name, f.n), f.threads, func(k *ptx.Kernel) {
		k.MinBlocks = 1
		l := newConvLevels(k)
		outside, middle, table := k.PtrParam("outside"), k.PtrParam("middle"), k.PtrParam("table")
		b := f.begin(k, table)
		only := k.VarU32(ptx.U(0)) // row
		pair := func(column ptx.U32) ptx.U32 {
			return k.BlockX().MAD(ptx.U(f.width/convGroup), column.Shr(ptx.U(bitsOf(convGroup))))
		}
		if back {
			l.back(b, middle, func(column ptx.U32) (ptx.U32, ptx.U32) { return pair(column).Min(l.count.Sub(ptx.U(1))), only },
				func(column ptx.U32) func(ptx.U32, complexF32) {
					there, write := pair(column).Lt(l.count), l.write(outside, pair(column).Add(l.from), l.channel(column))
					return func(place ptx.U32, x complexF32) { k.If(there, func() { write(place, x) }) }
				})
			return
		}
		l.forth(b, middle, func(column ptx.U32) func(ptx.U32) complexF32 {
			return l.read(outside, pair(column).Add(l.from), l.channel(column))
		}, func(column ptx.U32) (ptx.Pred, ptx.U32, ptx.U32) {
			return pair(column).Lt(l.count).And(l.channel(column).Lt(l.channels)), pair(column), only
		})
	})
}

// forth transforms, and stores the numbers in rows of pairs.
func (l *convLevels) forth(b *convBlock, middle ptx.Addr, from source, row func(column ptx.U32) (there ptx.Pred, pair, row ptx.U32)) {
	end := len(b.radices) - 1
	b.forward(from, func(at butterflyAt, a []complexF32) {
		there, pair, row := row(at.column)
		for q, x := range a {
			to := l.at(middle, pair, row, b.place(at, end, q), l.channel(at.column))
			l.k.Guard(there, func() { to.StoreF32s(0, x.re, x.im) })
		}
	})
}

// back transforms the rows of pairs back.
func (l *convLevels) back(b *convBlock, middle ptx.Addr, row func(column ptx.U32) (pair, row ptx.U32), to sink) {
	end := len(b.radices) - 1
	b.backward(end, func(at butterflyAt) []complexF32 {
		pair, row := row(at.column)
		channel := l.channel(at.column).Min(l.channels.Sub(ptx.U(1)))
		a := make([]complexF32, b.radices[end])
		for q := range a {
			v := l.at(middle, pair, row, b.place(at, end, q), channel).LoadF32s(0, 2)
			a[q] = complexF32{v[0], v[1]}
		}
		return a
	}, to)
}

// convolveRowsHalf transforms rows of the first level in place, or transforms them back.
func convolveRowsHalf(f *convFFT, back bool) *Code {
	name := "convolve_rows_half"
	if back {
		name += "_back"
	}
	return New(fmt.Sprintf("%s_%d", name, f.n), f.threads, func(k *ptx.Kernel) {
		k.MinBlocks = 1
		l := newConvLevels(k)
		middle, turns, table := k.PtrParam("middle"), k.PtrParam("turns"), k.PtrParam("table")
		pair, line := l.block(f, l.rows)
		b := f.begin(k, table)
		if back {
			l.back(b, middle, func(column ptx.U32) (ptx.U32, ptx.U32) { return pair, line(column) },
				func(column ptx.U32) func(ptx.U32, complexF32) {
					return l.turnBack(middle, turns, pair, line(column), column)
				})
			return
		}
		l.forth(b, middle, func(column ptx.U32) func(ptx.U32) complexF32 {
			return l.turned(middle, turns, pair, line(column), column)
		}, func(column ptx.U32) (ptx.Pred, ptx.U32, ptx.U32) {
			return l.channel(column).Lt(l.channels), pair, line(column)
		})
	})
}

// turned returns a function that reads the numbers of a row, times the twiddle factors between the levels.
func (l *convLevels) turned(middle, turns ptx.Addr, pair, row, column ptx.U32) func(place ptx.U32) complexF32 {
	channel := l.channel(column).Min(l.channels.Sub(ptx.U(1)))
	return func(place ptx.U32) complexF32 {
		v := l.at(middle, pair, row, place, channel).LoadF32s(0, 2)
		w := turns.Index(row.MAD(l.columns, place), 8).ConstF32s(0, 2)
		return complexF32{v[0], v[1]}.mul(complexF32{w[0], w[1]})
	}
}

// turnBack returns a function that writes them, times the inverse factors.
func (l *convLevels) turnBack(middle, turns ptx.Addr, pair, row, column ptx.U32) func(place ptx.U32, x complexF32) {
	channel := l.channel(column)
	there := channel.Lt(l.channels)
	return func(place ptx.U32, x complexF32) {
		l.k.Guard(there, func() {
			w := turns.Index(row.MAD(l.columns, place), 8).ConstF32s(0, 2)
			x := x.mul(complexF32{w[0], w[1].Neg()})
			l.at(middle, pair, row, place, channel).StoreF32s(0, x.re, x.im)
		})
	}
}

// convolveRows returns the kernel between them, which transforms rows, multiplies by the spectra, and transforms
// back.
func convolveRows(f *convFFT) *Code {
	return New(fmt.Sprintf("convolve_rows_%d", f.n), f.threads, func(k *ptx.Kernel) {
		k.MinBlocks = 1
		l := newConvLevels(k)
		middle, spectra, turns, table := k.PtrParam("middle"), k.PtrParam("spectra"), k.PtrParam("turns"), k.PtrParam("table")
		pair, line := l.block(f, l.rows)
		b := f.begin(k, table)
		b.through(func(column ptx.U32) func(ptx.U32) complexF32 {
			return l.turned(middle, turns, pair, line(column), column)
		},
			func(column ptx.U32) func(ptx.U32) complexF32 {
				read, row := l.factor(spectra, l.channel(column)), line(column)
				return func(place ptx.U32) complexF32 { return read(row.MAD(l.columns, place)) }
			},
			func(column ptx.U32) func(ptx.U32, complexF32) {
				return l.turnBack(middle, turns, pair, line(column), column)
			})
	})
}
