package products

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "DFT", Tensor: record.TensorKind{Make: record.Shaped(dftKernel)}},
		record.Record{Op: "STFT", Tensor: record.TensorKind{Make: record.Shaped(stftKernel)}},
		record.Record{Op: "com.microsoft.Rfft", Tensor: record.TensorKind{Make: record.Shaped(rfftKernel)}},
		record.Record{Op: "com.microsoft.Irfft", Tensor: record.TensorKind{Make: record.Shaped(irfftKernel)}},
	)
}

// transforms are Fourier transforms of lines of a tensor: of numbers along one axis, or of frames.
type transforms struct {
	node        *ir.Node
	src, dst    []float32
	plan        *kernel.DFT
	inverse     bool
	count       int // number of lines
	inner       int // number of adjacent lines
	have, terms int // numbers of a line in the source and in the result
	in, out     int // float32 values per number
	frames      framing
	per         int // lines per work item
}

// framing means that lines are frames of a signal, step numbers apart, multiplied by a window. Each signal has count
// frames.
type framing struct {
	count, step, length int
	window              []float32
}

// maxTransform is the maximum length of lines here, because a worker's scratch is several times as large.
const maxTransform = 1 << 24

// newTransforms plans for lines of n numbers. It returns nil if they are too long or too short.
func newTransforms(n int, real bool, t transforms) *transforms {
	if n < 1 || n > maxTransform {
		return nil
	}
	t.plan = kernel.DFTOf(n, real)
	group := t.plan.Group()
	if t.inner > 1 {
		group = max(group, 8) // neighbours share cache lines
	}
	t.per = max(1, tensors.ItemNumbers/(2*n*group)) * group
	return &t
}

// kernel returns a kernel for the transforms of input 0. Frames are multiplied by window, unless it is absent.
func (t *transforms) kernel(d *lowering.Binding, s *lowering.Step, window lowering.Slot[float32]) *record.TensorKernel {
	slots := tensors.UnaryOf(d, s)
	return &record.TensorKernel{
		Scratch: t.plan.Scratch() + t.gathered(), Tables: t.plan.Bytes(),
		Run: func(e record.Execution, _ record.Call) error {
			f := e.Frame()
			t.src, t.dst = slots.In(f)
			t.frames.window = window.In(f)
			if !t.plan.Prepare(e.Halted()) {
				return e.Failed()
			}
			return e.Parallel(t, (t.count+t.per-1)/t.per)
		},
	}
}

// gathered returns the numbers of a work item's lines if they must be copied to the plan's layout, or 0.
func (t *transforms) gathered() int {
	switch {
	case t.frames.count > 0:
		return t.per * t.have * t.in
	case t.inner > 1:
		return t.per * (t.have*t.in + t.terms*t.out)
	}
	return 0
}

// Do transforms some lines.
func (t *transforms) Do(w *record.Workspace, k int) {
	w.Node = t.node
	from := k * t.per
	in, out := t.have*t.in, t.terms*t.out
	r := kernel.Rows{Count: min(t.per, t.count-from), SrcStride: in, DstStride: out, Terms: t.terms, Have: t.have,
		Stop: w.Halted}
	work, rest := w.Scratch[:t.plan.Scratch()], w.Scratch[t.plan.Scratch():]
	direct := t.inner == 1
	if t.frames.count > 0 {
		r.Src = rest
		for i := range r.Count {
			t.frame(rest[i*in:(i+1)*in], from+i)
		}
	} else if direct {
		r.Src = t.src[from*in:]
	} else {
		r.Src = rest[:t.per*in]
		for i := range r.Count {
			outer, at := (from+i)/t.inner, (from+i)%t.inner
			line := t.src[(outer*t.have*t.inner+at)*t.in:]
			for k := range ops.Each(w.Steps, t.have) {
				copy(r.Src[i*in+k*t.in:][:t.in], line[k*t.inner*t.in:])
			}
		}
	}
	r.Dst = t.dst[min(from*out, len(t.dst)):]
	if !direct {
		r.Dst = rest[t.per*in:]
	}
	if t.inverse {
		t.plan.Inverse(&r, work)
	} else {
		t.plan.Forward(&r, work)
	}
	if direct {
		return
	}
	for i := range r.Count {
		outer, at := (from+i)/t.inner, (from+i)%t.inner
		line := t.dst[(outer*t.terms*t.inner+at)*t.out:]
		for k := range ops.Each(w.Steps, t.terms) {
			copy(line[k*t.inner*t.out:k*t.inner*t.out+t.out], r.Dst[i*out+k*t.out:])
		}
	}
}

// frame copies a frame.
func (t *transforms) frame(dst []float32, i int) {
	f := &t.frames
	at := (i/f.count*f.length + i%f.count*f.step) * t.in
	if f.window == nil {
		copy(dst, t.src[at:])
		return
	}
	for k, w := range f.window {
		for p := range t.in {
			dst[k*t.in+p] = t.src[at+k*t.in+p] * w
		}
	}
}

// scalarInput returns a constant input of one integer.
func scalarInput(s *lowering.Step, i int) (int, bool) {
	if v := s.Constant64(i); len(v) == 1 && v[0] == float64(int(v[0])) {
		return int(v[0]), true
	}
	return 0, false
}

// dftKernel transforms along an axis.
func dftKernel(s *lowering.Step) record.ShapedMaker {
	if !s.Float32Input(0) {
		return nil
	}
	inverse, onesided := s.Node.Attrs.Int("inverse", 0) != 0, s.Node.Attrs.Int("onesided", 0) != 0
	at, length, ok := -2, 0, true
	if !s.Absent(2) {
		if at, ok = scalarInput(s, 2); !ok {
			return nil
		}
	}
	if !s.Absent(1) {
		if length, ok = scalarInput(s, 1); !ok || length < 1 {
			return nil
		}
	}
	return func(d *lowering.Binding, in [][]int, out []int) *record.TensorKernel {
		last := len(in[0]) - 1
		axis, err := ops.Axis(int64(at), last+1)
		if err != nil || axis == last || in[0][last] != 1 && in[0][last] != 2 {
			return nil // the evaluation reports the error
		}
		t := transforms{node: s.Source, inverse: inverse, have: in[0][axis], in: in[0][last], out: 2}
		if inverse && t.in == 1 {
			return nil
		}
		n := t.have
		if inverse && onesided {
			n, t.out = 2*(n-1), 1
		}
		if !s.Absent(1) {
			n = length
		}
		if t.terms = n; onesided && !inverse {
			t.terms = n/2 + 1
		}
		want := slices.Clone(in[0])
		want[axis], want[last] = t.terms, t.out
		if !slices.Equal(want, out) {
			return nil
		}
		outer, inner := lowering.Runs(in[0][:last], axis)
		t.count, t.inner = outer*inner, inner
		return transformOf(d, s, n, t.in == 1 || t.out == 1, t)
	}
}

// transformOf returns a kernel that transforms input 0.
func transformOf(d *lowering.Binding, s *lowering.Step, n int, real bool, t transforms) *record.TensorKernel {
	p := newTransforms(n, real, t)
	if p == nil {
		return nil
	}
	return p.kernel(d, s, lowering.Slot[float32]{})
}

// rfftKernel transforms the last axis.
func rfftKernel(s *lowering.Step) record.ShapedMaker {
	if !s.Float32Input(0) || s.Node.Attrs.Int("signal_ndim", 1) != 1 {
		return nil
	}
	return func(d *lowering.Binding, in [][]int, _ []int) *record.TensorKernel {
		n := in[0][len(in[0])-1]
		size, _ := tensor.Size(in[0])
		t := transforms{node: s.Source, count: size / max(n, 1), inner: 1, have: n, terms: n/2 + 1, in: 1, out: 2}
		return transformOf(d, s, n, true, t)
	}
}

// irfftKernel is the inverse of rfftKernel.
func irfftKernel(s *lowering.Step) record.ShapedMaker {
	if !s.Float32Input(0) || s.Node.Attrs.Int("signal_ndim", 0) != 1 {
		return nil
	}
	return func(d *lowering.Binding, in [][]int, _ []int) *record.TensorKernel {
		last := len(in[0]) - 1
		if last < 1 || in[0][last] != 2 {
			return nil
		}
		have := in[0][last-1]
		size, _ := tensor.Size(in[0])
		t := transforms{node: s.Source, inverse: true, inner: 1, have: have, in: 2, out: 1}
		t.count, t.terms = size/max(2*have, 1), 2*(have-1)
		return transformOf(d, s, t.terms, true, t)
	}
}

// stftKernel transforms frames.
func stftKernel(s *lowering.Step) record.ShapedMaker {
	hop, ok := scalarInput(s, 1)
	if !ok || hop < 1 || !s.Float32Input(0) || !s.Absent(2) && !s.Float32Input(2) {
		return nil
	}
	length := 0
	if !s.Absent(3) {
		if length, ok = scalarInput(s, 3); !ok || length < 1 {
			return nil
		}
	}
	onesided := s.Node.Attrs.Int("onesided", 1) != 0
	return func(d *lowering.Binding, in [][]int, out []int) *record.TensorKernel {
		x := in[0]
		if len(x) != 3 || x[2] != 1 && x[2] != 2 {
			return nil // the evaluation reports the error
		}
		n := x[1]
		if !s.Absent(3) {
			n = length
		} else if !s.Absent(2) {
			n = in[2][0]
		}
		if !s.Absent(2) && in[2][0] != n || n < 1 || x[1] < n {
			return nil
		}
		t := transforms{node: s.Source, inner: 1, have: n, terms: n, in: x[2], out: 2}
		if onesided {
			t.terms = n/2 + 1
		}
		t.frames = framing{count: (x[1]-n)/hop + 1, step: hop, length: x[1]}
		if !slices.Equal(out, []int{x[0], t.frames.count, t.terms, 2}) {
			return nil
		}
		t.count = x[0] * t.frames.count
		p := newTransforms(n, t.in == 1, t)
		if p == nil {
			return nil
		}
		return p.kernel(d, s, lowering.Input[float32](d, s, 2))
	}
}
