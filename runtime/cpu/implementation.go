package cpu

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/runtime/cpu/internal/elementwise"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// implementation runs a step with the bound shapes. The zero value means evaluation, as package ops defines the
// operator.
type implementation struct {
	// One of these in a region of (batch, length) rows.
	row           *record.RowOp
	recurrence    record.Recurrence
	batch, length int
	// One of these outside of regions.
	streaming record.StreamingKernel
	kernel    *boundKernel
}

// joins reports whether the step is part of a region.
func (m *implementation) joins() bool { return m.row != nil || m.recurrence != nil }

// preference lists the kinds of implementation in the order in which they are tried. The first that fits the bound
// shapes and element types runs the step; a step that none fits is evaluated. Kinds that are parts of regions come
// before others, since values between the steps of a region stay in the cache. Kinds that go step by step come
// before those that need whole sequences, since they can run in time chunks.
//
// Two decisions concern several steps and are made elsewhere. Whether sequences become rows, so that steps are
// windowed, running sums or transposes, is decided before (see timeMajor). Elementwise steps after a tensor kernel
// become its epilogue, whatever kinds they have themselves (see epilogueOf).
var preference []kindOf

// kindOf is a kind of implementation.
type kindOf struct {
	name string                                                    // a value of Implementation.Way
	fit  func(d *binding, s *lowering.Step) (implementation, bool) // false where s does not fit
	// whether an operator has it; nil: none, as it is of steps that the lowering makes
	has func(op *ir.Op, r *record.Record) bool
}

func init() {
	preference = []kindOf{
		{WayWindowed, (*binding).asWindowed, func(_ *ir.Op, r *record.Record) bool { return r.Windowed.Make != nil }},
		{WayRunning, (*binding).asRunningSum, func(op *ir.Op, _ *record.Record) bool { return op.Sums != nil }},
		{WayTranspose, (*binding).asTranspose, nil},
		{WayRecurrence, (*binding).asRecurrence, func(_ *ir.Op, r *record.Record) bool { return r.Recurrence.Make != nil }},
		{WayElement, (*binding).asElementwise, func(op *ir.Op, _ *record.Record) bool { return elementwise.Of(op) }},
		{WayRow, (*binding).asRow, func(_ *ir.Op, r *record.Record) bool { return r.Row.Make != nil }},
		{WayStreaming, (*binding).asStreaming, func(_ *ir.Op, r *record.Record) bool { return r.Streaming.Make != nil }},
		{WayTensor, (*binding).asTensor, func(op *ir.Op, r *record.Record) bool {
			return r.Tensor.Make != nil || elementwise.Broadcasts(op)
		}},
		{WayProgram, (*binding).asProgram, func(_ *ir.Op, r *record.Record) bool { return r.Program != record.NoProgram }},
	}
}

// implementation returns the preferred implementation of a step.
func (d *binding) implementation(s *lowering.Step) implementation {
	mark := d.Charged()
	for _, k := range preference {
		if m, ok := k.fit(d, s); ok {
			return m
		}
		d.Discharge(mark)
	}
	return implementation{}
}

func (d *binding) asWindowed(s *lowering.Step) (implementation, bool) {
	return d.alongTime(s, record.Of(s).WindowedOp != nil)
}

func (d *binding) asRunningSum(s *lowering.Step) (implementation, bool) {
	return d.alongTime(s, s.Rows.Does(lowering.RowsSum))
}

func (d *binding) asTranspose(s *lowering.Step) (implementation, bool) {
	return d.alongTime(s, s.Rows.Transposes())
}

// alongTime returns the implementation of a step that timeMajor has made.
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
	if k, ok := m.streaming.(record.Formed); ok {
		k.Choose(chooseForm(d.p.Config.Kernel, d.p.costs, s, k).Form)
	}
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
	m.kernel = &boundKernel{temp: k.Temp, scratch: k.Scratch, tables: k.Tables, fuses: k.Fuses, joins: k.Joins, renames: k.Renames,
		refill: k.Refill,
		run: func(e *executable, u *unit) error {
			return k.Run(e, record.Call{Temp: u.temp, Result: u.result, Epilogue: u.epilogue})
		}}
	return m, true
}

func (d *binding) asProgram(s *lowering.Step) (m implementation, ok bool) {
	m.kernel = d.controlKernel(s)
	return m, m.kernel != nil
}

// shapesOf returns the shapes of a step's inputs and of its first output; nil for absent ones. ok is false unless all
// that are present are float32 tensors, inputs of known shape; a recurrence's state may be float64.
func (d *binding) shapesOf(s *lowering.Step) (in [][]int, out []int, ok bool) {
	in = make([][]int, len(s.In))
	for i, v := range s.In {
		if v == nil || d.Missing(v) {
			continue
		}
		wide := record.Of(s).Recurrence != nil && record.Of(s).Recurrence.Info().State == i && d.Wide(v)
		if d.Shape(v) == nil || v.Fixed() == nil && !d.IsFloat32(v) && !wide {
			return nil, nil, false
		}
		in[i] = d.Shape(v)
	}
	for i, v := range s.Out {
		if v == nil || d.IsFloat32(v) {
			continue
		}
		if r := record.Of(s).Recurrence; r == nil || r.Info().StateOut != i || !d.Wide(v) {
			return nil, nil, false
		}
	}
	if s.Out[0] != nil {
		out = d.Shape(s.Out[0])
	}
	return in, out, true
}

// boundKernel computes a unit other than a region, for the shapes and constants of one binding.
type boundKernel struct {
	run func(e *executable, u *unit) error
	// temp is the number of float32 of the arena that the kernel uses while it runs (unit.temp); scratch is the number
	// that each worker needs.
	temp, scratch int
	tables        int64            // bytes of tables that the first run makes
	subs          []*binding       // of the step's subgraphs (unit.subs); nil for one that does not run
	control       lowering.Control // runs subs
	fuses         bool             // run applies unit.epilogue
	renames       bool             // the result may share the memory of input 0 (record.TensorKernel.Renames)
	// offsets in bytes in the result where the step's inputs may be (record.TensorKernel.Joins)
	joins  []int
	refill func() // record.TensorKernel.Refill
}
