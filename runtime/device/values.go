package device

import (
	"context"
	"errors"
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/lowering"
)

const (
	// maxDeciding is the maximum number of elements of an input whose values are bound like shapes.
	maxDeciding = 64
	// maxValues is the maximum number of cached executables for different values of such inputs.
	maxValues = 8
)

// valued runs a program in which shapes, or choices of kernels, depend on the values of small inputs, such as the
// shape of a Reshape. Inputs are on the host at the start of a run, so it binds the program for their values as for
// shapes. It caches the executables of the most recent values.
type valued struct {
	p     *program
	b     runtime.Binding
	which []int // the inputs
	made  []forValues
}

// forValues is an executable for certain values of inputs. The most recently used one comes first.
type forValues struct {
	values []byte
	e      *executable
}

// deciding returns the inputs whose values are needed by steps that cannot run without them: small integer inputs
// from which inputs of these steps are computed.
func (b *Backend) deciding(d *lowering.Binding, steps []*lowering.Step) []int {
	var which []int
	seen := map[*lowering.Value]bool{}
	for open := slices.Clone(steps); len(open) > 0; {
		s := open[0]
		open = open[1:]
		for i, v := range s.In {
			if v == nil || seen[v] || d.Constant(v) != nil || !b.decides(d, s, i) {
				continue
			}
			seen[v] = true
			if i := slices.Index(d.Program.Inputs, v); i >= 0 {
				which = append(which, i)
			} else if i := d.Made(v); i >= 0 {
				open = append(open, d.Program.Steps[i])
			}
		}
	}
	slices.Sort(which)
	return which
}

// decides reports whether the values of an input of a step can determine how it runs.
func (b *Backend) decides(d *lowering.Binding, s *lowering.Step, i int) bool {
	v := s.In[i]
	shape := d.Shape(v)
	if n, err := tensor.Size(shape); shape == nil || len(shape) > 1 || err != nil || n > maxDeciding {
		return false
	}
	switch d.DType(v) {
	case tensor.Int32, tensor.Int64:
		return true
	case tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16:
		return slices.Contains(s.Node.Op.SizedBy, i) || b.Operators.Binds(s.Node.Op.FullName(), i)
	}
	return false
}

// asks returns the inputs whose values a program must be bound for, or nil if it runs without them. err is the error
// of its plan.
func (p *program) asks(d *lowering.Binding, made *plan, err error) []int {
	if u := (*runtime.UnsupportedError)(nil); errors.As(err, &u) {
		if made, err = p.b.newPlan(d, true, nil); err != nil {
			return nil
		}
	}
	if made == nil {
		return nil
	}
	return p.b.deciding(d, made.refused)
}

// Run computes the outputs with an executable for the values of the deciding inputs.
func (x *valued) Run(ctx context.Context, in, out []tensor.Datum) error {
	e, err := x.executable(ctx, in)
	if err != nil {
		return err
	}
	return e.Run(ctx, in, out)
}

// RunKept is Run with states in the memory of the device.
func (x *valued) RunKept(ctx context.Context, in, out []tensor.Datum, states int, of []runtime.Kept) error {
	e, err := x.executable(ctx, in)
	if err != nil {
		return err
	}
	return e.RunKept(ctx, in, out, states, of)
}

// executable returns the cached executable for the values of inputs, or makes one.
func (x *valued) executable(ctx context.Context, in []tensor.Datum) (_ *executable, err error) {
	var values []byte
	for _, i := range x.which {
		if t, ok := in[i].(*tensor.Tensor); ok {
			values = append(values, t.Bytes()...)
		}
	}
	at := slices.IndexFunc(x.made, func(m forValues) bool { return string(m.values) == string(values) })
	if at >= 0 {
		m := x.made[at]
		x.made = slices.Insert(slices.Delete(x.made, at, at+1), 0, m)
		return m.e, nil
	}
	if len(x.made) == maxValues {
		last := x.made[maxValues-1].e
		x.made = x.made[:maxValues-1]
		if err := last.Close(); err != nil {
			return nil, err
		}
	}
	content := make([]*tensor.Tensor, len(in))
	for _, i := range x.which {
		if t, ok := in[i].(*tensor.Tensor); ok {
			content[i] = t.Clone() // the caller may change its own
		}
	}
	b := x.b
	b.Ctx = ctx
	e, _, err := x.p.bind(b, content)
	if err != nil {
		return nil, err
	}
	x.made = slices.Insert(x.made, 0, forValues{values, e})
	return e, nil
}

// ArenaBytes returns the memory in use on the device and on the host.
func (x *valued) ArenaBytes() (n int64) {
	for _, m := range x.made {
		n += m.e.ArenaBytes()
	}
	return n
}

// Profile returns the times of the runs with the most recent values.
func (x *valued) Profile() []runtime.StepTime {
	if len(x.made) == 0 {
		return nil
	}
	return x.made[0].e.Profile()
}

// Close frees everything.
func (x *valued) Close() error {
	var errs []error
	for _, m := range x.made {
		errs = append(errs, m.e.Close())
	}
	x.made = nil
	return first(errs...)
}
