package reductions

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/rows"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "InstanceNormalization", Tensor: record.TensorKind{Make: groupNormKernel(false)}},
		record.Record{Op: "GroupNormalization", Tensor: record.TensorKind{Make: groupNormKernel(true)}},
	)
}

// groupNormPass normalises one group of channels of one sample per work item.
type groupNormPass struct {
	groups, each, inner int // channels of a group, elements of a channel
	eps                 float64
	scale, shift, x, y  []float32
}

// groupNormKernel normalises channels in groups, or each separately.
func groupNormKernel(grouped bool) func(s *lowering.Step) record.TensorMaker {
	return func(s *lowering.Step) record.TensorMaker {
		if len(s.In) != 3 || s.Absent(0) || s.Absent(1) || s.Absent(2) {
			return nil
		}
		return func(d *lowering.Binding) *record.TensorKernel { return newGroupNorm(d, s, grouped) }
	}
}

func newGroupNorm(d *lowering.Binding, s *lowering.Step, grouped bool) *record.TensorKernel {
	in := d.ShapeOf(s, 0)
	for i := range s.In {
		if !d.Typed(s, i, tensor.Float32) {
			return nil
		}
	}
	if !d.Gives(s, 0, tensor.Float32) || len(in) < 2 || in[1] == 0 || !slices.Equal(d.ShapeOf(s, 1), in[1:2]) ||
		!slices.Equal(d.ShapeOf(s, 2), in[1:2]) {
		return nil
	}
	p := &groupNormPass{groups: in[1], eps: ops.Float(s.Node, "epsilon")}
	if grouped {
		p.groups = int(s.Node.Attrs.Int("num_groups", 0))
	}
	if p.groups < 1 || in[1]%p.groups != 0 {
		return nil
	}
	_, p.inner = lowering.Runs(in, 1)
	if p.each = in[1] / p.groups; p.inner == 0 {
		return nil
	}
	x, y := lowering.Input[float32](d, s, 0), lowering.Output[float32](d, s, 0)
	scale, shift := lowering.Input[float32](d, s, 1), lowering.Input[float32](d, s, 2)
	return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
		f := e.Frame()
		p.x, p.scale, p.shift, p.y = x.In(f), scale.In(f), shift.In(f), y.In(f)
		return e.Parallel(p, in[0]*p.groups)
	}}
}

func (p *groupNormPass) Do(w *record.Workspace, k int) {
	size, first := p.each*p.inner, k%p.groups*p.each
	x, y := p.x[k*size:(k+1)*size], p.y[k*size:(k+1)*size]
	mean, inv := rows.Normal(w.Steps, x, p.eps)
	for c := range p.each {
		y, x := y[c*p.inner:(c+1)*p.inner], x[c*p.inner:(c+1)*p.inner]
		for lo, hi := range ops.Blocks(w.Steps, p.inner, tensors.ItemNumbers) {
			kernel.Standardize(y[lo:hi], x[lo:hi], mean, inv, p.scale[first+c], p.shift[first+c])
		}
	}
}
