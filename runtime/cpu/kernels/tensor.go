package kernels

import (
	"errors"
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// TensorFunc computes all outputs of a node.
type TensorFunc func(r *Run) error

// Tensor is a tensor kernel. It applies to nodes whose inputs and outputs are tensors of known shape. Other nodes run
// by the operator's Body or Eval.
type Tensor struct {
	// Constant lists the inputs, by index, that must be constants or follow from parameters only, unless they are absent.
	Constant []int
	// Make makes the kernel for a node with shapes. It asks for the slots of the inputs that it reads and of all outputs
	// that are wanted (Input, Output), and returns nil if it has no kernel for these shapes or attributes.
	Make func(n *Node) (TensorFunc, error)
}

// Slot is where the elements of an input or output are in each run.
type Slot[T tensor.Elem] struct{ slot lowering.Slot[T] }

// Input returns the slot of input i, or the zero Slot if the input is absent. If the elements have another type, the
// kernel does not apply to the node.
func Input[T tensor.Elem](n *Node, i int) Slot[T] {
	if n.In(i) == nil {
		return Slot[T]{}
	}
	return slotOf[T](n, n.step.In[i])
}

// Output returns the slot of output i, or the zero Slot if nobody wants it. If the elements have another type, the
// kernel does not apply to the node.
func Output[T tensor.Elem](n *Node, i int) Slot[T] {
	if n.Out(i) == nil {
		return Slot[T]{}
	}
	n.asked[i] = true
	return slotOf[T](n, n.step.Out[i])
}

func slotOf[T tensor.Elem](n *Node, v *lowering.Value) Slot[T] {
	if n.d == nil {
		panic("Input and Output are for tensor kernels; a row kernel gets its rows as arguments")
	}
	if n.d.DType(v) != tensor.DTypeOf[T]() {
		n.misfit = true
		return Slot[T]{}
	}
	return Slot[T]{lowering.SlotOf[T](n.d, v)}
}

// Absent reports whether there are no elements.
func (s Slot[T]) Absent() bool { return s.slot.Absent() }

// In returns the elements in a run: of an input to read, or of an output to write, which has any content before. They
// must not be kept.
func (s Slot[T]) In(r *Run) []T { return s.slot.In(r.e.Frame()) }

// Run is one run of a tensor kernel.
type Run struct {
	// Temp is the memory that Node.Temp asked for, with any content.
	Temp []float32

	e        record.Execution
	k        *tensorKernel
	parallel bool
}

// Steps ends long work when the run has failed or was cancelled (ops.Each and the like). It is for work outside of
// Parallel.
func (r *Run) Steps() *ir.EvalCtx { return r.e.Steps() }

// Parallel calls do for each item from 0 to items-1, in any order, on the threads of the session, and waits. Items
// should take some microseconds at least, and must not write to each other's results. do must not call Parallel.
func (r *Run) Parallel(items int, do func(w Worker, item int) error) error {
	if r.parallel {
		return errors.New("Parallel is called by an item of Parallel")
	}
	r.parallel = true
	defer func() { r.parallel = false }()
	return r.e.Parallel(&task{r, do}, items)
}

// Worker is what an item of Run.Parallel may use besides its arguments.
type Worker struct {
	// Scratch is the memory that Node.Scratch asked for, with any content.
	Scratch []float32
	// Steps ends long work when the run has failed or was cancelled (ops.Each and the like).
	Steps *ir.EvalCtx
}

type task struct {
	r  *Run
	do func(w Worker, item int) error
}

// Do computes an item.
func (t *task) Do(w *record.Workspace, item int) {
	k := t.r.k
	defer recovered(k.op, kindTensor, k.step)
	if err := t.do(Worker{w.Scratch[:k.scratch:k.scratch], w.Steps}, item); err != nil {
		fail(k.op, kindTensor, k.step, err)
	}
}

// tensorKernel is a tensor kernel for shapes.
type tensorKernel struct {
	op      *ir.Op
	step    *lowering.Step
	scratch int
	run     TensorFunc
}

// maker returns what makes the kernel of a step, or nil if it has none.
func (k Tensor) maker(op *ir.Op, s *lowering.Step) record.TensorMaker {
	if ops.Current(s.Node.Op) != ops.Current(op) {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel { return k.bind(op, s, d) }
}

// bind makes the kernel for shapes.
func (k Tensor) bind(op *ir.Op, s *lowering.Step, d *lowering.Binding) *record.TensorKernel {
	n := &Node{Attrs: s.Node.Attrs, step: s, d: d, in: make([][]int, len(s.Args())), out: make([][]int, len(s.Out)),
		asked: make([]bool, len(s.Out))}
	for _, of := range []struct {
		values []*lowering.Value
		shapes [][]int
	}{{s.Args(), n.in}, {s.Out, n.out}} {
		for i, v := range of.values {
			if v == nil || d.Missing(v) {
				continue
			}
			shape, fixed := d.Shape(v), v.Fixed()
			if shape == nil && fixed == nil || d.DType(v) == tensor.Invalid {
				return nil
			}
			of.shapes[i] = append([]int{}, shape...)
		}
	}
	f := k.made(op, n)
	if f == nil || n.misfit {
		return nil
	}
	t := &tensorKernel{op, s, n.scratch, f}
	made := &record.TensorKernel{Temp: n.temp, Scratch: n.scratch, Run: t.compute}
	if settled(s, k.Constant) {
		made.Refill = func() {
			again := &Node{Attrs: n.Attrs, step: s, d: d, in: n.in, out: n.out, asked: make([]bool, len(s.Out))}
			if t.run = k.made(op, again); t.run == nil || again.misfit || again.scratch != n.scratch || again.temp != n.temp {
				fail(op, kindTensor, s, errOther)
			}
		}
	}
	return made
}

// made calls Make, and checks that it has asked for all outputs.
func (k Tensor) made(op *ir.Op, n *Node) TensorFunc {
	defer recovered(op, kindTensor, n.step)
	f, err := k.Make(n)
	if err != nil {
		fail(op, kindTensor, n.step, err)
	}
	for i, asked := range n.asked {
		if f != nil && !asked && n.out[i] != nil {
			fail(op, kindTensor, n.step, fmt.Errorf("Make does not ask for output %d, which is wanted", i))
		}
	}
	return f
}

// compute runs the kernel.
func (t *tensorKernel) compute(e record.Execution, c record.Call) error {
	defer recovered(t.op, kindTensor, t.step)
	if err := t.run(&Run{Temp: c.Temp, e: e, k: t}); err != nil {
		if e.Failed() != nil { // of an item
			return err
		}
		fail(t.op, kindTensor, t.step, err)
	}
	return nil
}
