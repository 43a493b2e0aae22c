package recurrence

import (
	"math"

	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "essm.SoftmaxConv",
		Recurrence: record.RecurrenceKind{Make: softmaxRecurrence, Constant: []int{1, 2, 3, 4, 5, 6, 7, 8}}})
}

// softmaxConv is a SoftmaxConv with fixed coefficients. Its kernels are computed in float64 for the length of the
// sequence.
type softmaxConv struct {
	record.RecurrenceInfo
	a, lambda []complex128
	w         [2][]complex128 // of both halves
	n         int
	epsilon   float64
}

func softmaxRecurrence(s *lowering.Step) record.Recurrence {
	dir, window := record.ScanAttrs(s.Node)
	shape := s.ConstShape(1)
	at := func(i int) []complex128 {
		re, im := record.Numbers64(s, i), record.Numbers64(s, i+1)
		return record.Keep(s, []int{i, i + 1}, nil, func() []complex128 { return make([]complex128, len(re)) },
			func(z []complex128) {
				for j, x := range re {
					z[j] = complex(x, im[j])
				}
			})
	}
	c := &softmaxConv{a: at(1), lambda: at(3), w: [2][]complex128{at(5)}, n: shape[1],
		epsilon: s.Node.Attrs.Float("epsilon", 1e-7)}
	if !s.Absent(7) {
		c.w[1] = at(7)
	}
	c.RecurrenceInfo = record.RecurrenceInfo{N: shape[0], Direction: dir, PerHead: 1, Stateless: true,
		Taps: math.MaxInt32, VRe: 0, VIm: -1, State: -1, XRe: 0, XIm: -1, StateOut: -1, Beside: true}
	if window > 0 {
		c.Taps = window
	}
	return c
}

func (c *softmaxConv) Info() *record.RecurrenceInfo { return &c.RecurrenceInfo }

func (c *softmaxConv) Tiled(string, int) record.TileKernel { return nil }

func (c *softmaxConv) Sequence(form string, length int, _ bool) record.SequenceKernel {
	k := &responses{from: c}
	k.setupBeside(&c.RecurrenceInfo, length, false, form == essm.FormFFT)
	return k
}

func (c *softmaxConv) kernels(i int, taps [2][]float32, w *record.Workspace) {
	of := func(z []complex128) []complex128 { return z[i*c.n : (i+1)*c.n] }
	for half, to := range taps {
		if to == nil {
			continue
		}
		k := essm.NewSoftmaxKernel(nil, of(c.a), of(c.lambda), of(c.w[half]), len(to), c.epsilon)
		var block [stepsUnchecked]float64
		for t := 0; t < len(to) && !w.Stopped(); t += len(block) {
			part := to[t:min(t+len(block), len(to))]
			k.Block(t, block[:len(part)])
			for i := range part {
				part[i] = float32(block[i])
			}
		}
	}
}

// free returns false, because there are no states.
func (c *softmaxConv) free(int, *record.Sequence, []float32, []float64) bool { return false }
