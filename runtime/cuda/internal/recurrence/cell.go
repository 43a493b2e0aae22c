package recurrence

import (
	"slices"

	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	for _, op := range []string{"RNN", "GRU", "LSTM"} {
		record.Register(record.Record{Op: op, Takes: takesCell, Build: buildCell})
	}
}

// takesCell reports whether the kernel supports a recurrent layer: fixed weights, standard activations, no
// lengths of samples and no peepholes.
func takesCell(s *lowering.Step) bool {
	n := s.Node
	return ops.Newest(n.Op) && singles(s, 0, 5, 6) && fixed(s, 1, 2, 3) && s.Absent(4) && s.Absent(7) &&
		!n.Attrs.Has("activations") && n.Attrs.Float("clip", 0) == 0 && n.Attrs.Int("input_forget", 0) == 0
}

func buildCell(b *record.Builder, s *lowering.Step) bool {
	attrs := s.Node.Attrs
	direction := attrs.Str("direction", "forward")
	x, r := b.Binding.ShapeOf(s, 0), s.ConstShape(2)
	k := kernel.Recurrent{Cell: map[string]kernel.Cell{"RNN": kernel.RNN, "GRU": kernel.GRU, "LSTM": kernel.LSTM}[s.Node.Op.Name],
		Length: x[0], Batch: x[1], Inputs: x[2], Hidden: r[2], Directions: r[0], Reverse: direction == "reverse",
		SampleFirst: attrs.Int("layout", 0) != 0}
	if k.Cell == kernel.GRU && attrs.Int("linear_before_reset", 0) != 0 {
		k.Cell = kernel.GRULinear
	}
	if k.SampleFirst {
		k.Batch, k.Length = k.Length, k.Batch
	}
	if !small(k.Batch, k.Length) || !small(k.ScratchBytes()) ||
		!slices.Contains([]string{"forward", "reverse", "bidirectional"}, direction) {
		return false
	}
	k.X = b.Buffer(s.In[0])
	k.Tables = b.Derived("weights", func() []byte {
		return kernel.RecurrentTables(k.Directions, k.Cell.Gates()*k.Hidden, k.Inputs, k.Hidden, numbers(s, 1), numbers(s, 2),
			numbers(s, 3))
	}, s)
	k.FirstH, k.FirstC = b.Buffer(at(s.In, 5)), b.Buffer(at(s.In, 6))
	k.Y, k.LastH, k.LastC = b.Buffer(at(s.Out, 0)), b.Buffer(at(s.Out, 1)), b.Buffer(at(s.Out, 2))
	k.Scratch = b.Scratch(k.ScratchBytes())
	b.Launch(k.Calls()...)
	return true
}
