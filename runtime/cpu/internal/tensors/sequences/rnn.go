package sequences

import (
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "RNN", Tensor: record.TensorKind{Make: rnnKernel, Constant: []int{1, 2, 3}}})
}

// rnn is the cell of an RNN: h = f(Wx + Rh).
type rnn struct {
	n int
	r []*kernel.Packed // per direction: weights of the state
}

func rnnKernel(s *lowering.Step) record.TensorMaker {
	l := recurrentWeights(s, 1, func(int) bool { return true })
	if l == nil {
		return nil
	}
	c := &rnn{n: l.hidden}
	for d := range l.dirs {
		c.r = append(c.r, packedPart(s, 2, d*c.n*c.n, c.n, c.n))
	}
	l.cell = c
	return l.kernel(s)
}

func (*rnn) states() int { return 0 }

func (m *rnn) temp() int { return m.n }

func (m *rnn) step(l *recurrentLayer, dir, rows int, gates, h, _, temp []float32) {
	size := rows * m.n
	sum := addProduct(gates, m.n, h, m.n, rows, m.r[dir], temp)[:size]
	l.act(dir, 0, sum)
	copy(h, sum)
}
