package kernel

import (
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/runtime/cuda/driver"
)

// Layer is a state-space layer in two kernels: v = B u, the states x of a diagonal recurrence, y = C x + D u, and what
// follows in the layer, step by step (Stages). States and B u stay in registers and shared memory:
//
//	layer_ends  reads u, computes B u and the states that each tile of steps reaches from zero
//	layer       reads u again, recomputes B u, computes the states from those before the tile, and all the rest
//
// The states before a tile are summed up by the second kernel from those at the edges of groups of tiles, each of which a block
// of the first kernel goes through (groups). Where that would leave too few blocks, the kernel of Scan in between sums up.
//
// A single step, of streams, is one kernel, whose tiles are samples in place of steps. For few samples other kernels compute
// it (layerFew).
//
// A block computes a tile. A warp holds products of all steps of the tile with a few columns. Rows of a product are steps in
// an order such that a thread holds consecutive ones: the recurrence runs in its registers, and over the eight threads
// that hold the other steps by shuffles.
//
// Sequences are laid out (Batch, Length, Features) in float32, and float64 is the type of states before the first and after
// the last step unless State32 is set: for each sample States real parts, then States imaginary parts.
type Layer struct {
	LayerForm
	Batch, Length int

	U, Y        Buffer
	First, Last Buffer // none: zero, not wanted
	Tables      Buffer // LayerTables
	Powers      Buffer // LayerPowers
	Scratch     Buffer // of ScratchBytes
}

// LayerForm says what is compiled into the kernels of a layer.
type LayerForm struct {
	Features          int // of u and y: a multiple of 4, at most MaxLayerFeatures
	States            int
	Forward, Backward bool
	State32           bool
	Stages            []Stage
	Precision         Precision // of the products of stages
}

// Stage is a step of a layer behind the system: first an optional product y' = W y + bias, then an expression.
type Stage struct {
	Product bool
	// Element computes the result from y' (input 0), the y that the stage began with (input 1) and the layer's u (input 2),
	// and from numbers of the feature (inputs 3 on).
	Element scalar.Expr
	Numbers int // of each feature
}

// LayerWeights are the constants of a layer, in float64. Matrices are row by row: B has States rows of Features, C Features
// rows of States, and products of stages Features rows of Features.
type LayerWeights struct {
	A, Weights []complex128 // logarithms of eigenvalues, and weights of inputs
	B, C       []float64
	Offset     []float64 // added to B u; nil: zero
	D, DOffset []float64 // of the features: D u + DOffset is added to C x
	Products   [][]float64
	Bias       [][]float64
	Numbers    [][]float64 // of each stage: Numbers rows of Features
}

// Sizes of a layer's kernels.
const (
	MaxLayerFeatures = 1024
	layerWarps       = 8
	layerThreads     = 32 * layerWarps
	layerChunk       = 128 // states that are computed at once: 16 a warp
	inlineTiles      = 16  // tiles of a sequence in two directions up to which the second kernel sums up states
	groupTiles       = 6   // tiles of a group for which a single sequence goes by groups
	groupBlocks      = 128 // blocks of the first kernel that are enough for groups of any size
	layerShared      = 99 << 10
)

// steps is the number of steps of a tile: shared memory holds that of 99 kB of every card.
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

// width is the number of features in shared memory: whole tiles of each warp.
func (f *LayerForm) width() int { return 64 * f.tiles() }

// tiles is the number of tiles of 8 features that a warp computes of a product.
func (f *LayerForm) tiles() int { return ceilDiv(f.Features, 8*layerWarps) }

// chunks is the number of parts that the states are computed in.
func (f *LayerForm) chunks() int { return ceilDiv(f.States, layerChunk) }

// padded is the number of states with those that fill the last chunk.
func (f *LayerForm) padded() int { return layerChunk * f.chunks() }

func (f *LayerForm) blocks(length int) int { return ceilDiv(length, f.steps()) }

func (f *LayerForm) directions() int {
	if f.Forward && f.Backward {
		return 2
	}
	return 1
}

// groups returns the number of tiles that a block of the first kernel goes through; 0 if Scan's kernel sums up states. The
// second kernel reads the last states of all groups before its own, so there are few of them: these reads and those of the
// edges of tiles are at most a tenth of the bytes of u, which is read twice, and y.
func (l *Layer) groups() int {
	tiles := l.blocks(l.Length)
	tenth := 15 * l.Features * l.steps() / (100 * l.States) // of u, u and y of a tile, in states
	most, rest := 2*tenth-4, 0
	if l.directions() == 2 { // twice as many ends, and those of the backward scan are written again
		if most = tenth - 5; tiles <= max(most, 1)+4 {
			return 1
		}
		if tiles <= inlineTiles {
			rest = 1
		}
	}
	most = min(max(most, 4), 14)
	size := ceilDiv(tiles, most)
	if size > 1 && l.groupShared() > layerShared || size > groupTiles && l.Batch*ceilDiv(tiles, size) < groupBlocks {
		return rest
	}
	return size
}

// groupShared is the shared memory of the first kernel with groups: u, and states in float64.
func (f *LayerForm) groupShared() int { return 4*f.steps()*f.width() + 16*f.padded() }

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
	group := l.groups()
	inline := group > 0
	var calls []Call
	if tiles > 1 {
		ends := grid
		ends.X = uint32(ceilDiv(tiles, max(group, 1)))
		calls = append(calls, NewCall(layerEnds(l.LayerForm, group > 1), ends, append(args, U32(max(group, 1)), Ptr(l.Powers))...))
	}
	if !inline {
		s := Scan{ScanForm: ScanForm{Tile: l.steps(), Forward: l.Forward, Backward: l.Backward, State32: l.State32}}
		calls = append(calls, NewCall(scanCarry(s.ScanForm), driver.Dim{X: uint32(ceilDiv(l.States, 32)), Y: y, Z: z},
			U32(l.Batch), U32(l.Length), U32(l.States), U32(0), Ptr(l.Powers), Ptr(l.First), Ptr(l.Last), U32(2*l.States),
			U32(tiles), args[5], args[6]))
	}
	return append(calls, NewCall(layerMain(l.LayerForm, inline, group > 1, l.Last != 0), grid, append(args, U32(max(group, 1)), Ptr(l.Powers),
		Ptr(l.First), Ptr(l.Last), Ptr(l.Y))...))
}

// Exponents returns those of the powers that LayerPowers holds: with groups, over a tile, a group and the last tile, then over
// the tiles of a group before each.
func (l *Layer) Exponents() []int {
	if l.Length == 1 {
		return []int{1}
	}
	all := ScanExponents(l.steps(), l.Length)
	if size := l.groups(); size > 1 {
		all[1] = l.steps() * size
		for k := range size {
			all = append(all, l.steps()*k)
		}
	}
	return all
}
