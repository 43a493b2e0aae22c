package rows

import (
	"fmt"

	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "essm.Pick", Takes: float32s(1), Build: pick},
		record.Record{Op: "essm.PickStep", Takes: float32s(1), Build: pickStep},
		record.Record{Op: "essm.Pair", Takes: float32s(1), Build: pair},
	)
}

var pickModes = map[string]kernel.PickMode{"pool": kernel.PickPool, "sum": kernel.PickSum, "last": kernel.PickLast,
	"first": kernel.PickFirst}

func pick(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	shape := d.ShapeOf(s, 0)
	if shape[1] == 0 {
		return false // an error that the operator's evaluation reports
	}
	if record.Size(shape) == 0 {
		return true
	}
	y, x := b.Buffer(s.Out[0]), b.Buffer(s.In[0])
	mode := pickModes[s.Node.Attrs.Str("mode", "")]
	var lengths, fault kernel.Buffer
	if !s.Absent(1) && !d.Missing(s.In[1]) {
		lengths = b.Buffer(s.In[1])
		fault = b.Fault(fmt.Sprintf("%s: expected lengths from 1 to %d", s.In[1].Name, shape[1]))
	} else if mode <= kernel.PickSum {
		return join(b, s, map[kernel.PickMode]kernel.Reduction{kernel.PickPool: kernel.ReduceMean,
			kernel.PickSum: kernel.ReduceSum}[mode], []bool{false, true, false})
	}
	call, ok := kernel.Pick(mode, y, x, lengths, fault, shape[0], shape[1], shape[2])
	b.Launch(call)
	return ok
}

func pair(b *record.Builder, s *lowering.Step) bool {
	shape := b.Binding.ShapeOf(s, 0)
	if record.Size(shape) == 0 {
		return true
	}
	call, ok := kernel.Pair(b.Buffer(s.Out[0]), b.Buffer(s.In[0]), shape[0]/2, shape[1], s.Node.Attrs.Bool("nli", false))
	b.Launch(call)
	return ok
}

func pickStep(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	shape := d.ShapeOf(s, 0)
	if shape[0] == 0 {
		return true
	}
	if shape[2] == 0 {
		return false
	}
	p := kernel.PickStep{Mode: pickModes[s.Node.Attrs.Str("mode", "")], X: b.Buffer(s.In[0]), Sum: b.Buffer(s.In[1]),
		Count: b.Buffer(s.In[2]), Batch: shape[0], Length: shape[1], Features: shape[2],
		Rate: int(ops.Int(s.Node, "rate")), Offset: int(ops.Int(s.Node, "offset")), Delay: int(ops.Int(s.Node, "delay"))}
	for i, x := range []struct {
		to  *kernel.Buffer
		one *bool
	}{{&p.Lengths, &p.LengthsOne}, {&p.End, &p.EndOne}} {
		if s.Absent(3+i) || d.Missing(s.In[3+i]) {
			continue
		}
		n := record.Size(d.ShapeOf(s, 3+i))
		if n != 1 && n != shape[0] {
			return false // an error that the operator's evaluation reports
		}
		*x.to, *x.one = b.Buffer(s.In[3+i]), n == 1
	}
	for i, to := range []*kernel.Buffer{&p.Y, &p.SumOut, &p.CountOut} {
		bytes := []int{4, 8, 16}[i] * shape[0]
		if i < 2 {
			bytes *= shape[2]
		}
		if s.Gives(i) {
			*to = b.Buffer(s.Out[i])
		} else {
			*to = b.Scratch(bytes)
		}
	}
	p.Fault = b.Fault("expected lengths of at least 1, not below the steps that came before, and counts of 0 or more")
	call, ok := p.Call()
	b.Launch(call)
	return ok
}
