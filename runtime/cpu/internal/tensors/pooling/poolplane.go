package pooling

import (
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// planePool reduces the windows of one plane by one call of a kernel. An average is a convolution with ones, divided
// by the numbers of elements.
type planePool struct {
	plane  *kernel.Depth
	in     int       // size of a plane of the input
	out    int       // and of the output
	ones   []float32 // weights of an average; nil for a maximum
	counts []float32 // number of elements per window of a plane; nil if all windows have count
	count  float32
	x, y   []float32
}

// largestPlane is the maximum number of elements of a plane, because a kernel does not stop when a run is cancelled.
const largestPlane = 1 << 20

// whole returns the kernel by planes, or nil if there is none for the window.
func (p *poolPass) whole(d *lowering.Binding, s *lowering.Step) *record.TensorKernel {
	if p.kh != p.kw || p.Sh != p.Sw || p.Dh != 1 || p.Dw != 1 || max(p.H*p.Wd, p.Oh*p.Ow) > largestPlane {
		return nil
	}
	k := &planePool{in: p.H * p.Wd, out: p.Oh * p.Ow, plane: kernel.NewDepth(kernel.Depth{H: p.H, W: p.Wd, Top: p.Top,
		Left: p.Left, Oh: p.Oh, Ow: p.Ow, Size: p.kh, Stride: p.Sh})}
	if k.plane == nil {
		return nil
	}
	if p.average {
		k.ones = lowering.Make[float32](d, p.kh*p.kw)
		for i := range k.ones {
			k.ones[i] = 1
		}
		p.elements(d, k)
	}
	slots := tensors.UnaryOf(d, s)
	return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
		k.x, k.y = slots.In(e.Frame())
		return e.Parallel(k, p.N*p.C)
	}}
}

// elements counts the elements of the windows. Windows outside the input have the sum 0, and count 1.
func (p *poolPass) elements(d *lowering.Binding, k *planePool) {
	if k.count = float32(p.kh * p.kw); p.all {
		return
	}
	same := true
	k.counts = lowering.Make[float32](d, k.out)
	for i := range ops.Each(d.Steps(), k.out) {
		top, bottom := span1(i/p.Ow*p.Sh-p.Top, p.kh, 1, p.H)
		left, right := span1(i%p.Ow*p.Sw-p.Left, p.kw, 1, p.Wd)
		k.counts[i] = float32(max(1, (bottom-top)*(right-left)))
		same = same && k.counts[i] == k.count
	}
	if same {
		k.counts = nil
	}
}

// Do reduces one plane.
func (p *planePool) Do(_ *record.Workspace, k int) {
	x, y := p.x[k*p.in:(k+1)*p.in], p.y[k*p.out:(k+1)*p.out]
	if p.ones == nil {
		p.plane.Largest(y, x)
		return
	}
	p.plane.Run(y, x, p.ones, 0)
	if p.counts == nil {
		kernel.DivS(y, y, p.count)
	} else {
		kernel.Div(y, y, p.counts)
	}
}
