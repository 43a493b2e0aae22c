package kernel

import "github.com/essmc/essmc/runtime/cuda/ptx"

// operandForm is how tiles of an operand are copied to shared memory, and their layout there.
//
// "Inner": each row of the tile has its 32 numbers along K contiguously, in pieces of 16 bytes. Piece p of row r is
// at position p xor r mod 8, so that rows can be read by ldmatrix and written by pieces or numbers without bank
// conflicts. Otherwise rows of the tile run along M or N and are 8 numbers longer than the tile, so that the four
// rows that a load of a fragment reads start 8 banks apart.
type operandForm struct {
	inner  bool // numbers are contiguous along K
	wide   bool // copied in pieces of 16 bytes
	window int  // number of dimensions of windows; 0 for a matrix
}

// form returns the best way to copy m.
func (m *Matrix) form() operandForm {
	if m.Window != nil {
		return operandForm{window: len(m.Window.Out)}
	}
	f := operandForm{inner: m.Inner == 1 || m.Row != 1}
	rows := *m
	if !f.inner {
		rows.Row = m.Inner
	}
	f.wide = rows.even(4) && (m.Inner == 1 || m.Row == 1)
	return f
}

// operand is an operand of a product in a kernel.
type operand struct {
	place
	form    operandForm
	k       *ptx.Kernel
	size    int // rows of the tile
	threads int
	rows    ptx.U32 // of the matrix
	end     ptx.U32 // of K
	window  *windowPlace

	// of the thread
	line  ptx.U32  // first row of the tile that the thread copies to
	piece ptx.U32  // first number in it
	row   ptx.U32  // of the matrix. If inner: the first; otherwise: of its first number
	start ptx.Addr // of the row
	left  ptx.U32  // if not inner: bytes of a piece that are in the matrix
	to    []ptx.U32
}

func newOperand(k *ptx.Kernel, name string, f operandForm, b batchIndex, size, threads int, first, rows, end ptx.U32) *operand {
	o := &operand{place: matrixParams(k, name, b), form: f, k: k, size: size, threads: threads, rows: rows, end: end}
	tid := k.ThreadX()
	pieces, width := o.pieces(), o.width()
	o.line, o.piece = tid.Div(ptx.U(pieces)), tid.Rem(ptx.U(pieces)).Mul(ptx.U(width))
	if f.inner {
		o.row = first.Add(o.line)
		o.start = o.base.Add(o.row.Wide().Mul(o.place.row))
		// The lines of a thread are a power of 2 apart, and its first line is below that.
		swizzled := o.piece.Shr(ptx.U(2)).Xor(o.line.And(ptx.U(7))).Shl(ptx.U(4)).Add(o.piece.And(ptx.U(3)).Shl(ptx.U(2)))
		to := o.line.MAD(ptx.U(tileK*4), swizzled)
		o.to = []ptx.U32{to}
		for i := 1; i*o.perPass() < 8 && i < o.passes(); i++ {
			o.to = append(o.to, to.Xor(ptx.U(i*o.perPass()<<4)))
		}
		return o
	}
	if f.wide && size == 16 {
		// 8 threads copy two lines. Consecutive lines would share banks, so they copy lines 0 and 2, then 1 and 3.
		low := o.line.And(ptx.U(1)).Shl(ptx.U(1)).Or(o.line.Shr(ptx.U(1)).And(ptx.U(1)))
		o.line = o.line.And(ptx.U(^uint32(3))).Or(low)
	}
	o.to = []ptx.U32{o.line.MAD(ptx.U((size+8)*4), o.piece.Shl(ptx.U(2)))}
	o.row = first.Add(o.piece)
	o.left = rows.Sub(o.row.Min(rows)).Min(ptx.U(width)).Shl(ptx.U(2))
	if f.window > 0 {
		o.window = windowParams(k, name, f.window)
		o.window.begin(o.row)
		return o
	}
	o.start = o.base.Add(o.row.Lt(rows).SelectU32(o.row, ptx.U(0)).Wide().Mul(o.place.row))
	return o
}

// width returns how many numbers are copied at once.
func (o *operand) width() int { return pick(o.form.wide, 4, 1) }

// length returns the length of a line of the tile, in numbers.
func (o *operand) length() int { return pick(o.form.inner, tileK, o.size) }

// pieces returns the number of pieces of a line.
func (o *operand) pieces() int { return min(o.length()/o.width(), o.threads) }

// perPass returns the number of lines that the threads of a block copy at once. passes returns how often they do.
func (o *operand) perPass() int { return o.threads / o.pieces() }
func (o *operand) passes() int {
	return ceil(pick(o.form.inner, o.size, tileK), o.perPass())
}

// bytes returns the size of a tile in shared memory.
func (o *operand) bytes() int {
	if o.form.inner {
		return o.size * tileK * 4
	}
	return tileK * (o.size + 8) * 4
}

// copy starts copying the tile at depth along K. Numbers beyond the matrix become 0.
func (o *operand) copy(depth ptx.U32, to ptx.Shared) {
	at := make([]ptx.Shared, len(o.to))
	for i := range at {
		at[i] = to.Add(o.to[i])
	}
	bytes := 4 * o.width()
	if o.form.inner {
		d := depth.Add(o.piece)
		left := o.end.Sub(d.Min(o.end)).Min(ptx.U(o.width())).Shl(ptx.U(2))
		from := o.start.Add(d.Lt(o.end).SelectU32(d, ptx.U(0)).Wide().Mul(o.inner))
		var step ptx.U64
		if o.passes() > 1 {
			step = o.place.row.Mul(ptx.L(uint64(o.perPass())))
		}
		for i := range o.passes() {
			row := o.row
			if i > 0 {
				row = o.row.Add(ptx.U(i * o.perPass()))
				from = from.Add(step)
			}
			in := row.Lt(o.rows)
			if o.size%o.perPass() != 0 && i == o.passes()-1 {
				panic("kernel: a tile that its threads do not divide")
			}
			at[i%len(at)].CopyAsyncPartAt(i*o.perPass()*tileK*4, in.SelectAddr(from, o.base), bytes,
				in.SelectU32(left, ptx.U(0)))
		}
		return
	}
	d := depth.Add(o.line)
	var from ptx.Addr
	var step ptx.U64
	if o.window == nil {
		from = o.start.Add(d.Wide().Mul(o.inner))
		if o.passes() > 1 {
			step = o.inner.Mul(ptx.L(uint64(o.perPass())))
		}
	}
	for i := range o.passes() {
		if i > 0 {
			d = d.Add(ptx.U(o.perPass()))
			if o.window == nil {
				from = from.Add(step)
			}
		}
		in := d.Lt(o.end)
		src := from
		if o.window != nil {
			var inside ptx.Pred
			src, inside = o.window.address(o.base, 4, in.SelectU32(d, ptx.U(0)))
			in = in.And(inside)
		}
		at[0].CopyAsyncPartAt(i*o.perPass()*(o.size+8)*4, in.SelectAddr(src, o.base), bytes,
			in.SelectU32(o.left, ptx.U(0)))
	}
}

// element reads a number of the matrix.
func (o *operand) element(row, depth ptx.U32) ptx.F32 {
	if o.window == nil {
		return o.at(row, depth).LoadF32(0)
	}
	w := *o.window
	w.begin(row)
	at, in := w.address(o.base, 4, depth)
	return in.SelectF32(in.SelectAddr(at, o.base).LoadF32(0), ptx.F(0))
}

// fragments are read from a tile by the threads of a warp.
type fragments struct {
	// load returns the fragments of piece i (16 rows of A, 8 of B), for 8 numbers along K from depth on.
	load func(tile ptx.Shared, depth, i int) []ptx.U32
}

// fragmentsA returns the fragments of A for the rows of the tile from first on.
func (o *operand) fragmentsA(first ptx.U32) fragments {
	k, lane := o.k, o.k.Lane()
	if !o.form.inner {
		stride := (o.size + 8) * 4
		at := lane.And(ptx.U(3)).Mul(ptx.U(stride)).Add(first.Add(lane.Shr(ptx.U(2))).Shl(ptx.U(2)))
		return fragments{func(tile ptx.Shared, depth, i int) []ptx.U32 {
			s, off := tile.Add(at), depth*stride+i*64
			return []ptx.U32{s.LoadU32(off), s.LoadU32(off + 32), s.LoadU32(off + 4*stride), s.LoadU32(off + 4*stride + 32)}
		}}
	}
	at := o.swizzled(k, first.Add(lane.And(ptx.U(15))), lane.Shr(ptx.U(4)))
	return fragments{func(tile ptx.Shared, depth, i int) []ptx.U32 {
		return tile.Add(at[depth/8]).LoadMatrixAt(i*16*tileK*4, 4, false)
	}}
}

// fragmentsB returns the fragments of B for the columns from first on.
func (o *operand) fragmentsB(first ptx.U32) fragments {
	k, lane := o.k, o.k.Lane()
	if !o.form.inner {
		stride := (o.size + 8) * 4
		at := lane.And(ptx.U(3)).Mul(ptx.U(stride)).Add(first.Add(lane.Shr(ptx.U(2))).Shl(ptx.U(2)))
		return fragments{func(tile ptx.Shared, depth, i int) []ptx.U32 {
			s, off := tile.Add(at), depth*stride+i*32
			return []ptx.U32{s.LoadU32(off), s.LoadU32(off + 4*stride)}
		}}
	}
	row := lane.Shr(ptx.U(4)).Shl(ptx.U(3)).Add(lane.And(ptx.U(7)))
	at := o.swizzled(k, first.Add(row), lane.Shr(ptx.U(3)).And(ptx.U(1)))
	last := map[int][]ptx.U32{} // by depth, because two pieces are read at once
	return fragments{func(tile ptx.Shared, depth, i int) []ptx.U32 {
		if i%2 == 0 {
			last[depth] = tile.Add(at[depth/8]).LoadMatrixAt(i*8*tileK*4, 4, false)
		}
		return last[depth][i%2*2:][:2]
	}}
}

// swizzled returns the thread's address in its row for every 8 numbers along K; half selects 4 of them.
func (o *operand) swizzled(k *ptx.Kernel, row, half ptx.U32) []ptx.U32 {
	at := row.MAD(ptx.U(tileK*4), half.Xor(row.And(ptx.U(7))).Shl(ptx.U(4)))
	all := []ptx.U32{at}
	for d := 1; d < tileK/8; d++ {
		all = append(all, at.Xor(ptx.U(d*32)))
	}
	return all
}
