package cpu

import (
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// implementation is what runs a step with the shapes that are bound. A step that has none is evaluated as ops defines it.
type implementation struct {
	// In a region of (batch, length) rows: one of these.
	row           *record.RowOp
	recurrence    record.Recurrence
	batch, length int
	// By itself: one of these.
	streaming record.StreamingKernel
	kernel    *boundKernel
}

// joins reports whether the step is part of a region.
func (m *implementation) joins() bool { return m.row != nil || m.recurrence != nil }

// preference is the kinds of implementation in the order in which they are tried: the first that fits the shapes and element
// types that are bound runs the step, and a step that none fits is evaluated. What is part of a region comes before what is
// not, since what lies between the steps of a region stays in the cache; what goes step by step before what needs sequences
// as a whole, since it can run chunk by chunk.
//
// Two things are decided elsewhere, since they are about several steps: whether sequences become rows, so that steps are windowed,
// sums or transposes along time, before (see timeMajor); and what follows a tensor kernel number by number is done by that
// kernel, whatever kind it has itself (see epilogueOf).
var preference []kindOf

// kindOf is a kind of implementation: its name, whether an operator has it, and what it makes of a step.
type kindOf struct {
	name string
	has  func(r *record.Record, e *record.Elementwise) bool
	fit  func(d *binding, s *lowering.Step) (implementation, bool)
}

func init() {
	preference = []kindOf{
		{WayWindowed, func(r *record.Record, _ *record.Elementwise) bool { return r.Windowed.Make != nil }, (*binding).asWindowed},
		{WayRunning, func(r *record.Record, _ *record.Elementwise) bool { return r.Moves.Sum != nil }, (*binding).asRunningSum},
		{WayTranspose, func(r *record.Record, _ *record.Elementwise) bool { return r.Moves.Permute != nil }, (*binding).asTranspose},
		{WayRecurrence, func(r *record.Record, _ *record.Elementwise) bool { return r.Recurrence.Make != nil }, (*binding).asRecurrence},
		{WayElement, func(_ *record.Record, e *record.Elementwise) bool { return e != nil }, (*binding).asElementwise},
		{WayRow, func(r *record.Record, _ *record.Elementwise) bool { return r.Row.Make != nil }, (*binding).asRow},
		{WayStreaming, func(r *record.Record, _ *record.Elementwise) bool { return r.Streaming.Make != nil }, (*binding).asStreaming},
		{WayTensor, func(r *record.Record, e *record.Elementwise) bool {
			return r.Tensor.Make != nil || e != nil && e.Tensor != nil
		}, (*binding).asTensor},
		{WayProgram, func(r *record.Record, _ *record.Elementwise) bool { return r.Program != record.NoProgram }, (*binding).asProgram},
	}
}

// implementation chooses what runs a step.
func (d *binding) implementation(s *lowering.Step) implementation {
	for _, k := range preference {
		if m, ok := k.fit(d, s); ok {
			return m
		}
	}
	return implementation{}
}

func (d *binding) asWindowed(s *lowering.Step) (implementation, bool) {
	return d.alongTime(s, record.Of(s).WindowedOp != nil)
}

func (d *binding) asRunningSum(s *lowering.Step) (implementation, bool) {
	return d.alongTime(s, record.Of(s).Sums != nil)
}

func (d *binding) asTranspose(s *lowering.Step) (implementation, bool) {
	return d.alongTime(s, record.Of(s).Transpose != record.NoTranspose)
}

// alongTime is a step that timeMajor has made.
func (d *binding) alongTime(s *lowering.Step, is bool) (m implementation, ok bool) {
	if is {
		m.row, m.batch, m.length = d.asPipelined(s)
	}
	return m, is
}

func (d *binding) asRecurrence(s *lowering.Step) (m implementation, ok bool) {
	c := record.Of(s).Recurrence
	if c == nil {
		return m, false
	}
	in, _, ok := d.shapesOf(s)
	if !ok {
		return m, false
	}
	info := c.Info()
	v := in[info.VRe]
	if len(v) != 3 || v[2] != info.N || info.State >= 0 && (in[info.State] == nil || in[info.State][0] != v[0]) {
		return m, false
	}
	return implementation{recurrence: c, batch: v[0], length: v[1]}, true
}

func (d *binding) asElementwise(s *lowering.Step) (implementation, bool) {
	return d.rows(s, record.Of(s).Element != nil)
}

func (d *binding) asRow(s *lowering.Step) (implementation, bool) {
	return d.rows(s, record.Of(s).Element == nil)
}

func (d *binding) rows(s *lowering.Step, is bool) (m implementation, ok bool) {
	if !is || record.Of(s).Row == nil || s.Out[0] == nil {
		return m, false
	}
	in, out, ok := d.shapesOf(s)
	if !ok {
		return m, false
	}
	m.row, m.batch = record.Of(s).Row(in, out), 1
	m.length, _ = lowering.Features(out)
	return m, m.row != nil
}

func (d *binding) asStreaming(s *lowering.Step) (m implementation, ok bool) {
	if record.Of(s).Streaming == nil {
		return m, false
	}
	m.streaming = record.Of(s).Streaming(d.Binding)
	return m, m.streaming != nil
}

func (d *binding) asTensor(s *lowering.Step) (m implementation, ok bool) {
	if record.Of(s).Tensor == nil {
		return m, false
	}
	k := record.Of(s).Tensor(d.Binding)
	if k == nil {
		return m, false
	}
	m.kernel = &boundKernel{temp: k.Temp, scratch: k.Scratch, tables: k.Tables, fuses: k.Fuses, run: func(e *executable, u *unit) error {
		return k.Run(e, record.Call{Temp: u.temp, Result: u.result(), Epilogue: u.epilogue})
	}}
	return m, true
}

func (d *binding) asProgram(s *lowering.Step) (m implementation, ok bool) {
	m.kernel = d.controlKernel(s)
	return m, m.kernel != nil
}

// shapesOf gives the shapes of a step's inputs and of its first output, where all of those that are there are float32
// tensors of known shape; a recurrence's state may be float64.
func (d *binding) shapesOf(s *lowering.Step) (in [][]int, out []int, ok bool) {
	in = make([][]int, len(s.In))
	for i, v := range s.In {
		if v == nil || d.Missing(v) {
			continue
		}
		wide := record.Of(s).Recurrence != nil && record.Of(s).Recurrence.Info().State == i && d.Wide(v)
		if d.Shape(v) == nil || v.Const == nil && !d.IsFloat32(v) && !wide {
			return nil, nil, false
		}
		in[i] = d.Shape(v)
	}
	for i, v := range s.Out {
		if wide := v != nil && record.Of(s).Recurrence != nil && record.Of(s).Recurrence.Info().StateOut == i && d.Wide(v); v != nil && !d.IsFloat32(v) && !wide {
			return nil, nil, false
		}
	}
	if s.Out[0] != nil {
		out = d.Shape(s.Out[0])
	}
	return in, out, true
}

// boundKernel is what a unit by itself runs, for the shapes and constants of one binding.
type boundKernel struct {
	run func(e *executable, u *unit) error
	// temp is the float32 numbers of the arena that the kernel has to itself while it runs (unit.temp); scratch those
	// that each worker needs.
	temp, scratch int
	tables        int64            // bytes of constants that the first run makes
	subs          []*binding       // of subgraphs that the step runs (unit.subs); nil where one does not run
	control       lowering.Control // what runs them
	fuses         bool             // run computes unit.result, and applies unit.epilogue
}
