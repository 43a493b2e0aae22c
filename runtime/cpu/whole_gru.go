package cpu

import (
	"sync"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

func init() {
	registerKernels(map[string]func(s *step) kernelMaker{"GRU": gatedKernel, "RNN": gatedKernel})
}

// gatedWeights are the constant weights of a GRU (gates z, r, h) or an RNN (h alone), packed once. The state's weights for h
// are apart: a GRU may multiply them with what r left of the state.
type gatedWeights struct {
	gates, dirs, hidden, inputs int
	w, r, b                     []float32
	after                       bool // r is applied to the product with the state, not to the state
	once                        sync.Once
	packedW, packedG, packedH   []*kernel.Packed // per direction
	bias, biasH                 [][]float32      // what is added to the inputs' products; to the state's for h, with after
}

func (l *gatedWeights) pack() {
	l.once.Do(func() {
		n, g := l.hidden, l.gates*l.hidden
		for d := range l.dirs {
			r := l.r[d*g*n : (d+1)*g*n]
			l.packedW = append(l.packedW, kernel.Pack(l.w[d*g*l.inputs:], g, l.inputs, l.inputs, 1))
			l.packedH = append(l.packedH, kernel.Pack(r[(g-n)*n:], n, n, n, 1))
			if l.gates > 1 {
				l.packedG = append(l.packedG, kernel.Pack(r, g-n, n, n, 1))
			}
			var bias, biasH []float32
			if l.b != nil {
				of := l.b[2*d*g : (2*d+1)*g]
				rest := l.b[(2*d+1)*g : (2*d+2)*g]
				bias = append(bias, of...)
				to := g
				if l.after {
					to, biasH = g-n, rest[g-n:]
				}
				kernel.Add(bias[:to], bias[:to], rest[:to])
			}
			l.bias, l.biasH = append(l.bias, bias), append(l.biasH, biasH)
		}
	})
}

// gatedPass computes one direction per ticket: the inputs' products for all steps at once, then step by step the states'.
type gatedPass struct {
	*gatedWeights
	length, batch   int
	reverse         bool // the first direction, too
	x, h0, y, hn, t []float32
}

func gatedKernel(s *step) kernelMaker {
	a := s.node.Attrs
	w, r := s.constant(1), s.constant(2)
	if w == nil || r == nil || s.constant(3) == nil && !s.absent(3) || !s.absent(4) || a.Float("clip", 0) != 0 || ops.Int(s.node, "layout") != 0 ||
		a.Get("activations") != nil || len(s.constShape(1)) != 3 || len(s.constShape(2)) != 3 {
		return nil
	}
	ws, rs := s.constShape(1), s.constShape(2)
	l := &gatedWeights{gates: 1, dirs: ws[0], hidden: rs[2], inputs: ws[2], w: w, r: r, b: s.constant(3)}
	if s.node.Op.Name == "GRU" {
		l.gates, l.after = 3, a.Int("linear_before_reset", 0) != 0
	}
	direction, dirs := ops.Str(s.node, "direction"), 1
	if direction == "bidirectional" {
		dirs = 2
	}
	g := l.gates * l.hidden
	if g == 0 || l.dirs != dirs || rs[0] != dirs || ws[1] != g || rs[1] != g || l.b != nil && len(l.b) != 2*dirs*g || a.Int("hidden_size", int64(l.hidden)) != int64(l.hidden) {
		return nil
	}
	return func(d *binding) *boundKernel {
		in := d.shapeOf(s, 0)
		if !d.typed(s, 0, tensor.Float32) || len(in) != 3 || in[2] != l.inputs {
			return nil
		}
		p := &gatedPass{gatedWeights: l, length: in[0], batch: in[1], reverse: direction == "reverse"}
		if !s.absent(5) {
			h := d.shapeOf(s, 5)
			if n, _ := tensor.Size(h); !d.typed(s, 5, tensor.Float32) || len(h) != 3 || n != dirs*p.batch*l.hidden {
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
			p.x, p.h0, p.y, p.hn, p.t = e.buf[s.in[0].id], nil, nil, nil, u.temp
			if !s.absent(5) {
				p.h0 = e.buf[s.in[5].id]
			}
			for i, to := range []*[]float32{&p.y, &p.hn} {
				if i < len(s.out) && s.out[i] != nil {
					*to = e.buf[s.out[i].id]
				}
			}
			return e.parallel(p, dirs)
		}}
	}
}

// temp is the numbers that a direction works on: the gates of all steps, the products of the state, and three states.
func (p *gatedPass) temp() int { return p.batch * p.hidden * (p.gates*(p.length+1) + 3) }

func (p *gatedPass) ticket(_ *worker, dir int) {
	n, g := p.hidden, p.gates*p.hidden
	size := p.batch * n
	t := p.t[dir*p.temp() : (dir+1)*p.temp()]
	take := func(k int) (v []float32) { v, t = t[:k], t[k:]; return v }
	inputs, gates, h, left, next := take(p.batch*g*p.length), take(p.batch*(g-n)), take(size), take(size), take(size)
	clear(h)
	if p.h0 != nil {
		copy(h, p.h0[dir*size:])
	}
	kernel.Gemm(inputs, g, p.x, p.inputs, p.length*p.batch, p.packedW[dir], p.bias[dir], false)
	for k := range p.length {
		at := k
		if dir == 1 || p.reverse {
			at = p.length - 1 - k
		}
		x := inputs[p.batch*g*at : p.batch*g*(at+1)]
		if p.gates == 1 {
			kernel.Gemm(next, n, h, n, p.batch, p.packedH[dir], nil, false)
			kernel.Add(next, next, x)
			kernel.Tanh(h, next)
		} else {
			p.gru(dir, x, gates, h, left, next)
		}
		if p.y != nil {
			copy(p.y[(at*p.dirs+dir)*size:(at*p.dirs+dir+1)*size], h)
		}
	}
	if p.hn != nil {
		copy(p.hn[dir*size:(dir+1)*size], h)
	}
}

// gru is one step: h = (1-z)·tanh(…) + z·h.
func (p *gatedPass) gru(dir int, x, gates, h, left, next []float32) {
	n := p.hidden
	kernel.Gemm(gates, 2*n, h, n, p.batch, p.packedG[dir], nil, false)
	for i := range p.batch {
		zr := gates[2*n*i : 2*n*(i+1)]
		kernel.Add(zr, zr, x[3*n*i:3*n*i+2*n])
		kernel.Sigmoid(zr, zr)
		if !p.after {
			kernel.Mul(left[n*i:n*(i+1)], h[n*i:n*(i+1)], zr[n:])
		}
	}
	if p.after {
		kernel.Gemm(next, n, h, n, p.batch, p.packedH[dir], p.biasH[dir], false)
	} else {
		kernel.Gemm(next, n, left, n, p.batch, p.packedH[dir], nil, false)
	}
	for i := range p.batch {
		z, r, hi, c := gates[2*n*i:2*n*i+n], gates[2*n*i+n:2*n*(i+1)], h[n*i:n*(i+1)], next[n*i:n*(i+1)]
		if p.after {
			kernel.Mul(c, c, r)
		}
		kernel.Add(c, c, x[3*n*i+2*n:3*n*(i+1)])
		kernel.Tanh(c, c)
		kernel.Sub(hi, hi, c) // h = c + z·(h - c)
		kernel.Mul(hi, hi, z)
		kernel.Add(hi, hi, c)
	}
}
