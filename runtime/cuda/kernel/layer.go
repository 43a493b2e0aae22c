package kernel

import (
	"slices"

	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/runtime/cuda/driver"
)

// Layer is a state-space layer in two kernels: v = B u, the states x of a diagonal recurrence, y = C x + D u, and
// the step-by-step computations after it (Stages). States and B u stay in registers and shared memory:
//
//	layer_ends  reads u, computes B u and the states that each tile of steps reaches from zero
//	layer       reads u again, recomputes B u, computes the states from those before the tile, and all the rest
//
// A block of the first kernel computes a group of tiles. If there are many groups, consecutive groups form a span,
// and the last block of a span to finish sums up the states at the ends of the span's groups, in order. Each
// finished block increments a counter; the block that finds all others counted is the last. No block waits. The
// second kernel sums up the states before a tile from the ends of the spans, of the groups and of the tiles before
// it.
//
// A single step, as in streams, is one kernel, whose tiles are samples instead of steps. Other kernels compute it
// for few samples (layerFew).
//
// A block computes a tile. A warp computes the products of all steps of the tile with a few columns. The rows of a
// product are ordered so that a thread has consecutive steps: the recurrence runs in its registers, and by shuffles
// across the eight threads with the other steps.
//
// Sequences are laid out (Batch, Length, Features) in float32. States before the first and after the last step are
// float64 unless State32 is set: for each sample States real parts, then States imaginary parts.
type Layer struct {
	LayerForm
	Batch, Length int

	U, Y        Buffer
	First, Last Buffer // if absent: zero, not wanted
	Tables      Buffer // LayerTables
	Powers      Buffer // LayerPowers
	Scratch     Buffer // of ScratchBytes
	Counts      Buffer // of CountBytes: must be zeros, and are zeros afterwards
}

// LayerForm is what is compiled into the kernels of a layer.
type LayerForm struct {
	Features          int // of u and y: a multiple of 4, at most MaxLayerFeatures
	States            int
	Forward, Backward bool
	State32           bool
	Stages            []Stage
	Precision         Precision // of the products of stages
}

// Stage is a part of a layer after the system: first an optional product y' = W y + bias, then an expression.
type Stage struct {
	Product bool
	// Element computes the result from y' (input 0), the y before the stage (input 1), the layer's u (input 2), and
	// constants of the feature (inputs 3 on).
	Element scalar.Expr
	Numbers int // per feature
}

// LayerWeights are the constants of a layer, in float64. Matrices are stored by rows: B has States rows of Features,
// C has Features rows of States, and products of stages have Features rows of Features.
type LayerWeights struct {
	// Heads is the number of equal parts of the features and of the states: B and C are zero between different ones. The
	// size of the tables follows from it, not from the content.
	Heads      int
	A, Weights []complex128 // logarithms of eigenvalues, and weights of inputs
	B, C       []float64
	Offset     []float64 // added to B u; nil means zero
	D, DOffset []float64 // per feature: D u + DOffset is added to C x
	Products   [][]float64
	Bias       [][]float64
	Numbers    [][]float64 // per stage: Numbers rows of Features
}

// Sizes of a layer's kernels.
const (
	MaxLayerFeatures = 1024
	layerWarps       = 8
	layerThreads     = 32 * layerWarps
	layerChunk       = 128 // states computed at once: 16 per warp
	groupBlocks      = 128 // minimum number of blocks of the first kernel before groups grow
	spanTogether     = 16  // ends of groups that a thread reads at once
	layerShared      = 99 << 10
)

// steps returns the number of steps of a tile, limited by the 99 kB of shared memory that every card has.
func (f *LayerForm) steps() int {
	switch w := f.width(); {
	case w <= 256:
		return 64
	case w <= 512:
		return 32
	default:
		return 16
	}
}

// width returns the number of features in shared memory: whole tiles for each warp.
func (f *LayerForm) width() int { return 64 * f.tiles() }

// tiles returns the number of 8-feature tiles that a warp computes of a product.
func (f *LayerForm) tiles() int { return ceilDiv(f.Features, 8*layerWarps) }

// chunks returns the number of parts that the states are computed in.
func (f *LayerForm) chunks() int { return ceilDiv(f.States, layerChunk) }

// padded returns the number of states, rounded up to whole chunks.
func (f *LayerForm) padded() int { return layerChunk * f.chunks() }

func (f *LayerForm) blocks(length int) int { return ceilDiv(length, f.steps()) }

func (f *LayerForm) directions() int {
	if f.Forward && f.Backward {
		return 2
	}
	return 1
}

// split returns the number of tiles of a group, and the number of groups of a span; 1 means that groups are not
// summed up. The second kernel reads the last states of all earlier spans, so there are few of them. These reads and
// those of the ends of groups and tiles are at most a tenth of the bytes of y and of u, which is read twice, unless
// there are more states than features.
func (l *Layer) split() (group, span int) {
	tiles := l.blocks(l.Length)
	tenth := 15 * l.Features * l.steps() / (100 * l.States) // a tenth of u, u and y of a tile, in states
	most, spans := 2*tenth-4, 2*tenth-7
	if l.directions() == 2 { // twice as many ends, and the backward scan writes its own again
		if most, spans = tenth-5, tenth-7; tiles <= max(most, 1)+4 {
			return 1, 1
		}
	}
	most, spans = min(max(most, 4), 14), min(max(spans, 2), 14)
	group = ceilDiv(tiles, most)
	if group == 1 || l.fits(group) && l.Batch*ceilDiv(tiles, group) >= groupBlocks {
		return group, 1
	}
	for group = min(group, ceilDiv(tiles*l.Batch, groupBlocks)); !l.fits(group); {
		group = (group + 1) / 2
	}
	groups := ceilDiv(tiles, group)
	if groups <= most {
		return group, 1
	}
	return group, ceilDiv(groups, spans)
}

// kept returns the number of tiles for which the first kernel keeps the backward scan's states in shared memory, if
// there are two scans. It is a power of two that is enough for the group, so that few kernels are compiled.
func (f *LayerForm) kept(group int) int {
	if group == 1 || f.directions() == 1 {
		return 0
	}
	room := 2
	for room < group {
		room *= 2
	}
	return room
}

// fits reports whether the first kernel has enough shared memory for groups of the given number of tiles.
func (f *LayerForm) fits(group int) bool {
	return group == 1 || 4*f.steps()*f.width()+f.groupShared(f.kept(group)) <= layerShared
}

// spanRoot returns the number of powers from which the powers over the groups of a span are computed in two factors.
func spanRoot(span int) int {
	root := 1
	for root*root < span {
		root++
	}
	return root
}

// groupShared returns the shared memory of the first kernel with groups, after that for u: states in float64, and
// those of kept tiles.
func (f *LayerForm) groupShared(kept int) int { return (16 + 8*kept) * f.padded() }

// ScratchBytes returns the size of the scratch memory.
func (l *Layer) ScratchBytes() int {
	if l.few() {
		return l.fewBytes()
	}
	if l.Length <= 1 {
		return 0
	}
	return 8 * l.Batch * l.blocks(l.Length) * l.States * l.directions()
}

// CountBytes returns the size of the counters: one for each span of a sample.
func (l *Layer) CountBytes() int {
	if l.Batch == 0 || l.Length <= 1 {
		return 0
	}
	group, span := l.split()
	if span == 1 {
		return 0
	}
	return 4 * l.Batch * ceilDiv(ceilDiv(l.blocks(l.Length), group), span)
}

// Calls returns the launches.
func (l *Layer) Calls() []Call {
	if l.Batch == 0 || l.Length == 0 {
		return nil
	}
	if l.few() {
		return l.fewCalls()
	}
	if l.Length == 1 && l.Forward && !l.Backward {
		return l.stepCalls()
	}
	y, z := gridBatch(l.Batch)
	tiles := l.blocks(l.Length)
	grid := driver.Dim{X: uint32(tiles), Y: y, Z: z}
	args := []Arg{U32(l.Batch), U32(l.Length), U32(tiles), Ptr(l.U), Ptr(l.Tables), Ptr(l.Scratch),
		PtrAt(l.Scratch, (l.directions()-1)*l.ScratchBytes()/2)}
	group, span := l.split()
	args = append(args, U32(group), U32(span), U32(spanRoot(span)), Ptr(l.Powers))
	var calls []Call
	if tiles > 1 {
		ends := grid
		ends.X = uint32(ceilDiv(tiles, group))
		calls = append(calls, NewCall(layerEnds(l.LayerForm, group > 1, span > 1, l.kept(group)), ends, append(slices.Clip(args), Ptr(l.Counts))...))
	}
	return append(calls, NewCall(layerMain(l.LayerForm, group > 1, span > 1, l.Last != 0), grid,
		append(args, Ptr(l.First), Ptr(l.Last), Ptr(l.Y))...))
}

// Exponents returns the exponents of the powers in LayerPowers: over a tile, a span and the last tile. Unless groups
// are tiles and spans groups, also over the tiles of a group before each tile, over each number of groups below
// spanRoot, and over its multiples.
func (l *Layer) Exponents() []int {
	if l.Length == 1 {
		return []int{1}
	}
	group, span := l.split()
	tiles := l.blocks(l.Length)
	all := []int{l.steps(), l.steps() * group * span, l.Length - (tiles-1)*l.steps()}
	if group == 1 && span == 1 {
		return all
	}
	for k := range group {
		all = append(all, l.steps()*k)
	}
	if span > 1 {
		root := spanRoot(span)
		for k := range root {
			all = append(all, l.steps()*group*k)
		}
		for k := 0; k < span; k += root {
			all = append(all, l.steps()*group*k)
		}
	}
	return all
}
