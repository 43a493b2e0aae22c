package products

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// numberOf returns the type in which kernels multiply elements of a type.
func numberOf(t tensor.DType) (kernel.SumType, bool) {
	switch t {
	case tensor.Float32:
		return kernel.SumF32, true
	case tensor.Float64:
		return kernel.SumF64, true
	case tensor.Float16:
		return kernel.SumF16, true
	case tensor.BFloat16:
		return kernel.SumBF16, true
	case tensor.Int32, tensor.Uint32:
		return kernel.SumI32, true
	case tensor.Int64, tensor.Uint64:
		return kernel.SumI64, true
	}
	return 0, false
}

// letter is an axis of a sum of products: its size, and the strides of its indices in both factors and in the
// result. A stride is 0 if the tensor lacks the axis or has size 1 along it.
type letter struct {
	size, a, b, c int
	sum           bool // absent from the result
}

// merge joins neighbouring axes that form one axis of even stride in all tensors.
func merge(l []letter) []letter {
	var out []letter
	for _, x := range l {
		if x.size == 1 {
			continue
		}
		if n := len(out); n > 0 {
			if p := &out[n-1]; p.a == x.a*x.size && p.b == x.b*x.size && p.c == x.c*x.size {
				*p = letter{p.size * x.size, x.a, x.b, x.c, x.sum}
				continue
			}
		}
		out = append(out, x)
	}
	return out
}

// contraction is a sum of products: y, indexed by the letters of the result, is the sum of x·w over all other
// letters.
type contraction struct {
	typ       kernel.SumType
	x, w, y   kernel.Buffer
	letters   []letter
	precision kernel.Precision
	constants [2]*lowering.Value // x and w if they are constants or settled, else nil
}

// launch adds the work.
func (c *contraction) launch(b *record.Builder) {
	flops := int64(2)
	for _, l := range c.letters {
		flops *= int64(l.size)
	}
	b.Work(ir.Work{Flops: flops})
	p, ok := c.product()
	if ok && c.typ != kernel.SumF32 {
		p, ok = c.halves(b, p)
	}
	if ok {
		b.Launch(p.Calls(b.Scratch)...)
		return
	}
	k := kernel.Contraction{Type: c.typ, A: c.x, B: c.w, C: c.y}
	for _, l := range c.letters {
		axis := kernel.Axis{Size: l.size, A: l.a, B: l.b, C: l.c}
		if l.sum {
			k.Sums = append(k.Sums, axis)
		} else {
			k.Results = append(k.Results, axis)
		}
	}
	b.Launch(k.Calls()...)
}

// product returns the sum as a product of matrices. It returns false if the sum has another form, or is too small to
// be worth it.
func (c *contraction) product() (kernel.Product, bool) {
	if c.typ != kernel.SumF32 && c.typ != kernel.SumF16 && c.typ != kernel.SumBF16 || c.w == 0 {
		return kernel.Product{}, false
	}
	var batch, rows, columns, sums []letter
	for _, l := range c.letters {
		switch {
		case l.size == 1:
		case l.sum:
			sums = append(sums, l)
		case l.a != 0 && l.b != 0 || l.a == 0 && l.b == 0:
			batch = append(batch, l)
		case l.a != 0:
			rows = append(rows, l)
		default:
			columns = append(columns, l)
		}
	}
	slices.SortStableFunc(sums, func(x, y letter) int { return cmp.Compare(y.a, x.a) })
	rows, columns, sums = merge(rows), merge(columns), merge(sums)
	if len(sums) > 1 {
		return kernel.Product{}, false
	}
	largest := func(l []letter) letter {
		best := -1
		for i, x := range l {
			if best < 0 || x.size >= l[best].size {
				best = i
			}
		}
		if best < 0 {
			return letter{size: 1}
		}
		batch = append(batch, slices.Delete(slices.Clone(l), best, best+1)...)
		return l[best]
	}
	m, n, k := largest(rows), largest(columns), letter{size: 1}
	if len(sums) == 1 {
		k = sums[0]
	}
	slices.SortStableFunc(batch, func(x, y letter) int { return cmp.Compare(y.c, x.c) })
	p := kernel.Product{M: m.size, N: n.size, K: k.size, Precision: c.precision,
		A: kernel.Matrix{Buffer: c.x, Row: m.a, Inner: k.a, Batch: []int{}},
		B: kernel.Matrix{Buffer: c.w, Row: n.b, Inner: k.b, Batch: []int{}},
		C: kernel.Matrix{Buffer: c.y, Row: m.c, Inner: n.c, Batch: []int{}}}
	for _, l := range batch {
		p.Batch = append(p.Batch, l.size)
		p.A.Batch, p.B.Batch, p.C.Batch = append(p.A.Batch, l.a), append(p.B.Batch, l.b), append(p.C.Batch, l.c)
	}
	if p.N > 1 && p.C.Inner != 1 && p.C.Row == 1 || p.M > 8 && p.N <= 8 && p.A.Inner == 1 {
		p.A, p.B, p.M, p.N = p.B, p.A, p.N, p.M
		p.C.Row, p.C.Inner = p.C.Inner, p.C.Row
	}
	few := min(p.M, p.N)
	if few <= 8 && p.K < 32 || !p.Small() && (few < 4 || p.M*p.N < 64 && p.K < 256) {
		return p, false
	}
	return p, true
}

// weights returns a constant as N × K numbers of float32; row and inner are the strides of its elements.
func weights(b *record.Builder, v *lowering.Value, n, k, row, inner int) kernel.Matrix {
	if v.Fixed().DType() == tensor.Float32 && k%4 == 0 && inner == 1 && row == k {
		return kernel.Matrix{Buffer: b.Buffer(v), Row: k, Inner: 1}
	}
	return ordered(b, v, n, k, row, inner, "", func(i int) int { return i })
}

// ordered is weights with the rows in another order; name identifies the order.
func ordered(b *record.Builder, v *lowering.Value, n, k, row, inner int, name string, order func(i int) int) kernel.Matrix {
	t, wide := v.Fixed(), (k+3)/4*4
	if n*wide == 0 {
		return kernel.Matrix{Row: wide, Inner: 1}
	}
	make := func() []byte {
		x, err := t.Float64s()
		if err != nil {
			return nil
		}
		out := make([]byte, 4*n*wide)
		for i := range n {
			for j := range k {
				binary.LittleEndian.PutUint32(out[4*(i*wide+j):], math.Float32bits(float32(x[order(i)*row+j*inner])))
			}
		}
		return out
	}
	layout := fmt.Sprintf("%srows %dx%d by %d,%d", name, n, k, row, inner)
	return kernel.Matrix{Buffer: b.Weights(v, layout, make), Row: wide, Inner: 1}
}

// vector returns input i, a float32 vector on the device, as a matrix whose rows all are the vector.
func vector(b *record.Builder, s *lowering.Step, i int) (*kernel.Matrix, bool) {
	x, ok := b.Float32(s.In[i])
	return &kernel.Matrix{Buffer: x, Inner: 1}, ok
}

// constant reports whether input i is a constant or settled tensor of floats.
func constant(s *lowering.Step, i int) bool { return float(s.Fixed(i)) }

// float reports whether products read a tensor that is constant or settled.
func float(t *tensor.Tensor) bool { return t != nil && record.Float(t.DType()) }

func launch(b *record.Builder, p kernel.Product) {
	b.Work(ir.Work{Flops: 2 * int64(p.M*p.N) * int64(p.K*record.Size(p.Batch))})
	b.Launch(p.Calls(b.Scratch)...)
}
