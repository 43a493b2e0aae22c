package cpu

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// asPipelined returns the row operator and the grid of a windowed step, a running sum or a transpose of a sequence, as
// part of a region.
func (d *binding) asPipelined(s *lowering.Step) (op *record.RowOp, batch, length int) {
	lies := s.Out[0]
	if s.Rows.Does(lowering.FromRows) {
		lies = s.In[0]
	}
	batch, length, _, _ = d.Along(lies)
	op = &record.RowOp{Operands: record.First, Windowed: record.Of(s).WindowedOp}
	switch {
	case s.Rows.Does(lowering.RowsSum):
		op.Sums = &record.Sums{Exclusive: s.Rows.Exclusive}
	case s.Rows.Transposes():
		op.Transpose = s.Rows.Kind
	}
	if w := record.Of(s).WindowedOp; w != nil && w.Back() == 0 && w.Ahead() == 0 {
		op.Windowed, op.Run = nil, func(c *ir.EvalCtx, y []float32, x [][]float32, rows int) { w.Run(y, x[0], nil, rows, 0, length) }
	}
	return op, batch, length
}

// pipelineWeights bounds the constant numbers of a region that looks back or ahead: 4 MB, which every tile reads from
// the third-level cache. Two regions, with the sequences between them written and read, would take longer.
const pipelineWeights = 1 << 20

// callFlops bounds the work of one step on one tile of such a region. A run can be cancelled between any two steps.
const callFlops = 4 * record.TileFlops

// constantNumbers returns the number of constant elements that a step reads.
func constantNumbers(s *lowering.Step) (n int) {
	if record.Of(s).WindowedOp != nil {
		return record.Of(s).WindowedOp.Weights
	}
	for _, v := range s.In {
		if v != nil && v.Fixed() != nil {
			n += v.Fixed().Len()
		}
	}
	return n
}

// pipelined reports whether a step with this operator runs tick by tick.
func pipelined(op *record.RowOp) bool {
	return op != nil && (op.Windowed != nil || op.Sums != nil || op.Transpose != 0)
}

// pipelinedWith reports whether s can join a region that runs tick by tick, because of s or of a step that is in it.
// The rows of all steps must be the same steps of the same samples, and a recurrence must go forward, tile by tile. It
// is true for regions that do not run tick by tick.
func (r *regionBuilder) pipelinedWith(d *binding, s *lowering.Step, op *record.RowOp, c record.Recurrence,
	batch, length int) bool {
	joins := pipelined(op)
	if !r.pipelined && !joins {
		return true
	}
	if !joins && c == nil { // a row operator has the region's grid
		batch, length = r.batch, r.length
	}
	if r.pipelined && (batch != r.batch || length != r.length) ||
		r.weights > 0 && r.weights+constantNumbers(s) > pipelineWeights || !d.pipelinedOn(s, batch, length) {
		return false
	}
	if c != nil && !d.pipelinedRecurrence(s, c, batch, length) {
		return false
	}
	for _, q := range r.steps {
		// the input of a transpose to rows must be complete
		if s.Rows.Does(lowering.ToRows) && slices.Contains(q.Out, s.In[0]) {
			return false
		}
	}
	if r.pipelined {
		return r.sameEdges(op, s)
	}
	for i, q := range r.steps { // s is the first step that runs tick by tick
		if !d.pipelinedOn(q, batch, length) ||
			i == r.recurrenceAt && r.recurrence != nil && !d.pipelinedRecurrence(q, r.recurrence, batch, length) {
			return false
		}
	}
	return true
}

// pipelinedOn reports whether the values that a step reads and writes are sequences of the grid, as rows.
func (d *binding) pipelinedOn(s *lowering.Step, batch, length int) bool {
	fits := func(v *lowering.Value) bool {
		if v == nil || d.Fixed(v) != nil || d.p.Fact(v).Constant() {
			return true
		}
		b, l, width, ok := d.Along(v)
		rows, f := lowering.Features(d.Shape(v))
		return ok && b == batch && l == length && rows == batch*length && width == f
	}
	for _, v := range s.In {
		if !s.Rows.Does(lowering.ToRows) && !fits(v) {
			return false
		}
	}
	return s.Rows.Does(lowering.FromRows) || fits(s.Out[0])
}

// pipelinedRecurrence reports whether a recurrence can be computed tick by tick.
func (d *binding) pipelinedRecurrence(s *lowering.Step, c record.Recurrence, batch, length int) bool {
	info := d.recurrenceInfo(s, c)
	if info.Direction != essm.Forward || info.Window > 0 || info.Stateless {
		return false
	}
	form := choose(d.p.Config.Kernel, d.p.costs, s, &info, batch, length, record.TileSize(0, length)).Form
	return form == essm.FormScan || form == essm.FormChunked
}

// sameEdges reports whether all windowed operators of the region that read the input of s agree on the value of rows
// beyond the ends of the sequence.
func (r *regionBuilder) sameEdges(op *record.RowOp, s *lowering.Step) bool {
	if op == nil || op.Windowed == nil {
		return true
	}
	for i, q := range r.steps {
		if r.ops[i] != nil && r.ops[i].Windowed != nil && q.In[0] == s.In[0] &&
			r.ops[i].Windowed.Edge != op.Windowed.Edge {
			return false
		}
	}
	return true
}
