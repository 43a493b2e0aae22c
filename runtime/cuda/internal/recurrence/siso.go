package recurrence

import (
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "essm.DPLRScan", Takes: takesDPLR, Build: buildDPLR})
}

// takesSiso reports whether kernel.SisoScan or a convolution supports a system: each head has one input and one
// output, and there is no state with a window, which would contain the inputs of each head.
func takesSiso(s *lowering.Step) bool {
	if !fixed(s, 1, 2, 3, 4, 5, 6, 7, 8, 9) || !singles(s, 0) ||
		s.Node.Attrs.Int("window", 0) != 0 && (at(s.In, 10) != nil || at(s.Out, 1) != nil) {
		return false
	}
	in, out := s.ConstShape(5), s.ConstShape(6) // (C, S, n, h) and (C, S, m, n)
	return in[3] == 1 && out[2] == 1 && in[2] > 0 && in[2] <= kernel.MaxSisoStates
}

// optional returns the content of an input, or zeros if it is absent.
func optional(s *lowering.Step, i, n int) []float64 {
	if s.Absent(i) {
		return make([]float64, n)
	}
	return numbers(s, i)
}

// buildSiso adds the work of a system that takesSiso accepts.
func buildSiso(b *record.Builder, s *lowering.Step) bool {
	in := s.ConstShape(5)
	q := siso{b: b, s: s, inputs: in[1], heads: in[0] * in[1], states: in[2], first: stateBefore(b, s, 10), last: at(s.Out, 1),
		direct: !s.Absent(9)}
	q.forward, q.backward = directions(s)
	q.lags = q.window()
	lags, heads := q.lags, q.heads
	q.system = func(bool) kernel.SisoSystem {
		sys := kernel.SisoSystem{A: pairs(numbers(s, 1), numbers(s, 2)), B: pairs(numbers(s, 3), numbers(s, 4)),
			D: numbers(s, 9), Lags: lags, Heads: heads}
		n := len(sys.A)
		sys.C = pairs(numbers(s, 6), optional(s, 8, n))
		for i, x := range pairs(numbers(s, 5), optional(s, 7, n)) {
			sys.B[i] *= x
		}
		return sys
	}
	q.unstable = func() bool { return slices.ContainsFunc(pairs(numbers(s, 1), numbers(s, 2)), essm.Unstable) }
	return q.build()
}

func takesDPLR(s *lowering.Step) bool {
	if !fixed(s, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12) || !singles(s, 0) {
		return false
	}
	g := s.ConstShape(3) // (N, R, n)
	return g[2] > 0 && g[2] <= kernel.MaxSisoStates && g[1] <= kernel.MaxSisoRank
}

func buildDPLR(b *record.Builder, s *lowering.Step) bool {
	g := s.ConstShape(3)
	two := func(i int) []complex128 { return pairs(numbers(s, i), numbers(s, i+1)) }
	q := siso{b: b, s: s, inputs: g[0], heads: g[0], states: g[2], rank: g[1], forward: true, backward: !s.Absent(11),
		first: stateBefore(b, s, 13), last: at(s.Out, 1)}
	q.lags = q.window()
	lags := q.lags
	q.system = func(backward bool) kernel.SisoSystem {
		sys := kernel.SisoSystem{F: two(1), G: two(3), H: two(5), B: two(7), C: two(9), Lags: lags, Heads: g[0]}
		if backward {
			sys.C = two(11)
		}
		return sys
	}
	q.unstable = func() bool { return slices.ContainsFunc(two(1), essm.UnstableFactor) }
	return q.build()
}

// siso is a system of one input and one output for each head.
type siso struct {
	b                           *record.Builder
	s                           *lowering.Step
	inputs, heads, states, rank int
	lags                        int // of the window
	forward, backward, direct   bool
	first, last                 *lowering.Value
	// They read the inputs of the step, and do not keep the Builder. unstable: powers grow without bound, so a convolution
	// is useful only with a window.
	unstable func() bool
	system   func(backward bool) kernel.SisoSystem
}

// window returns the lags of the window, or 0 if no input leaves it.
func (q siso) window() int {
	window := int(q.s.Node.Attrs.Int("window", 0))
	if q.first == nil && q.last == nil && window >= q.b.Binding.ShapeOf(q.s, 0)[1] {
		return 0
	}
	return window
}

// build adds a convolution, or a scan for each direction. The second scan adds its outputs to those of the first.
func (q siso) build() bool {
	b := q.b
	shape := b.Binding.ShapeOf(q.s, 0)
	switch scanned(b, noOther); {
	case q.first != nil || q.last != nil:
		scanned(b, carries)
	case q.lags == 0 && b.Decided(q.s, "unstable", q.unstable):
		scanned(b, essm.OnlyScan)
	case shape[2] == q.inputs && q.convolve(shape[0], shape[1]):
		return true
	}
	single, ok := stateType(b, q.first, q.last)
	if !ok || shape[2] != q.inputs || !small(shape[0], shape[1], 32*q.heads*(shape[1]/64+2), 2*q.heads*q.states*(2+2*q.rank), q.lags*q.inputs) {
		return false
	}
	for _, backward := range []bool{false, true} {
		if backward && !q.backward || !backward && !q.forward {
			continue
		}
		k := kernel.SisoScan{Batch: shape[0], Length: shape[1], Inputs: q.inputs, Heads: q.heads, States: q.states, Rank: q.rank,
			Lags: q.lags, Backward: backward, Add: backward && q.forward, State32: single, U: b.Buffer(q.s.In[0]), Y: b.Buffer(q.s.Out[0])}
		if !backward {
			k.First, k.Last = b.Buffer(q.first), b.Buffer(q.last)
		}
		direct := q.direct && !k.Add
		system := q.system
		k.Tables = b.Derived(fmt.Sprint("system ", backward, " ", q.lags), func() []byte { return kernel.SisoTables(system(backward)) }, q.s)
		if k.Tiled() {
			exponents := kernel.ScanExponents(k.Tile(), k.Length)
			k.Powers = b.Derived(fmt.Sprint("powers ", exponents), func() []byte {
				return kernel.ScanPowers(system(backward).A, exponents)
			}, q.s)
		}
		k.Scratch = b.Scratch(k.ScratchBytes())
		b.Launch(k.Calls(direct)...)
	}
	return true
}

// convolve adds a convolution with the system's response to an input, if it is requested or faster than a scan.
func (q siso) convolve(batch, length int) bool {
	taps := length
	if q.lags > 0 {
		taps = q.lags
	}
	h := halves{channels: q.heads, inputs: q.inputs, sides: sides{taps, taps}}
	switch {
	case !q.backward:
		h.back = 0
	case !q.forward:
		h.fore = min(taps, 1) // the direct term
	}
	scan := kernel.ScanTime(q.states)
	if q.rank > 0 || q.lags > 0 { // sequentially, step by step
		if scan = 0; length > kernel.ShortScan {
			scan = math.MaxFloat64
		}
	}
	if q.forward && q.backward {
		scan *= 2
	}
	forward, backward, system := q.forward, q.backward, q.system
	h.taps = func() channelTaps {
		sys := [2]kernel.SisoSystem{system(false), system(backward)}
		return func(head int, fore, back []float64) {
			if forward {
				sys[0].Response(head, fore)
			}
			if backward {
				sys[1].Response(head, back)
			}
			if sys[0].D != nil {
				fore[0] += sys[0].D[head]
			}
		}
	}
	return h.build(q.b, q.s, batch, length, scan)
}
