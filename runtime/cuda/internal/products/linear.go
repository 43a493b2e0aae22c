package products

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "essm.Linear", Build: linear},
		record.Record{Op: "essm.HeadLinear", Build: headLinear}, record.Record{Op: "essm.HeadScale", Build: headScale})
}

// linear computes x Wᵀ + b.
func linear(b *record.Builder, s *lowering.Step) bool {
	p, ok := linearProduct(b, s)
	if ok {
		p.C.Buffer = b.Buffer(s.Out[0])
		launch(b, p)
		return true
	}
	return linearHalves(b, s)
}

// linearHalves is linear for float16 or bfloat16, as a product of words.
func linearHalves(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	t := d.DType(s.Out[0])
	rows, k := lowering.Features(d.ShapeOf(s, 0))
	w := d.ShapeOf(s, 1)
	if t != tensor.Float16 && t != tensor.BFloat16 || !d.Typed(s, 0, t) || !d.Typed(s, 1, t) || len(w) != 2 || w[1] != k || k == 0 {
		return false
	}
	n := w[0]
	if rows == 0 || n == 0 {
		return true
	}
	c := contraction{x: b.Buffer(s.In[0]), w: b.Buffer(s.In[1]), constants: [2]*lowering.Value{fixed(s, 0), fixed(s, 1)}}
	c.typ, _ = numberOf(t)
	p := kernel.Product{M: rows, N: n, K: k, A: kernel.Matrix{Buffer: c.x, Row: k, Inner: 1},
		B: kernel.Matrix{Buffer: c.w, Row: k, Inner: 1}, C: kernel.Matrix{Buffer: b.Buffer(s.Out[0]), Row: n, Inner: 1}}
	if !s.Absent(2) {
		if !d.Typed(s, 2, t) || record.Size(d.ShapeOf(s, 2)) != n {
			return false
		}
		p.Bias = &kernel.Matrix{Buffer: b.Buffer(s.In[2]), Inner: 1}
	}
	p, ok := c.halves(b, p)
	if ok {
		b.Work(ir.Work{Flops: 2 * int64(rows) * int64(n) * int64(k)})
		b.Launch(p.Calls(b.Scratch)...)
	}
	return ok
}

func linearProduct(b *record.Builder, s *lowering.Step) (p kernel.Product, ok bool) {
	d := b.Binding
	rows, k := lowering.Features(d.ShapeOf(s, 0))
	w := d.ShapeOf(s, 1)
	if !d.Typed(s, 0, tensor.Float32) || !d.Gives(s, 0, tensor.Float32) || w[1] != k {
		return p, false
	}
	n := w[0]
	p = kernel.Product{M: rows, N: n, K: k, A: kernel.Matrix{Buffer: b.Buffer(s.In[0]), Row: k, Inner: 1},
		C: kernel.Matrix{Row: n, Inner: 1}}
	switch {
	case constant(s, 1):
		p.B, p.Precision = weights(b, s.In[1], n, k, k, 1), b.Precision(n, k)
	case d.Typed(s, 1, tensor.Float32):
		p.B = kernel.Matrix{Buffer: b.Buffer(s.In[1]), Row: k, Inner: 1}
	default:
		return p, false
	}
	if !s.Absent(2) {
		bias, ok := vector(b, s, 2)
		if !ok {
			return p, false
		}
		p.Bias = bias
	}
	return p, true
}

// oneHead is headLinear with one head: a dense layer.
func oneHead(b *record.Builder, s *lowering.Step) (p kernel.Product, ok bool) {
	d := b.Binding
	rows, k := lowering.Features(d.ShapeOf(s, 0))
	w := d.ShapeOf(s, 1)
	if !d.Typed(s, 0, tensor.Float32) || !d.Gives(s, 0, tensor.Float32) || !constant(s, 1) || len(w) != 4 || w[0]*w[1] != 1 ||
		w[3] != k {
		return p, false
	}
	n := w[2]
	return kernel.Product{M: rows, N: n, K: k, A: kernel.Matrix{Buffer: b.Buffer(s.In[0]), Row: k, Inner: 1},
		B: weights(b, s.In[1], n, k, k, 1), C: kernel.Matrix{Row: n, Inner: 1}, Precision: b.Precision(n, k)}, true
}

// headLinear computes a block-diagonal product. The heads are the batch.
func headLinear(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	rows, g := lowering.Features(d.ShapeOf(s, 0))
	w := d.ShapeOf(s, 1)
	if !d.Typed(s, 0, tensor.Float32) || !d.Gives(s, 0, tensor.Float32) || len(w) != 4 {
		return false
	}
	if p, ok := oneHead(b, s); ok {
		p.C.Buffer = b.Buffer(s.Out[0])
		launch(b, p)
		return true
	}
	c, h, n, k := w[0], w[1], w[2], w[3]
	perChannel := h * k // features of a channel; shared by all channels if the input has no more than that
	switch g {
	case c * h * k:
	case h * k:
		perChannel = 0
	default:
		return false
	}
	m := c * h * n
	var of kernel.Matrix
	switch {
	case constant(s, 1):
		of = weights(b, s.In[1], c*h*n, k, k, 1)
	case d.Typed(s, 1, tensor.Float32):
		of = kernel.Matrix{Buffer: b.Buffer(s.In[1]), Row: k, Inner: 1}
	default:
		return false
	}
	(&contraction{x: b.Buffer(s.In[0]), w: of.Buffer, y: b.Buffer(s.Out[0]), letters: []letter{
		{size: rows, a: g, c: m},
		{size: c, a: perChannel, b: h * n * of.Row, c: h * n},
		{size: h, a: k, b: n * of.Row, c: n},
		{size: n, b: of.Row, c: 1},
		{size: k, a: 1, b: 1, sum: true},
	}}).launch(b)
	return true
}

// headScale multiplies the features of each channel by a vector.
func headScale(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	rows, g := lowering.Features(d.ShapeOf(s, 0))
	w := d.ShapeOf(s, 1)
	if !d.Typed(s, 0, tensor.Float32) || !d.Gives(s, 0, tensor.Float32) || len(w) != 3 || w[1]*w[2] != g {
		return false
	}
	n := w[0] * g
	c := contraction{x: b.Buffer(s.In[0]), y: b.Buffer(s.Out[0]), letters: []letter{
		{size: rows, a: g, c: n}, {size: w[0], b: g, c: g}, {size: g, a: 1, b: 1, c: 1}}}
	switch {
	case constant(s, 1):
		c.w = weights(b, s.In[1], 1, n, n, 1).Buffer
	case d.Typed(s, 1, tensor.Float32):
		c.w = b.Buffer(s.In[1])
	default:
		return false
	}
	c.launch(b)
	return true
}
