package lowering

import (
	"context"
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir/tensor"
)

// Control runs the subgraphs of one If, Loop or Scan for one executable. The backend makes executables of the
// programs. Control gives them their inputs, decides how often they run, and stores their results, in the same way
// for all backends.
type Control interface {
	// Programs returns the bindings of the programs that run, with nil for one that never runs.
	Programs() []*Binding
	// Repeated describes how the inputs of program k of a loop follow from the previous iteration. It returns nil if
	// k does not run several times in a row, or if other programs may run instead.
	Repeated(k int) *Repeated
	// Memory returns the size of the memory that Run needs, in bytes, besides that of the programs.
	Memory() int
	// Attach receives an executable for each of Programs, and Memory bytes of zeros, at a multiple of align, that
	// nothing else uses during Run. It is called once, before Run.
	Attach(runners []Runner, memory []byte, n Nester)
	// Run computes the step. All outputs of known shape must have memory, in the frame or from the caller.
	Run(ctx context.Context, f *Frame) error
}

// Runner is the executable of a program within a program. Its Run is like a runtime.Executable's, with one
// exception: a result that it stores where out[i] is nil may share memory with constants, and with data in in that
// has no memory of its own, like the results of a Frame that is Nested. Tensors are in memory that the processor can
// read and write, even if the backend has memory elsewhere.
type Runner interface {
	// Run computes the outputs of the program from its inputs.
	Run(ctx context.Context, in, out []tensor.Datum) error
}

// Repeated describes how the inputs of a program follow from the previous iteration of a loop.
type Repeated struct {
	Carried []Carried // inputs that are results of the previous iteration
	Still   []int     // inputs that do not change
}

// Carried is an input of a program, and the output that becomes it in the next iteration.
type Carried struct{ In, Out int }

// Repeater is a Runner that keeps values on its device between iterations of a loop. It chooses which of the values
// in Control.Repeated it keeps.
type Repeater interface {
	Runner
	// Repeat is Run for an iteration of a loop. In the first iteration of a run, in has all inputs. Later, kept
	// inputs are replaced by tensors of their types with other content. Kept results are not written to out, which
	// has tensors of their types.
	Repeat(ctx context.Context, first bool, in, out []tensor.Datum) error
	// Fetch writes the kept results of the last iteration to out.
	Fetch(ctx context.Context, out []tensor.Datum) error
}

// Appender is a Runner that knows which outputs start with an input.
type Appender interface {
	Runner
	// Appends reports whether Run accepts the memory of input in for output out, if both start at the same address:
	// it writes only after the input.
	Appends(in, out int) bool
}

// Nester makes executables during a run, for bodies whose input shapes were not known before. It runs one of them at
// a time.
type Nester interface {
	// Nest returns an executable of d.
	Nest(d *Binding) (Runner, error)
	// Drop frees what Nest returned. It is not run again.
	Drop(r Runner) error
	// Keeps returns the number of executables that are kept in case their shapes return, at least one.
	Keeps() int
}

// Control returns the Control of a step. It returns nil if its subgraphs are not programs, or do not fit the bound
// types, so that the step is evaluated as a whole. Each tensor in its memory starts at a multiple of align bytes.
func (d *Binding) Control(s *Step, align int) Control {
	switch {
	case d.branches[s] != nil:
		return d.newBranching(s)
	case d.bodies[s] != nil:
		if r := d.newLooping(s, align); r != nil {
			return r
		}
	}
	return nil
}

// branching is the Control of an If.
type branching struct {
	s       *Step
	bound   *[2]*Binding
	direct  [2][]bool // by branch and output: whether the branch writes directly to the step's output
	runners []Runner
	in, out [2][]tensor.Datum
}

func (d *Binding) newBranching(s *Step) *branching {
	r := &branching{s: s, bound: d.branches[s]}
	for k, b := range r.bound {
		if b == nil {
			continue
		}
		r.direct[k] = make([]bool, len(s.Out))
		for i, v := range s.Out {
			r.direct[k][i] = v != nil && b.gives(i, d.Shape(v))
		}
	}
	return r
}

func (r *branching) Programs() []*Binding   { return r.bound[:] }
func (r *branching) Repeated(int) *Repeated { return nil }
func (r *branching) Memory() int            { return 0 }

func (r *branching) Attach(runners []Runner, _ []byte, _ Nester) {
	r.runners = runners
	for k, b := range r.bound {
		if b != nil {
			r.in[k] = make([]tensor.Datum, len(b.Program.Inputs))
			r.out[k] = make([]tensor.Datum, len(b.Program.Outputs))
		}
	}
}

func (r *branching) Run(ctx context.Context, f *Frame) error {
	s := r.s
	cond, ok := f.Datum(s.In[0]).(*tensor.Tensor)
	if !ok || cond.DType() != tensor.Bool || cond.Len() != 1 {
		return fmt.Errorf("cond: expected one bool, found %s", tensor.Describe(f.Datum(s.In[0])))
	}
	k := 0
	if tensor.Data[bool](cond)[0] {
		k = 1
	}
	sub, in, out, direct := r.bound[k], r.in[k], r.out[k], r.direct[k]
	if sub == nil || sub.refused {
		return f.Evaluate(ctx, s) // returns the operator's error
	}
	for i, v := range s.branches[k].In {
		in[i] = f.Datum(v)
	}
	for i, v := range s.Out {
		out[i] = nil
		if direct[i] {
			out[i] = f.Datum(v)
		}
	}
	defer func() {
		clear(in)
		clear(out)
	}()
	if err := r.runners[k].Run(ctx, in, out); err != nil {
		return err
	}
	for i, v := range s.Out {
		if v == nil || direct[i] {
			continue
		}
		if err := f.Store(v, out[i]); err != nil {
			return fmt.Errorf("output %d (%s): %w", i, v.Name, err)
		}
	}
	return nil
}

// gives reports whether output i of the program has the given shape. It is false if either shape is unknown.
func (d *Binding) gives(i int, shape []int) bool {
	o := d.Shape(d.Program.Outputs[i])
	return shape != nil && o != nil && slices.Equal(o, shape)
}
