package products

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "MatMulInteger", Takes: takesIntegers, Build: matMulInteger},
		record.Record{Op: "QLinearMatMul", Takes: takesQLinear, Build: qlinearMatMul})
}

// takesIntegers accepts zero points with at most one axis. The operator's body handles others.
func takesIntegers(s *lowering.Step) bool { return vectors(s, 2, 3) }

// vectors reports whether the inputs of a step with the given numbers have at most one axis, if present.
func vectors(s *lowering.Step, inputs ...int) bool {
	for _, i := range inputs {
		if s.Absent(i) {
			continue
		}
		if t, ok := ir.AsTensor(s.In[i].Type); !ok || t.NoRank || len(t.Shape) > 1 {
			return false
		}
	}
	return true
}

// takesQLinear accepts integers with one scale for the result.
func takesQLinear(s *lowering.Step) bool {
	if len(s.In) < 8 || !vectors(s, 1, 2, 4, 5, 6, 7) {
		return false
	}
	for i := range 8 {
		if s.Absent(i) {
			return false
		}
		t, ok := ir.AsTensor(s.In[i].Type)
		if !ok {
			return false
		}
		switch i {
		case 0, 2, 3, 5, 7:
			ok = t.Elem == tensor.Int8 || t.Elem == tensor.Uint8
		default:
			_, ok = scaleTypes[t.Elem]
		}
		if n, known := t.Shape.Size().Known(); !ok || i >= 6 && (!known || n != 1) {
			return false
		}
	}
	return true
}

var scaleTypes = map[tensor.DType]kernel.SumType{tensor.Float32: kernel.SumF32, tensor.Float16: kernel.SumF16,
	tensor.BFloat16: kernel.SumBF16}

// factor is an input of a product of 8-bit integers, with the input of its zero points.
type factor struct {
	s           *lowering.Step
	value, zero int
	packing     kernel.Packing
	m           kernel.Matrix
}

// signed reports whether the integers are signed.
func (f *factor) signed(b *record.Builder) bool {
	return b.Binding.DType(f.s.In[f.value]) == tensor.Int8
}

// centered reports whether zero points may differ from 0.
func (f *factor) centered(b *record.Builder) bool {
	if f.s.Absent(f.zero) {
		return false
	}
	if t := b.Binding.Constant(f.s.In[f.zero]); t != nil {
		for _, x := range t.Bytes() {
			if x != 0 {
				return true
			}
		}
		return false
	}
	return true
}

// zeros returns the table of zero points.
func (f *factor) zeros(b *record.Builder, times int) kernel.Matrix {
	var of kernel.Buffer
	each := false
	if f.centered(b) {
		of, each = b.Buffer(f.s.In[f.zero]), record.Size(b.Binding.ShapeOf(f.s, f.zero)) > 1
	}
	table, call := f.packing.ZeroPoints(b.Scratch(8*f.packing.Stack()), f.m, f.signed(b), of, each, times)
	b.Launch(call)
	return table
}

// integerProduct adds A·B of 8-bit integers, each minus its zero point. Sums are int32 and wrap around.
func integerProduct(b *record.Builder, p kernel.Product, factors [2]factor) bool {
	for i, f := range factors {
		if rows := f.packing.Rows; !f.packing.Fits() {
			return false
		} else if !f.s.Absent(f.zero) {
			if n := record.Size(b.Binding.ShapeOf(f.s, f.zero)); n != 1 && n != rows {
				return false
			}
		}
		factors[i].m = inWords(b, f.packing, fixed(f.s, f.value))
	}
	k := factors[0].packing.K
	p.A, p.B, p.K = factors[0].m, factors[1].m, factors[0].packing.Words()
	p.Precision = map[[2]bool]kernel.Precision{{false, false}: kernel.BytesUU, {false, true}: kernel.BytesUS,
		{true, false}: kernel.BytesSU, {true, true}: kernel.BytesSS}[[2]bool{factors[0].signed(b), factors[1].signed(b)}]
	if factors[0].centered(b) || factors[1].centered(b) {
		p.Zeros = &[2]kernel.Matrix{factors[0].zeros(b, k), factors[1].zeros(b, 0)}
	}
	b.Work(ir.Work{Flops: 2 * int64(p.M*p.N) * int64(k*record.Size(p.Batch))})
	b.Launch(p.Calls(b.Scratch)...)
	return true
}

// matMulInteger computes numpy's matmul of integers, each minus its zero point.
func matMulInteger(b *record.Builder, s *lowering.Step) bool {
	return integerMatMul(b, kernel.Product{Result: kernel.SumI32}, factor{s: s, value: 0, zero: 2}, factor{s: s, value: 1, zero: 3})
}

// qlinearMatMul requantizes the sums of matMulInteger.
func qlinearMatMul(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	scales := func(i int) kernel.Scales {
		return kernel.Scales{Buffer: b.Buffer(s.In[i]), Type: scaleTypes[d.DType(s.In[i])], Each: record.Size(d.ShapeOf(s, i)) > 1}
	}
	r := &kernel.Requantization{A: scales(1), B: scales(4), Y: scales(6), Zero: b.Buffer(s.In[7]), Rows: 1,
		Signed: d.DType(s.Out[0]) == tensor.Int8}
	x, w := d.ShapeOf(s, 0), d.ShapeOf(s, 3)
	columns := 1
	if len(x) > 1 {
		r.Rows = x[len(x)-2]
	}
	if len(w) > 1 {
		columns = w[len(w)-1]
	}
	if r.A.Each && record.Size(d.ShapeOf(s, 1)) != r.Rows || r.B.Each && record.Size(d.ShapeOf(s, 4)) != columns {
		return false
	}
	return integerMatMul(b, kernel.Product{Result: kernel.SumI8, Requantized: r}, factor{s: s, value: 0, zero: 2},
		factor{s: s, value: 3, zero: 5})
}

// integerMatMul computes p for the factors of a step.
func integerMatMul(b *record.Builder, p kernel.Product, left, right factor) bool {
	d, s := b.Binding, left.s
	x, w := d.ShapeOf(s, left.value), d.ShapeOf(s, right.value)
	if len(x) == 0 || len(w) == 0 {
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
	bytes := b.Bytes(s.Out[0])
	if bytes == 0 {
		return true
	}
	y := b.Buffer(s.Out[0])
	if k == 0 {
		b.Fill(y, 0, bytes)
		return p.Requantized == nil // zero points may not be 0
	}
	from := [2]kernel.Matrix{{Buffer: b.Buffer(s.In[left.value]), Row: k, Inner: 1},
		{Buffer: b.Buffer(s.In[right.value]), Row: 1, Inner: n}}
	p.M, p.N, p.Batch, p.C = m, n, batch, kernel.Matrix{Buffer: y, Row: n, Inner: 1}
	as, bs := ops.BroadcastStrides(x[:len(x)-2], batch), ops.BroadcastStrides(w[:len(w)-2], batch)
	for i, stride := range ops.Strides(batch) {
		from[0].Batch = append(from[0].Batch, as[i]*m*k)
		from[1].Batch = append(from[1].Batch, bs[i]*k*n)
		p.C.Batch = append(p.C.Batch, stride*m*n)
	}
	left.packing = kernel.Packing{Size: 1, Rows: m, K: k, Batch: batch, From: from[0]}
	right.packing = kernel.Packing{Size: 1, Rows: n, K: k, Batch: batch, From: from[1]}
	return integerProduct(b, p, [2]factor{left, right})
}
