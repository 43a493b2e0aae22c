package products

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
)

// inWords returns matrices of 8- or 16-bit numbers in the layout that a product of words needs: in place if they
// have it already, laid out once if they are the constant t, and otherwise packed by a kernel.
func inWords(b *record.Builder, p kernel.Packing, t *tensor.Tensor) kernel.Matrix {
	if m, ok := p.Plain(); ok {
		return m
	}
	if t != nil {
		return p.Packed(b.Weights(t, p.Layout(), func() []byte { return p.Pack(t.Bytes()) }))
	}
	to := b.Scratch(p.Bytes())
	b.Launch(p.Call(to))
	return p.Packed(to)
}

// halves turns a product of float16 or bfloat16 numbers into one of words.
func (c *contraction) halves(b *record.Builder, p kernel.Product) (kernel.Product, bool) {
	p.Precision, p.Result = kernel.PairsF16, c.typ
	if c.typ == kernel.SumBF16 {
		p.Precision = kernel.PairsBF16
	}
	var sides [2]kernel.Packing
	for i, m := range []*kernel.Matrix{&p.A, &p.B} {
		sides[i] = kernel.Packing{Size: 2, Rows: []int{p.M, p.N}[i], K: p.K, Batch: p.Batch, From: *m}
		if !sides[i].Fits() {
			return p, false
		}
	}
	for i, m := range []*kernel.Matrix{&p.A, &p.B} {
		t := c.constants[0]
		if m.Buffer != c.x {
			t = c.constants[1]
		}
		*m = inWords(b, sides[i], t)
	}
	p.K = sides[0].Words()
	return p, true
}
