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

// Backend compiles graphs for one kind of machine. It has no mutable state, so many models may share one Backend.
type Backend interface {
	// Name returns the backend's name in options and messages: "ref", "cpu".
	Name() string
	// Resolver returns the operators of the backend, by which plans are read.
	Resolver() ir.Resolver
	// Compile prepares a verified graph. It makes the decisions that do not depend on shapes, and packs the weights. It
	// keeps g and does not change it. A node that the backend cannot run is an *UnsupportedError, and an option that it
	// cannot honor is an *OptionError.
	Compile(g *ir.Graph, c Config) (Program, error)
}

// Variant is implemented by backends whose answers differ between machines in their last bits. It returns the name of
// the kernels that this process uses.
type Variant interface{ Variant() string }

// Config has the options of a backend: those of Options, checked and with defaults filled in.
type Config struct {
	// Threads is the number of goroutines, at least 1, that may compute at once within one Run. Answers do not depend
	// on it.
	Threads int
	// Kernel selects the form of operators that have several: "scan", "chunked", "fft", "direct". If it is empty, the
	// backend chooses.
	Kernel string
	// Wide requests float64 instead of float32. Inputs and outputs declared float32 are float64 tensors then.
	Wide bool
	// Products is the precision of dense products with constant weights: Float32, BFloat16 or Int8, see
	// Options.Precision. A backend without it returns an *OptionError.
	Products tensor.DType
	// TF32 lets dense products round their operands to TF32, see Options.TF32. A backend without it returns an
	// *OptionError.
	TF32 bool
	// MaxMemory bounds the memory of one executable and of its runs, in bytes; 0: the machine's memory, if the backend
	// knows it.
	// Bind and Run return a *MemoryError before they allocate more.
	MaxMemory int64
	// Profile makes executables measure their steps.
	Profile bool
	// Constants is shared by the programs of one model, whose graphs have the same constant tensors. Nil: nothing is
	// shared.
	Constants *Constants
	// Parameters are the contents of the graph's parameters, in its order, in memory of the caller; nil: Value.Init of
	// each. They change between runs, and never during one. A program reads them in each run, or keeps what follows
	// from them in Constants (Constants.Settled).
	Parameters []*tensor.Tensor
	// Ctx ends Compile, by its error, when it is done; programs do not keep it. Nil: never.
	Ctx context.Context
	// Logger is never nil.
	Logger *slog.Logger
	// Observe, if not nil, is called with every computed value, in the order of evaluation, also in subgraphs. The
	// datum is only valid during the call. A backend that fuses nodes returns an *OptionError.
	Observe func(v *ir.Value, d tensor.Datum)
}

// Program is a compiled graph. It is immutable and safe for concurrent use. The sessions of a model share it and its
// packed weights.
type Program interface {
	// Bind plans memory and chooses kernels for one set of shapes.
	Bind(b Binding) (Executable, error)
	// Explain returns the forms that would run under b, for nodes that have several, in the graph's order.
	Explain(b Binding) ([]Choice, error)
	// Close releases the program and its executables. It is called once, when none of them runs.
	Close() error
}

// Lowered is implemented by a Program that can show its lowered form.
type Lowered interface {
	// Lowered is text for people, in no fixed form: the steps of the program, or, where b is not nil, the plan for its
	// shapes.
	Lowered(b *Binding) (string, error)
}

// Refusing is implemented by executables that can tell before a run that every run fails.
type Refusing interface {
	// Refusal returns the error of every run: an operator does not take the shapes that are bound. It returns nil if
	// there is none.
	Refusal() error
}

// Binding is the shapes of one run.
type Binding struct {
	// Dims maps the symbols of the graph's input types to their values, if the inputs determine them.
	Dims map[string]int64
	// Inputs are the types of the inputs in the graph's order. Tensor types have the element types of the graph and
	// known dimensions. Sequence types are those of the graph. An absent optional input is nil.
	Inputs []ir.Type
	// Budget limits the executable and its runs, which charge to it everything that they hold and allocate. The
	// caller may charge its own memory to it as well. Executables may share it if only one of them is used at a
	// time. Nil means one of Config.MaxMemory.
	Budget *ir.Budget
	// Ctx ends Bind, which may take long for large shapes, when it is done: by its error, or by a panic with an
	// *ir.Ended. It must not be used afterwards. Nil: never.
	Ctx context.Context
}

// Executable runs a program for one Binding. One goroutine uses it at a time.
type Executable interface {
	// Run computes the graph's outputs from its inputs, both in the graph's order. The inputs have the types of the
	// Binding; an optional one is its value or nil, never an *Optional. Run only reads them, and does not keep them. If
	// out[i] is nil, Run stores a new datum there that shares no storage. Otherwise out[i] is a tensor of the output's
	// type and shape that shares no storage with in, and Run fills it. Run checks ctx between nodes. The error of a
	// node is a *NodeError.
	Run(ctx context.Context, in, out []tensor.Datum) error
	// ArenaBytes returns the working memory that the executable holds between runs.
	ArenaBytes() int64
	// Profile returns the time of each step, summed over all runs, in order of execution; nil unless Config.Profile is
	// set.
	Profile() []StepTime
	// Close releases the working memory.
	Close() error
}

// Choice is the decision of a backend for one node, with the reason.
type Choice struct {
	Node string   // the node, as messages name it
	Op   string   // its operator
	Form string   // the chosen form: "scan", "chunked", "fft", "direct", …
	Why  string   // the reason, in one sentence
	Cost Estimate // of the chosen form
	// Others are the other forms, by increasing cost.
	Others []Alternative
}

// Alternative is a form that was not chosen.
type Alternative struct {
	Form string
	Cost Estimate
	Why  string // the reason; may be empty if it is the cost
}

// Estimate is the expected cost of one run.
type Estimate struct {
	Time  time.Duration
	Work  ir.Work
	Bytes int64 // working memory
}

// StepTime is the time of one step of an executable. A step is one node, or several that are fused.
type StepTime struct {
	Name string // the node, or the region
	Op   string
	Form string
	// Values are the names of the first outputs of the graph's nodes that the step computes, each once. A node that is
	// computed in several steps is in each of them.
	Values []string
	Calls  int64
	Time   time.Duration
}

// Store stores output i of Executable.Run: it copies d into the tensor out[i], or sets out[i] to d if that is nil. It
// is for executables that know an output's shape only after computing it. It calls pause, which may panic with an
// *ir.Ended, between parts of what it copies.
func Store(out []tensor.Datum, i int, d tensor.Datum, pause func()) error {
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
		return fmt.Errorf("is %s, the tensor to write to is %s", src, dst)
	}
	dst.CopyParts(src, pause)
	return nil
}
