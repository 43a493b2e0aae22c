package cpu

import (
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	register(record{
		op:         "essm.LongConv",
		recurrence: recurrenceKind{make: convolutionRecurrence, constant: []int{1}},
		windowed:   windowedKind{make: windowedLong, constant: []int{1}, rows: true},
	})
}

// convolution is a LongConv with a constant kernel.
type convolution struct {
	recurrenceInfo
	weights []float32 // per feature
	form    string    // that the graph asks for
}

func convolutionRecurrence(s *lowering.Step) recurrence {
	shape := s.ConstShape(1)
	dir, _ := scanAttrs(s.Node)
	return &convolution{weights: s.Constant(1), form: s.Node.Attrs.Str("form", essm.FormDirect), recurrenceInfo: recurrenceInfo{
		n: shape[0], direction: dir, perHead: 1, stateless: true, taps: shape[1],
		vRe: 0, vIm: -1, state: -1, xRe: 0, xIm: -1, stateOut: -1,
	}}
}

func (c *convolution) info() *recurrenceInfo { return &c.recurrenceInfo }

func (c *convolution) tiled(string, int) tileKernel { return nil }

func (c *convolution) sequence(form string, length int, _ bool) sequenceKernel {
	k := &convolutionSequence{c: c}
	k.setup(&c.recurrenceInfo, length, false, form == essm.FormFFT)
	return k
}

// convolutionSequence convolves whole sequences, a few features at a time.
type convolutionSequence struct {
	convolver
	c    *convolution
	spec []float32 // by feature
}

// featuresPerPiece is a vector of neighbours, which are brought into columns and back together.
const featuresPerPiece = 8

func (k *convolutionSequence) pieces() int {
	return (k.c.n + featuresPerPiece - 1) / featuresPerPiece
}

func (k *convolutionSequence) bytes() int64 {
	if k.fft == nil {
		return 0
	}
	return k.tables() + int64(k.fft.Len()*k.c.n)*4
}

func (k *convolutionSequence) kernel(j int) []float32 {
	return k.c.weights[j*k.c.taps : (j+1)*k.c.taps]
}

func (k *convolutionSequence) prepare() {
	if k.fft == nil {
		return
	}
	k.spec = make([]float32, k.fft.Len()*k.c.n)
}

func (k *convolutionSequence) fill(w *workspace) {
	if !k.fillTables(w) {
		return
	}
	n := k.fft.Len()
	tmp := w.scratch[:n]
	for j := 0; j < k.c.n && !w.stopped(); j++ {
		k.spectrum(k.spec[j*n:(j+1)*n], k.kernel(j), tmp, w)
	}
}

func (k *convolutionSequence) scratch() int {
	n := 2 * featuresPerPiece * k.length
	if k.fft != nil {
		return n + 2*k.fft.Len()
	}
	return n + k.convolver.taps
}

func (k *convolutionSequence) run(piece int, s *sequence, tmp []float32, _ []float64) {
	n, from := k.c.n, piece*featuresPerPiece
	count := min(featuresPerPiece, n-from)
	in, out, tmp := tmp[:count*k.length], tmp[count*k.length:2*count*k.length], tmp[2*count*k.length:]
	kernel.Transpose(in, k.length, s.v[from:], n, k.length, count)
	for i := 0; i < count && !s.stopped(); i++ {
		col, y, j := in[i*k.length:(i+1)*k.length], out[i*k.length:(i+1)*k.length], from+i
		if k.fft != nil {
			size := k.fft.Len()
			spec, work := tmp[:size], tmp[size:2*size]
			k.fft.Forward(spec, col, work, s.w.halted)
			k.fft.Mul(spec, spec, k.spec[j*size:(j+1)*size])
			k.fft.Inverse(y, spec, 0, false, work, s.w.halted)
		} else {
			clear(y)
			k.direct(s, y, col, k.kernel(j), tmp)
		}
	}
	kernel.Transpose(s.x[from:], n, out, k.length, count, k.length)
}
