package sequences

import (
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "LSTM", Tensor: record.TensorKind{Make: lstmKernel, Constant: []int{1, 2, 3, 7}}})
}

// lstm is the cell of an LSTM. Gates are in the order i, o, f, c.
type lstm struct {
	r      []*kernel.Packed // per direction: weights of the state
	p      [][]float32      // per direction: peepholes, in the order i, o, f; nil for none
	n      int
	couple bool // f is 1 - i
}

func lstmKernel(s *lowering.Step) record.TensorMaker {
	l := recurrentWeights(s, 4, func(int) bool { return true })
	if l == nil {
		return nil
	}
	c := &lstm{n: l.hidden, couple: s.Node.Attrs.Bool("input_forget", false)}
	p := record.Numbers(s, 7)
	if p != nil && len(p) != 3*l.dirs*l.hidden {
		return nil
	}
	for d := range l.dirs {
		c.r = append(c.r, packedPart(s, 2, d*4*c.n*c.n, 4*c.n, c.n))
		var peep []float32
		if p != nil {
			peep = p[3*d*c.n : 3*(d+1)*c.n]
		}
		c.p = append(c.p, peep)
	}
	l.cell = c
	return l.kernel(s)
}

func (*lstm) states() int { return 1 }

func (m *lstm) temp() int { return 5 * m.n }

func (m *lstm) step(l *recurrentLayer, dir, rows int, gates, h, c, temp []float32) {
	n, peep := m.n, m.p[dir]
	t, temp := temp[:n], temp[n:]
	gates = addProduct(gates, 4*n, h, n, rows, m.r[dir], temp)
	for i := range rows {
		g, ci, hi := gates[4*n*i:4*n*(i+1)], c[n*i:n*(i+1)], h[n*i:n*(i+1)]
		in, out, forget, candidate := g[:n], g[n:2*n], g[2*n:3*n], g[3*n:]
		if peep != nil {
			kernel.Mul(t, peep[:n], ci)
			kernel.Add(in, in, t)
			kernel.Mul(t, peep[2*n:], ci)
			kernel.Add(forget, forget, t)
			l.act(dir, 0, in)
			l.act(dir, 0, forget)
		} else {
			l.act(dir, 0, g[:3*n])
		}
		if m.couple {
			kernel.SubFromS(forget, in, 1)
		}
		l.act(dir, 1, candidate)
		kernel.Mul(ci, ci, forget)
		kernel.Mul(t, in, candidate)
		kernel.Add(ci, ci, t)
		if peep != nil { // uses the new state
			kernel.Mul(t, peep[n:2*n], ci)
			kernel.Add(out, out, t)
			l.act(dir, 0, out)
		}
		copy(t, ci)
		l.f[dir][2](t)
		kernel.Mul(hi, out, t)
	}
}
