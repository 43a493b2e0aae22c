package cpu

import (
	"github.com/essmc/essmc/ops/essm"
)

// convolution is a LongConv with a constant kernel.
type convolution struct {
	coreInfo
	weights []float32 // per feature
	form    string    // that the graph asks for
}

func convolutionCore(s *step) core {
	k := s.constant(1)
	if k == nil {
		return nil
	}
	shape := s.constShape(1)
	dir, _ := scanAttrs(s.node)
	return &convolution{weights: k, form: s.node.Attrs.Str("form", essm.FormDirect), coreInfo: coreInfo{
		n: shape[0], direction: dir, perHead: 1, stateless: true, taps: shape[1],
		vRe: 0, vIm: -1, state: -1, xRe: 0, xIm: -1, stateOut: -1,
	}}
}

func (c *convolution) info() *coreInfo { return &c.coreInfo }

func (c *convolution) tiled(string, int) tileKernel { return nil }

func (c *convolution) sequence(form string, length int, _ bool) sequenceKernel {
	k := &convolutionSequence{c: c}
	k.setup(&c.coreInfo, length, false, form == essm.FormFFT)
	return k
}

// convolutionSequence convolves whole sequences, a few features at a time.
type convolutionSequence struct {
	convolver
	c    *convolution
	spec []float32 // by feature
}

func (k *convolutionSequence) pieces() int { return (k.c.n + statesPerPiece - 1) / statesPerPiece }

func (k *convolutionSequence) bytes() int64 {
	if k.fft == nil {
		return 0
	}
	return int64(k.fft.Len()*k.c.n) * 4
}

func (k *convolutionSequence) kernel(j int) []float32 {
	return k.c.weights[j*k.c.taps : (j+1)*k.c.taps]
}

func (k *convolutionSequence) prepare() {
	if k.fft == nil {
		return
	}
	n := k.fft.Len()
	k.spec = make([]float32, n*k.c.n)
	tmp := make([]float32, n)
	for j := range k.c.n {
		k.spectrum(k.spec[j*n:(j+1)*n], k.kernel(j), tmp)
	}
}

func (k *convolutionSequence) scratch() int {
	n := 2 * k.length
	if k.fft != nil {
		return n + 3*k.fft.Len()
	}
	return n + k.convolver.taps
}

func (k *convolutionSequence) run(piece int, s *sequence, tmp []float32, _ []float64) {
	n := k.c.n
	col, y, tmp := tmp[:k.length], tmp[k.length:2*k.length], tmp[2*k.length:]
	for j := piece * statesPerPiece; j < min(n, (piece+1)*statesPerPiece); j++ {
		s.column(col, n, j, false)
		clear(y)
		if k.fft != nil {
			size := k.fft.Len()
			v, acc, work := tmp[:size], tmp[size:2*size], tmp[2*size:3*size]
			k.fft.Forward(v, col, work)
			clear(acc)
			k.fft.MulAdd(acc, v, k.spec[j*size:(j+1)*size], 1)
			k.inverse(y, acc, work)
		} else {
			k.direct(y, col, k.kernel(j), tmp)
		}
		setColumn(s.x, y, n, j)
	}
}
