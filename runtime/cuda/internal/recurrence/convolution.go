package recurrence

import (
	"math"
	"slices"

	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "essm.LongConv", Build: buildLongConv,
			Takes: func(s *lowering.Step) bool { return fixed(s, 1) && singles(s, 0) }},
		record.Record{Op: "essm.MatrixConv", Build: buildMatrixConv, Takes: func(s *lowering.Step) bool {
			return fixed(s, 1) && singles(s, 0) && s.ConstShape(1)[2] >= leastMatrixTaps
		}},
		record.Record{Op: "essm.ContinuousConv", Build: buildContinuousConv,
			Takes: func(s *lowering.Step) bool { return fixed(s, 1, 2, 3, 4, 5, 6, 7, 8) && singles(s, 0) }},
		record.Record{Op: "essm.SoftmaxConv", Build: buildSoftmaxConv,
			Takes: func(s *lowering.Step) bool { return fixed(s, 1, 2, 3, 4, 5, 6, 7, 8) && singles(s, 0) }},
	)
}

// leastMatrixTaps is the minimum number of taps for a convolution with matrices here. Shorter ones become a Conv,
// whose products run on tensor cores.
const leastMatrixTaps = 32

// convolved reports whether the options request convolutions.
func convolved(b *record.Builder) bool {
	form := b.Binding.Program.Config.Kernel
	return form == essm.FormFFT || form == essm.FormDirect
}

// sides are the numbers of taps for the current and earlier inputs, and for later ones.
type sides struct{ fore, back int }

// joined returns a kernel as one list, in the order of package kernel. taps fills both sides, starting at the
// current step.
func (s sides) joined(taps func(fore, back []float64)) []float64 {
	all := make([]float64, s.fore+s.back)
	back := all[:s.back]
	taps(all[s.back:], back)
	slices.Reverse(back)
	return all
}

// cut removes the taps that never meet an input.
func (s *sides) cut(length int) { s.fore, s.back = min(s.fore, length), min(s.back, length) }

// halves is a convolution of each channel with its own kernel.
type halves struct {
	sides
	channels, inputs int // channel i reads input i mod inputs
	taps             func() channelTaps
}

// channelTaps sets the kernel of a channel. A function that returns one reads the constant and settled inputs of a step; it
// must not keep the Builder.
type channelTaps func(channel int, fore, back []float64)

// build adds the convolution to a step of one input and one output, if it is requested or estimated to take less
// than other picoseconds per number.
func (h halves) build(b *record.Builder, s *lowering.Step, batch, length int, other float64) bool {
	h.cut(length)
	c := kernel.Convolution{Batch: batch, Length: length, Inputs: h.inputs, Channels: h.channels, Taps: h.fore + h.back,
		Ahead: h.back}
	if batch*length*h.channels == 0 {
		return true
	}
	if h.fore+h.back == 0 {
		b.Fill(b.Buffer(s.Out[0]), 0, b.Bytes(s.Out[0]))
		return true
	}
	if !c.Fits() {
		return false
	}
	transforms, ok := choose(b, &c, other)
	if !ok {
		return false
	}
	c.U, c.Y = b.Buffer(s.In[0]), b.Buffer(s.Out[0])
	taps := func() func(int) []float64 {
		set := h.taps()
		return func(i int) []float64 {
			return h.joined(func(fore, back []float64) { set(i, fore, back) })
		}
	}
	b.Launch(c.Calls(transforms, "", taps, memoryOf(b, s))...)
	return true
}

// memoryOf returns the memory of the kernels of a step.
func memoryOf(b *record.Builder, s *lowering.Step) kernel.Memory {
	return kernel.Memory{Scratch: b.Scratch, Constant: b.Constant, Derived: func(key string, make func() []byte) kernel.Buffer {
		return b.Derived(key, make, s)
	}}
}

// matrices is a convolution with one kernel per pair of an output and an input of a group.
type matrices struct {
	sides
	groups, in, out int
	taps            func() matrixTaps
}

// matrixTaps is channelTaps for a pair.
type matrixTaps func(output, input int, fore, back []float64)

// build adds the convolution, under the same conditions as for halves.
func (h matrices) build(b *record.Builder, s *lowering.Step, batch, length int, other float64) bool {
	h.cut(length)
	c := kernel.MatrixConvolution{Batch: batch, Length: length, Groups: h.groups, In: h.in, Out: h.out, Taps: h.fore + h.back,
		Ahead: h.back}
	if batch*length*h.groups*h.out == 0 {
		return true
	}
	if c.Taps == 0 || h.in == 0 {
		b.Fill(b.Buffer(s.Out[0]), 0, b.Bytes(s.Out[0]))
		return true
	}
	if !c.Fits() {
		return false
	}
	transforms, ok := choose(b, &c, other)
	if !ok {
		return false
	}
	c.U, c.Y = b.Buffer(s.In[0]), b.Buffer(s.Out[0])
	taps := func() func(int, int) []float64 {
		set := h.taps()
		return func(o, i int) []float64 {
			return h.joined(func(fore, back []float64) { set(o, i, fore, back) })
		}
	}
	b.Launch(c.Calls(transforms, taps, memoryOf(b, s))...)
	return true
}

func buildLongConv(b *record.Builder, s *lowering.Step) bool {
	shape, k := b.Binding.ShapeOf(s, 0), s.ConstShape(1)
	if k[0] != shape[2] {
		return false
	}
	forward, backward := directions(s)
	h := halves{channels: k[0], inputs: k[0]}
	if forward {
		h.fore = k[1]
	}
	if backward {
		h.back = k[1]
	}
	h.taps = func() channelTaps {
		weights := numbers(s, 1)
		return func(i int, fore, back []float64) {
			row := weights[i*k[1] : (i+1)*k[1]]
			copy(fore, row)
			copy(back, row)
		}
	}
	return h.build(b, s, shape[0], shape[1], math.Inf(1))
}

func buildSoftmaxConv(b *record.Builder, s *lowering.Step) bool {
	shape, n := b.Binding.ShapeOf(s, 0), s.ConstShape(1)
	if n[0] != shape[2] {
		return false
	}
	taps := shape[1]
	if w := int(s.Node.Attrs.Int("window", 0)); w > 0 {
		taps = min(taps, w)
	}
	h := halves{channels: n[0], inputs: n[0], sides: sides{fore: taps}}
	if !s.Absent(7) {
		h.back = taps
	}
	h.taps = func() channelTaps {
		var in [9][]float64
		for i := 1; i < len(in); i++ {
			in[i] = numbers(s, i)
		}
		two := func(i, channel int) []complex128 {
			from, to := channel*n[1], (channel+1)*n[1]
			return pairs(in[i][from:to], in[i+1][from:to])
		}
		return func(i int, fore, back []float64) {
			for half, y := range [][]float64{fore, back} {
				if len(y) == 0 {
					continue
				}
				k := essm.NewSoftmaxKernel(nil, two(1, i), two(3, i), two(5+2*half, i), taps, s.Node.Attrs.Float("epsilon", 1e-7))
				for t := 0; t < taps; t += 64 {
					k.Block(t, y[t:min(t+64, taps)])
				}
			}
		}
	}
	return h.build(b, s, shape[0], shape[1], math.Inf(1))
}

func buildMatrixConv(b *record.Builder, s *lowering.Step) bool {
	shape, k := b.Binding.ShapeOf(s, 0), s.ConstShape(1) // (outputs, inputs, taps)
	if shape[2] != k[1] {
		return false
	}
	return matrices{sides: sides{fore: k[2]}, groups: 1, in: k[1], out: k[0], taps: func() matrixTaps {
		weights := numbers(s, 1)
		return func(o, i int, fore, _ []float64) { copy(fore, weights[(o*k[1]+i)*k[2]:]) }
	}}.build(b, s, shape[0], shape[1], math.Inf(1))
}

// buildContinuousConv computes the kernels for the bound length on the host.
func buildContinuousConv(b *record.Builder, s *lowering.Step) bool {
	shape := b.Binding.ShapeOf(s, 0)
	rows, length, in := s.ConstShape(5)[0], shape[1], shape[2]
	if in == 0 || rows%in != 0 {
		return false
	}
	return matrices{sides: sides{fore: length}, groups: 1, in: in, out: rows / in, taps: func() matrixTaps {
		net := &essm.KernelNet{W1: numbers(s, 1), B1: numbers(s, 2), W2: numbers(s, 3), B2: numbers(s, 4),
			W3: numbers(s, 5), B3: numbers(s, 6), Norm1: numbers(s, 7), Norm2: numbers(s, 8),
			Activation: s.Node.Attrs.Str("activation", ""), Train: int(s.Node.Attrs.Int("train_length", 0))}
		q, p := net.Units()
		h2 := make([]float64, length*p)
		net.Hidden(make([]float64, length*q), h2, length, func(int) {})
		return func(o, i int, fore, _ []float64) {
			net.Row(fore, make([]float64, len(fore)), h2, o*in+i, func(int) {})
		}
	}}.build(b, s, shape[0], shape[1], math.Inf(1))
}
