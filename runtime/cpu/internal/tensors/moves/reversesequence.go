package moves

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "ReverseSequence",
		Tensor: record.TensorKind{Make: record.Either(moveKernel, reverseKernel)}})
}

// reversal copies the steps of sequences, with the first ones of each reversed. A work item is one sequence.
type reversal struct {
	steps, stepBytes, sequenceBytes int // number of steps, and strides of steps and sequences
	run                             int // bytes of a step
	lens                            []int64
	x, y                            []byte
}

// reverseKernel reverses the starts of sequences whose lengths are known during the run, for any type of whole
// bytes.
func reverseKernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) || s.Absent(1) {
		return nil
	}
	batch, time := ops.Int(s.Node, "batch_axis"), ops.Int(s.Node, "time_axis")
	if batch+time != 1 || batch*time != 0 {
		return nil // the evaluation reports the error
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		shape, dtype := d.ShapeOf(s, 0), d.DType(s.In[0])
		if len(shape) < 2 || !tensors.Cut(dtype) || !d.Gives(s, 0, dtype) || !d.Typed(s, 1, tensor.Int64) {
			return nil
		}
		n, _ := tensor.Size(d.ShapeOf(s, 1))
		if n != shape[batch] || len(d.ShapeOf(s, 1)) != 1 {
			return nil
		}
		run := tensor.ByteSize(dtype, tensors.Product(shape[2:]))
		at := [2]int{run * shape[1], run}
		p := &reversal{steps: shape[time], stepBytes: at[time], sequenceBytes: at[batch], run: run}
		lens := lowering.Input[int64](d, s, 1)
		from, to := lowering.BytesOf(d, s.In[0]), lowering.BytesOf(d, s.Out[0])
		return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
			f := e.Frame()
			p.lens, p.x, p.y = lens.In(f), from.In(f), to.In(f)
			for _, n := range ops.All(e.Steps(), p.lens) {
				if n < 0 || n > int64(p.steps) {
					return e.Fallback(s) // the evaluation reports which
				}
			}
			return e.Parallel(p, len(p.lens))
		}}
	}
}

func (p *reversal) Do(w *record.Workspace, b int) {
	x, y, n := p.x[b*p.sequenceBytes:], p.y[b*p.sequenceBytes:], int(p.lens[b])
	for t := range ops.Costly(w.Steps, p.steps, 1+min(p.run, tensors.ItemNumbers)/8) {
		from := t
		if t < n {
			from = n - 1 - t
		}
		to, run := y[t*p.stepBytes:][:p.run], x[from*p.stepBytes:][:p.run]
		if p.run <= tensors.ItemNumbers {
			copy(to, run)
		} else {
			ops.Put(w.Steps, to, run)
		}
	}
}
