package recurrence

import (
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "essm.SelectiveScan", Takes: takesSelective, Build: buildSelective})
}

func takesSelective(s *lowering.Step) bool {
	return singles(s, 0, 1, 3, 4) && (singles(s, 2) || fixed(s, 2)) && (singles(s, 5) || fixed(s, 5))
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
	scan.X, scan.Delta, scan.B, scan.C = b.Buffer(s.In[0]), b.Buffer(s.In[1]), b.Buffer(s.In[3]), b.Buffer(s.In[4])
	var rates, direct bool
	scan.A, rates = b.Float32(s.In[2])
	scan.D, direct = b.Float32(at(s.In, 5))
	if !rates || !direct {
		return false
	}
	scan.Y, scan.First, scan.Last = b.Buffer(s.Out[0]), b.Buffer(first), b.Buffer(last)
	scan.Scratch = b.Scratch(scan.ScratchBytes())
	scanned(b, noOther)
	b.Launch(scan.Calls()...)
	return true
}
