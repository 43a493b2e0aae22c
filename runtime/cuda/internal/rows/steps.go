package rows

import (
	"encoding/binary"
	"fmt"

	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "essm.StepMask", Takes: float32s(1), Build: stepMask},
		record.Record{Op: "essm.SubsetProducts", Takes: float32s(1), Build: subsetProducts},
	)
}

func stepMask(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	shape := d.ShapeOf(s, 0)
	axis, err := ops.Axis(ops.Int(s.Node, "axis"), len(shape))
	of := ops.Int(s.Node, "batch_axis")
	if err != nil || of < -1 || of >= int64(len(shape)) || int(of) == axis {
		return false
	}
	if record.Size(shape) == 0 {
		return true
	}
	m := kernel.StepMask{Y: b.Buffer(s.Out[0]), X: b.Buffer(s.In[0]), Count: record.Size(shape), Axis: shape[axis],
		Inner: record.Size(shape[axis+1:]), Batch: 1, SampleInner: record.Size(shape), Value: float32(s.Node.Attrs.Float("value", 0)),
		Rate: int(ops.Int(s.Node, "rate")), Offset: int(ops.Int(s.Node, "offset")), Delay: int(ops.Int(s.Node, "delay"))}
	if of >= 0 {
		m.Batch, m.SampleInner = shape[of], record.Size(shape[of+1:])
	}
	for i, x := range []struct {
		to  *kernel.Buffer
		one *bool
	}{{&m.Steps, &m.StepsOne}, {&m.End, &m.EndOne}} {
		if s.Absent(1+i) || d.Missing(s.In[1+i]) {
			continue
		}
		n := record.Size(d.ShapeOf(s, 1+i))
		if n != 1 && n != m.Batch {
			return false // an error that the operator's evaluation reports
		}
		*x.to, *x.one = b.Buffer(s.In[1+i]), n == 1
	}
	m.Fault = b.Fault("expected numbers of steps of 0 or more")
	call, ok := m.Call()
	b.Launch(call)
	return ok
}

// subsetProducts gives the kernel the steps of each product: subsets in the order of their largest element, then of
// the next one, counted from the last step.
func subsetProducts(b *record.Builder, s *lowering.Step) bool {
	shape := b.Binding.ShapeOf(s, 0)
	batch, length, features, n := shape[0], shape[1], shape[2], int(s.Node.Attrs.Int("size", 2))
	if record.Size(shape) == 0 {
		return true
	}
	subsets := 1.0 // of the last length - 1 steps
	for i := range n {
		subsets = subsets * float64(max(0, length-1-i)) / float64(i+1)
	}
	y := b.Buffer(s.Out[0])
	if subsets < float64(length) {
		b.Fill(y, 0, b.Bytes(s.Out[0]))
		return true
	}
	table := b.Constant(fmt.Sprintf("subsets %d of %d", n, length), func() []byte {
		subset := make([]int, n+1)
		for i := range n {
			subset[i] = i
		}
		subset[n] = length
		var out []byte
		for range length {
			for _, d := range subset[:n] {
				out = binary.LittleEndian.AppendUint32(out, uint32(length-1-d))
			}
			i := 0 // the smallest element that can grow does, and those below restart
			for i < n-1 && subset[i]+1 == subset[i+1] {
				subset[i] = i
				i++
			}
			subset[i]++
		}
		return out
	})
	call, ok := kernel.SubsetProducts(y, b.Buffer(s.In[0]), table, batch, length, features, n)
	b.Launch(call)
	return ok
}
