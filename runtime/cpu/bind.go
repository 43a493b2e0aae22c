package cpu

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// unit is a part of a program that the executor runs as a whole: a region, or one step with the steps of its epilogue.
type unit struct {
	steps     []*lowering.Step
	region    *region // nil: one step
	streaming record.StreamingKernel
	kernel    *boundKernel
	temp      []float32
	subs      []*executable
	past      []runtime.StepTime     // measured by executables that others have replaced in subs
	epilogue  *record.Epilogue       // steps[1:]; nil: none
	result    lowering.Slot[float32] // for a kernel that applies an epilogue: the slot after it
}

// units divides the steps among units.
func (d *binding) units() []*unit {
	var all []*unit
	var open *regionBuilder
	flush := func() {
		if open != nil {
			d.Steps().Pause()
			all = append(all, &unit{steps: open.steps, region: open.finish(d)})
			open = nil
		}
	}
	taken := map[*lowering.Step]bool{}
	for _, s := range d.p.Steps {
		d.Steps().Step(200)
		if d.Dead(s) || taken[s] {
			continue
		}
		m := d.implementation(s)
		if !m.joins() {
			flush()
			u := &unit{steps: []*lowering.Step{s}, streaming: m.streaming, kernel: m.kernel}
			u.absorb(d)
			for _, r := range u.steps[1:] {
				taken[r] = true
			}
			all = append(all, u)
			continue
		}
		if open != nil && !open.takes(d, s, m.row, m.recurrence, m.batch, m.length) {
			flush()
		}
		if open == nil {
			open = &regionBuilder{group: s.Group, rows: m.batch * m.length}
		}
		open.add(s, m.row, m.recurrence, m.batch, m.length)
	}
	flush()
	return all
}

// regionBuilder collects the steps of a region.
type regionBuilder struct {
	group, rows   int
	steps         []*lowering.Step
	ops           []*record.RowOp
	covers        []*lowering.Step  // the steps before fusion
	between       []*lowering.Value // values between fused steps
	recurrence    record.Recurrence
	recurrenceAt  int
	batch, length int
	pipelined     bool // a step looks back or ahead, or brings sequences into rows
	weights       int  // constant numbers that every tile reads
}

// mostSteps bounds the steps of a region, whose preparation compares all pairs of steps.
const mostSteps = 128

// takes reports whether s can join the region.
func (r *regionBuilder) takes(d *binding, s *lowering.Step, op *record.RowOp, c record.Recurrence,
	batch, length int) bool {
	if len(r.steps) == mostSteps || s.Group != r.group || batch*length != r.rows || !r.pipelinedWith(d, s, op, c, batch, length) {
		return false
	}
	if r.recurrence == nil {
		return true
	}
	// The state is written after the last tile. With one step, it has as many rows as the sequence.
	of := r.steps[r.recurrenceAt]
	if out := r.recurrence.Info().StateOut; out >= 0 && slices.Contains(s.In, of.Out[out]) {
		return false
	}
	// A second recurrence starts a region of its own, together with the other steps of its system: the weights of two
	// layers would drive each other out of the cache.
	return c == nil && (s.Source == of.Source || !ops.IsSystem(s.Source.Op))
}

func (r *regionBuilder) add(s *lowering.Step, op *record.RowOp, c record.Recurrence, batch, length int) {
	if c != nil {
		r.recurrence, r.recurrenceAt, r.batch, r.length = c, len(r.steps), batch, length
	}
	if pipelined(op) {
		r.pipelined, r.batch, r.length = true, batch, length
	}
	r.weights += constantNumbers(s)
	r.steps = append(r.steps, s)
	r.ops = append(r.ops, op)
}

// Bind returns an executable for the shapes of b. It chooses implementations, forms and tiles, and allocates memory.
func (p *program) Bind(b runtime.Binding) (runtime.Executable, error) {
	if len(b.Inputs) != len(p.Inputs) {
		return nil, fmt.Errorf("binding: expected types of %d inputs, found %d", len(p.Inputs), len(b.Inputs))
	}
	d := p.lookup(b)
	defer d.Bound()
	if err := d.Err(); err != nil {
		return nil, err
	}
	var e *executable
	if err := d.Build(func() (err error) {
		d = d.timeMajor()
		e, err = newExecutable(d, d.units(), nil, nil)
		return err
	}); err != nil {
		return nil, err
	}
	p.warnSlow(e, b.Dims)
	return e, nil
}

// Explain returns the forms of the recurrences, the way in which loops run and, if low precision was asked for, the
// precision of the products.
func (p *program) Explain(b runtime.Binding) ([]runtime.Choice, error) {
	if len(b.Inputs) != len(p.Inputs) {
		return nil, fmt.Errorf("binding: expected types of %d inputs, found %d", len(p.Inputs), len(b.Inputs))
	}
	d := p.lookup(b)
	if err := d.Err(); err != nil {
		return nil, err
	}
	var all, products []runtime.Choice
	err := d.Build(func() error {
		all, products = d.timeMajor().choices()
		return nil
	})
	return append(all, products...), err
}
