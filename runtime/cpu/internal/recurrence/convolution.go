package recurrence

import (
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "essm.LongConv",
		Recurrence: record.RecurrenceKind{Make: convolutionRecurrence, Constant: []int{1}}})
}

// convolution is a LongConv with a fixed kernel.
type convolution struct {
	record.RecurrenceInfo
	weights []float32 // per feature
	form    string    // the form that the graph requests
}

func convolutionRecurrence(s *lowering.Step) record.Recurrence {
	shape := s.ConstShape(1)
	if shape[1] == 0 { // without taps the result is zero
		return nil
	}
	dir, _ := record.ScanAttrs(s.Node)
	return &convolution{weights: record.Numbers(s, 1), form: s.Node.Attrs.Str("form", essm.FormDirect),
		RecurrenceInfo: record.RecurrenceInfo{
			N: shape[0], Direction: dir, PerHead: 1, Stateless: true, Taps: shape[1], Beside: true,
			VRe: 0, VIm: -1, State: -1, XRe: 0, XIm: -1, StateOut: -1,
		}}
}

func (c *convolution) Info() *record.RecurrenceInfo { return &c.RecurrenceInfo }

func (c *convolution) Tiled(string, int) record.TileKernel { return nil }

func (c *convolution) Sequence(form string, length int, history bool) record.SequenceKernel {
	if form == essm.FormFFT {
		k := &responses{from: c}
		k.setupBeside(&c.RecurrenceInfo, length, history, true)
		return k
	}
	k := &convolutionSequence{c: c}
	k.setup(&c.RecurrenceInfo, length, false, false)
	return k
}

func (c *convolution) kernels(i int, taps [2][]float32, _ *record.Workspace) {
	all := c.weights[i*c.Taps : (i+1)*c.Taps]
	spread(taps, all, c.Direction)
}

// spread copies a kernel to the halves of a direction.
func spread(taps [2][]float32, k []float32, direction string) {
	if direction == essm.Backward {
		taps[0][0] = 0
	} else {
		copy(taps[0], k)
	}
	copy(taps[1], k)
}

// free returns false, because there are no states.
func (c *convolution) free(int, *record.Sequence, []float32, []float64) bool { return false }

// convolutionSequence convolves whole sequences directly, a few features at a time.
type convolutionSequence struct {
	convolver
	c *convolution
}

// featuresPerPiece is the number of neighbouring features that are transposed together: one vector.
const featuresPerPiece = 8

func (k *convolutionSequence) Pieces() int {
	return (k.c.N + featuresPerPiece - 1) / featuresPerPiece
}

func (k *convolutionSequence) Bytes() int64 { return 0 }

func (k *convolutionSequence) Prepare() {}

func (k *convolutionSequence) Fill(*record.Workspace) {}

func (k *convolutionSequence) Scratch() int { return 2*featuresPerPiece*k.length + k.convolver.taps }

func (k *convolutionSequence) Run(piece int, s *record.Sequence, tmp []float32, _ []float64) {
	n, from := k.c.N, piece*featuresPerPiece
	count := min(featuresPerPiece, n-from)
	in, out, tmp := tmp[:count*k.length], tmp[count*k.length:2*count*k.length], tmp[2*count*k.length:]
	kernel.Transpose(in, k.length, s.V[from:], n, k.length, count)
	for i := 0; i < count && !s.Stopped(); i++ {
		col, y, j := in[i*k.length:(i+1)*k.length], out[i*k.length:(i+1)*k.length], from+i
		clear(y)
		k.direct(s, y, col, k.c.weights[j*k.c.Taps:(j+1)*k.c.Taps], tmp)
	}
	kernel.Transpose(s.X[from:], n, out, k.length, count, k.length)
}
