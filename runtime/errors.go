package runtime

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/essmc/essmc/ir"
)

// Kinds of errors, for errors.Is; the types below carry the particulars, for errors.As.
var (
	ErrInput       = errors.New("invalid input")
	ErrOption      = errors.New("invalid option")
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

// StreamError says why a model cannot run step by step.
type StreamError struct {
	Err error // names the graph, the layer and the operator; a *time.BlockedError is in it where one operator is the reason
}

// Error names what stands in the way.
func (e *StreamError) Error() string { return fmt.Sprintf("cannot run step by step: %v", e.Err) }

// Is makes it an ErrStream.
func (e *StreamError) Is(target error) bool { return target == ErrStream }

// Unwrap gives what stands in the way.
func (e *StreamError) Unwrap() error { return e.Err }

// SnapshotError says why a snapshot is refused.
type SnapshotError struct {
	Msg string
	// Have and Want are the hashes of the models that the snapshot was made with and that it was to continue, in hexadecimal;
	// empty unless it is for another model.
	Have, Want string
	// Version is the snapshot's format where it is too new for this program; 0 otherwise.
	Version uint32
}

// Error says what is wrong.
func (e *SnapshotError) Error() string { return "snapshot: " + e.Msg }

// Is makes it an ErrSnapshot.
func (e *SnapshotError) Is(target error) bool { return target == ErrSnapshot }

// InputError says what is wrong with what a caller passed to Run under a name.
type InputError struct {
	Name string // the input, or the output to write to
	Msg  string
	// output says that Name is an output.
	output bool
}

// Error names the input.
func (e *InputError) Error() string {
	if e.output {
		return fmt.Sprintf("output %q: %s", e.Name, e.Msg)
	}
	return fmt.Sprintf("input %q: %s", e.Name, e.Msg)
}

// Is makes it an ErrInput.
func (e *InputError) Is(target error) bool { return target == ErrInput }

// errNoOut says that a caller has no map for the outputs.
var errNoOut error = &InputError{Name: "out", Msg: "is nil: there is no map to put the outputs into", output: true}

// OptionError says which option cannot be honoured.
type OptionError struct {
	Option string // the field of Options
	Msg    string
}

// Error names the option.
func (e *OptionError) Error() string { return fmt.Sprintf("option %s: %s", e.Option, e.Msg) }

// Is makes it an ErrOption.
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

// Is makes it an ErrUnsupported.
func (e *UnsupportedError) Is(target error) bool { return target == ErrUnsupported }

// MemoryError says that a run needs more working memory than Options.MaxMemory.
type MemoryError struct {
	Need, Limit int64
	What        string // what needed it: a node, or the plan of one shape
}

// Error names both sizes.
func (e *MemoryError) Error() string {
	return fmt.Sprintf("%s needs %d bytes of memory, the limit is %d", e.What, e.Need, e.Limit)
}

// Is makes it an ErrMemory.
func (e *MemoryError) Is(target error) bool { return target == ErrMemory }

// NodeError is an error in the evaluation of a node.
type NodeError struct {
	Node *ir.Node
	Err  error
}

// Error names the node.
func (e *NodeError) Error() string { return fmt.Sprintf("node %v: %v", e.Node, e.Err) }

// Unwrap gives what happened.
func (e *NodeError) Unwrap() error { return e.Err }

// PanicError is a panic that was caught: a mistake in the backend or in an operator, never the caller's.
type PanicError struct {
	Value any
	Stack []byte
}

// Error shows what was panicked with, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("internal error: %v", e.Value) }

// Is makes it an ErrInternal.
func (e *PanicError) Is(target error) bool { return target == ErrInternal }

// Recovered makes an error of what recover gave, to be called where it was recovered; n is the node that was being
// evaluated, or nil. Backends use it in goroutines of their own, where no one else can recover.
func Recovered(n *ir.Node, value any) error {
	err := &PanicError{Value: value, Stack: debug.Stack()}
	if n == nil {
		return err
	}
	return &NodeError{Node: n, Err: err}
}
