package convolution

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "essm.MatrixConv", Tensor: record.TensorKind{Make: matrixConvKernel, Constant: []int{1}}},
		record.Record{Op: "essm.ContinuousConv", Tensor: record.TensorKind{Make: continuousConvKernel,
			Constant: []int{1, 2, 3, 4, 5, 6, 7, 8}}},
	)
}

// pairKernels are the kernels of a convolution for pairs of an output and an input.
type pairKernels interface {
	// prepare computes what all rows need. It ends early when the run is stopped.
	Prepare(stop kernel.Stop)
	// row returns kernel i, in dst or elsewhere, or nil if the run is stopped. tmp is scratch of two rows of float64.
	Row(dst []float32, tmp []float64, i int, stop kernel.Stop) []float32
	// bytes returns the size of the memory that prepare allocates.
	Bytes() int64
}

// matrixConv convolves sequences by Fourier transforms. Each input is transformed once, and each output transformed
// back once. Spectra of kernels are computed in the first run.
type matrixConv struct {
	kernels                   pairKernels
	fft                       *kernel.FFT
	batch, length, m, n, taps int
	spec                      []float32 // spectra of kernels, by output and input
	done, planned             bool      // spec is computed, and the transform's tables are
	read, write               lowering.Slot[float32]
	src, dst, inputs          []float32 // inputs: spectra of sequences, by sample and input
}

func matrixConvKernel(s *lowering.Step) record.TensorMaker {
	shape := s.ConstShape(1)
	if len(shape) != 3 {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		k := &constantKernels{all: record.Numbers(s, 1), taps: shape[2]}
		in := d.ShapeOf(s, 0)
		if len(in) != 3 || in[2] != shape[1] {
			return nil
		}
		return newMatrixConv(d, s, k, shape[0], min(shape[2], in[1]))
	}
}

func continuousConvKernel(s *lowering.Step) record.TensorMaker {
	net := &essm.KernelNet{W1: record.Numbers64(s, 1), B1: record.Numbers64(s, 2), W2: record.Numbers64(s, 3),
		B2: record.Numbers64(s, 4), W3: record.Numbers64(s, 5), B3: record.Numbers64(s, 6), Norm1: record.Numbers64(s, 7),
		Norm2: record.Numbers64(s, 8), Activation: s.Node.Attrs.Str("activation", ""),
		Train: int(s.Node.Attrs.Int("train_length", 0))}
	return func(d *lowering.Binding) *record.TensorKernel {
		in := d.ShapeOf(s, 0)
		if len(in) != 3 || in[2] == 0 || len(net.B3)%in[2] != 0 || net.Train == 1 || net.Train < 0 {
			return nil
		}
		return newMatrixConv(d, s, &netKernels{net: net, length: in[1]}, len(net.B3)/in[2], in[1])
	}
}

// maxConvolved is the maximum length of sequences here, because a worker's scratch is several times as large.
const maxConvolved = 1 << 23

func newMatrixConv(d *lowering.Binding, s *lowering.Step, k pairKernels, outputs, taps int) *record.TensorKernel {
	in := d.ShapeOf(s, 0)
	p := &matrixConv{kernels: k, batch: in[0], length: in[1], m: in[2], n: outputs, taps: taps}
	if !d.Typed(s, 0, tensor.Float32) || !d.Gives(s, 0, tensor.Float32) || min(p.batch, p.length, p.m, p.n, taps) < 1 ||
		p.length > maxConvolved || !slices.Equal(d.Shape(s.Out[0]), []int{p.batch, p.length, p.n}) {
		return nil
	}
	p.fft = kernel.NewFFT(p.length + taps)
	p.read, p.write = lowering.Input[float32](d, s, 0), lowering.Output[float32](d, s, 0)
	size := p.fft.Len()
	return &record.TensorKernel{
		Tables: p.fft.Bytes() + k.Bytes() + 4*int64(size)*int64(p.m)*int64(p.n) + 16*int64(taps)*int64(p.parts()),
		Refill: func() { p.done = false },
		Temp:   p.batch * p.m * size, Scratch: pairColumns*p.length + 2*size,
		Run: func(e record.Execution, c record.Call) error {
			if !p.done {
				if err := p.fill(e); err != nil {
					return err
				}
			}
			f := e.Frame()
			p.src, p.dst, p.inputs = p.read.In(f), p.write.In(f), c.Temp
			if err := e.Parallel((*matrixForward)(p), p.batch*columns(p.m)); err != nil {
				return err
			}
			return e.Parallel((*matrixBack)(p), p.batch*columns(p.n))
		}}
}

// pairColumns is the number of neighbouring features that are transposed together: one vector.
const pairColumns = 8

func columns(n int) int { return (n + pairColumns - 1) / pairColumns }

// fill computes the spectra of kernels.
func (p *matrixConv) fill(e record.Execution) error {
	if p.planned = p.planned || p.fft.Prepare(e.Halted()); !p.planned {
		return e.Failed()
	}
	if p.kernels.Prepare(e.Halted()); e.Halted()() {
		return e.Failed()
	}
	if p.spec == nil {
		p.spec = make([]float32, p.fft.Len()*p.m*p.n)
	}
	s := &matrixSpectra{matrixConv: p, tmp: make([]float64, 2*p.taps*p.parts())}
	if err := e.Parallel(s, p.parts()); err != nil {
		return err
	}
	p.done = true
	return nil
}

// parts returns the number of work items that compute the spectra of kernels.
func (p *matrixConv) parts() int { return min(p.m*p.n, 16) }

// matrixSpectra is the task that transforms kernels.
type matrixSpectra struct {
	*matrixConv
	tmp []float64
}

// Do transforms some kernels.
func (p *matrixSpectra) Do(w *record.Workspace, part int) {
	size, parts := p.fft.Len(), p.parts()
	for i := part; i < p.m*p.n && !w.Stopped(); i += parts {
		row := p.kernels.Row(w.Scratch[size:size+p.taps], p.tmp[2*part*p.taps:2*(part+1)*p.taps], i, w.Halted)
		if row != nil {
			p.fft.Forward(p.spec[i*size:(i+1)*size], row, w.Scratch[:size], w.Halted)
		}
	}
}

// matrixForward is the task that transforms inputs, some columns of a sample at a time.
type matrixForward matrixConv

// Do transforms some inputs.
func (p *matrixForward) Do(w *record.Workspace, i int) {
	sample, from := i/columns(p.m), i%columns(p.m)*pairColumns
	count, size := min(pairColumns, p.m-from), p.fft.Len()
	cols, tmp := w.Scratch[:count*p.length], w.Scratch[pairColumns*p.length:][:size]
	kernel.Transpose(cols, p.length, p.src[sample*p.length*p.m+from:], p.m, p.length, count)
	for k := 0; k < count && !w.Stopped(); k++ {
		spec := p.inputs[(sample*p.m+from+k)*size:][:size]
		p.fft.Forward(spec, cols[k*p.length:(k+1)*p.length], tmp, w.Halted)
	}
}

// matrixBack is the task that computes outputs, some columns of a sample at a time.
type matrixBack matrixConv

// Do computes some outputs.
func (p *matrixBack) Do(w *record.Workspace, i int) {
	sample, from := i/columns(p.n), i%columns(p.n)*pairColumns
	count, size := min(pairColumns, p.n-from), p.fft.Len()
	cols, rest := w.Scratch[:count*p.length], w.Scratch[pairColumns*p.length:]
	acc, tmp := rest[:size], rest[size:2*size]
	for k := 0; k < count && !w.Stopped(); k++ {
		for m := range p.m {
			input, spec := p.inputs[(sample*p.m+m)*size:][:size], p.spec[((from+k)*p.m+m)*size:][:size]
			if m == 0 {
				p.fft.Mul(acc, input, spec)
			} else {
				p.fft.MulAdd(acc, input, spec, 1)
			}
		}
		p.fft.Inverse(cols[k*p.length:(k+1)*p.length], acc, 0, false, tmp, w.Halted)
	}
	kernel.Transpose(p.dst[sample*p.length*p.n+from:], p.n, cols, p.length, count, p.length)
}

// constantKernels are kernels that are constants or settled values of the graph.
type constantKernels struct {
	all  []float32
	taps int
}

func (k *constantKernels) Prepare(kernel.Stop) {}
func (k *constantKernels) Bytes() int64        { return 0 }

func (k *constantKernels) Row(dst []float32, _ []float64, i int, _ kernel.Stop) []float32 {
	return k.all[i*k.taps:][:len(dst)]
}

// netKernels are sampled from a network.
type netKernels struct {
	net    *essm.KernelNet
	length int
	hidden []float64
}

func (k *netKernels) Bytes() int64 {
	q, p := k.net.Units()
	return 8 * int64(k.length) * int64(q+p)
}

// stopped is the panic with which a network ends early.
type stopped struct{}

// halting calls f with a function that stops it when the run is stopped. It reports whether f finished.
func halting(stop kernel.Stop, f func(step func(n int))) (ended bool) {
	defer func() {
		if v := recover(); v != nil {
			if _, ok := v.(stopped); !ok {
				panic(v)
			}
		}
	}()
	work := 0
	f(func(n int) {
		if work += n; work > 1<<16 {
			if work = 0; stop() {
				panic(stopped{})
			}
		}
	})
	return true
}

func (k *netKernels) Prepare(stop kernel.Stop) {
	q, p := k.net.Units()
	h1, h2 := make([]float64, k.length*q), k.hidden
	if h2 == nil {
		h2 = make([]float64, k.length*p)
	}
	if halting(stop, func(step func(n int)) { k.net.Hidden(h1, h2, k.length, step) }) {
		k.hidden = h2
	}
}

func (k *netKernels) Row(dst []float32, tmp []float64, i int, stop kernel.Stop) []float32 {
	row, tmp := tmp[:len(dst)], tmp[len(dst):]
	if !halting(stop, func(step func(n int)) { k.net.Row(row, tmp, k.hidden, i, step) }) {
		return nil
	}
	for t, x := range row {
		dst[t] = float32(x)
	}
	return dst
}
