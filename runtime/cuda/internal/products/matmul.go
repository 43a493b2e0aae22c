package products

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "MatMul", Build: matMul}, record.Record{Op: "Gemm", Takes: takesGemm, Build: gemm})
}

// takesGemm leaves other types, and alpha = 0, to the operator's body.
func takesGemm(s *lowering.Step) bool {
	return ops.Newest(s.Node.Op) && s.Float32Input(0) && s.Float32Input(1) && s.Node.Attrs.Float("alpha", 1) != 0
}

// matMul computes numpy's matmul.
func matMul(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	x, w := d.ShapeOf(s, 0), d.ShapeOf(s, 1)
	typ, ok := numberOf(d.DType(s.Out[0]))
	if !ok || !d.Typed(s, 0, d.DType(s.Out[0])) || !d.Typed(s, 1, d.DType(s.Out[0])) || len(x) == 0 || len(w) == 0 {
		return false
	}
	if len(x) == 1 {
		x = []int{1, x[0]}
	}
	if len(w) == 1 {
		w = []int{w[0], 1}
	}
	m, k, n := x[len(x)-2], x[len(x)-1], w[len(w)-1]
	batch, err := ops.Broadcast(x[:len(x)-2], w[:len(w)-2])
	if err != nil || w[len(w)-2] != k {
		return false
	}
	if p, ok := denseProduct(b, s); ok {
		p.C.Buffer = b.Buffer(s.Out[0])
		launch(b, p)
		return true
	}
	c := contraction{typ: typ, x: b.Buffer(s.In[0]), w: b.Buffer(s.In[1]), y: b.Buffer(s.Out[0]),
		constants: [2]*lowering.Value{fixed(s, 0), fixed(s, 1)}}
	as, bs := ops.BroadcastStrides(x[:len(x)-2], batch), ops.BroadcastStrides(w[:len(w)-2], batch)
	for i, stride := range ops.Strides(batch) {
		c.letters = append(c.letters, letter{size: batch[i], a: as[i] * m * k, b: bs[i] * k * n, c: stride * m * n})
	}
	c.letters = append(c.letters, letter{size: m, a: k, c: n}, letter{size: n, b: 1, c: 1},
		letter{size: k, a: 1, b: n, sum: true})
	if slices.ContainsFunc(c.letters, func(l letter) bool { return l.size == 0 && !l.sum }) {
		return true
	}
	if k == 0 {
		b.Fill(c.y, 0, b.Bytes(s.Out[0]))
		return true
	}
	c.launch(b)
	return true
}

// denseProduct returns a product of float32 numbers with a constant matrix.
func denseProduct(b *record.Builder, s *lowering.Step) (kernel.Product, bool) {
	d := b.Binding
	x, w := d.ShapeOf(s, 0), d.ShapeOf(s, 1)
	if !d.Typed(s, 0, tensor.Float32) || !d.Typed(s, 1, tensor.Float32) || !constant(s, 1) || len(x) == 0 ||
		len(w) != 2 || w[1] < 2 {
		return kernel.Product{}, false
	}
	rows, k := lowering.Features(x)
	if n := w[1]; w[0] == k {
		return kernel.Product{M: rows, N: n, K: k, Precision: b.Precision(n, k),
			A: kernel.Matrix{Buffer: b.Buffer(s.In[0]), Row: k, Inner: 1}, B: weights(b, s.In[1], n, k, 1, n),
			C: kernel.Matrix{Row: n, Inner: 1}}, true
	}
	return kernel.Product{}, false
}

// gemm computes alpha·A·B + beta·C.
func gemm(b *record.Builder, s *lowering.Step) bool {
	p, ok := gemmProduct(b, s)
	if ok {
		p.C.Buffer = b.Buffer(s.Out[0])
		launch(b, p)
	}
	return ok
}

func gemmProduct(b *record.Builder, s *lowering.Step) (p kernel.Product, ok bool) {
	d := b.Binding
	x, w, y := d.ShapeOf(s, 0), d.ShapeOf(s, 1), d.Shape(s.Out[0])
	if !d.Typed(s, 0, tensor.Float32) || !d.Typed(s, 1, tensor.Float32) || !d.Gives(s, 0, tensor.Float32) {
		return p, false
	}
	a := s.Node.Attrs
	m, n, k := y[0], y[1], x[1]
	p = kernel.Product{M: m, N: n, Alpha: float32(a.Float("alpha", 1)), Beta: float32(a.Float("beta", 1)),
		A: kernel.Matrix{Buffer: b.Buffer(s.In[0]), Row: k, Inner: 1},
		C: kernel.Matrix{Row: n, Inner: 1}}
	if a.Bool("transA", false) {
		k = x[0]
		p.A.Row, p.A.Inner = 1, m
	}
	row, inner := 1, n
	if a.Bool("transB", false) {
		row, inner = k, 1
	}
	if constant(s, 1) {
		p.B, p.Precision = weights(b, s.In[1], n, k, row, inner), b.Precision(n, k)
	} else {
		p.B = kernel.Matrix{Buffer: b.Buffer(s.In[1]), Row: row, Inner: inner}
	}
	p.K = k
	if w[0]*w[1] != n*k {
		return p, false
	}
	if !s.Absent(2) && p.Beta != 0 {
		c := d.ShapeOf(s, 2)
		if _, err := ops.Broadcast(c, y); err != nil || !d.Typed(s, 2, tensor.Float32) {
			return p, false
		}
		strides := ops.BroadcastStrides(c, y)
		p.Bias = &kernel.Matrix{Buffer: b.Buffer(s.In[2]), Row: strides[0], Inner: strides[1]}
	}
	return p, true
}
