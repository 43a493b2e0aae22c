package kernel

import (
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// A step of a layer for few samples, as in a stream, is bound by the bytes of the weights. Its kernels therefore
// spread the weights over blocks, and read each number once:
//
//	layer_few_states   v = B u, and the next states
//	layer_few_out      C x + D u, with the stages up to the first product
//	layer_few_product  a product, with the stages up to the next one
//
// A block computes 16 rows of a matrix (a unit) for all samples. Its warps take turns in processing blocks of 8
// columns. A lane sums its numbers by fma; then lanes are added by halves, and warps in order.

const (
	layerFew   = 8   // maximum number of samples for these kernels
	fewBlocks  = 128 // blocks of columns whose operand is in shared memory at once
	fewColumns = 8 * fewBlocks
)

// few reports whether the kernels for few samples compute the layer.
func (l *Layer) few() bool { return l.Length == 1 && l.Forward && !l.Backward && l.Batch <= layerFew }

// fewRows returns the number of samples that kernels are compiled for.
func (l *Layer) fewRows() int {
	rows := 1
	for rows < l.Batch {
		rows *= 2
	}
	return rows
}

// fewBytes returns the size of the scratch memory: states, then results of all phases but the last.
func (l *Layer) fewBytes() int { return 4 * l.Batch * (l.States + (len(l.phases())-1)*l.Features) }

// phases returns the first stage of each kernel after the states. The first kernel computes the stages up to the
// first product.
func (f *LayerForm) phases() (first []int) {
	first = []int{0}
	for i, s := range f.Stages {
		if s.Product {
			first = append(first, i)
		}
	}
	return first
}

// phaseEnd returns the end of the stages that start with first: the next product.
func (f *LayerForm) phaseEnd(first int, product bool) int {
	end := first
	if product {
		end++
	}
	for end < len(f.Stages) && !f.Stages[end].Product {
		end++
	}
	return end
}

// pairs returns the number of units of a warp's columns: pairs of tiles, the last of which may be single.
func (f *LayerForm) pairs() int { return ceilDiv(f.tiles(), 2) }

func (l *Layer) fewCalls() []Call {
	rows, phases := l.fewRows(), l.phases()
	states := ceilDiv(l.States, 16)
	args := []Arg{U32(l.Batch), Ptr(l.U), Ptr(l.Tables)}
	grid := func(n int) driver.Dim { return driver.Dim{X: uint32(n), Y: 1, Z: 1} }
	calls := []Call{NewCall(layerFewStates(l.LayerForm, rows), grid(states), append(args, Ptr(l.Powers), Ptr(l.First),
		Ptr(l.Last), Ptr(l.Scratch))...)}
	from, at := Ptr(l.Scratch), 4*l.Batch*l.States
	for i, first := range phases {
		to := PtrAt(l.Scratch, at)
		at += 4 * l.Batch * l.Features
		if i == len(phases)-1 {
			to = Ptr(l.Y)
		}
		calls = append(calls, NewCall(layerFewPhase(l.LayerForm, rows, i > 0, first), grid(layerWarps*l.pairs()),
			append(args, from, to)...))
		from = to
	}
	return calls
}

// fewFrame is what the kernels for few samples have in common.
type fewFrame struct {
	f            LayerForm
	k            *ptx.Kernel
	places       layerPlaces
	rows         int // number of samples
	batch        ptx.U32
	u, table     ptx.Addr
	lane, warp   ptx.U32
	operand, sum ptx.Shared // (rows, fewColumns); (layerWarps, rows, 16)
}

func newFewFrame(f LayerForm, k *ptx.Kernel, rows int) *fewFrame {
	p, _ := f.layout(nil)
	return &fewFrame{f: f, k: k, places: p, rows: rows, batch: k.U32Param("batch"), u: k.PtrParam("u"),
		table: k.PtrParam("table"), lane: k.ThreadX().And(ptx.U(31)), warp: k.ThreadX().Shr(ptx.U(5)),
		operand: k.SharedArray(4*rows*fewColumns, 16), sum: k.SharedArray(4*layerWarps*rows*16, 16)}
}

// fewRange is a part of a unit's product: blocks first to end of columns. weights is the address of the first
// block's weights, and stride the bytes between blocks.
type fewRange struct {
	first, end ptx.U32
	weights    ptx.Addr
	stride     int
	alone      ptx.Pred // the unit is a single tile
	odd, even  bool     // whether single-tile units and others exist
}

// multiply computes a unit's product with rows of columns numbers from x on. It calls then with each result, in one
// thread per sample and row of the unit.
func (l *fewFrame) multiply(x ptx.Addr, columns int, r fewRange, then func(sample, row ptx.U32, v ptx.F32)) {
	k := l.k
	t := l.lane.And(ptx.U(3))
	acc := make([][2]ptx.F32, l.rows)
	for s := range acc {
		acc[s] = [2]ptx.F32{k.VarF32(ptx.F(0)), k.VarF32(ptx.F(0))}
	}
	k.For(r.first, r.end, ptx.U(fewBlocks), func(base ptx.U32) {
		top := base.Add(ptx.U(fewBlocks)).Min(r.end)
		k.Barrier()
		l.stage(x, columns, base, top)
		k.Barrier()
		k.For(base.Add(l.warp), top, ptx.U(layerWarps), func(q ptx.U32) {
			at := l.operand.Index(q.Sub(base), 32).Index(t, 8)
			from := r.weights.Index(q.Sub(r.first), r.stride)
			add := func(w []ptx.F32) {
				for s := range acc {
					v := at.LoadF32s(4*fewColumns*s, 2)
					for i := range len(w) / 2 {
						acc[s][i].Set(w[2*i].FMA(v[0], acc[s][i]))
						acc[s][i].Set(w[2*i+1].FMA(v[1], acc[s][i]))
					}
				}
			}
			two := func() { add(from.Index(l.lane, 16).ConstF32s(0, 4)) }
			one := func() { add(from.Index(l.lane, 8).ConstF32s(0, 2)) }
			switch {
			case !r.odd:
				two()
			case !r.even:
				one()
			default:
				k.IfElse(r.alone, one, two)
			}
		})
	})
	to := l.sum.Index(l.warp, 4*l.rows*16).Index(l.lane.Shr(ptx.U(2)), 4)
	for s := range acc {
		for i, v := range acc[s] {
			v = v.Add(v.ShuffleXor(ptx.U(1)))
			v = v.Add(v.ShuffleXor(ptx.U(2)))
			k.Guard(t.Eq(ptx.U(0)), func() { to.StoreF32(4*(16*s+8*i), v) })
		}
	}
	k.Barrier()
	k.If(k.ThreadX().Lt(ptx.U(16*l.rows)), func() {
		at := l.sum.Index(k.ThreadX(), 4)
		v := at.LoadF32(0)
		for w := 1; w < layerWarps; w++ {
			v = v.Add(at.LoadF32(4 * 16 * l.rows * w))
		}
		sample := k.ThreadX().Shr(ptx.U(4))
		k.If(sample.Lt(l.batch), func() { then(sample, k.ThreadX().And(ptx.U(15)), v) })
	})
}

// stage copies blocks base to top of columns of all samples to shared memory, with 0 beyond the columns. Columns c
// and c + 4 of a block are neighbours there, as a lane needs them.
func (l *fewFrame) stage(x ptx.Addr, columns int, base, top ptx.U32) {
	k := l.k
	count := top.Sub(base).Shl(ptx.U(2))
	for s := range l.rows {
		row := x.Index64(l.batch.Sub(ptx.U(1)).Min(ptx.U(s)).MulWide(ptx.U(columns)), 4)
		k.For(k.ThreadX(), count, ptx.U(layerThreads), func(i ptx.U32) {
			c := base.Add(i.Shr(ptx.U(2))).MAD(ptx.U(8), i.And(ptx.U(3)))
			from := row.Index(c, 4)
			var v [2]ptx.F32
			for p := range v {
				v[p] = k.VarF32(ptx.F(0))
				k.Guard(c.Add(ptx.U(4*p)).Lt(ptx.U(columns)), func() { v[p].Set(from.LoadF32(16 * p)) })
			}
			l.operand.Index(i, 8).StoreF32s(4*fewColumns*s, v[0], v[1])
		})
	}
}

// layerFewStates returns the kernel that advances the states of few samples, and writes their real parts in float32.
// A unit is 16 states.
func layerFewStates(f LayerForm, rows int) *Code {
	return New("layer_few_states", layerThreads, func(k *ptx.Kernel) {
		k.MinBlocks = 1 // otherwise the compiler spills a register to fit one more block
		l := newFewFrame(f, k, rows)
		powers, first, last, x := k.PtrParam("powers"), k.PtrParam("first"), k.PtrParam("last"), k.PtrParam("x")
		unit, n := k.BlockX(), f.States
		at := l.table.Index(unit, 12).Add(ptx.L(uint64(4 * l.places.inRange)))
		r := fewRange{first: at.ConstU32(0), end: at.ConstU32(4), weights: l.table.Index(at.ConstU32(8), 4), stride: 512, even: true}
		l.multiply(l.u, f.Features, r, func(sample, row ptx.U32, v ptx.F32) {
			j := unit.MAD(ptx.U(16), row)
			k.If(j.Lt(ptx.U(n)), func() {
				p := powers.Index(j, 8)
				a := complexF64{p.ConstF64(0), p.ConstF64(8 * n)}
				u := v.Add(l.table.Index(j, 4).ConstF32(4 * (l.places.states + (layerRows-1)*f.padded()))).F64()
				in := complexF64{p.ConstF64(16 * n).Mul(u), p.ConstF64(24 * n).Mul(u)}
				next := f.step(k, a, in, sample, j, first, last)
				x.Index64(sample.MulWide(ptx.U(n)).Add(j.Wide()), 4).StoreF32(0, next.re.F32())
			})
		})
	})
}

// step returns the state after a step: a·z + in, with the state z from first. It is also written to last.
func (f *LayerForm) step(k *ptx.Kernel, a, in complexF64, sample, j ptx.U32, first, last ptx.Addr) complexF64 {
	place := sample.MulWide(ptx.U(2 * f.States)).Add(j.Wide())
	size := f.stateSize()
	z := varComplex(k)
	k.If(first.U64().Ne(ptx.L(0)), func() { z.set(f.loadState(first.Index64(place, size))) })
	next := a.fma(z, in)
	k.If(last.U64().Ne(ptx.L(0)), func() { f.storeState(last.Index64(place, size), next) })
	return next
}

// layerFewPhase returns the kernel that computes results from states, or from the results of the previous phase:
// stages from first on.
func layerFewPhase(f LayerForm, rows int, product bool, first int) *Code {
	name := "layer_few_out"
	if product {
		name = "layer_few_product"
	}
	return New(name, layerThreads, func(k *ptx.Kernel) {
		k.MinBlocks = 1 // otherwise the compiler spills a register to fit one more block
		l := newFewFrame(f, k, rows)
		x, y := k.PtrParam("x"), k.PtrParam("y")
		width, tiles, h := f.width(), f.tiles(), f.Features
		group := k.BlockX().Div(ptx.U(f.pairs()))
		pair := k.BlockX().Sub(group.Mul(ptx.U(f.pairs())))
		begin := group.MAD(ptx.U(tiles), pair.Shl(ptx.U(1))).Shl(ptx.U(3))
		k.If(begin.Ge(ptx.U(h)), k.Return)
		r := fewRange{stride: 256 * tiles, odd: tiles%2 == 1, even: tiles > 1, alone: pair.Eq(ptx.U(tiles / 2))}
		columns := f.States
		if product {
			columns = h
			r.first, r.end = ptx.U(0), ptx.U(layerBlocks(&f))
			r.weights = l.table.Index(group, 4*64*tiles*width/8).Add(ptx.L(uint64(4 * l.places.product[first])))
		} else {
			at := l.table.Index(group, 12).Add(ptx.L(uint64(4 * l.places.outRange)))
			r.first, r.end, r.weights = at.ConstU32(0), at.ConstU32(4), l.table.Index(at.ConstU32(8), 4)
		}
		r.weights = r.weights.Index(pair, 512)
		l.multiply(x, columns, r, func(sample, row ptx.U32, v ptx.F32) {
			column := begin.Add(row)
			there := column.Lt(ptx.U(h))
			if r.odd {
				there = there.And(row.Lt(ptx.U(8)).Or(r.alone.Not()))
			}
			k.If(there, func() {
				place := sample.MulWide(ptx.U(h)).Add(column.Wide())
				u := l.u.Index64(place, 4).LoadF32(0)
				number := func(at int) ptx.F32 { return l.table.Index(column, 4).ConstF32(4 * at) }
				end := f.phaseEnd(first, product)
				now := v
				if !product {
					now = number(l.places.direct).FMA(u, v.Add(number(l.places.direct+width)))
				}
				for i := first; i < end; i++ {
					began := now
					if product && i == first {
						began = x.Index64(place, 4).LoadF32(0)
						now = v.Add(number(l.places.product[i] + layerWarps*width/8*64*tiles))
					}
					in := []ptx.F32{now, began, u}
					for n := range f.Stages[i].Numbers {
						in = append(in, number(l.places.numbers[i]+n*width))
					}
					now = Expression(k, f.Stages[i].Element, in...)
				}
				y.Index64(place, 4).StoreF32(0, now)
			})
		})
	})
}
