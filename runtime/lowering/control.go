package lowering

import (
	"context"
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir/tensor"
)

// Control runs the subgraphs of one If, Loop or Scan, for one executable. The backend makes executables of the programs; what they
// read and write, how often they run, and where results belong, is the same for all backends.
type Control interface {
	// Programs returns the programs that run, as they are bound; nil stands for one that never runs.
	Programs() []*Binding
	// Memory is how many bytes Run needs to itself, besides what the programs hold.
	Memory() int
	// Attach hands over an executable for each of Programs, and Memory bytes that nothing else uses while Run runs: zeros, at a
	// multiple of align. It is called once, before Run.
	Attach(runners []Runner, memory []byte, n Nester)
	// Run computes the step. All outputs of known shape have a place in the frame, or are computed where the caller wants them.
	Run(ctx context.Context, f *Frame) error
}

// Runner is the executable of a program within a program. Its Run is that of a runtime.Executable, save that what it stores
// where out[i] is nil may share storage with constants, and with data that in holds and that has no place of its own: what a
// Frame that is Nested gives. Tensors lie where the processor can read and write them; a backend whose memory is elsewhere
// gives places that both reach.
type Runner interface {
	// Run computes the outputs of the program from its inputs.
	Run(ctx context.Context, in, out []tensor.Datum) error
}

// Nester makes executables while a program runs: of bodies whose inputs turn out to have shapes that were not known before.
type Nester interface {
	// Nest makes an executable of d. It takes the place of old, which runs no more and may be nil.
	Nest(d *Binding, old Runner) (Runner, error)
}

// Control returns what runs the subgraphs of a step; nil where they have no programs, or these do not fit what is bound: then the
// step is evaluated as a whole. Each piece of the memory that it asks for begins at a multiple of align bytes.
func (d *Binding) Control(s *Step, align int) Control {
	switch {
	case d.branches[s] != nil:
		return &branching{s: s, bound: d.branches[s]}
	case d.bodies[s] != nil:
		if r := d.newLooping(s, align); r != nil {
			return r
		}
	}
	return nil
}

// branching runs one of two programs.
type branching struct {
	s       *Step
	bound   *[2]*Binding
	runners []Runner
	in, out [2][]tensor.Datum
}

func (r *branching) Programs() []*Binding { return r.bound[:] }
func (r *branching) Memory() int          { return 0 }

func (r *branching) Attach(runners []Runner, _ []byte, _ Nester) {
	r.runners = runners
	for k, b := range r.bound {
		if b != nil {
			r.in[k], r.out[k] = make([]tensor.Datum, len(b.Program.Inputs)), make([]tensor.Datum, len(b.Program.Outputs))
		}
	}
}

func (r *branching) Run(ctx context.Context, f *Frame) error {
	s := r.s
	cond, ok := f.Datum(s.In[0]).(*tensor.Tensor)
	if !ok || cond.DType() != tensor.Bool || cond.Len() != 1 {
		return fmt.Errorf("cond: expected one bool, found %v", f.Datum(s.In[0]))
	}
	k := 0
	if tensor.Data[bool](cond)[0] {
		k = 1
	}
	sub, in, out := r.bound[k], r.in[k], r.out[k]
	if sub == nil || sub.refused {
		return f.Evaluate(ctx, s) // says what is wrong
	}
	for i, v := range s.branches[k].In {
		in[i] = f.Datum(v)
	}
	for i, v := range s.Out {
		out[i] = nil
		if v != nil && sub.gives(i, f.Binding.Shape(v)) {
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
		if v == nil || sub.gives(i, f.Binding.Shape(v)) {
			continue
		}
		if err := f.Store(v, out[i]); err != nil {
			return fmt.Errorf("output %d (%s): %w", i, v.Name, err)
		}
	}
	return nil
}

// gives reports whether output i of the program is known to have the given shape; nil is a shape that is not known.
func (d *Binding) gives(i int, shape []int) bool {
	o := d.Shape(d.Program.Outputs[i])
	return shape != nil && o != nil && slices.Equal(o, shape)
}
