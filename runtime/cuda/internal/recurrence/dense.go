package recurrence

import (
	"fmt"
	"math/bits"
	"sync"

	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "essm.DenseScan", Build: buildDense, Takes: func(s *lowering.Step) bool {
		if !fixed(s, 1, 2) || !singles(s, 0) {
			return false
		}
		n := s.ConstShape(1)[2]
		return n > 0 && n <= kernel.MaxDenseStates
	}})
}

func buildDense(b *record.Builder, s *lowering.Step) bool {
	shape, system := b.Binding.ShapeOf(s, 0), s.ConstShape(1)
	first, last := stateBefore(b, s, 3), at(s.Out, 1)
	single, ok := stateType(b, first, last)
	window := int(s.Node.Attrs.Int("window", 0))
	if first == nil && last == nil && window >= shape[1] {
		window = 0 // no input leaves the window
	}
	forward, backward := directions(s)
	k := kernel.DenseScan{Batch: shape[0], Length: shape[1], Heads: system[0] * system[1], States: system[2], Lags: window,
		State32: single}
	if !ok || shape[2] != k.Heads*k.States || !small(shape[0], shape[1], window, shape[2]) || !small(k.StateSize()) {
		return false
	}
	if scanned(b, noOther); first != nil || last != nil {
		scanned(b, carries)
	} else if convolveDense(b, s, &k, forward, backward) {
		return true
	}
	k.Tables = b.Derived(fmt.Sprint("matrices ", window), func() []byte {
		return kernel.DenseTables(k.Heads, k.States, window, numbers(s, 1), numbers(s, 2))
	}, s)
	k.V, k.X = b.Buffer(s.In[0]), b.Buffer(s.Out[0])
	if forward {
		f := k
		f.First, f.Last = b.Buffer(first), b.Buffer(last)
		b.Launch(f.Calls()...)
	}
	if backward {
		k.Backward, k.Add = true, forward
		b.Launch(k.Calls()...)
	}
	return true
}

const (
	maxDenseTaps = 16 << 20 // maximum of numbers in all kernels of a system
	maxDenseSide = 64       // maximum of states per head; powers of larger matrices cost too much
)

// convolveDense adds a convolution with the kernels of the states, if it is requested or faster than a scan.
func convolveDense(b *record.Builder, s *lowering.Step, k *kernel.DenseScan, forward, backward bool) bool {
	n, taps := k.States, k.Length
	if k.Lags > 0 {
		taps = k.Lags
	}
	if scanned(b, "matrices or lengths are too large for kernels of their powers"); n > maxDenseSide || taps > maxDenseTaps/(n*n*max(1, k.Heads)) || taps < 2 {
		return false
	}
	heads, doublings := k.Heads, bits.Len(uint(taps))-1 // Bounded squares the matrix as often
	if !b.Decided(s, fmt.Sprint("bounded ", doublings), func() bool {
		abar := numbers(s, 1)
		for h := range heads {
			if !kernel.Bounded(abar[h*n*n:(h+1)*n*n], n, 1<<doublings) {
				return false
			}
		}
		return true
	}) {
		scanned(b, essm.OnlyScan)
		return false
	}
	h := matrices{groups: heads, in: n, out: n}
	if forward {
		h.fore = taps
	}
	if backward {
		h.back = taps
	}
	h.taps = func() matrixTaps {
		abar, gamma := numbers(s, 1), numbers(s, 2)
		var responses []func() []float64
		for head := range heads {
			responses = append(responses, sync.OnceValue(func() []float64 {
				return kernel.DenseResponse(abar[head*n*n:(head+1)*n*n], gamma[head*n*n:(head+1)*n*n], n, taps)
			}))
		}
		return func(o, i int, fore, back []float64) {
			row := responses[o/n]()[(o%n*n+i)*taps:][:taps]
			copy(fore, row)
			copy(back, row)
		}
	}
	return h.build(b, s, k.Batch, k.Length, kernel.DenseTime(k.Batch*k.Heads))
}
