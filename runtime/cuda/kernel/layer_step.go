package kernel

import "github.com/essmc/essmc/runtime/cuda/ptx"

// layerStep computes one step of a layer for many samples: rows of its tiles are samples. States are float64 here.
func layerStep(f LayerForm) *Code {
	return New("layer_step", layerThreads, func(k *ptx.Kernel) {
		l := newLayerFrame(f, k, 4*f.steps()*layerChunk)
		powers, first, last, y := k.PtrParam("powers"), k.PtrParam("first"), k.PtrParam("last"), k.PtrParam("y")
		nothing := func(ptx.Shared, ptx.U32) {}
		l.main(y, nothing, nothing, func(v [][][4]ptx.F32, chunk ptx.U32) {
			for c := range v[0] {
				for p := range 2 {
					l.stepState(v, chunk, c, p, powers, first, last)
				}
			}
		})
	})
}

// stepState advances a state of each of the thread's samples.
func (l *layerFrame) stepState(v [][][4]ptx.F32, chunk ptx.U32, c, p int, powers, first, last ptx.Addr) {
	k, n := l.k, l.f.States
	j := l.stateIndex(chunk, c, p)
	there := j.Lt(ptx.U(n))
	var x [4]ptx.F64 // ā and the weight of the input: real and imaginary parts
	at := powers.Index(j, 8)
	for i := range x {
		x[i] = k.VarF64(ptx.D(0))
		k.Guard(there, func() { x[i].Set(at.ConstF64(8 * n * i)) })
	}
	a, b := complexF64{x[0], x[1]}, complexF64{x[2], x[3]}
	offset := l.table.Index(j, 4).ConstF32(4 * (l.places.states + (layerRows-1)*l.f.padded()))
	size := 8
	if l.f.State32 {
		size = 4
	}
	keep, from := last.U64().Ne(ptx.L(0)), first.U64().Ne(ptx.L(0))
	for i := range v {
		for half := range 2 {
			sample := l.step(i, half)
			live := there.And(sample.Lt(l.length))
			place := sample.MulWide(ptx.U(2 * n)).Add(j.Wide())
			z := varComplex(k)
			old := first.Index64(place, size)
			k.Guard(live.And(from), func() {
				if l.f.State32 {
					z.set(complexF64{old.LoadF32(0).F64(), old.LoadF32(size * n).F64()})
				} else {
					z.set(complexF64{old.LoadF64(0), old.LoadF64(size * n)})
				}
			})
			u := v[i][c][2*half+p].Add(offset).F64()
			next := a.fma(z, complexF64{b.re.Mul(u), b.im.Mul(u)})
			to := last.Index64(place, size)
			k.Guard(live.And(keep), func() {
				if l.f.State32 {
					to.StoreF32(0, next.re.F32())
					to.StoreF32(size*n, next.im.F32())
				} else {
					to.StoreF64(0, next.re)
					to.StoreF64(size*n, next.im)
				}
			})
			v[i][c][2*half+p] = next.re.F32()
		}
	}
}
