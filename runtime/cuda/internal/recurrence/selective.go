package recurrence

import (
	"encoding/binary"
	"math"

	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "essm.SelectiveScan", Takes: takesSelective, Build: buildSelective})
}

func takesSelective(s *lowering.Step) bool {
	return singles(s, 0, 1, 3, 4) && (singles(s, 2) || constants(s, 2)) && (singles(s, 5) || constants(s, 5))
}

// inSingle returns the buffer of an input in float32: a constant of another type is rounded.
func inSingle(b *record.Builder, s *lowering.Step, i int) kernel.Buffer {
	if s.Absent(i) || s.Float32Input(i) {
		return b.Buffer(at(s.In, i))
	}
	return b.Weights(s.In[i].Const, "float32", func() []byte {
		var out []byte
		for _, x := range s.Constant64(i) {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(x)))
		}
		return out
	})
}

func buildSelective(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	x, delta, rate, give := d.ShapeOf(s, 0), d.ShapeOf(s, 1), d.ShapeOf(s, 2), d.ShapeOf(s, 3)
	first, last := at(s.In, 6), at(s.Out, 1)
	single, ok := stateType(b, first, last)
	groups := int(s.Node.Attrs.Int("groups", 1))
	states := give[2] / groups
	if !ok || states < 1 || states > kernel.MaxSelectiveStates || x[2] == 0 {
		return false
	}
	scan := kernel.SelectiveScan{Batch: x[0], Length: x[1], Features: x[2], Heads: delta[2], Groups: groups,
		States: states, PerState: rate[1] == states && states > 1, State32: single}
	// threads of a launch, and numbers of a state
	if !small(scan.Batch, 32*scan.Features*(scan.Length/32+2), scan.Features*states, give[2]) {
		return false
	}
	scan.X, scan.Delta, scan.A = b.Buffer(s.In[0]), b.Buffer(s.In[1]), inSingle(b, s, 2)
	scan.B, scan.C, scan.D = b.Buffer(s.In[3]), b.Buffer(s.In[4]), inSingle(b, s, 5)
	scan.Y, scan.First, scan.Last = b.Buffer(s.Out[0]), b.Buffer(first), b.Buffer(last)
	scan.Scratch = b.Scratch(scan.ScratchBytes())
	for _, c := range scan.Calls() {
		b.Launch(c)
	}
	return true
}
