package runtime

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// Kinds of errors, for errors.Is. The types below hold details, for errors.As.
var (
	ErrInput       = errors.New("invalid input")
	ErrOption      = errors.New("invalid option")
	ErrParameter   = errors.New("invalid content of a parameter")
	ErrUnsupported = errors.New("not supported by the backend")
	ErrMemory      = errors.New("memory limit exceeded")
	ErrClosed      = errors.New("model is closed")
	ErrBusy        = errors.New("session is used by another goroutine")
	ErrInternal    = errors.New("internal error")
	ErrStream      = errors.New("model cannot run step by step")
	ErrSnapshot    = errors.New("snapshot cannot be restored")

	// ErrStreamClosed is also an ErrClosed.
	ErrStreamClosed error = streamClosed{}
)

type streamClosed struct{}

func (streamClosed) Error() string        { return "stream is closed" }
func (streamClosed) Is(target error) bool { return target == ErrClosed }

// StreamError is the error of a model that cannot run step by step.
type StreamError struct {
	Err error // names graph, layer and operator; wraps a *stepgraph.BlockedError if one operator is the cause
}

// Error names the layer and operator.
func (e *StreamError) Error() string { return fmt.Sprintf("cannot run step by step: %v", e.Err) }

// Is reports whether target is ErrStream.
func (e *StreamError) Is(target error) bool { return target == ErrStream }

// Unwrap returns the cause.
func (e *StreamError) Unwrap() error { return e.Err }

// SnapshotError is the error for a snapshot that is refused.
type SnapshotError struct {
	Msg string
	// Have and Want are hashes in hexadecimal: of the snapshot's model and of the stream's. They are empty if those do
	// not differ.
	Have, Want string
	// Version is the version of the snapshot's format if it is too new for this program; otherwise 0.
	Version uint32
}

// Error describes the fault.
func (e *SnapshotError) Error() string { return "snapshot: " + e.Msg }

// Is reports whether target is ErrSnapshot.
func (e *SnapshotError) Is(target error) bool { return target == ErrSnapshot }

// InputError is an error in an input of Run, or in a tensor for one of its outputs.
type InputError struct {
	Name string // the input, or the output to write to
	Msg  string
	// output is set if Name is an output.
	output bool
}

// Error names the input.
func (e *InputError) Error() string {
	if e.output {
		return fmt.Sprintf("output %q: %s", e.Name, e.Msg)
	}
	return fmt.Sprintf("input %q: %s", e.Name, e.Msg)
}

// Is reports whether target is ErrInput.
func (e *InputError) Is(target error) bool { return target == ErrInput }

// ParameterError is an error in the content of a parameter.
type ParameterError struct {
	Name string // the parameter
	Msg  string
}

// Error names the parameter.
func (e *ParameterError) Error() string { return fmt.Sprintf("parameter %q: %s", e.Name, e.Msg) }

// Is reports whether target is ErrParameter.
func (e *ParameterError) Is(target error) bool { return target == ErrParameter }

// errNoOut is the error for a nil map of outputs.
var errNoOut error = &InputError{Name: "out", Msg: "is nil: expected a map for the outputs", output: true}

// OptionError is the error for an option that cannot be honored.
type OptionError struct {
	Option string // the field of Options
	Msg    string
}

// Error names the option.
func (e *OptionError) Error() string { return fmt.Sprintf("option %s: %s", e.Option, e.Msg) }

// Is reports whether target is ErrOption.
func (e *OptionError) Is(target error) bool { return target == ErrOption }

// UnsupportedError names a node that a backend cannot run.
type UnsupportedError struct {
	Backend string
	Node    *ir.Node
	Why     string
}

// Error names backend and node.
func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("backend %s: node %v: %s", e.Backend, e.Node, e.Why)
}

// Is reports whether target is ErrUnsupported.
func (e *UnsupportedError) Is(target error) bool { return target == ErrUnsupported }

// MemoryError is the error for a run that needs more memory than Options.MaxMemory.
type MemoryError struct {
	Need, Limit int64
	What        string // the consumer: a node, an output, or the plan for one shape
}

// Error names both sizes.
func (e *MemoryError) Error() string {
	return fmt.Sprintf("%s needs %d bytes of memory, the limit is %d", e.What, e.Need, e.Limit)
}

// Is reports whether target is ErrMemory.
func (e *MemoryError) Is(target error) bool { return target == ErrMemory }

// NodeError is an error in the evaluation of a node.
type NodeError struct {
	Node *ir.Node
	Err  error
}

// Error names the node.
func (e *NodeError) Error() string { return fmt.Sprintf("node %v: %v", e.Node, e.Err) }

// Unwrap returns the node's error.
func (e *NodeError) Unwrap() error { return e.Err }

// PanicError is a recovered panic: a mistake in the backend or in an operator, never the caller's.
type PanicError struct {
	Value any
	Stack []byte
}

// Error shows the value of the panic, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("internal error: %v", e.Value) }

// Is reports whether target is ErrInternal.
func (e *PanicError) Is(target error) bool { return target == ErrInternal }

// Ended makes an error of the panic by which a run ends at its context; it lets others go on. Executables defer it.
func Ended(err *error) {
	if v := recover(); v != nil {
		end, ok := v.(*ir.Ended)
		if !ok {
			panic(v)
		}
		*err = end.Err
	}
}

// Recovered turns the value that recover returned into an error. n is the node that was evaluated, or nil. Backends
// call it in their goroutines, where no caller can recover. For an *ir.Ended it returns the error of the context,
// for a *tensor.SourceError the error of the source.
func Recovered(n *ir.Node, value any) error {
	if end, ok := value.(*ir.Ended); ok {
		return end.Err
	}
	if bad, ok := value.(*tensor.SourceError); ok {
		return bad.Err
	}
	err := &PanicError{Value: value, Stack: debug.Stack()}
	if n == nil {
		return err
	}
	return &NodeError{Node: n, Err: err}
}
