package cpu

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops/essm"
)

// recurrence is a step that carries state from one row to the next, or needs the whole sequence: the heart of a region.
type recurrence interface {
	// info says what the recurrence reads and writes.
	info() *recurrenceInfo
	// tiled makes the kernel for forms that go tile by tile, at most rows steps each.
	tiled(form string, rows int) tileKernel
	// sequence makes the kernel for the other forms; history says that inputs before the first step are given.
	sequence(form string, length int, history bool) sequenceKernel
}

// recurrenceInfo describes a recurrence. Indices are those of the step's inputs and outputs; -1 where absent.
type recurrenceInfo struct {
	n, window          int
	states             int // of each of the n features, where what goes in and comes out is part of the recurrence; 0: a feature is a state
	direction          string
	vRe, vIm, state    int
	xRe, xIm, stateOut int
	size               int  // float64 numbers that the recurrence works on, per sample
	saved              int  // of them, those that make up a state
	perHead            int  // states that are mixed with each other; 1 for a diagonal system
	unstable           bool // powers grow without bound: nothing but the recurrence is safe
	stateless          bool // has no recurrence: a convolution with a given kernel of taps numbers
	taps               int
}

// tileInput is the input of a tile: one row of N numbers per step. old is the input a window earlier (later, for backward
// kernels), zeros where there is none; absent parts are nil.
type tileInput struct {
	re, im, oldRe, oldIm []float32
}

// tileKernel computes tiles. z is the state at the tile's edge, which the kernel advances to the other edge. x and xi may
// be nil, when only the state is wanted; tmp is scratch of scratch() numbers. With add, x and xi are added to.
type tileKernel interface {
	bytes() int64 // of tables that prepare makes
	prepare()
	scratch() int
	forward(x, xi []float32, in *tileInput, rows int, z []float64, tmp []float32)
	backward(x, xi []float32, in *tileInput, rows int, z []float64, tmp []float32, add bool)
}

// jumper is a tileKernel whose state crosses a full tile without input by a multiplication, so that the tiles' states can be
// found one by one, each from zero, and joined afterwards.
type jumper interface {
	jumps() bool // false where the multiplication would overflow
	// jump adds to z what is left of the state from after a full tile.
	jump(z, from []float64)
}

// sequenceKernel computes whole sequences, in pieces that do not depend on each other.
type sequenceKernel interface {
	bytes() int64 // of tables that prepare makes
	prepare()
	fill(w *workspace) // writes the tables, in the first run, as long as that is not stopped
	scratch() int      // float32 numbers
	pieces() int
	// run computes one piece; state is scratch of recurrenceInfo.size numbers.
	run(piece int, s *sequence, tmp []float32, state []float64)
}

// sequence is one sample: rows of N numbers. x may be v. past holds the window's inputs before the first step, oldest
// first, parts rows of N numbers each; nil where they are zeros. z is the state before the first step; nil where zero.
type sequence struct {
	v, vi, x, xi []float32
	past         []float32
	parts        int
	z            []float64
	length       int
	w            *workspace // who computes it
}

// stopped reports whether the run has failed or was cancelled, so that what is left need not be computed.
func (s *sequence) stopped() bool { return s.w.stopped() }

// scanAttrs gives direction and window of a scan.
func scanAttrs(n *ir.Node) (string, int) {
	return n.Attrs.Str("direction", essm.Forward), int(n.Attrs.Int("window", 0))
}

func index(present bool, i int) int {
	if present {
		return i
	}
	return -1
}

// column copies feature j of the sequence's steps, with those of the past before them.
func (s *sequence) column(dst []float32, n, j int, imag bool) {
	v, part := s.v, 0
	if imag {
		v, part = s.vi, 1
	}
	if s.past != nil {
		w := len(s.past) / (s.parts * n)
		for i := range w {
			dst[i] = s.past[(i*s.parts+part)*n+j]
		}
		dst = dst[w:]
	}
	for t := range s.length {
		dst[t] = v[t*n+j]
	}
}

// setColumn writes feature j of x.
func setColumn(x, src []float32, n, j int) {
	for t, v := range src {
		x[t*n+j] = v
	}
}
