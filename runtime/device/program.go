package device

import (
	"fmt"
	"sync"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/lowering"
)

// program is a lowered graph, with its compiled kernels and its constants in the memory of the device.
type program struct {
	*lowering.Program
	b         *Backend
	v         Device
	modules   Modules
	constants *constants

	mu   sync.Mutex
	made map[*executable]bool // open ones, without those of subgraphs
	kept map[*kept]bool       // the states of streams
}

func newProgram(p *lowering.Program, b *Backend, v Device, shared *runtime.Constants) *program {
	return &program{Program: p, b: b, v: v, modules: v.NewModules(),
		constants: &constants{v: v, shared: shared, idle: b.Idle, used: map[Key]*entry{}},
		made:      map[*executable]bool{}}
}

// Close frees everything that the program has on the device, including its executables.
func (p *program) Close() error {
	p.mu.Lock()
	var errs []error
	for e := range p.made {
		errs = append(errs, e.close())
	}
	for k := range p.kept {
		errs = append(errs, k.close())
	}
	p.made, p.kept = nil, nil
	p.mu.Unlock()
	errs = append(errs, p.modules.Close(), p.constants.close(), p.b.release())
	return first(errs...)
}

// Bind returns an executable for the shapes of b. It chooses kernels, compiles new ones, and allocates memory. If
// shapes depend on the values of inputs, runs with new values do this too.
func (p *program) Bind(b runtime.Binding) (_ runtime.Executable, err error) {
	defer runtime.Ended(&err)
	if err := p.v.Lost(); err != nil {
		return nil, err
	}
	e, which, err := p.bind(b, nil)
	if err != nil {
		return nil, err
	}
	if which != nil {
		b.Ctx = nil
		return &valued{p: p, b: b, which: which}, nil
	}
	return e, nil
}

// bind makes an executable for shapes and for content, the bound values of inputs. Without content, it may return
// the inputs to bind instead.
func (p *program) bind(b runtime.Binding, content []*tensor.Tensor) (e *executable, which []int, err error) {
	err = p.with(b, content, func(d *lowering.Binding) error {
		return d.Build(func() error {
			plan, err := p.b.newPlan(d, p.b.Fallback, nil)
			if content == nil {
				if which = p.asks(d, plan, err); which != nil {
					return nil
				}
			}
			if err == nil {
				e, err = newExecutable(p, plan, nil)
			}
			return err
		})
	})
	if e != nil && err == nil {
		p.mu.Lock()
		p.made[e] = true
		p.mu.Unlock()
	}
	return e, which, err
}

// with calls f with a binding.
func (p *program) with(b runtime.Binding, content []*tensor.Tensor, f func(d *lowering.Binding) error) error {
	if len(b.Inputs) != len(p.Inputs) {
		return fmt.Errorf("binding: expected types of %d inputs, found %d", len(p.Inputs), len(b.Inputs))
	}
	d := p.Program.Bind(b, content)
	defer d.Bound()
	if err := d.Err(); err != nil {
		return err
	}
	return f(d)
}
