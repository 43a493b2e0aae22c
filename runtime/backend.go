package runtime

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// Backend turns graphs into programs for one kind of machine. It has no mutable state, so one Backend may serve many
// models.
type Backend interface {
	// Name is what options and messages call it: "ref", "cpu".
	Name() string
	// Resolver finds the operators that the backend knows; plans are read with it.
	Resolver() ir.Resolver
	// Compile prepares a verified graph: it decides how each node is run, as far as that does not depend on shapes, and
	// packs the weights. It keeps g and does not change it. What it cannot run is an *UnsupportedError that names the node;
	// an option that it cannot honour is an *OptionError.
	Compile(g *ir.Graph, c Config) (Program, error)
}

// Variant is implemented by a Backend whose answers differ in their last bits from machine to machine: it names the kernels
// that this process uses.
type Variant interface{ Variant() string }

// Config is Options as a backend sees them: checked, with the defaults filled in.
type Config struct {
	// Threads is how many goroutines may compute at once within one Run; at least 1. Answers do not depend on it.
	Threads int
	// Kernel is the form wished for where an operator has several: "scan", "chunked", "fft", "direct"; empty: the backend
	// chooses.
	Kernel string
	// Wide says that float32 is carried as float64: inputs and outputs declared float32 are float64 tensors.
	Wide bool
	// Products is the precision of dense products with constant weights: Float32, BFloat16 or Int8, as Options.Precision
	// says. A backend that lacks one refuses it with an *OptionError.
	Products tensor.DType
	// MaxMemory bounds the working memory of one executable, in bytes; 0: what the machine has, where the backend knows it.
	// Bind reports a *MemoryError before it allocates.
	MaxMemory int64
	// Profile asks executables to measure their steps.
	Profile bool
	// Constants is shared by the programs of one model, which are compiled from graphs with the same constant tensors; nil:
	// nothing is shared.
	Constants *Constants
	// Logger is never nil.
	Logger *slog.Logger
	// Observe, if not nil, is called with every computed value, in the order of evaluation, subgraphs included. The datum
	// is only valid during the call. A backend that fuses nodes away refuses it with an *OptionError.
	Observe func(v *ir.Value, d tensor.Datum)
}

// Program is a compiled graph. It is immutable, and safe for concurrent use; the sessions of a model share it and its
// packed weights.
type Program interface {
	// Bind plans memory and chooses kernels for one set of shapes.
	Bind(b Binding) (Executable, error)
	// Explain says which form each node with a choice would take under b, in the graph's order.
	Explain(b Binding) ([]Choice, error)
	// Close releases what the program holds, executables included. It is called once, when none of them runs.
	Close() error
}

// Binding is the shapes of one run.
type Binding struct {
	// Dims are the symbols of the graph's input types that the inputs determine.
	Dims map[string]int64
	// Inputs are the types of the inputs in the graph's order: tensor types whose dimensions are all known numbers, with
	// element types as the graph declares them; sequence types as declared; nil where an optional input is absent.
	Inputs []ir.Type
}

// Executable runs a program for one Binding. One goroutine uses it at a time.
type Executable interface {
	// Run computes the graph's outputs from its inputs, both in the graph's order. in holds what Binding.Inputs promised:
	// an optional input arrives as its value or nil, never wrapped. Inputs are only read, and not kept. out[i] is nil, and
	// Run stores a fresh datum there that shares no storage with anything; or it is a tensor of the output's type and
	// shape, which shares no storage with in, and Run fills it. Between nodes Run returns ctx's error once it is done;
	// errors of a node are *NodeError.
	Run(ctx context.Context, in, out []tensor.Datum) error
	// ArenaBytes is the working memory that the executable holds between runs.
	ArenaBytes() int64
	// Profile gives what the steps took, summed over all runs, in order of execution; nil unless Config.Profile.
	Profile() []StepTime
	// Close releases the working memory.
	Close() error
}

// Choice is what a backend decided for one node, and why.
type Choice struct {
	Node string   // the node, as messages name it
	Op   string   // its operator
	Form string   // what it runs as: "scan", "chunked", "fft", "direct", …
	Why  string   // one sentence
	Cost Estimate // of the form taken
	// Others are the forms not taken, the nearest first.
	Others []Alternative
}

// Alternative is a form that was not taken.
type Alternative struct {
	Form string
	Cost Estimate
	Why  string // why not; may be empty where Cost says it
}

// Estimate is what a backend's cost model expects of one run.
type Estimate struct {
	Time  time.Duration
	Work  ir.Work
	Bytes int64 // working memory
}

// StepTime is what one step of an executable took; a step is a node, or several that were fused.
type StepTime struct {
	Name  string // the node, or the region
	Op    string
	Form  string
	Calls int64
	Time  time.Duration
}

// Store puts an output where the caller of Executable.Run wants it: it copies t into the tensor that out[i] holds, or
// keeps t itself when that is nil. For executables that learn an output's shape only by computing it.
func Store(out []tensor.Datum, i int, d tensor.Datum) error {
	if out[i] == nil {
		out[i] = d
		return nil
	}
	dst, ok := out[i].(*tensor.Tensor)
	if !ok {
		return fmt.Errorf("only tensors can be given to write to, found %T", out[i])
	}
	src, ok := d.(*tensor.Tensor)
	if !ok {
		return fmt.Errorf("cannot write %T into a tensor", d)
	}
	if src.DType() != dst.DType() || !slices.Equal(src.Shape(), dst.Shape()) {
		return fmt.Errorf("is %v, the tensor to write to is %v", src, dst)
	}
	copy(dst.Bytes(), src.Bytes())
	copy(dst.Strings(), src.Strings())
	return nil
}
