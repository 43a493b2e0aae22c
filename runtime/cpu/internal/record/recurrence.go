package record

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops/essm"
)

// Recurrence is a step that carries state from one row to the next, or needs the whole sequence: the heart of a region.
type Recurrence interface {
	// Info says what the recurrence reads and writes.
	Info() *RecurrenceInfo
	// Tiled makes the kernel for forms that go tile by tile, at most rows steps each.
	Tiled(form string, rows int) TileKernel
	// Sequence makes the kernel for the other forms; history says that inputs before the first step are given.
	Sequence(form string, length int, history bool) SequenceKernel
}

// RecurrenceInfo describes a recurrence. Indices are those of the step's inputs and outputs; -1 where absent.
type RecurrenceInfo struct {
	N, Window          int
	States             int // of each of the n features, where what goes in and comes out is part of the recurrence; 0: a feature is a state
	Direction          string
	VRe, VIm, State    int
	XRe, XIm, StateOut int
	Size               int  // float64 numbers that the recurrence works on, per sample
	Saved              int  // of them, those that make up a state
	PerHead            int  // states that are mixed with each other; 1 for a diagonal system
	Unstable           bool // powers grow without bound: nothing but the recurrence is safe
	Stateless          bool // has no recurrence: a convolution with a given kernel of taps numbers
	Taps               int
}

// TileInput is the input of a tile: one row of N numbers per step. old is the input a window earlier (later, for backward
// kernels), zeros where there is none; absent parts are nil.
type TileInput struct {
	Re, Im, OldRe, OldIm []float32
}

// TileKernel computes tiles. z is the state at the tile's edge, which the kernel advances to the other edge. x and xi may
// be nil, when only the state is wanted; tmp is scratch of scratch() numbers. With add, x and xi are added to.
type TileKernel interface {
	Bytes() int64 // of tables that prepare makes
	Prepare()
	Scratch() int
	Forward(x, xi []float32, in *TileInput, rows int, z []float64, tmp []float32)
	Backward(x, xi []float32, in *TileInput, rows int, z []float64, tmp []float32, add bool)
}

// Jumper is a tileKernel whose state crosses a full tile without input by a multiplication, so that the tiles' states can be
// found one by one, each from zero, and joined afterwards.
type Jumper interface {
	Jumps() bool // false where the multiplication would overflow
	// Jump adds to z what is left of the state from after a full tile.
	Jump(z, from []float64)
}

// SequenceKernel computes whole sequences, in pieces that do not depend on each other.
type SequenceKernel interface {
	Bytes() int64 // of tables that prepare makes
	Prepare()
	Fill(w *Workspace) // writes the tables, in the first run, as long as that is not stopped
	Scratch() int      // float32 numbers
	Pieces() int
	// Run computes one piece; state is scratch of recurrenceInfo.size numbers.
	Run(piece int, s *Sequence, tmp []float32, state []float64)
}

// Sequence is one sample: rows of N numbers. x may be v. past holds the window's inputs before the first step, oldest
// first, parts rows of N numbers each; nil where they are zeros. z is the state before the first step; nil where zero.
type Sequence struct {
	V, Vi, X, Xi []float32
	Past         []float32
	Parts        int
	Z            []float64
	Length       int
	W            *Workspace // who computes it
}

// Stopped reports whether the run has failed or was cancelled, so that what is left need not be computed.
func (s *Sequence) Stopped() bool { return s.W.Stopped() }

// ScanAttrs gives direction and window of a scan.
func ScanAttrs(n *ir.Node) (string, int) {
	return n.Attrs.Str("direction", essm.Forward), int(n.Attrs.Int("window", 0))
}

func Index(present bool, i int) int {
	if present {
		return i
	}
	return -1
}

// Column copies feature j of the sequence's steps, with those of the past before them.
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

// SetColumn writes feature j of x.
func SetColumn(x, src []float32, n, j int) {
	for t, v := range src {
		x[t*n+j] = v
	}
}
