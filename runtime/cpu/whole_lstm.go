package cpu

import (
	"sync"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

func init() { registerKernels(map[string]func(s *step) kernelMaker{"LSTM": lstmKernel}) }

// lstmWeights are the constant weights of an LSTM, packed once; gates are in order i, o, f, c.
type lstmWeights struct {
	dirs, hidden, inputs int
	w, r, b              []float32
	once                 sync.Once
	packedW, packedR     []*kernel.Packed // per direction
	bias                 [][]float32      // per direction: both biases
}

func (l *lstmWeights) pack() {
	l.once.Do(func() {
		g := 4 * l.hidden
		for d := range l.dirs {
			l.packedW = append(l.packedW, kernel.Pack(l.w[d*g*l.inputs:], g, l.inputs, l.inputs, 1))
			l.packedR = append(l.packedR, kernel.Pack(l.r[d*g*l.hidden:], g, l.hidden, l.hidden, 1))
			var bias []float32
			if l.b != nil {
				bias = make([]float32, g)
				kernel.Add(bias, l.b[2*d*g:(2*d+1)*g], l.b[(2*d+1)*g:(2*d+2)*g])
			}
			l.bias = append(l.bias, bias)
		}
	})
}

// lstmPass computes one direction per ticket: the inputs' products for all steps at once, then step by step the states'.
type lstmPass struct {
	*lstmWeights
	length, batch           int
	reverse                 bool // the first direction, too
	x, h0, c0, y, hn, cn, t []float32
}

func lstmKernel(s *step) kernelMaker {
	a := s.node.Attrs
	w, r := s.constant(1), s.constant(2)
	if w == nil || r == nil || s.constant(3) == nil && !s.absent(3) || !s.absent(4) || !s.absent(7) || a.Bool("input_forget", false) || a.Float("clip", 0) != 0 ||
		ops.Int(s.node, "layout") != 0 || a.Get("activations") != nil || len(s.constShape(1)) != 3 || len(s.constShape(2)) != 3 {
		return nil
	}
	ws, rs := s.constShape(1), s.constShape(2)
	l := &lstmWeights{dirs: ws[0], hidden: rs[2], inputs: ws[2], w: w, r: r, b: s.constant(3)}
	direction := ops.Str(s.node, "direction")
	dirs := 1
	if direction == "bidirectional" {
		dirs = 2
	}
	g := 4 * l.hidden
	if g == 0 || l.dirs != dirs || rs[0] != dirs || ws[1] != g || rs[1] != g || l.b != nil && len(l.b) != 2*dirs*g || a.Int("hidden_size", int64(l.hidden)) != int64(l.hidden) {
		return nil
	}
	return func(d *binding) *boundKernel {
		in := d.shapeOf(s, 0)
		if !d.typed(s, 0, tensor.Float32) || len(in) != 3 || in[2] != l.inputs {
			return nil
		}
		p := &lstmPass{lstmWeights: l, length: in[0], batch: in[1], reverse: direction == "reverse"}
		size := p.batch * l.hidden
		for _, i := range []int{5, 6} {
			if s.absent(i) {
				continue
			}
			if n, _ := tensor.Size(d.shapeOf(s, i)); !d.typed(s, i, tensor.Float32) || n != dirs*size || len(d.shapeOf(s, i)) != 3 {
				return nil
			}
		}
		for i, v := range s.out {
			if v != nil && !d.gives(s, i, tensor.Float32) {
				return nil
			}
		}
		return &boundKernel{temp: dirs * p.temp(), run: func(e *executable, u *unit) error {
			l.pack()
			read := func(i int) []float32 {
				if s.absent(i) {
					return nil
				}
				return e.buf[s.in[i].id]
			}
			write := func(i int) []float32 {
				if i >= len(s.out) || s.out[i] == nil {
					return nil
				}
				return e.buf[s.out[i].id]
			}
			p.x, p.h0, p.c0, p.y, p.hn, p.cn, p.t = read(0), read(5), read(6), write(0), write(1), write(2), u.temp
			return e.parallel(p, dirs)
		}}
	}
}

// temp is the numbers that a direction works on: the gates of all steps, those of one, both states.
func (p *lstmPass) temp() int { return p.batch * p.hidden * (4*p.length + 4 + 3) }

func (p *lstmPass) ticket(_ *worker, dir int) {
	n, b := p.hidden, p.batch
	size := b * n
	t := p.t[dir*p.temp() : (dir+1)*p.temp()]
	gates, t := t[:4*size*p.length], t[4*size*p.length:]
	step, h, c, act := t[:4*size], t[4*size:5*size], t[5*size:6*size], t[6*size:7*size]
	clear(h)
	clear(c)
	if p.h0 != nil {
		copy(h, p.h0[dir*size:])
	}
	if p.c0 != nil {
		copy(c, p.c0[dir*size:])
	}
	kernel.Gemm(gates, 4*n, p.x, p.inputs, p.length*b, p.packedW[dir], p.bias[dir], false)
	for k := range p.length {
		at := k
		if dir == 1 || p.reverse {
			at = p.length - 1 - k
		}
		kernel.Gemm(step, 4*n, h, n, b, p.packedR[dir], nil, false)
		kernel.Add(step, step, gates[4*size*at:4*size*(at+1)])
		for i := range b {
			g, ci, hi, a := step[4*n*i:4*n*(i+1)], c[n*i:n*(i+1)], h[n*i:n*(i+1)], act[n*i:n*(i+1)]
			kernel.Sigmoid(g[:3*n], g[:3*n])
			kernel.Tanh(g[3*n:], g[3*n:])
			kernel.Mul(ci, ci, g[2*n:3*n])
			kernel.Mul(a, g[:n], g[3*n:])
			kernel.Add(ci, ci, a)
			kernel.Tanh(a, ci)
			kernel.Mul(hi, g[n:2*n], a)
		}
		if p.y != nil {
			copy(p.y[(at*p.dirs+dir)*size:(at*p.dirs+dir+1)*size], h)
		}
	}
	if p.hn != nil {
		copy(p.hn[dir*size:(dir+1)*size], h)
	}
	if p.cn != nil {
		copy(p.cn[dir*size:(dir+1)*size], c)
	}
}
