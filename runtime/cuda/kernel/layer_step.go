package kernel

import (
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// A tile of a step has few rows, so that even about ten samples keep several multiprocessors busy. If there are
// enough samples for all of them, more rows halve the reads of weights.
const (
	stepRows     = 16
	manyStepRows = 32
	manySamples  = 4096
)

// stepRows returns the number of samples of a tile of a step.
func (l *Layer) stepRows() int {
	if l.Batch >= manySamples {
		return min(manyStepRows, l.steps())
	}
	return stepRows
}

// stepCalls returns the launch of a step.
func (l *Layer) stepCalls() []Call {
	rows := l.stepRows()
	tiles := ceilDiv(l.Batch, rows)
	return []Call{NewCall(layerStep(l.LayerForm, rows), driver.Dim{X: uint32(tiles), Y: 1, Z: 1}, U32(1), U32(l.Batch), U32(tiles),
		Ptr(l.U), Ptr(l.Tables), Ptr(0), Ptr(0), Ptr(l.Powers), Ptr(l.First), Ptr(l.Last), Ptr(l.Y))}
}

// stateSize returns the size of a number of a state, in bytes.
func (f *LayerForm) stateSize() int {
	if f.State32 {
		return 4
	}
	return 8
}

// loadState reads a state whose real part is at a.
func (f *LayerForm) loadState(a ptx.Addr) complexF64 {
	if f.State32 {
		return complexF64{a.LoadF32(0).F64(), a.LoadF32(4 * f.States).F64()}
	}
	return complexF64{a.LoadF64(0), a.LoadF64(8 * f.States)}
}

func (f *LayerForm) storeState(a ptx.Addr, z complexF64) {
	if f.State32 {
		a.StoreF32(0, z.re.F32())
		a.StoreF32(4*f.States, z.im.F32())
	} else {
		a.StoreF64(0, z.re)
		a.StoreF64(8*f.States, z.im)
	}
}

// layerStep returns the kernel for one step of a layer for many samples: rows of its tiles are samples. States are
// float64 in it.
func layerStep(f LayerForm, rows int) *Code {
	return New("layer_step", layerThreads, func(k *ptx.Kernel) {
		l := newLayerFrame(f, k, rows, 4*rows*layerChunk)
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
	size := l.f.stateSize()
	keep, from := last.U64().Ne(ptx.L(0)), first.U64().Ne(ptx.L(0))
	for i := range v {
		for half := range 2 {
			sample := l.step(i, half)
			live := there.And(sample.Lt(l.length))
			place := sample.MulWide(ptx.U(2 * n)).Add(j.Wide())
			z := varComplex(k)
			old := first.Index64(place, size)
			k.Guard(live.And(from), func() {
				z.set(l.f.loadState(old))
			})
			u := v[i][c][2*half+p].Add(offset).F64()
			next := a.fma(z, complexF64{b.re.Mul(u), b.im.Mul(u)})
			to := last.Index64(place, size)
			k.Guard(live.And(keep), func() {
				l.f.storeState(to, next)
			})
			v[i][c][2*half+p] = next.re.F32()
		}
	}
}
