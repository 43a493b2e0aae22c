// Package toy is a backend in plain loops. As the second user of runtime/lowering, it shows that nothing there is
// specific to the CPU backend. It is also the shortest example of a backend. Some operators of each kind have loops
// (kernels.go); all others are evaluated as package ops defines them.
//
// The package imports ir, ops, runtime and runtime/lowering, and neither runtime/cpu nor runtime/ref. Its invariant:
// each value of known shape is in the arena during its lifetime, and reads as NaN before and after it, so a wrong
// lifetime or a wrong offset shows in the answers.
package toy

import (
	"context"
	"fmt"
	"time"
	"unsafe"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	_ "github.com/essmc/essmc/ops/essm" // operators that models hold
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/lowering"
)

// New returns the backend.
func New() runtime.Backend { return backend{} }

type backend struct{}

func (backend) Name() string          { return "toy" }
func (backend) Resolver() ir.Resolver { return ops.Default }

// Compile lowers g.
func (b backend) Compile(g *ir.Graph, c runtime.Config) (runtime.Program, error) {
	if c.Wide || c.Products != tensor.Invalid && c.Products != tensor.Float32 {
		return nil, &runtime.OptionError{Option: "Precision", Msg: "the toy backend computes in float32"}
	}
	if c.TF32 {
		return nil, &runtime.OptionError{Option: "TF32", Msg: "the toy backend computes in float32"}
	}
	if c.Observe != nil {
		return nil, &runtime.OptionError{Option: "Observe",
			Msg: "the toy backend replaces operators by their bodies and cannot show all values"}
	}
	p, err := lowering.Lower(g, c, b)
	if err != nil {
		return nil, err
	}
	return program{p}, nil
}

// Implement looks for a loop. newExecutable checks whether it fits the shapes.
func (backend) Implement(_ *lowering.Compiler, s *lowering.Step) lowering.Support {
	if _, ok := ops.Element(s.Node); ok {
		s.Impl = maker(elementwise)
		return lowering.Implemented
	}
	mk := makers[s.Node.Op.FullName()]
	if s.Node.Op.Reshapes {
		mk = copying
	}
	if mk != nil && ops.Newest(s.Node.Op) {
		s.Impl = mk
		return lowering.Implemented
	}
	if s.Node.Op.Eval != nil {
		return lowering.Evaluate
	}
	return lowering.Expand
}

type program struct{ *lowering.Program }

func (p program) Bind(b runtime.Binding) (runtime.Executable, error) {
	if len(b.Inputs) != len(p.Inputs) {
		return nil, fmt.Errorf("binding: expected types of %d inputs, found %d", len(p.Inputs), len(b.Inputs))
	}
	return newExecutable(p.bind(b), false)
}

// bind brings sequences into rows where steps look along time.
func (p program) bind(b runtime.Binding) *lowering.Binding {
	return p.Program.Bind(b, nil).TimeMajor(backend{})
}

// Lowered returns the program as text; if b is not nil, with shapes and the places of values.
func (p program) Lowered(b *runtime.Binding) (string, error) {
	if b == nil {
		return p.String(), nil
	}
	e, err := newExecutable(p.bind(*b), false)
	if err != nil {
		return "", err
	}
	return e.Binding.Text(e.notes()), nil
}

func (e *executable) notes() *lowering.Notes {
	return &lowering.Notes{
		Step: func(s *lowering.Step) string {
			for _, u := range e.units {
				if u.step == s {
					return u.form()
				}
			}
			return ""
		},
		Value: func(v *lowering.Value) string {
			t := e.PlaceOf(v)
			if t == nil || len(t.Bytes()) == 0 {
				return ""
			}
			return fmt.Sprint(uintptr(unsafe.Pointer(&t.Bytes()[0])) - uintptr(unsafe.Pointer(&e.Memory[0])))
		},
		Within: func(s *lowering.Step, k int) *lowering.Notes {
			for _, u := range e.units {
				if u.step == s && u.control != nil {
					return u.subs[k].notes()
				}
			}
			return nil
		},
	}
}

func (p program) Explain(runtime.Binding) ([]runtime.Choice, error) { return nil, nil }
func (p program) Close() error                                      { return nil }

// executable runs the steps one after the other.
type executable struct {
	lowering.Frame
	units []unit
	times []runtime.StepTime
}

// unit is one step.
type unit struct {
	step    *lowering.Step
	kernel  kernel           // nil: see control
	control lowering.Control // beside kernel; nil if the step is evaluated
	reads   []lowering.Slot[float32]
	writes  []lowering.Slot[float32]
	in, out [][]float32   // the elements there, for kernel
	subs    []*executable // of the programs of control; nil for one that does not run
	dies    [][]byte      // memory of values whose lifetime ends here
}

// kernel computes the outputs from the inputs; nil for absent ones.
type kernel func(c *ir.EvalCtx, out, in [][]float32)

// maker makes the kernel of a step for the shapes that are bound. It returns nil if they do not fit.
type maker func(d *lowering.Binding, s *lowering.Step) kernel

func (maker) String() string { return "loop" }

const align = tensor.Align

func newExecutable(d *lowering.Binding, nested bool) (e *executable, err error) {
	if err := d.Err(); err != nil {
		return nil, err
	}
	err = d.Build(func() error {
		e = &executable{Frame: d.NewFrame(nested)}
		var order [][]*lowering.Step
		for _, s := range d.Program.Steps {
			if d.Dead(s) {
				continue
			}
			e.units, order = append(e.units, e.unit(s)), append(order, []*lowering.Step{s})
		}
		return e.place(d.Lives(order))
	})
	if err != nil {
		return nil, err
	}
	if d.Program.Config.Profile {
		for _, u := range e.units {
			e.times = append(e.times, runtime.StepTime{Name: u.step.Source.String(), Op: u.step.Source.Op.FullName(),
				Form: u.form()})
		}
	}
	return e, nil
}

// unit returns the unit of a step, with its kernel or control.
func (e *executable) unit(s *lowering.Step) unit {
	u := unit{step: s}
	if mk, ok := s.Impl.(maker); ok && floats(e.Binding, s) && (s.Rows != nil || e.Binding.Fits(s)) {
		u.kernel = mk(e.Binding, s)
	}
	if u.kernel == nil {
		u.control = e.Binding.Control(s, align)
		return u
	}
	u.in, u.out = make([][]float32, len(s.In)), make([][]float32, len(s.Out))
	for _, v := range s.In {
		var x lowering.Slot[float32]
		if v != nil && e.Binding.IsFloat32(v) { // kernels take fixed inputs of other types from the step
			x = lowering.SlotOf[float32](e.Binding, v)
		}
		u.reads = append(u.reads, x)
	}
	for _, v := range s.Out {
		u.writes = append(u.writes, lowering.SlotOf[float32](e.Binding, v))
	}
	return u
}

// floats reports whether all inputs and outputs of a step are float32, except for constants and settled ones.
func floats(d *lowering.Binding, s *lowering.Step) bool {
	for _, v := range s.In {
		if v != nil && v.Fixed() == nil && !d.IsFloat32(v) {
			return false
		}
	}
	for _, v := range s.Out {
		if v != nil && !d.IsFloat32(v) {
			return false
		}
	}
	return true
}

func (u *unit) form() string {
	switch {
	case u.kernel != nil:
		return "loop"
	case u.control != nil:
		return "program"
	}
	return "eval"
}

// place allocates the arena and makes the executables of subgraphs.
func (e *executable) place(lives []lowering.Life) error {
	d := e.Binding
	var all []lowering.Interval
	var use []func(b []byte) error // per interval: called with its memory
	elsewhere := map[*lowering.Value]bool{}
	for i, v := range d.Program.Outputs {
		elsewhere[v] = elsewhere[v] || e.Direct(i)
	}
	for i := range e.units {
		u := &e.units[i]
		for _, v := range u.step.Out {
			if v == nil || d.Shape(v) == nil || elsewhere[v] || d.Fixed(v) != nil {
				continue
			}
			dtype, shape, life := d.DType(v), d.Shape(v), lives[v.ID]
			if dtype == tensor.String {
				if err := e.PlaceText(v); err != nil {
					return err
				}
				continue
			}
			n, _ := tensor.Size(shape)
			size := tensor.ByteSize(dtype, n)
			all = append(all, lowering.Interval{First: life.First, Last: life.Last, Size: size})
			use = append(use, func(b []byte) error {
				t, err := tensor.FromBytes(dtype, shape, b)
				if err != nil {
					return err
				}
				e.Place(v, t)
				if life.Last < len(e.units) {
					e.units[life.Last].dies = append(e.units[life.Last].dies, b)
				}
				return nil
			})
		}
		if u.control == nil {
			continue
		}
		all = append(all, lowering.Interval{First: i, Last: i, Size: u.control.Memory()})
		use = append(use, func(b []byte) error {
			u.dies = append(u.dies, b)
			var runners []lowering.Runner
			for _, d := range u.control.Programs() {
				if d == nil {
					u.subs, runners = append(u.subs, nil), append(runners, nil)
					continue
				}
				r, err := e.Nest(d)
				if err != nil {
					return err
				}
				u.subs, runners = append(u.subs, r.(*executable)), append(runners, r)
			}
			u.control.Attach(runners, b, e)
			return nil
		})
	}
	offsets, size := lowering.Place(d.Steps(), all, align)
	if err := e.Hold(int64(size), "the plan of graph "+d.Program.Graph.Name); err != nil {
		return err
	}
	e.Memory = tensor.AlignedBytes(size)
	for i, v := range all {
		if err := use[i](e.Memory[offsets[i] : offsets[i]+v.Size]); err != nil {
			return err
		}
	}
	return nil
}

// Nest returns the executable of a branch or a body.
func (e *executable) Nest(d *lowering.Binding) (lowering.Runner, error) {
	sub, err := newExecutable(d, true)
	if err != nil {
		return nil, err
	}
	return sub, nil
}

// Drop gives back the executable of a body.
func (e *executable) Drop(r lowering.Runner) error {
	r.(*executable).release()
	return nil
}

// Keeps is small, so that bodies give way in tests.
func (e *executable) Keeps() int { return 4 }

// Run computes the outputs.
func (e *executable) Run(ctx context.Context, in, out []tensor.Datum) (err error) {
	defer runtime.Ended(&err)
	defer e.End()
	if err := e.Begin(ctx, in, out); err != nil {
		return err
	}
	poison(e.Binding.Steps(), e.Memory)
	for i := range out {
		if e.Direct(i) {
			poison(e.Binding.Steps(), out[i].(*tensor.Tensor).Bytes())
		}
	}
	for i := range e.units {
		if err := ctx.Err(); err != nil {
			return err
		}
		start := time.Now()
		if err := e.run(ctx, &e.units[i]); err != nil {
			return err
		}
		if e.times != nil {
			e.times[i].Calls++
			e.times[i].Time += time.Since(start)
		}
	}
	return e.Finish(out)
}

func (e *executable) run(ctx context.Context, u *unit) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = u.step.Recovered(v)
		}
	}()
	switch {
	case u.kernel != nil:
		for i, x := range u.reads {
			u.in[i] = x.In(&e.Frame)
		}
		for i, y := range u.writes {
			u.out[i] = y.In(&e.Frame)
		}
		u.kernel(e.Binding.Steps(), u.out, u.in)
	case u.control != nil:
		err = u.control.Run(ctx, &e.Frame)
	default:
		err = e.Evaluate(ctx, u.step)
	}
	for _, b := range u.dies {
		poison(e.Binding.Steps(), b)
	}
	return u.step.Failure(ctx, err)
}

// poison fills memory so that it reads as NaN in all floating-point types.
func poison(c *ir.EvalCtx, b []byte) { ops.Fill(c, b, 0xff) }

func (e *executable) ArenaBytes() int64           { return e.Held() }
func (e *executable) Profile() []runtime.StepTime { return e.times }

// release releases the charges of the executable and of its subgraphs' executables.
func (e *executable) release() {
	e.Release()
	for _, u := range e.units {
		for _, sub := range u.subs {
			if sub != nil {
				sub.release()
			}
		}
	}
}

func (e *executable) Close() error {
	e.release()
	*e = executable{}
	return nil
}
