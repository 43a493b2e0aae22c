package kernel

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// Attention is softmax(Scale·Q·Kᵀ + Mask)·V, for each head of each sample, in float32. Its products have
// precision Float32. The matrix of weights is never stored: a block takes 64 queries and iterates over the keys, 32
// at a time. It keeps each query's largest product so far, and rescales sums when that grows. The order of keys is
// fixed. A query without keys gives 0.
//
// Q and Y are (samples, Heads, Queries, …), K and V (samples, KeyHeads, Keys, …); Heads is a multiple of
// KeyHeads. Consecutive heads share keys.
type Attention struct {
	Q, K, V, Y                   Heads
	Samples, HeadCount, KeyHeads int
	Queries, Keys                int
	Features, Values             int // per query and key; per value: at most MostFeatures
	Scale                        float32
	Causal                       bool
	Past                         int    // causal: query i sees keys up to i + Past
	Mask                         *Heads // added: rows are queries, and keys are contiguous; nil for none
	MaskBool                     bool   // the mask has bytes, 0 for hidden keys
}

// Heads is a tensor of samples, heads and rows. Strides are in elements; the numbers of a row are contiguous.
type Heads struct {
	Buffer            Buffer
	Sample, Head, Row int
}

// MostFeatures is the maximum number of features for Attention.
const MostFeatures = 128

const (
	attentionQueries = 64
	attentionKeys    = 32
)

// attentionForm is everything that the text of the kernel depends on.
type attentionForm struct {
	features, values int // rounded up to 8
	wide             bool
	causal           bool
	mask, bools      bool
}

// Calls returns the launches.
func (a Attention) Calls() []Call {
	if a.Samples*a.HeadCount*a.Queries*a.Values == 0 {
		return nil
	}
	f := attentionForm{features: max(8, ceil(a.Features, 8)*8), values: ceil(a.Values, 8) * 8, causal: a.Causal,
		mask: a.Mask != nil, bools: a.MaskBool}
	f.wide = a.Features%4 == 0 && a.Values%4 == 0
	for _, h := range []Heads{a.Q, a.K, a.V} {
		f.wide = f.wide && h.Sample%4 == 0 && h.Head%4 == 0 && h.Row%4 == 0
	}
	args := []Arg{U32(a.Queries), U32(a.Keys), U32(a.Features), U32(a.Values), U32(a.HeadCount / a.KeyHeads), F32(a.Scale),
		U32(a.Past)}
	add := func(h Heads, size int) {
		args = append(args, Ptr(h.Buffer), U64(size*h.Sample), U64(size*h.Head), U64(size*h.Row))
	}
	add(a.Q, 4)
	add(a.K, 4)
	add(a.V, 4)
	add(a.Y, 4)
	if f.mask {
		add(*a.Mask, pick(a.MaskBool, 1, 4))
	}
	return []Call{NewCall(f.code(), driver.Dim{X: uint32(ceil(a.Queries, attentionQueries)), Y: uint32(a.HeadCount),
		Z: uint32(a.Samples)}, args...)}
}

// headRows is a head's rows in a kernel.
type headRows struct {
	base ptx.Addr
	row  ptx.U64 // bytes
}

func (f attentionForm) code() *Code {
	return New(fmt.Sprintf("attention_%d_%d", f.features, f.values), 128, f.build)
}

func (f attentionForm) build(k *ptx.Kernel) {
	queries, keys := k.U32Param("queries"), k.U32Param("keys")
	features, values := k.U32Param("features"), k.U32Param("values")
	share, scale, past := k.U32Param("share"), k.F32Param("scale"), k.U32Param("past")
	sample, head := k.BlockZ(), k.BlockY()
	rows := func(name string, head ptx.U32) headRows {
		base := k.PtrParam(name)
		bySample, byHead, row := k.U64Param(name+"_sample"), k.U64Param(name+"_head"), k.U64Param(name+"_row")
		return headRows{base.Add(sample.Wide().Mul(bySample)).Add(head.Wide().Mul(byHead)), row}
	}
	keyHead := head.Div(share)
	q, ks, v, y := rows("q", head), rows("k", keyHead), rows("v", keyHead), rows("y", head)
	var mask headRows
	if f.mask {
		mask = rows("mask", head)
	}
	strideK, strideV := (f.features+4)*4, (f.values+4)*4
	shared := k.DynamicShared((attentionQueries+attentionKeys)*strideK + attentionKeys*strideV)
	tileQ := shared
	tileK := shared.Add(ptx.U(attentionQueries * strideK))
	tileV := tileK.Add(ptx.U(attentionKeys * strideK))

	first := k.BlockX().Mul(ptx.U(attentionQueries))
	lane := k.Lane()
	g, t := lane.Shr(ptx.U(2)), lane.And(ptx.U(3))
	warp := k.ThreadX().Shr(ptx.U(5)).Shl(ptx.U(4)) // the warp's first query
	query := first.Add(warp).Add(g)
	end := keys
	if f.causal {
		end = first.Add(ptx.U(attentionQueries)).Add(past).Min(keys)
	}

	f.copy(k, q, tileQ, first, queries, features, attentionQueries, f.features)
	some := end.Gt(ptx.U(0))
	k.If(some, func() {
		f.copy(k, ks, tileK, ptx.U(0), keys, features, attentionKeys, f.features)
	})
	k.CommitCopies()
	k.If(some, func() {
		f.copy(k, v, tileV, ptx.U(0), keys, values, attentionKeys, f.values)
	})
	k.CommitCopies()

	inf := float32(math.Inf(1))
	most := [2]ptx.F32{k.VarF32(ptx.F(-inf)), k.VarF32(ptx.F(-inf))}
	total := [2]ptx.F32{k.VarF32(ptx.F(0)), k.VarF32(ptx.F(0))}
	acc := newSums(k, f.values/8)
	fromQ := tileQ.Add(warp.Add(lane.And(ptx.U(15))).MAD(ptx.U(strideK), lane.Shr(ptx.U(4)).Shl(ptx.U(4))))
	fromK := tileK.Add(lane.Shr(ptx.U(4)).Shl(ptx.U(3)).Add(lane.And(ptx.U(7))).MAD(ptx.U(strideK),
		lane.Shr(ptx.U(3)).And(ptx.U(1)).Shl(ptx.U(4))))
	fromV := tileV.Add(t.Shl(ptx.U(1)).MAD(ptx.U(strideV), g.Shl(ptx.U(2))))

	k.For(ptx.U(0), end, ptx.U(attentionKeys), func(at ptx.U32) {
		next := at.Add(ptx.U(attentionKeys))
		k.WaitCopies(1)
		k.Barrier()
		k.Comment("products of 16 queries and 32 keys")
		score := newSums(k, attentionKeys/8)
		k.For(ptx.U(0), ptx.U(f.features*4), ptx.U(32), func(d ptx.U32) {
			ah, al := splitTF32(fromQ.Add(d).LoadMatrix(4, false))
			from := fromK.Add(d)
			for j := 0; j < attentionKeys/8; j += 2 {
				b := from.LoadMatrixAt(j*8*strideK, 4, false)
				for i := range 2 {
					bh, bl := splitTF32(b[2*i:][:2])
					addProduct(k, score[j+i], ah, al, bh, bl)
				}
			}
		})
		k.Barrier()
		k.If(next.Lt(end), func() { f.copy(k, ks, tileK, next, keys, features, attentionKeys, f.features) })
		k.CommitCopies()

		k.Comment("weights")
		for r := range 2 {
			row := query.Add(ptx.U(8 * r))
			largest := ptx.F(-inf)
			for j := range score {
				for i := range 2 {
					key := at.Add(t.Shl(ptx.U(1))).Add(ptx.U(8*j + i))
					s := score[j][2*r+i]
					s.Set(s.Mul(scale))
					in := key.Lt(keys)
					if f.causal {
						in = in.And(key.Le(row.Add(past)))
					}
					if f.mask {
						f.addMask(k, mask, row, key, queries, in, s)
					}
					s.Set(in.SelectF32(s, ptx.F(-inf)))
					if j+i == 0 {
						largest = s
					} else {
						largest = largest.MaxNaN(s)
					}
				}
			}
			for by := 1; by < 4; by *= 2 {
				largest = largest.MaxNaN(largest.ShuffleXor(ptx.U(by)))
			}
			largest = largest.MaxNaN(most[r])
			base := largest.Eq(ptx.F(-inf)).SelectF32(ptx.F(0), largest)
			less := expF32(most[r].Sub(base))
			most[r].Set(largest)
			sum := ptx.F(0)
			for j := range score {
				for i := range 2 {
					s := score[j][2*r+i]
					s.Set(expF32(s.Sub(base)))
					if j+i == 0 {
						sum = s
					} else {
						sum = sum.Add(s)
					}
				}
			}
			total[r].Set(total[r].FMA(less, sum))
			for n := range acc {
				for i := range 2 {
					o := acc[n][2*r+i]
					o.Set(o.Mul(less))
				}
			}
		}

		k.WaitCopies(1)
		k.Barrier()
		k.Comment("their sums of values")
		for j := range score {
			// Key 2t of the 8 is index t along K of the product, and key 2t+1 is index t+4.
			s := score[j]
			ah, al := splitTF32([]ptx.U32{s[0].Bits(), s[2].Bits(), s[1].Bits(), s[3].Bits()})
			for n := range acc {
				off := j*8*strideV + n*32
				bh, bl := splitTF32([]ptx.U32{fromV.LoadU32(off), fromV.LoadU32(off + strideV)})
				addProduct(k, acc[n], ah, al, bh, bl)
			}
		}
		k.Barrier()
		k.If(next.Lt(end), func() { f.copy(k, v, tileV, next, keys, values, attentionKeys, f.values) })
		k.CommitCopies()
	})
	k.WaitCopies(0)

	for r := range 2 {
		sum := total[r]
		for by := 1; by < 4; by *= 2 {
			sum = sum.Add(sum.ShuffleXor(ptx.U(by)))
		}
		row := query.Add(ptx.U(8 * r))
		none := sum.Eq(ptx.F(0))
		k.If(row.Lt(queries), func() {
			to := y.base.Add(row.Wide().Mul(y.row)).Index(t, 8)
			for n := range acc {
				for i := range 2 {
					x := none.SelectF32(ptx.F(0), acc[n][2*r+i].Div(sum))
					k.If(t.Shl(ptx.U(1)).Add(ptx.U(8*n+i)).Lt(values), func() { to.StoreF32(32*n+4*i, x) })
				}
			}
		})
	}
}

// newSums returns zeros for n pieces of 16 × 8.
func newSums(k *ptx.Kernel, n int) [][4]ptx.F32 {
	s := make([][4]ptx.F32, n)
	for i := range s {
		for e := range s[i] {
			s[i][e] = k.VarF32(ptx.F(0))
		}
	}
	return s
}

// addProduct adds a product of pieces given as TF32 parts, small terms first.
func addProduct(k *ptx.Kernel, to [4]ptx.F32, ah, al, bh, bl []ptx.U32) {
	s := newSums(k, 1)[0]
	k.MMATF32(s, [4]ptx.U32(al), [2]ptx.U32(bh))
	k.MMATF32(s, [4]ptx.U32(ah), [2]ptx.U32(bl))
	k.MMATF32(s, [4]ptx.U32(ah), [2]ptx.U32(bh))
	for e := range to {
		to[e].Set(to[e].Add(s[e]))
	}
}

// copy starts copying rows of a head, from first on, to a tile. Numbers beyond the rows become 0.
func (f attentionForm) copy(k *ptx.Kernel, from headRows, to ptx.Shared, first, count, length ptx.U32, rows, wide int) {
	width := pick(f.wide, 4, 1)
	pieces := wide / width
	k.For(k.ThreadX(), ptx.U(rows*pieces), ptx.U(128), func(i ptx.U32) {
		r := i.Div(ptx.U(pieces))
		c := i.Sub(r.Mul(ptx.U(pieces))).Mul(ptx.U(width))
		row := first.Add(r)
		in := row.Lt(count).And(c.Lt(length))
		at := in.SelectAddr(from.base.Add(row.Wide().Mul(from.row)).Index(c, 4), from.base)
		to.Add(r.MAD(ptx.U((wide+4)*4), c.Shl(ptx.U(2)))).CopyAsyncPart(at, 4*width, in.SelectU32(ptx.U(4*width), ptx.U(0)))
	})
}

// addMask adds the mask to s where in is true.
func (f attentionForm) addMask(k *ptx.Kernel, mask headRows, row, key, queries ptx.U32, in ptx.Pred, s ptx.F32) {
	k.If(in.And(row.Lt(queries)), func() {
		at := mask.base.Add(row.Wide().Mul(mask.row))
		if f.bools {
			seen := at.Index(key, 1).LoadU8(0).Ne(ptx.U(0))
			s.Set(seen.SelectF32(s, ptx.F(float32(math.Inf(-1)))))
			return
		}
		s.Set(s.Add(at.Index(key, 4).LoadF32(0)))
	})
}
