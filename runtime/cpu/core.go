package cpu

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops/essm"
)

// core is a step that carries state from one row to the next, or needs the whole sequence: the heart of a region.
type core interface {
	// info says what the core reads and writes, and in which forms it can be computed.
	info() *coreInfo
	// tiled makes the kernel that computes a tile of at most rows steps in the given form, for the forms that go tile by
	// tile.
	tiled(form string, rows int) tileKernel
	// whole makes the kernel that computes the whole sequence, for the other forms.
	sequence(form string, length int) sequenceKernel
}

// coreInfo describes a core. Indices are those of the step's inputs and outputs; -1 where absent.
type coreInfo struct {
	n, window          int
	direction          string
	vRe, vIm, state    int
	xRe, xIm, stateOut int
	size               int // float64 numbers of a state
	forms              []string
	why                map[string]string // for forms that are refused
	flops              func(form string, rows, length int) float64
	heads, perHead     int
	constantBytes      func(form string, rows, length int) int64
}

// tileInput is the input of a tile: one row of N numbers per step. old is the input a window earlier (later, for backward
// kernels), zeros where there is none; absent parts are nil.
type tileInput struct {
	re, im, oldRe, oldIm []float32
}

// tileKernel computes tiles. z is the state at the tile's edge, which the kernel advances to the other edge. x and xi may
// be nil, when only the state is wanted; tmp is scratch of scratch() numbers. With add, x and xi are added to.
type tileKernel interface {
	scratch() int
	forward(x, xi []float32, in *tileInput, rows int, z []float64, tmp []float32)
	backward(x, xi []float32, in *tileInput, rows int, z []float64, tmp []float32, add bool)
}

// cores is the table of operators that have a core kernel.
var cores = map[string]func(s *step) core{
	"essm.Scan": diagonalCore,
}

// direction and window of a scan.
func scanAttrs(n *ir.Node) (string, int) {
	return n.Attrs.Str("direction", essm.Forward), int(n.Attrs.Int("window", 0))
}

func index(present bool, i int) int {
	if present {
		return i
	}
	return -1
}
