package products

import (
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// inWords returns matrices of 8- or 16-bit numbers in the layout that a product of words needs: in place if they
// have it already, laid out once if they are those of v, a constant or settled value, and otherwise packed by a kernel.
func inWords(b *record.Builder, p kernel.Packing, v *lowering.Value) kernel.Matrix {
	if m, ok := p.Plain(); ok {
		return m
	}
	if v != nil {
		t := v.Fixed()
		return p.Packed(b.Weights(v, p.Layout(), func() []byte { return p.Pack(t.Bytes()) }))
	}
	to := b.Scratch(p.Bytes())
	b.Launch(p.Call(to))
	return p.Packed(to)
}

// fixed returns input i of a step if it is a constant or settled, else nil.
func fixed(s *lowering.Step, i int) *lowering.Value {
	if s.Fixed(i) == nil {
		return nil
	}
	return s.In[i]
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
		v := c.constants[0]
		if m.Buffer != c.x {
			v = c.constants[1]
		}
		*m = inWords(b, sides[i], v)
	}
	p.K = sides[0].Words()
	return p, true
}
