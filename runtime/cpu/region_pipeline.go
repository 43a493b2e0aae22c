package cpu

import (
	"slices"

	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// asPipelined says how a step that looks along time, or transposes sequences, is part of a region.
func (d *binding) asPipelined(s *lowering.Step) (op *record.RowOp, batch, length int) {
	lies := s.Out[0]
	if record.Of(s).Transpose == record.FromRows {
		lies = s.In[0]
	}
	batch, length, _, _ = d.Along(lies)
	op = &record.RowOp{Operands: record.First, Windowed: record.Of(s).WindowedOp, Sums: record.Of(s).Sums, Transpose: record.Of(s).Transpose}
	if w := record.Of(s).WindowedOp; w != nil && w.Back() == 0 && w.Ahead() == 0 {
		op.Windowed, op.Run = nil, func(y []float32, x [][]float32, rows int) { w.Run(y, x[0], nil, rows, 0, length) }
	}
	return op, batch, length
}

// pipelineWeights bounds the constant numbers that the steps of a region pass through where it looks back or ahead: 4 MB, which
// every tile reads from the third-level cache. That takes less than to bring sequences there and back.
const pipelineWeights = 1 << 20

// callFlops bounds the work of one step on one tile there: a run can be cancelled between any two steps.
const callFlops = 4 * record.TileFlops

// numbers counts the constants of a step.
func constantNumbers(s *lowering.Step) (n int) {
	if record.Of(s).WindowedOp != nil {
		return record.Of(s).WindowedOp.Weights
	}
	for _, v := range s.In {
		if v != nil && v.Const != nil {
			n += v.Const.Len()
		}
	}
	return n
}

// pipelined reports whether the step must go tick by tick.
func pipelined(op *record.RowOp) bool {
	return op != nil && (op.Windowed != nil || op.Sums != nil || op.Transpose != record.NoTranspose)
}

// pipelinedWith reports whether the step and those before it can be computed tick by tick, where one of them asks for that: their
// rows must be the same steps of the same samples, and a recurrence must go forward, tile by tile.
func (r *regionBuilder) pipelinedWith(d *binding, s *lowering.Step, op *record.RowOp, c record.Recurrence, batch, length int) bool {
	joins := pipelined(op)
	if !r.pipelined && !joins {
		return true
	}
	if !joins && c == nil { // rows by themselves: grid of what is there
		batch, length = r.batch, r.length
	}
	if r.pipelined && (batch != r.batch || length != r.length) || r.weights > 0 && r.weights+constantNumbers(s) > pipelineWeights || !d.pipelinedOn(s, batch, length) {
		return false
	}
	if c != nil && !d.pipelinedRecurrence(s, c, batch, length) {
		return false
	}
	for _, q := range r.steps {
		if record.Of(s).Transpose == record.ToRows && slices.Contains(q.Out, s.In[0]) { // which rows are made of must be there as a whole
			return false
		}
	}
	if r.pipelined {
		return r.sameEdges(op, s)
	}
	for i, q := range r.steps { // before the first that looks along time
		if !d.pipelinedOn(q, batch, length) || i == r.recurrenceAt && r.recurrence != nil && !d.pipelinedRecurrence(q, r.recurrence, batch, length) {
			return false
		}
	}
	return true
}

// pipelinedOn reports whether what a step reads and writes are sequences of the grid, as rows.
func (d *binding) pipelinedOn(s *lowering.Step, batch, length int) bool {
	fits := func(v *lowering.Value) bool {
		if v == nil || d.Constant(v) != nil || d.p.Fact(v).Constant() {
			return true
		}
		b, l, width, ok := d.Along(v)
		rows, f := lowering.Features(d.Shape(v))
		return ok && b == batch && l == length && rows == batch*length && width == f
	}
	for _, v := range s.In {
		if record.Of(s).Transpose != record.ToRows && !fits(v) {
			return false
		}
	}
	return record.Of(s).Transpose == record.FromRows || fits(s.Out[0])
}

// pipelinedRecurrence reports whether a recurrence can be computed tick by tick.
func (d *binding) pipelinedRecurrence(s *lowering.Step, c record.Recurrence, batch, length int) bool {
	info := c.Info()
	if info.Direction != essm.Forward || info.Window > 0 || info.Stateless {
		return false
	}
	form := choose(d.p.Config.Kernel, d.p.costs, s, c, batch, length, record.TileSize(0, length)).Form
	return form == essm.FormScan || form == essm.FormChunked
}

// sameEdges reports whether all windows of the builder that read a value agree on what stands around it.
func (r *regionBuilder) sameEdges(op *record.RowOp, s *lowering.Step) bool {
	if op == nil || op.Windowed == nil {
		return true
	}
	for i, q := range r.steps {
		if r.ops[i] != nil && r.ops[i].Windowed != nil && q.In[0] == s.In[0] && r.ops[i].Windowed.Edge != op.Windowed.Edge {
			return false
		}
	}
	return true
}
