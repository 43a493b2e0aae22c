// Package cpu is the backend for the processor. It computes in float32, on several threads, tile by tile along time.
//
// # From steps to an executable
//
// Package runtime/lowering turns a graph into a flat list of steps. An operator's record lists the kinds of
// implementation that the backend has for it (internal/record; each kind has a package beside it). Operators without
// an implementation are replaced by their bodies. When shapes are bound, each step takes the first kind that fits
// (implementation.go). A step that no kind fits is evaluated as package ops defines it, in float64.
//
// Consecutive steps that treat each row (one step of time of one sample) by itself form a region, together with at
// most one recurrence. A region is computed tile by tile, so that values between its steps stay in the cache. Its
// elementwise steps become one kernel (fuse.go). Tensor kernels run one by one; a convolution also computes the
// elementwise steps that follow it, as its epilogue (epilogue.go). The subgraphs of If, Loop and Scan are
// executables of their own, run by the lowering (control.go). If the shapes in a loop's body become known only
// during the run, the body is bound then, and kept in case the shapes return.
//
// # Along time
//
// If the graph declares a time dimension, regions also contain steps that look a bounded number of steps back or
// ahead: convolutions of stride 1, pools, shifts, running sums. Sequences become rows (sample, step) whatever their
// layout in the graph, and transposes around convolutions disappear (lowering.Binding.TimeMajor, layout.go). A ring
// keeps the last rows of a value that later tiles read, so nothing is computed twice; steps that look ahead run some
// tiles late (ring.go). The tiles of a sample start in order. A tile waits for another only where it reads the
// other's result, so all threads can work on one sequence. Larger strides, and operators that are global along time,
// end a region.
//
// Consecutive regions that only look back form a stretch. All of them compute one time chunk before the next, so
// that the values between them take the memory of one chunk (stretch.go). Other regions overwrite their inputs where
// they can, and reshapes do not copy (memory_inplace.go). A recurrence that runs backward in time computes its
// states while the region before it runs (region_ahead.go). The inputs of Concat are written directly into its
// result if no later step reads them (memory_join.go).
//
// # Threads
//
// A work item of a tensor kernel takes some microseconds. The number of items does not depend on the number of
// threads. They are divided among the workers beforehand: a worker gets neighbouring items, and takes over others
// only when it has none left (pool.go). Consecutive items share the preparations of the first one
// (record.Workspace.Fresh). The tiles of regions are handed out in order.
//
// # Numbers
//
// A recurrence takes the form (scan, chunked, fft, direct) with the smallest estimated time for its shape, by Costs
// (choose.go). Low precision rounds the weights and inputs of products, as the portable kernels define. bfloat16
// rounds to nearest and sums in float32. int8 is symmetric within ±127, with a scale per output and per step, and
// sums exactly, so that every variant gives the same bits. Processors without products of bfloat16 use the float32
// kernels on rounded numbers. Operators on bytes (MatMulInteger, ConvInteger, QLinear…) are exact.
//
// # Invariants
//
// The package imports ir, ops with ops/std and ops/essm, runtime, runtime/lowering, and its own kernels.
//
//   - Answers are bitwise the same at any number of threads, since tiles depend only on shapes.
//   - A Program is immutable.
//   - An Executable allocates when it is bound. While it runs, it allocates only outputs and evaluated steps.
//   - Goroutines that helped a Run keep no reference to it. They end after a second without work, or with the last
//     program (crew.go).
//   - A panic in a goroutine becomes an error that names the node.
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
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

// Option configures the backend that New returns.
type Option func(*backend)

// WithCosts sets the constants by which the backend chooses forms, in place of DefaultCosts. Compile returns an error
// for constants that Check refuses. Costs that lead to the same forms give bitwise the same answers.
func WithCosts(c Costs) Option { return func(b *backend) { b.costs = c } }

// New returns the backend.
func New(options ...Option) runtime.Backend {
	b := backend{DefaultCosts()}
	for _, o := range options {
		o(&b)
	}
	return b
}

// Kernels returns the variant of the kernels that this process uses: "avx512", "avx2" or "generic". The environment
// variable ESSMC_KERNELS selects one.
func Kernels() string { return kernel.Variant() }

type backend struct{ costs Costs }

func (backend) Name() string          { return "cpu" }
func (backend) Variant() string       { return kernel.Variant() }
func (backend) Resolver() ir.Resolver { return ops.Default }

// Compile lowers g to steps and packs the weights. It returns a *runtime.OptionError for options that the backend does
// not have: float64, TF32, observers, products in types other than float32, bfloat16 and int8, and costs out of range.
func (b backend) Compile(g *ir.Graph, c runtime.Config) (runtime.Program, error) {
	if err := kernel.CheckVariant(); err != nil {
		return nil, err
	}
	if c.Wide {
		return nil, &runtime.OptionError{Option: "Precision",
			Msg: "the cpu backend computes in float32; the ref backend offers float64"}
	}
	if c.TF32 {
		return nil, &runtime.OptionError{Option: "TF32", Msg: "the cpu backend has products in float32, bfloat16 and int8; the cuda backend offers TF32"}
	}
	if p := c.Products; p != tensor.Invalid && p != tensor.Float32 && rows.LowPrecisions[p] == nil {
		return nil, &runtime.OptionError{Option: "Precision",
			Msg: fmt.Sprintf("the cpu backend has products in float32, bfloat16 and int8, not in %v", p)}
	}
	if c.Observe != nil {
		return nil, &runtime.OptionError{Option: "Observe",
			Msg: "the cpu backend fuses nodes and cannot show their values; the ref backend can"}
	}
	if err := b.costs.Check(); err != nil {
		return nil, &runtime.OptionError{Option: "Costs", Msg: err.Error()}
	}
	return b.compile(g, c)
}
