package recurrence

import (
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/windowed"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{
		Op:         "essm.LongConv",
		Recurrence: record.RecurrenceKind{Make: convolutionRecurrence, Constant: []int{1}},
		Windowed:   record.WindowedKind{Make: windowed.WindowedLong, Constant: []int{1}, Rows: true},
	})
}

// convolution is a LongConv with a constant kernel.
type convolution struct {
	record.RecurrenceInfo
	weights []float32 // per feature
	form    string    // the form that the graph asks for
}

func convolutionRecurrence(s *lowering.Step) record.Recurrence {
	shape := s.ConstShape(1)
	dir, _ := record.ScanAttrs(s.Node)
	return &convolution{weights: s.Constant(1), form: s.Node.Attrs.Str("form", essm.FormDirect),
		RecurrenceInfo: record.RecurrenceInfo{
			N: shape[0], Direction: dir, PerHead: 1, Stateless: true, Taps: shape[1],
			VRe: 0, VIm: -1, State: -1, XRe: 0, XIm: -1, StateOut: -1,
		}}
}

func (c *convolution) Info() *record.RecurrenceInfo { return &c.RecurrenceInfo }

func (c *convolution) Tiled(string, int) record.TileKernel { return nil }

func (c *convolution) Sequence(form string, length int, _ bool) record.SequenceKernel {
	k := &convolutionSequence{c: c}
	k.setup(&c.RecurrenceInfo, length, false, form == essm.FormFFT)
	return k
}

// convolutionSequence convolves whole sequences, a few features at a time.
type convolutionSequence struct {
	convolver
	c    *convolution
	spec []float32 // by feature
}

// featuresPerPiece is the number of neighbouring features that are transposed together: those of a vector.
const featuresPerPiece = 8

func (k *convolutionSequence) Pieces() int {
	return (k.c.N + featuresPerPiece - 1) / featuresPerPiece
}

func (k *convolutionSequence) Bytes() int64 {
	if k.fft == nil {
		return 0
	}
	return k.tables() + int64(k.fft.Len()*k.c.N)*4
}

func (k *convolutionSequence) kernel(j int) []float32 {
	return k.c.weights[j*k.c.Taps : (j+1)*k.c.Taps]
}

func (k *convolutionSequence) Prepare() {
	if k.fft == nil {
		return
	}
	k.spec = make([]float32, k.fft.Len()*k.c.N)
}

func (k *convolutionSequence) Fill(w *record.Workspace) {
	if !k.fillTables(w) {
		return
	}
	n := k.fft.Len()
	tmp := w.Scratch[:n]
	for j := 0; j < k.c.N && !w.Stopped(); j++ {
		k.spectrum(k.spec[j*n:(j+1)*n], k.kernel(j), tmp, w)
	}
}

func (k *convolutionSequence) Scratch() int {
	n := 2 * featuresPerPiece * k.length
	if k.fft != nil {
		return n + 2*k.fft.Len()
	}
	return n + k.convolver.taps
}

func (k *convolutionSequence) Run(piece int, s *record.Sequence, tmp []float32, _ []float64) {
	n, from := k.c.N, piece*featuresPerPiece
	count := min(featuresPerPiece, n-from)
	in, out, tmp := tmp[:count*k.length], tmp[count*k.length:2*count*k.length], tmp[2*count*k.length:]
	kernel.Transpose(in, k.length, s.V[from:], n, k.length, count)
	for i := 0; i < count && !s.Stopped(); i++ {
		col, y, j := in[i*k.length:(i+1)*k.length], out[i*k.length:(i+1)*k.length], from+i
		if k.fft != nil {
			size := k.fft.Len()
			spec, work := tmp[:size], tmp[size:2*size]
			k.fft.Forward(spec, col, work, s.W.Halted)
			k.fft.Mul(spec, spec, k.spec[j*size:(j+1)*size])
			k.fft.Inverse(y, spec, 0, false, work, s.W.Halted)
		} else {
			clear(y)
			k.direct(s, y, col, k.kernel(j), tmp)
		}
	}
	kernel.Transpose(s.X[from:], n, out, k.length, count, k.length)
}
