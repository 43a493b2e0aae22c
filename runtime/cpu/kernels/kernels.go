// Package kernels registers kernels of the CPU backend for operators that a program outside of this module has defined
// (ops.Register). docs/extending.md shows the whole of it; package kernelstest checks kernels.
//
//	var gate = ops.Register(&ir.Op{Domain: "acme", Name: "Gate", …})
//
//	func init() {
//		kernels.MustRow(gate, kernels.Row{Make: func(n *kernels.Node) (kernels.RowFunc, error) { … }})
//	}
//
// An operator without a kernel runs by its Body, or as Eval defines it. A kernel changes how fast the operator is, and
// nothing else. There are two kinds, and an operator may have both:
//
//   - A row kernel computes each row by itself: the features of one step of one sample. The backend computes long
//     sequences in tiles, on several threads, and together with the operators around.
//   - A tensor kernel computes whole tensors at once, of any element types.
//
// Operators with an Element need none: their kernels follow from the expression.
//
// These rules hold for all kernels of the backend, and kernelstest checks them:
//
//   - Answers are the same, bit by bit, at any number of threads. So a kernel divides its work by shapes only, and sums
//     in a fixed order.
//   - A row depends on the same row of the inputs, on attributes, and on constants. The backend calls a row kernel for
//     rows in any order, on any thread, and of a stream chunk by chunk.
//   - Answers differ from Eval by ir.Op.Tol at most.
//   - A kernel keeps nothing of one call for the next, and writes only to its results and to its scratch memory. What
//     it makes when it is made is only read afterwards.
//
// Kernels are registered when packages are initialized, before the first graph is compiled. An error or a panic of a
// kernel becomes an *Error, which names the operator.
//
// The package imports ir, ir/tensor, ops, runtime, runtime/plan, and the lowering. It adds records to those of the
// backend itself (runtime/cpu/internal/record), and has no mechanism of its own.
package kernels

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
	"github.com/essmc/essmc/runtime/plan"
)

// Error is an error of a kernel, or of its registration.
type Error struct {
	Op   *ir.Op
	Kind string // "row" or "tensor"
	Err  error  // a *runtime.PanicError if the kernel has panicked
}

// Error names the operator.
func (e *Error) Error() string {
	msg := e.Err.Error()
	var fault *runtime.PanicError
	if errors.As(e.Err, &fault) {
		msg = fmt.Sprintf("panic: %v", fault.Value)
	}
	name := "nil"
	if e.Op != nil {
		name = e.Op.FullName()
	}
	return fmt.Sprintf("%s kernel of %s: %s", e.Kind, name, msg)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// The kinds.
const (
	kindRow    = "row"
	kindTensor = "tensor"
)

// RegisterRow registers the row kernel of an operator. It refuses operators of this module, operators that are not
// registered or not the newest version of their name, and a second kernel of the kind.
func RegisterRow(op *ir.Op, k Row) error {
	return register(op, kindRow, k.Constant, k.Make != nil, record.Record{Row: record.RowKind{
		Constant: k.Constant, Make: func(s *lowering.Step) record.RowMaker { return k.maker(op, s) }}})
}

// RegisterTensor registers the tensor kernel of an operator, as RegisterRow does.
func RegisterTensor(op *ir.Op, k Tensor) error {
	return register(op, kindTensor, k.Constant, k.Make != nil, record.Record{Tensor: record.TensorKind{
		Constant: k.Constant, Make: func(s *lowering.Step) record.TensorMaker { return k.maker(op, s) }}})
}

// MustRow is RegisterRow for the initialization of a package. It panics if there is an error.
func MustRow(op *ir.Op, k Row) {
	if err := RegisterRow(op, k); err != nil {
		panic(err)
	}
}

// MustTensor is RegisterTensor for the initialization of a package. It panics if there is an error.
func MustTensor(op *ir.Op, k Tensor) {
	if err := RegisterTensor(op, k); err != nil {
		panic(err)
	}
}

func register(op *ir.Op, kind string, constant []int, made bool, r record.Record) error {
	if err := check(op, constant, made); err != nil {
		return &Error{op, kind, err}
	}
	r.Op = op.FullName()
	if record.Add(r) != "" {
		return &Error{op, kind, fmt.Errorf("the operator has a %s kernel already", kind)}
	}
	return nil
}

// check refuses a kernel that cannot be registered.
func check(op *ir.Op, constant []int, made bool) error {
	if op == nil {
		return errors.New("no operator")
	}
	if record.Sealed.Load() {
		return errors.New("a graph was compiled before; register kernels when packages are initialized")
	}
	if p := plan.Package(op.Domain); p != "" {
		return fmt.Errorf("the operator belongs to %s; kernels are for operators of other domains", p)
	}
	if ops.Default.Resolve(op.Domain, op.Name, op.Since) != op {
		return errors.New("the operator is not registered; call ops.Register first")
	}
	if !ops.Newest(op) {
		return fmt.Errorf("version %d of the operator is not its newest", op.Since)
	}
	if op.Element != nil {
		return errors.New("the operator has an Element, from which its kernels follow")
	}
	if !made {
		return errors.New("Make is nil")
	}
	for _, i := range constant {
		if i < 0 || i >= len(op.In) {
			return fmt.Errorf("Constant has input %d, the operator has %d inputs", i, len(op.In))
		}
	}
	return nil
}

// fail ends the making of an executable, or a run, with an error that names operator and node.
func fail(op *ir.Op, kind string, s *lowering.Step, err error) {
	panic(&ir.Ended{Err: &runtime.NodeError{Node: s.Source, Err: &Error{op, kind, err}}})
}

// recovered is deferred around functions of a kernel: it makes an error of a panic. What the backend itself panics with
// goes on.
func recovered(op *ir.Op, kind string, s *lowering.Step) {
	v := recover()
	switch v.(type) {
	case nil:
		return
	case *ir.Ended, *ir.BudgetError, *tensor.SourceError:
		panic(v)
	}
	fail(op, kind, s, &runtime.PanicError{Value: v, Stack: debug.Stack()})
}
