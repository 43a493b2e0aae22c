// Package cpu is the backend that runs graphs on the processor: float32, several threads, tile by tile along time.
//
// # From steps to an executable
//
// runtime/lowering makes a flat list of steps of a graph. Each operator has a record of the kinds of implementation that the
// backend has for it (internal/record, and beside it a package for each kind). Operators without one are written out as their
// bodies. When shapes are bound, each step takes the first kind that fits (implementation.go). A step without a kernel is
// evaluated as ops defines it, in float64.
//
// Neighboring steps that treat each row (sample, step of time) by itself become a region, together with at most one
// recurrence. A region is computed tile by tile, so that values between its steps stay in the cache. Elementwise steps in it
// become one kernel (fuse.go). Tensor kernels run one by one; a convolution also does the elementwise steps behind it
// (epilogue.go). The subgraphs of If, Loop and Scan are executables of their own, which the lowering runs (control.go).
//
// # Along time
//
// Where a graph declares its time, steps that look a bounded way back or ahead (convolutions of stride 1, pools, shifts, running
// sums) are part of regions, too. Sequences become rows (sample, step), whatever layout the graph has them in, and transposes
// around convolutions fall away (layout.go). Rings keep the last rows of a value that is looked back on, so nothing is computed
// twice; steps that look ahead run some tiles behind (ring.go). Tiles of a sample enter in order and wait for each other only
// where they must, so all threads work on one sequence. Larger strides, and operators that are global along time, end a region.
//
// Consecutive regions that only look back are a stretch: they run one time chunk after the other, so that the values between
// them take the memory of one chunk (stretch.go). Elsewhere a layer writes over its input (memory_inplace.go), and a layer
// that runs backward in time finds its states while the one before computes (region_ahead.go).
//
// # Numbers
//
// The form of a recurrence (scan, chunked, fft, direct) is the one with the least estimated time for its shape, by Costs
// (choose.go). Low precision rounds products and their inputs; the portable kernels define it. bfloat16 rounds to the nearest
// and sums in float32; int8 is symmetric within ±127, with a scale per output and per step, and exact sums, so that every
// variant gives the same bits. Where no instruction multiplies bfloat16, rounded numbers go through the kernels of float32.
// Operators on bytes (MatMulInteger, ConvInteger, QLinear…) are exact.
//
// It imports ir, ops with ops/std and ops/essm, runtime, runtime/lowering, and its own kernels. What always holds: answers do
// not depend on the number of threads, bit by bit, since tiles depend on shapes alone; a Program is immutable; an Executable
// allocates when it is bound and, outputs and evaluated steps left out, not when it runs; no goroutine outlives the Run that
// started it; a panic in any of them becomes an error that names the node.
package cpu

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/rows"

	_ "github.com/essmc/essmc/ops/essm" // operators that plans hold
	_ "github.com/essmc/essmc/ops/std"
	"github.com/essmc/essmc/runtime"
	_ "github.com/essmc/essmc/runtime/cpu/internal/elementwise" // kernels of each kind register their operators
	_ "github.com/essmc/essmc/runtime/cpu/internal/recurrence"
	_ "github.com/essmc/essmc/runtime/cpu/internal/rows"
	_ "github.com/essmc/essmc/runtime/cpu/internal/streaming"
	_ "github.com/essmc/essmc/runtime/cpu/internal/tensors"
	_ "github.com/essmc/essmc/runtime/cpu/internal/windowed"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

// Option changes how the backend is made.
type Option func(*backend)

// WithCosts makes the backend choose forms by these constants instead of DefaultCosts. Constants that Check refuses are an
// error of Compile. Answers are bitwise the same wherever the same forms are chosen.
func WithCosts(c Costs) Option { return func(b *backend) { b.costs = c } }

// New makes the backend.
func New(options ...Option) runtime.Backend {
	b := backend{DefaultCosts()}
	for _, o := range options {
		o(&b)
	}
	return b
}

// Kernels names the variant of the kernels that this process uses: "avx512", "avx2", "generic". The environment variable ESSMC_KERNELS
// forces one.
func Kernels() string { return kernel.Variant() }

type backend struct{ costs Costs }

func (backend) Name() string          { return "cpu" }
func (backend) Variant() string       { return kernel.Variant() }
func (backend) Resolver() ir.Resolver { return ops.Default }

// Compile writes g out as steps and packs the weights.
func (b backend) Compile(g *ir.Graph, c runtime.Config) (runtime.Program, error) {
	if err := kernel.CheckVariant(); err != nil {
		return nil, err
	}
	if c.Wide {
		return nil, &runtime.OptionError{Option: "Precision", Msg: "the cpu backend computes in float32; the ref backend offers float64"}
	}
	if p := c.Products; p != tensor.Invalid && p != tensor.Float32 && rows.LowPrecisions[p] == nil {
		return nil, &runtime.OptionError{Option: "Precision", Msg: fmt.Sprintf("the cpu backend has products in float32, bfloat16 and int8, not in %v", p)}
	}
	if c.Observe != nil {
		return nil, &runtime.OptionError{Option: "Observe", Msg: "the cpu backend fuses nodes and cannot show their values; the ref backend can"}
	}
	if err := b.costs.Check(); err != nil {
		return nil, &runtime.OptionError{Option: "Costs", Msg: err.Error()}
	}
	return b.compile(g, c)
}

// Close has nothing to release: packed weights are ordinary memory.
func (p *program) Close() error { return nil }
