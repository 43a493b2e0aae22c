package cpu

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	register(
		record{op: "InstanceNormalization", tensor: tensorKind{make: groupNormKernel(false)}},
		record{op: "GroupNormalization", tensor: tensorKind{make: groupNormKernel(true)}},
	)
}

// groupNormPass normalises one group of channels of one sample per work item.
type groupNormPass struct {
	groups, each, inner int // channels of a group, numbers of a channel
	eps                 float64
	scale, shift, x, y  []float32
}

// groupNormKernel normalises channels in groups, or each by itself.
func groupNormKernel(grouped bool) func(s *lowering.Step) tensorMaker {
	return func(s *lowering.Step) tensorMaker {
		if len(s.In) != 3 || s.Absent(0) || s.Absent(1) || s.Absent(2) {
			return nil
		}
		return func(d *lowering.Binding) *tensorKernel { return newGroupNorm(d, s, grouped) }
	}
}

func newGroupNorm(d *lowering.Binding, s *lowering.Step, grouped bool) *tensorKernel {
	in := d.ShapeOf(s, 0)
	for i := range s.In {
		if !d.Typed(s, i, tensor.Float32) {
			return nil
		}
	}
	if !d.Gives(s, 0, tensor.Float32) || len(in) < 2 || in[1] == 0 || !slices.Equal(d.ShapeOf(s, 1), in[1:2]) || !slices.Equal(d.ShapeOf(s, 2), in[1:2]) {
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
	return &tensorKernel{run: func(e execution, _ tensorCall) error {
		p.x, p.scale, p.shift, p.y = e.floats(s.In[0]), e.floats(s.In[1]), e.floats(s.In[2]), e.floats(s.Out[0])
		return e.parallel(p, in[0]*p.groups)
	}}
}

func (p *groupNormPass) do(_ *workspace, k int) {
	size, first := p.each*p.inner, k%p.groups*p.each
	x, y := p.x[k*size:(k+1)*size], p.y[k*size:(k+1)*size]
	mean, inv := kernel.Normal(x, p.eps)
	for c := range p.each {
		kernel.Standardize(y[c*p.inner:(c+1)*p.inner], x[c*p.inner:(c+1)*p.inner], mean, inv, p.scale[first+c], p.shift[first+c])
	}
}
