package sequences

import (
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "GRU", Tensor: record.TensorKind{Make: gruKernel, Constant: []int{1, 2, 3}}})
}

// gru is the cell of a GRU. Gates are in the order z, r, h. The state's weights for h are separate, because r is
// applied to the state before they multiply it, unless r is applied to the product.
type gru struct {
	n     int
	zr, h []*kernel.Packed // per direction: weights of the state
	after bool             // r is applied to the product with the state
	bias  [][]float32      // of that product; nil for none
}

func gruKernel(s *lowering.Step) record.TensorMaker {
	c := &gru{after: s.Node.Attrs.Bool("linear_before_reset", false)}
	l := recurrentWeights(s, 3, func(i int) bool { return i < 2 || !c.after })
	if l == nil {
		return nil
	}
	c.n = l.hidden
	n, b := c.n, record.Numbers(s, 3)
	for d := range l.dirs {
		c.zr = append(c.zr, packedPart(s, 2, d*3*n*n, 2*n, n))
		c.h = append(c.h, packedPart(s, 2, (d*3+2)*n*n, n, n))
		var bias []float32
		if c.after && b != nil {
			bias = b[(6*d+5)*n : (6*d+6)*n]
		}
		c.bias = append(c.bias, bias)
	}
	l.cell = c
	return l.kernel(s)
}

func (*gru) states() int { return 0 }

func (m *gru) temp() int { return 4 * m.n }

// step computes h = (1-z)·g(…) + z·h.
func (m *gru) step(l *recurrentLayer, dir, rows int, gates, h, _, temp []float32) {
	n := m.n
	left, next, temp := temp[:rows*n], temp[rows*n:2*rows*n], temp[2*rows*n:]
	zr := addProduct(gates, 3*n, h, n, rows, m.zr[dir], temp)
	for i := range rows {
		l.act(dir, 0, zr[3*n*i:3*n*i+2*n])
		if !m.after {
			kernel.Mul(left[n*i:n*(i+1)], h[n*i:n*(i+1)], zr[3*n*i+n:3*n*i+2*n])
		}
	}
	if m.after {
		kernel.Gemm(next, n, h, n, rows, m.h[dir], m.bias[dir], false)
	} else {
		kernel.Gemm(next, n, left, n, rows, m.h[dir], nil, false)
	}
	for i := range rows {
		z, r, hi, c := zr[3*n*i:3*n*i+n], zr[3*n*i+n:3*n*i+2*n], h[n*i:n*(i+1)], next[n*i:n*(i+1)]
		if m.after {
			kernel.Mul(c, c, r)
		}
		kernel.Add(c, c, gates[3*n*i+2*n:3*n*(i+1)])
		l.act(dir, 1, c)
		kernel.Sub(hi, hi, c) // h = c + z·(h - c)
		kernel.Mul(hi, hi, z)
		kernel.Add(hi, hi, c)
	}
}
