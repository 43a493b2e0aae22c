package kernel

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// Products of 16- and 8-bit numbers on tensor cores. Tiles of 32-bit words along K are copied to shared memory and
// to the registers of threads like tiles of float32. One product of tensor cores takes 8 words of each row: 16
// numbers of 16 bits, 32 of 8.

// multiplyWords adds the product of the tiles at a and b.
func (f *productForm) multiplyWords(k *ptx.Kernel, acc [][][4]ptx.F32, whole [][][4]ptx.U32, fa, fb fragments, a, b ptx.Shared) {
	rows, columns := max(len(acc), len(whole)), f.n/f.warpsN/8
	for ks := 0; ks < tileK; ks += 8 {
		of := make([][2]ptx.U32, columns)
		for j := range of {
			of[j] = [2]ptx.U32(fb.load(b, ks, j))
		}
		for i := range rows {
			x := [4]ptx.U32(fa.load(a, ks, i))
			for j := range of {
				switch f.precision {
				case PairsF16:
					k.MMAF16(acc[i][j], x, of[j])
				case PairsBF16:
					k.MMABF16(acc[i][j], x, of[j])
				default:
					k.MMABytes(f.precision >= BytesSU, f.precision == BytesUS || f.precision == BytesSS, whole[i][j], x, of[j])
				}
			}
		}
	}
}

// storeWhole writes sums of integers, corrected for zero points. With the sums s of a row of A and t of a row of B
// over K, and their zero points z and w, a result is its sum - z·t - w·(s - K·z).
func (f *productForm) storeWhole(to ptx.Addr, from ptx.Shared, width int, row, col ptx.U32, zeros [2]place,
	requantized requantizer) {
	x := make([]ptx.U32, width)
	for i := range x {
		x[i] = from.LoadU32(4 * i)
	}
	if f.zeros {
		pair := func(of place, i ptx.U32) []ptx.U32 { return of.base.Add(i.Wide().Mul(of.row)).LoadU32s(0, 2) }
		a := pair(zeros[0], row)
		for i := range x {
			at := col
			if i > 0 {
				at = col.Add(ptx.U(i))
			}
			b := pair(zeros[1], at)
			x[i] = x[i].Sub(a[1].Mul(b[0])).Sub(b[1].Mul(a[0]))
		}
	}
	if requantized != nil {
		y := ptx.U(0)
		for i := range x {
			at := col
			if i > 0 {
				at = col.Add(ptx.U(i))
			}
			y = y.Or(requantized(row, at, x[i]).And(ptx.U(255)).Shl(ptx.U(8 * i)))
		}
		if width == 1 {
			to.StoreU8(0, y)
		} else {
			to.StoreU32(0, y)
		}
		return
	}
	if width == 1 {
		to.StoreU32(0, x[0])
		return
	}
	to.StoreU32s(0, x...)
}

// Packing lays out a stack of matrices of 8- or 16-bit numbers for a product of words: each row along K starts at a
// multiple of 16 bytes, and ends in zeros.
type Packing struct {
	Size    int // bytes of a number: 1 or 2
	Rows, K int
	Batch   []int
	From    Matrix // as in a product; strides are in numbers; padding of windows becomes 0
}

// Words returns the number of words of K numbers.
func (p Packing) Words() int { return ceil(p.K*p.Size, 4) }

// own returns the dimensions of the batch in which the matrices differ.
func (p Packing) own() (sizes, from []int) {
	for i, n := range p.Batch {
		if p.From.Batch != nil && p.From.Batch[i] != 0 && n > 1 {
			sizes, from = append(sizes, n), append(from, p.From.Batch[i])
		}
	}
	return sizes, from
}

// Stack returns the number of rows of all distinct matrices.
func (p Packing) Stack() int {
	sizes, _ := p.own()
	return p.Rows * volume(sizes)
}

// Layout identifies the layout of constants. It does not depend on dimensions in which all matrices are the same.
func (p Packing) Layout() string {
	sizes, from := p.own()
	return fmt.Sprintf("words of %d bits %dx%d by %d,%d at %d of %v,%v", 8*p.Size, p.Rows, p.K, p.From.Row, p.From.Inner,
		p.From.At, sizes, from)
}

// Fits reports whether kernels can count the words of a matrix, and all rows, in 32 bits.
func (p Packing) Fits() bool {
	return int64(p.Rows)*int64(p.row()) <= math.MaxInt32-128 && p.Stack() <= math.MaxInt32-128
}

// row returns the stride of rows, in words.
func (p Packing) row() int { return ceil(p.Words(), 4) * 4 }

// Bytes returns the size of the layout.
func (p Packing) Bytes() int { return 4 * p.Stack() * p.row() }

// stacked returns a matrix whose rows have the given stride, one matrix after the other.
func (p Packing) stacked(of Buffer, row int) Matrix {
	m := Matrix{Buffer: of, Row: row, Inner: 1, Batch: make([]int, len(p.Batch))}
	step := p.Rows * row
	for i := len(p.Batch) - 1; i >= 0; i-- {
		if p.From.Batch != nil && p.From.Batch[i] != 0 && p.Batch[i] > 1 {
			m.Batch[i] = step
			step *= p.Batch[i]
		}
	}
	return m
}

// Packed returns the matrices in words, in the buffer to.
func (p Packing) Packed(to Buffer) Matrix { return p.stacked(to, p.row()) }

// Plain returns the matrices in words in place, if they are stored one after the other in whole words.
func (p Packing) Plain() (Matrix, bool) {
	if p.From.Window != nil || p.From.At != 0 || p.From.Inner != 1 || p.From.Row != p.K || p.K*p.Size%4 != 0 {
		return Matrix{}, false
	}
	m := p.stacked(p.From.Buffer, p.Words())
	for i := range m.Batch {
		if m.Batch[i] != 0 && m.Batch[i]*4 != p.From.Batch[i]*p.Size {
			return m, false
		}
	}
	return m, true
}

// each calls f for each row, with the offset of its first number.
func (p Packing) each(f func(row, at int)) {
	sizes, from := p.own()
	for i := range volume(sizes) {
		at, rest := p.From.At, i
		for d := len(sizes) - 1; d >= 0; d-- {
			at += rest % sizes[d] * from[d]
			rest /= sizes[d]
		}
		for r := range p.Rows {
			f(i*p.Rows+r, at+r*p.From.Row)
		}
	}
}

// Pack returns the layout for constant data.
func (p Packing) Pack(data []byte) []byte {
	out := make([]byte, p.Bytes())
	p.each(func(row, at int) {
		for i := range p.K {
			copy(out[4*row*p.row()+i*p.Size:], data[(at+i*p.From.Inner)*p.Size:][:p.Size])
		}
	})
	return out
}

// Call returns the launch that writes the layout to a buffer, one word per thread.
func (p Packing) Call(to Buffer) Call {
	sizes, from := p.own()
	turned := p.From.Inner != 1
	code := New(fmt.Sprintf("pack_%d", 8*p.Size), 128, func(k *ptx.Kernel) {
		rows, depth, words := k.U32Param("rows"), k.U32Param("k"), k.U32Param("words")
		batch := batchParams(k, len(sizes))
		a := matrixParams(k, "from", batch)
		var window *windowPlace
		if p.From.Window != nil {
			window = windowParams(k, "from", len(p.From.Window.Out))
		}
		y := k.PtrParam("to")
		i := k.BlockX().MAD(ptx.U(128), k.ThreadX())
		k.If(i.Ge(rows.Mul(words)), k.Return)
		var row, word ptx.U32 // neighbouring threads read neighbouring words
		if turned {
			word = i.Div(rows)
			row = i.Sub(word.Mul(rows))
		} else {
			row = i.Div(words)
			word = i.Sub(row.Mul(words))
		}
		if window != nil {
			window.begin(row)
		}
		x := ptx.U(0)
		for e := range 4 / p.Size {
			at := word.MAD(ptx.U(4/p.Size), ptx.U(e))
			in := at.Lt(depth)
			var from ptx.Addr
			if window == nil {
				from = a.at(row, at)
			} else {
				var inside ptx.Pred
				from, inside = window.address(a.base, p.Size, in.SelectU32(at, ptx.U(0)))
				in = in.And(inside)
			}
			from = in.SelectAddr(from, a.base)
			var v ptx.U32
			if p.Size == 1 {
				v = from.LoadU8(0)
			} else {
				v = from.LoadB16(0).Wide()
			}
			x = x.Or(in.SelectU32(v, ptx.U(0)).Shl(ptx.U(8 * p.Size * e)))
		}
		y.Index64(batch.flat.MAD(rows, row).MulWide(words).Add(word.Wide()), 4).StoreU32(0, x)
	})
	source := p.From
	source.Batch = from
	args := []Arg{U32(p.Rows), U32(p.K), U32(p.row()), U32(volume(sizes))}
	for _, n := range sizes {
		args = append(args, U32(n))
	}
	args = append(append(args, source.args(p.Size)...), Ptr(to))
	y := min(volume(sizes), 65535)
	return NewCall(code, driver.Dim{X: uint32(ceil(p.Rows*p.row(), 128)), Y: uint32(y),
		Z: uint32(ceil(volume(sizes), y))}, args...)
}

// ZeroPoints returns the launch that writes the table for the byte rows of a product, m, to a buffer of 8 bytes per
// row. A row of the table has the sum of the row's numbers minus times its zero point, and the zero point. times is
// K for A, and 0 for B. zero has the zero points: none, one, or with each one per row of a matrix.
func (p Packing) ZeroPoints(to Buffer, m Matrix, signed bool, zero Buffer, each bool, times int) (Matrix, Call) {
	code := New("zero_points", 128, func(k *ptx.Kernel) {
		all, rows, words, row := k.U32Param("all"), k.U32Param("rows"), k.U32Param("words"), k.U32Param("row")
		x, y, count := k.PtrParam("x"), k.PtrParam("y"), k.U32Param("times")
		var zeros ptx.Addr
		if zero != 0 {
			zeros = k.PtrParam("zeros")
		}
		byteOf := func(v ptx.U32, i int) ptx.U32 {
			v = v.Shl(ptx.U(24 - 8*i))
			if signed {
				return v.S32().Shr(ptx.U(24)).U32()
			}
			return v.Shr(ptx.U(24))
		}
		i := k.BlockX().MAD(ptx.U(4), k.ThreadX().Shr(ptx.U(5))) // one warp per row
		k.If(i.Ge(all), k.Return)
		from := x.Index64(i.MulWide(row), 4)
		sum := k.VarU32(ptx.U(0))
		k.For(k.Lane(), words, ptx.U(32), func(w ptx.U32) {
			v := from.Index(w, 4).LoadU32(0)
			for e := range 4 {
				sum.Set(sum.Add(byteOf(v, e)))
			}
		})
		for by := 16; by > 0; by /= 2 {
			sum.Set(sum.Add(sum.ShuffleXor(ptx.U(by))))
		}
		point := ptx.U(0)
		if zero != 0 {
			at := zeros
			if each {
				at = zeros.Index(i.Rem(rows), 1)
			}
			point = byteOf(at.LoadU8(0), 0)
		}
		k.If(k.Lane().Eq(ptx.U(0)), func() { y.Index(i, 8).StoreU32s(0, sum.Sub(count.Mul(point)), point) })
	})
	args := []Arg{U32(p.Stack()), U32(p.Rows), U32(p.Words()), U32(m.Row), Ptr(m.Buffer), Ptr(to), U32(times)}
	if zero != 0 {
		args = append(args, Ptr(zero))
	}
	return p.stacked(to, 2), NewCall(code, driver.Dim{X: uint32(ceil(p.Stack(), 4)), Y: 1, Z: 1}, args...)
}
