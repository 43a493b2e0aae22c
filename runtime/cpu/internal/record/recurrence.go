package record

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/lowering"
)

// Recurrence is a step that carries a state from one row to the next, or needs the whole sequence. A region has at most
// one.
type Recurrence interface {
	// Info returns the sizes of the recurrence, and its inputs and outputs.
	Info() *RecurrenceInfo
	// Tiled returns the kernel of a form that goes tile by tile, with tiles of at most rows steps.
	Tiled(form string, rows int) TileKernel
	// Sequence returns the kernel of one of the other forms. history: inputs before the first step are given.
	Sequence(form string, length int, history bool) SequenceKernel
}

// RecurrenceInfo describes a recurrence. Its indices are of the step's inputs and outputs; -1 if absent.
type RecurrenceInfo struct {
	N, Window          int
	States             int // states per feature, if B and C are part of the recurrence; 0 if each feature is a state
	Rank               int // of the part of the matrix that is not diagonal; 0 without one
	Direction          string
	VRe, VIm, State    int
	XRe, XIm, StateOut int
	Size               int  // size of a sample's memory, in float64
	Saved              int  // size of the state, at the beginning of that memory
	PerHead            int  // states that depend on each other; 1 for a diagonal system
	Unstable           bool // powers of eigenvalues grow without bound, so only the form scan is safe
	Stateless          bool // a convolution with a given kernel of Taps numbers, without states
	Taps               int
	Beside             bool // the form fft transforms several adjacent features
	judged             bool // Unstable is set
}

// Judge sets Unstable, by the content of fixed inputs: when a recurrence is made, and again when the content has changed.
func (r *RecurrenceInfo) Judge(s *lowering.Step, unstable bool) {
	if !r.judged {
		r.judged, r.Unstable = true, unstable
		return
	}
	Decide(s, &r.Unstable, unstable)
}

// TileInput is the input of a tile: one row of N numbers per step. OldRe and OldIm are the input one window earlier
// (later, for backward kernels), with zeros beyond the sequence. Absent parts are nil.
type TileInput struct {
	Re, Im, OldRe, OldIm []float32
}

// TileKernel computes tiles. z is the state at one edge of the tile, which the kernel advances to the other edge. x and
// xi are nil if only the state is wanted. tmp is scratch of Scratch() numbers. With add, results are added to x and xi.
type TileKernel interface {
	Bytes() int64 // size of the tables that Prepare makes
	Prepare()     // again in the same memory when the content of settled inputs has changed
	Scratch() int
	Forward(x, xi []float32, in *TileInput, rows int, z []float64, tmp []float32)
	Backward(x, xi []float32, in *TileInput, rows int, z []float64, tmp []float32, add bool)
}

// Jumper is a TileKernel whose state, without input, crosses a full tile by one multiplication. The states of tiles can
// then be computed independently, each from zero, and joined afterwards.
type Jumper interface {
	Jumps() bool // false if the multiplication could overflow
	// Jump adds to z the state that from becomes after a full tile without input.
	Jump(z, from []float64)
}

// SequenceKernel computes whole sequences, in independent pieces.
type SequenceKernel interface {
	Bytes() int64 // size of the tables that Prepare allocates
	Prepare()
	Fill(w *Workspace) // computes the tables, in the first run and after settled inputs; ends early when the run is stopped
	Scratch() int      // size of tmp in Run
	Pieces() int
	// Run computes one piece of a sample. state is scratch of RecurrenceInfo.Size numbers.
	Run(piece int, s *Sequence, tmp []float32, state []float64)
	// Finishes reports whether Run also computes the state after the last step, in Sequence.Next; if not, a scan does.
	Finishes() bool
}

// Sequence is one sample: rows of N numbers. X may be V. Past holds the inputs of the window before the first step,
// oldest first, Parts rows of N numbers each; nil for zeros. Z is the state before the first step; nil for zero. Next is
// where the state after the last step goes, which may be Z; nil where nobody reads it.
type Sequence struct {
	V, Vi, X, Xi []float32
	Past         []float32
	Parts        int
	Z, Next      []float64
	Length       int
	W            *Workspace // of the worker that computes it
}

// Stopped reports whether the run has failed or was cancelled, so that kernels can return early.
func (s *Sequence) Stopped() bool { return s.W.Stopped() }

// ScanAttrs returns the direction and the window of a scan.
func ScanAttrs(n *ir.Node) (string, int) {
	return n.Attrs.Str("direction", essm.Forward), int(n.Attrs.Int("window", 0))
}

// Index returns i if present, and -1 otherwise: an index in RecurrenceInfo.
func Index(present bool, i int) int {
	if present {
		return i
	}
	return -1
}

// Column copies feature j of all steps to dst, after the feature's inputs in Past. n is the number of features.
func (s *Sequence) Column(dst []float32, n, j int, imag bool) {
	v, part := s.V, 0
	if imag {
		v, part = s.Vi, 1
	}
	if s.Past != nil {
		w := len(s.Past) / (s.Parts * n)
		for i := range w {
			dst[i] = s.Past[(i*s.Parts+part)*n+j]
		}
		dst = dst[w:]
	}
	for t := range s.Length {
		dst[t] = v[t*n+j]
	}
}

// SetColumn writes src to feature j of the rows of x, of n numbers each.
func SetColumn(x, src []float32, n, j int) {
	for t, v := range src {
		x[t*n+j] = v
	}
}
