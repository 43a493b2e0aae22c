package kernel

import (
	"fmt"

	"github.com/essmc/essmc/runtime/cuda/ptx"
)

func (f *productForm) name() string { return fmt.Sprintf("product_%dx%d", f.m, f.n) }

// code returns the kernel of a form.
func (f productForm) code() *Code {
	return New(f.name(), f.threads(), func(k *ptx.Kernel) {
		f.build(k)
	})
}

func (f *productForm) build(k *ptx.Kernel) {
	m, n, depth := k.U32Param("m"), k.U32Param("n"), k.U32Param("k")
	across, perPart, part := k.U32Param("across"), k.U32Param("tiles"), k.U32Param("part")
	batch := batchParams(k, f.batch)
	block := k.BlockX()
	var first, end ptx.U32 // along K
	first, end = ptx.U(0), depth
	var which ptx.U32
	if f.split {
		which = block.Div(perPart)
		block = block.Sub(which.Mul(perPart))
		first = which.Mul(part).Min(depth)
		end = first.Add(part).Min(depth)
	}
	tm := block.Div(across)
	tn := block.Sub(tm.Mul(across))
	row0, col0 := tm.Mul(ptx.U(f.m)), tn.Mul(ptx.U(f.n))

	a := newOperand(k, "a", f.a, batch, f.m, f.threads(), row0, m, end)
	b := newOperand(k, "b", f.b, batch, f.n, f.threads(), col0, n, end)
	c := matrixParams(k, "c", batch)
	if f.split {
		c.base = c.base.Add(which.Wide().Mul(k.U64Param("part_bytes")))
	}
	tail := f.tailParams(k, batch, m)
	var zeros [2]place
	if f.zeros {
		zeros = [2]place{matrixParams(k, "zeros_a", batch), matrixParams(k, "zeros_b", batch)}
	}

	var requantized requantizer
	if f.requantized != nil {
		requantized = f.requantized.params(k, batch.flat.Mul(m))
	}

	stage := a.bytes() + b.bytes()
	shared := k.DynamicShared(max(f.stages*stage, f.m*(f.n+8)*4))
	warp := k.ThreadX().Shr(ptx.U(5))
	wm := f.m / f.warpsM
	wn := f.n / f.warpsN
	warpM, warpN := warp.Rem(ptx.U(f.warpsM)).Mul(ptx.U(wm)), warp.Div(ptx.U(f.warpsM)).Mul(ptx.U(wn))
	fa, fb := a.fragmentsA(warpM), b.fragmentsB(warpN)

	var acc [][][4]ptx.F32
	var whole [][][4]ptx.U32 // for products of integers
	if f.precision.integers() {
		whole = sumTiles(wm/16, wn/8, func() ptx.U32 { return k.VarU32(ptx.U(0)) })
	} else {
		acc = sumTiles(wm/16, wn/8, func() ptx.F32 { return k.VarF32(ptx.F(0)) })
	}

	k.Comment("the first stages")
	next := k.VarU32(first)
	load := func(to ptx.Shared) {
		k.If(next.Lt(end), func() {
			a.copy(next, to)
			b.copy(next, to.Add(ptx.U(a.bytes())))
		})
		next.Set(next.Add(ptx.U(tileK)))
		k.CommitCopies()
	}
	k.For(ptx.U(0), ptx.U((f.stages-1)*stage), ptx.U(stage), func(s ptx.U32) { load(shared.Add(s)) })
	read, write := k.VarU32(ptx.U(0)), k.VarU32(ptx.U((f.stages-1)*stage))
	wrap := func(x ptx.U32) {
		y := x.Add(ptx.U(stage))
		x.Set(y.Eq(ptx.U(f.stages*stage)).SelectU32(ptx.U(0), y))
	}
	k.For(first, end, ptx.U(tileK), func(ptx.U32) {
		k.WaitCopies(f.stages - 2)
		k.Barrier()
		load(shared.Add(write))
		at := shared.Add(read)
		if f.precision.words() {
			f.multiplyWords(k, acc, whole, fa, fb, at, at.Add(ptx.U(a.bytes())))
		} else {
			f.multiply(k, acc, fa, fb, at, at.Add(ptx.U(a.bytes())))
		}
		wrap(read)
		wrap(write)
	})
	k.WaitCopies(0)
	k.Barrier()

	k.Comment("the tile, by way of shared memory, in order of rows")
	stride := (f.n + 8) * 4
	lane := k.Lane()
	at := shared.Add(warpM.Add(lane.Shr(ptx.U(2))).Mul(ptx.U(stride))).Add(
		warpN.Add(lane.And(ptx.U(3)).Shl(ptx.U(1))).Shl(ptx.U(2)))
	for i := range acc {
		for j := range acc[i] {
			at.StoreF32s(i*16*stride+j*32, acc[i][j][0], acc[i][j][1])
			at.StoreF32s((i*16+8)*stride+j*32, acc[i][j][2], acc[i][j][3])
		}
	}
	for i := range whole {
		for j, x := range whole[i] {
			at.StoreU32s(i*16*stride+j*32, x[0], x[1])
			at.StoreU32s((i*16+8)*stride+j*32, x[2], x[3])
		}
	}
	k.Barrier()
	width := 1
	if f.wide {
		width = 4
	} else if f.pairs {
		width = 2
	}
	pieces := f.n / width
	piece := k.ThreadX().Rem(ptx.U(pieces))
	col := col0.Add(piece.Mul(ptx.U(width)))
	from := shared.Add(piece.Mul(ptx.U(4 * width)))
	k.If(col.Lt(n), func() {
		k.For(k.ThreadX().Div(ptx.U(pieces)), m.Sub(row0).Min(ptx.U(f.m)), ptx.U(f.threads()/pieces), func(r ptx.U32) {
			row := row0.Add(r)
			if f.precision.integers() {
				f.storeWhole(c.at(row, col), from.Index(r, stride), width, row, col, zeros, requantized)
				return
			}
			var x []ptx.F32
			if s := from.Index(r, stride); width == 1 {
				x = []ptx.F32{s.LoadF32(0)}
			} else {
				x = s.LoadF32s(0, width)
			}
			if !f.precision.words() {
				k.If(notFinite(k, x), func() {
					for i := range x {
						x[i].Set(ptx.F(0))
						k.For(first, end, ptx.U(1), func(d ptx.U32) {
							x[i].Set(a.element(row, d).FMA(b.element(col.Add(ptx.U(i)).Min(n.Sub(ptx.U(1))), d), x[i]))
						})
					}
				})
			}
			y := tail(row, col, x)
			to := col
			if f.pairs {
				to = col.Shr(ptx.U(1))
			}
			f.store(c.at(row, to), y)
		})
	})
}

// notFinite turns numbers into variables, and reports whether any of them is infinite or NaN.
func notFinite(k *ptx.Kernel, x []ptx.F32) ptx.Pred {
	zero := ptx.F(0)
	for i := range x {
		x[i] = k.VarF32(x[i])
		if i == 0 {
			zero = x[0].Mul(ptx.F(0))
		} else {
			zero = x[i].FMA(ptx.F(0), zero)
		}
	}
	return zero.IsNaN()
}

// sumTiles returns zeros for a warp's sums: rows × columns tiles.
func sumTiles[T any](rows, columns int, zero func() T) [][][4]T {
	all := make([][][4]T, rows)
	for i := range all {
		all[i] = make([][4]T, columns)
		for j := range all[i] {
			for e := range all[i][j] {
				all[i][j][e] = zero()
			}
		}
	}
	return all
}

// multiply adds the product of the tiles at a and b.
func (f *productForm) multiply(k *ptx.Kernel, acc [][][4]ptx.F32, fa, fb fragments, a, b ptx.Shared) {
	const step = 8
	for ks := 0; ks < tileK; ks += step {
		if f.precision == BF16 && ks%16 != 0 {
			continue
		}
		nb := len(acc[0])
		high, low := make([][]ptx.U32, nb), make([][]ptx.U32, nb)
		for j := range nb {
			high[j], low[j] = f.factor(fb.load(b, ks, j), func() []ptx.U32 { return fb.load(b, ks+step, j) })
		}
		for i := range acc {
			ah, al := f.factor(fa.load(a, ks, i), func() []ptx.U32 { return fa.load(a, ks+step, i) })
			ah4 := [4]ptx.U32(ah)
			switch f.precision {
			case BF16:
				for j := range nb {
					k.MMABF16(acc[i][j], ah4, [2]ptx.U32(high[j]))
				}
			case TF32:
				for j := range nb {
					k.MMATF32(acc[i][j], ah4, [2]ptx.U32(high[j]))
				}
			default:
				sums := make([][4]ptx.F32, nb)
				for j := range sums {
					sums[j] = zeroTile(k)
					k.MMATF32(sums[j], [4]ptx.U32(al), [2]ptx.U32(high[j]))
				}
				for j := range sums {
					k.MMATF32(sums[j], ah4, [2]ptx.U32(low[j]))
				}
				for j := range sums {
					k.MMATF32(sums[j], ah4, [2]ptx.U32(high[j]))
				}
				for j := range sums {
					for e, x := range acc[i][j] {
						x.Set(x.Add(sums[j][e]))
					}
				}
			}
		}
	}
}

// factor returns the tensor core operand for float32 numbers; for BF16 it also takes the numbers 8 further along K.
// Any order along K is correct if A and B share it.
func (f *productForm) factor(x []ptx.U32, next func() []ptx.U32) (high, low []ptx.U32) {
	switch f.precision {
	case BF16:
		y := next()
		half := len(x) / 2
		for _, v := range [][]ptx.U32{x, y} {
			for i := range half {
				high = append(high, ptx.PackBF16(v[i].Float(), v[i+half].Float()))
			}
		}
		return high, nil
	case TF32:
		for _, v := range x {
			high = append(high, v.Float().TF32())
		}
		return high, nil
	}
	return splitTF32(x)
}
