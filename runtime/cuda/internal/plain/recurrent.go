package plain

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/std"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	for _, op := range []string{"RNN", "GRU", "LSTM"} {
		record.Register(record.Record{Op: op, Rank: record.Plain, Takes: floats(0, 1, 2, 3, 5, 6, 7), Build: recurrent})
	}
}

// recurrent computes a recurrent layer with all attributes and inputs of the standard.
func recurrent(b *record.Builder, s *lowering.Step) bool {
	d, attrs := b.Binding, s.Node.Attrs
	x, w := d.ShapeOf(s, 0), d.ShapeOf(s, 2)
	if len(x) != 3 || len(w) != 3 {
		return false
	}
	direction := attrs.Str("direction", "forward")
	r := kernel.PlainRecurrent{Length: x[0], Batch: x[1], Inputs: x[2], Hidden: w[2], Directions: 1,
		SampleFirst: attrs.Int("layout", 0) != 0, Couple: attrs.Int("input_forget", 0) != 0, Clip: attrs.Float("clip", 0)}
	if direction == "bidirectional" {
		r.Directions = 2
	}
	if r.SampleFirst {
		r.Length, r.Batch = r.Batch, r.Length
	}
	r.Cell = map[string]kernel.Cell{"RNN": kernel.RNN, "GRU": kernel.GRU, "LSTM": kernel.LSTM}[s.Node.Op.Name]
	if r.Cell == kernel.GRU && attrs.Int("linear_before_reset", 0) != 0 {
		r.Cell = kernel.GRULinear
	}
	list, err := std.CellActivations(s.Node)
	rows, state := r.Cell.Gates()*r.Hidden, []int{r.Directions, r.Batch, r.Hidden}
	if r.SampleFirst {
		state = []int{r.Batch, r.Directions, r.Hidden}
	}
	if h, given := attrs.Get("hidden_size").(int64); given && h != int64(r.Hidden) {
		return false
	}
	want := [][]int{x, {r.Directions, rows, r.Inputs}, {r.Directions, rows, r.Hidden}, {r.Directions, 2 * rows}, {r.Batch}, state,
		state, {r.Directions, 3 * r.Hidden}}
	for i := range s.In {
		if !s.Absent(i) && !slices.Equal(d.ShapeOf(s, i), want[i]) {
			return false
		}
	}
	if err != nil || s.Absent(1) {
		return false
	}
	if r.Batch == 0 || r.Hidden == 0 {
		return true
	}
	r.X, r.W, r.R, r.Bias = of(b, s, 0), of(b, s, 1), of(b, s, 2), of(b, s, 3)
	r.FirstH, r.Y, r.LastH = of(b, s, 5), result(b, s, 0), result(b, s, 1)
	if r.Cell == kernel.LSTM {
		r.FirstC, r.Peepholes, r.LastC = of(b, s, 6), of(b, s, 7), result(b, s, 2)
	}
	if lengths := of(b, s, 4); lengths.Type != 0 {
		if lengths.Type != tensor.Int32 {
			return false
		}
		r.Lengths, r.Fault = lengths.Buffer, b.Fault("expected lengths of sequences within those of the input")
	}
	b.Work(ir.Work{Flops: 2 * int64(r.Length*r.Batch*r.Directions) * int64(rows*(r.Inputs+r.Hidden))})
	scratch, each := b.Scratch(r.ScratchBytes()), len(list)/r.Directions
	for r.Direction = range r.Directions {
		r.Backwards = r.Direction == 1 || direction == "reverse"
		r.Activations = nil
		for _, a := range list[r.Direction*each:][:each] {
			r.Activations = append(r.Activations, kernel.Activation(a))
		}
		c, ok := r.Call(scratch)
		if !launch(b, c, ok) {
			return false
		}
	}
	return true
}
