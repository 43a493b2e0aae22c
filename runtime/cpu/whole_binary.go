package cpu

import (
	"math"
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// arithmetic is a binary operator with its forms: on two rows, on a row and a number, on a number and a row.
type arithmetic struct {
	rows  func(y, a, b []float32)
	right func(y, a []float32, s float32)
	left  func(y, b []float32, s float32)
}

var arithmetics = map[string]arithmetic{
	"Add": {kernel.Add, kernel.AddS, kernel.AddS},
	"Sub": {kernel.Sub, kernel.SubS, kernel.SubFromS},
	"Mul": {kernel.Mul, kernel.MulS, kernel.MulS},
	"Div": {kernel.Div, kernel.DivS, kernel.DivIntoS},
	"Max": {kernel.Max, kernel.MaxS, kernel.MaxS},
	"Min": {kernel.Min, kernel.MinS, kernel.MinS},
	"Sum": {kernel.Add, kernel.AddS, kernel.AddS},
	"Pow": {pow, powS, powOfS},
	"PRelu": {
		prelu,
		func(y, a []float32, s float32) { kernel.LeakyRelu(y, a, s) },
		func(y, b []float32, s float32) {
			for i, slope := range b {
				y[i] = leaky(s, slope)
			}
		},
	},
}

func pow(y, a, b []float32) {
	for i, x := range a[:len(y)] {
		y[i] = float32(math.Pow(float64(x), float64(b[i])))
	}
}

func powS(y, a []float32, s float32) {
	if s == 2 {
		kernel.Square(y, a)
		return
	}
	for i, x := range a[:len(y)] {
		y[i] = float32(math.Pow(float64(x), float64(s)))
	}
}

func powOfS(y, b []float32, s float32) {
	for i, x := range b[:len(y)] {
		y[i] = float32(math.Pow(float64(s), float64(x)))
	}
}

func prelu(y, a, b []float32) {
	for i, x := range a[:len(y)] {
		y[i] = leaky(x, b[i])
	}
}

func leaky(x, slope float32) float32 {
	if x < 0 {
		return x * slope
	}
	return x
}

func init() {
	for name := range arithmetics {
		registerKernels(map[string]func(s *lowering.Step) kernelMaker{name: binaryKernel})
	}
	registerKernels(map[string]func(s *lowering.Step) kernelMaker{"BatchNormalization": batchNormKernel})
}

// binaryPass computes y = f(a, b) under broadcasting.
type binaryPass struct {
	f    arithmetic
	b    *broadcast
	per  int
	y    []float32
	x    [2][]float32
	step *lowering.Step
}

func binaryKernel(s *lowering.Step) kernelMaker {
	if len(s.In) != 2 || s.Absent(0) || s.Absent(1) {
		return nil
	}
	f := arithmetics[s.Node.Op.Name]
	return func(d *binding) *boundKernel {
		if d.Typed(s, 0, tensor.Int32) || d.Typed(s, 0, tensor.Int64) {
			return integerBinary(d, s)
		}
		if !d.Typed(s, 0, tensor.Float32) || !d.Typed(s, 1, tensor.Float32) || !d.Gives(s, 0, tensor.Float32) {
			return nil
		}
		out := d.Shapes[s.Out[0].ID]
		if shape, err := ops.Broadcast(d.ShapeOf(s, 0), d.ShapeOf(s, 1)); err != nil || !slices.Equal(shape, out) {
			return nil // refused when it is evaluated
		}
		p := &binaryPass{f: f, step: s, b: newBroadcast(out, d.ShapeOf(s, 0), d.ShapeOf(s, 1))}
		n := 0
		p.per, n = p.b.tickets()
		return &boundKernel{run: func(e *executable, _ *unit) error {
			p.y, p.x = e.buf[s.Out[0].ID], [2][]float32{e.buf[s.In[0].ID], e.buf[s.In[1].ID]}
			return e.parallel(p, n)
		}}
	}
}

func (p *binaryPass) ticket(w *worker, k int) {
	w.node = p.step.Source
	n := p.b.inner
	for row := k * p.per; row < min(p.b.rows, (k+1)*p.per); row++ {
		y, a, b := p.y[row*n:(row+1)*n], p.x[0][p.b.at(0, row):], p.x[1][p.b.at(1, row):]
		switch {
		case p.b.unit[0] && p.b.unit[1]:
			p.f.rows(y, a[:n], b[:n])
		case p.b.unit[0]:
			p.f.right(y, a[:n], b[0])
		case p.b.unit[1]:
			p.f.left(y, b[:n], a[0])
		default:
			p.f.rows(y[:1], a[:1], b[:1])
			for i := range y {
				y[i] = y[0]
			}
		}
	}
}

// batchNormKernel scales and shifts each channel, statistics being constants.
func batchNormKernel(s *lowering.Step) kernelMaker {
	scale, shift, mean, variance := s.Constant64(1), s.Constant64(2), s.Constant64(3), s.Constant64(4)
	c := len(scale)
	if c == 0 || len(shift) != c || len(mean) != c || len(variance) != c || s.Node.Attrs.Bool("training_mode", false) || len(s.Node.Outputs) > 1 {
		return nil
	}
	eps := s.Node.Attrs.Float("epsilon", float64(float32(1e-5)))
	a, b := make([]float32, c), make([]float32, c)
	for i := range a {
		k := scale[i] / math.Sqrt(variance[i]+eps)
		a[i], b[i] = float32(k), float32(shift[i]-mean[i]*k)
	}
	return func(d *binding) *boundKernel {
		in := d.ShapeOf(s, 0)
		if !d.Typed(s, 0, tensor.Float32) || !d.Gives(s, 0, tensor.Float32) || len(in) < 2 || in[1] != c {
			return nil
		}
		_, inner := lowering.Runs(in, 1)
		p := &channelPass{scale: a, shift: b, inner: inner}
		return &boundKernel{run: func(e *executable, _ *unit) error {
			p.x, p.y = e.buf[s.In[0].ID], e.buf[s.Out[0].ID]
			return e.parallel(p, in[0]*c)
		}}
	}
}

type channelPass struct {
	scale, shift []float32
	inner        int
	x, y         []float32
}

func (p *channelPass) ticket(_ *worker, k int) {
	c := k % len(p.scale)
	kernel.ScaleShift(p.y[k*p.inner:(k+1)*p.inner], p.x[k*p.inner:(k+1)*p.inner], p.scale[c], p.shift[c])
}
