package moves

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/std"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "Resize", Numbers: "constant scales decide the size of the result", Tensor: record.TensorKind{Make: resizeKernel}})
}

// resizePass resamples axes one after the other, plane by plane. The axes before the first resampled one count
// planes.
type resizePass struct {
	stages []resizeStage
	in     int // size of a plane
	out    int
	held   int // maximum size of an intermediate result
	turned int // maximum size of transposed blocks
	beyond float32
	x, y   []float32
}

// resizeStage resamples the middle one of three axes: (outer, d, inner) becomes (outer, size, inner).
type resizeStage struct {
	outer, d, size, inner int
	taps                  []resizeTaps // per index of the result
	// number of outer indices that are transposed together, to be innermost; 0 if inner is wide enough
	block int
}

// resizeTaps are the positions and weights of the elements that contribute to one element of the result. Without
// weights, that is outside the input.
type resizeTaps struct {
	first   int
	places  kernel.Offsets
	weights []float32
}

// perPlace is the maximum size in bytes of a plan, per index along an axis of the input or the output.
const perPlace = 256

func resizeKernel(s *lowering.Step) record.TensorMaker {
	if s.Node.Attrs.Str("mode", "nearest") == "nearest" {
		if s.Node.Attrs.Str("coordinate_transformation_mode", "") == "tf_crop_and_resize" {
			return nil // some elements are the extrapolation value
		}
		return moveKernel(s)
	}
	if !s.Float32Input(0) {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		shape := d.ShapeOf(s, 0)
		if shape == nil || !d.Gives(s, 0, tensor.Float32) || len(d.Shape(s.Out[0])) != len(shape) {
			return nil
		}
		node, data := d.Concrete(s), make([]tensor.Datum, len(s.In))
		if node == nil {
			return nil
		}
		for i, v := range s.In {
			if i == 0 || v == nil {
				continue
			}
			k := d.Constant(v)
			if k == nil {
				return nil
			}
			data[i] = k
		}
		for i, k := range shape { // the elements and weights of each index, in the input and the output
			d.Charge(perPlace * int64(k+d.Shape(s.Out[0])[i]))
		}
		axes, beyond, err := std.ResizePlan(node, data, shape)
		if err != nil {
			return nil // the evaluation reports the error
		}
		p := newResize(axes, shape)
		if p == nil || !slices.Equal(d.Shape(s.Out[0]), p.shape(axes, shape)) {
			return nil
		}
		p.beyond = float32(beyond)
		planes, _ := tensor.Size(shape)
		planes /= p.in
		slots := tensors.UnaryOf(d, s)
		return &record.TensorKernel{Scratch: 2*p.held + p.turned, Run: func(e record.Execution, _ record.Call) error {
			p.x, p.y = slots.In(e.Frame())
			return e.Parallel(p, planes)
		}}
	}
}

// shape returns the shape after resampling.
func (p *resizePass) shape(axes []std.ResizedAxis, shape []int) []int {
	out := slices.Clone(shape)
	for _, a := range axes {
		out[a.Axis] = len(a.First)
	}
	return out
}

// newResize plans the stages, or returns nil if there is nothing to resample.
func newResize(axes []std.ResizedAxis, shape []int) *resizePass {
	if len(axes) == 0 {
		return nil
	}
	first := len(shape)
	for _, a := range axes {
		first = min(first, a.Axis)
	}
	p, now := &resizePass{in: 1}, slices.Clone(shape[first:])
	for _, k := range now {
		p.in *= k
	}
	for i, a := range axes {
		axis := a.Axis - first
		outer, inner := lowering.Runs(now, axis)
		st := resizeStage{outer: outer, d: now[axis], size: len(a.First), inner: inner}
		now[axis] = st.size
		p.out = outer * st.size * inner
		if p.in*p.out == 0 {
			return nil
		}
		if i < len(axes)-1 {
			p.held = max(p.held, p.out)
		}
		const vector = 16
		lanes := inner
		if inner < vector && outer > inner {
			st.block = min(outer, 64)
			p.turned = max(p.turned, st.block*inner*(st.d+st.size))
			lanes = st.block * inner
		}
		for o, w := range a.Weights {
			st.taps = append(st.taps, newTaps(a.First[o], w, st.d, lanes))
		}
		p.stages = append(p.stages, st)
	}
	return p
}

// newTaps makes taps, and adds up the weights of equal elements, such as those at an edge.
func newTaps(first int, weights []float64, d, stride int) (t resizeTaps) {
	if weights == nil {
		return t
	}
	var places []int32
	var sums []float64
	t.first = -1
	for k, w := range weights {
		if w == 0 { // so that NaN and infinity affect only the filter's elements
			continue
		}
		at := min(max(first+k, 0), d-1)
		if t.first < 0 {
			t.first = at
		}
		if last := len(sums) - 1; last >= 0 && int(places[last]) == (at-t.first)*stride {
			sums[last] += w
			continue
		}
		places, sums = append(places, int32((at-t.first)*stride)), append(sums, w)
	}
	t.first = max(t.first, 0)
	t.places, t.weights = kernel.NewOffsets(places), record.Narrow(sums)
	return t
}

func (p *resizePass) Do(w *record.Workspace, k int) {
	src := p.x[k*p.in : (k+1)*p.in]
	buffers := [2][]float32{w.Scratch[:p.held], w.Scratch[p.held : 2*p.held]}
	turned := w.Scratch[2*p.held:]
	for i := range p.stages {
		st := &p.stages[i]
		dst := p.y[k*p.out : (k+1)*p.out]
		if i < len(p.stages)-1 {
			dst = buffers[i%2][:st.outer*st.size*st.inner]
		}
		st.run(w.Steps, dst, src, turned, p.beyond)
		src = dst
	}
}

func (st *resizeStage) run(c *ir.EvalCtx, y, x, turned []float32, beyond float32) {
	if st.block == 0 {
		for p := range st.outer {
			st.lines(c, y[p*st.size*st.inner:(p+1)*st.size*st.inner], x[p*st.d*st.inner:(p+1)*st.d*st.inner], st.inner,
				beyond)
		}
		return
	}
	// Neighbouring rows are interleaved in one line.
	in, out := st.d*st.inner, st.size*st.inner
	for from := 0; from < st.outer; from += st.block {
		n := min(st.block, st.outer-from)
		a, b := turned[:st.block*in], turned[st.block*in:st.block*(in+out)]
		kernel.Transpose(a, st.block, x[from*in:], in, n, in)
		st.lines(c, b, a, st.block*st.inner, beyond)
		kernel.Transpose(y[from*out:], out, b, st.block, out, n)
	}
}

// lines computes lines of n numbers as weighted sums of lines of x.
func (st *resizeStage) lines(c *ir.EvalCtx, y, x []float32, n int, beyond float32) {
	for o := range st.taps {
		c.Step(1 + n/8*len(st.taps[o].weights))
		t, row := &st.taps[o], y[o*n:(o+1)*n]
		if t.weights == nil {
			for i := range row {
				row[i] = beyond
			}
			continue
		}
		kernel.Taps(row, x[t.first*n:], t.places, t.weights, 0)
	}
}
