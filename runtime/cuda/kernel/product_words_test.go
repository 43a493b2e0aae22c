package kernel_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/internal/kerneltest"
	"github.com/essmc/essmc/runtime/cuda/kernel"
)

// narrowStack is a stack of matrices of narrow numbers in memory.
type narrowStack struct {
	kernel.Packing
	data   []byte
	values []float64
}

// narrows makes random matrices, with gap numbers between rows (columns if turned). If shared, there is one matrix
// for the whole batch.
func narrows(r *rand.Rand, t tensor.DType, rows, k int, turned, shared bool, gap int, batch []int) *narrowStack {
	s := &narrowStack{Packing: kernel.Packing{Size: t.Bits() / 8, Rows: rows, K: k, Batch: batch}}
	s.From = kernel.Matrix{Row: k + gap, Inner: 1, Batch: make([]int, len(batch))}
	n := rows * (k + gap)
	if turned {
		s.From.Row, s.From.Inner, n = 1, rows+gap, k*(rows+gap)
	}
	for i := len(batch) - 1; i >= 0 && !shared; i-- {
		s.From.Batch[i] = n
		n *= batch[i]
	}
	s.values = make([]float64, n)
	for i := range s.values {
		switch t {
		case tensor.Int8:
			s.values[i] = float64(r.IntN(256) - 128)
		case tensor.Uint8:
			s.values[i] = float64(r.IntN(256))
		case tensor.BFloat16:
			s.values[i] = float64(tensor.ToBF16(r.NormFloat64()).Float32())
		default:
			s.values[i] = float64(tensor.ToF16(r.NormFloat64()).Float32())
		}
	}
	x, err := tensor.FromFloat64s(t, s.values, n)
	if err != nil {
		panic(err)
	}
	s.data = x.Bytes()
	return s
}

func (s *narrowStack) get(index []int, row, k int) float64 {
	at := row*s.From.Row + k*s.From.Inner
	for i, x := range index {
		at += x * s.From.Batch[i]
	}
	return s.values[at]
}

// words returns the matrices in the form for a product: in place, or packed by the kernel, whose bytes must equal
// Pack's.
func (s *narrowStack) words(t *testing.T, b *kerneltest.Bench) kernel.Matrix {
	t.Helper()
	s.From.Buffer = b.In(s.data)
	if m, ok := s.Plain(); ok {
		return m
	}
	to := b.Out(s.Bytes())
	b.Run(s.Call(to))
	if !bytes.Equal(b.Bytes(to), s.Pack(s.data)) {
		t.Error("the layouts of host and device differ")
	}
	return s.Packed(to)
}

// TestProductOfWords compares products of 16- and 8-bit numbers with plain loops. Products of integers are exact.
func TestProductOfWords(t *testing.T) {
	precisions := map[[2]tensor.DType]kernel.Precision{
		{tensor.Float16, tensor.Float16}: kernel.PairsF16, {tensor.BFloat16, tensor.BFloat16}: kernel.PairsBF16,
		{tensor.Uint8, tensor.Uint8}: kernel.BytesUU, {tensor.Uint8, tensor.Int8}: kernel.BytesUS,
		{tensor.Int8, tensor.Uint8}: kernel.BytesSU, {tensor.Int8, tensor.Int8}: kernel.BytesSS}
	f16, bf16, i8, u8 := tensor.Float16, tensor.BFloat16, tensor.Int8, tensor.Uint8
	for i, c := range []struct {
		a, b         tensor.DType
		m, n, k      int
		batch        []int
		turnA, turnB bool
		sharedB      bool
		gap          int
		zeros        int // 1: one for each matrix; 2: one for each row
	}{
		{a: f16, b: f16, m: 1, n: 1, k: 1}, {a: f16, b: f16, m: 33, n: 20, k: 64}, {a: bf16, b: bf16, m: 20, n: 37, k: 75},
		{a: bf16, b: bf16, m: 17, n: 70, k: 31, turnA: true, turnB: true, gap: 1},
		{a: f16, b: f16, m: 12, n: 9, k: 19, batch: []int{2, 3}, turnB: true},
		{a: f16, b: f16, m: 12, n: 9, k: 18, batch: []int{3, 1}, sharedB: true},
		{a: f16, b: f16, m: 5, n: 9, k: 3000},
		{a: u8, b: i8, m: 1, n: 1, k: 1, zeros: 1}, {a: u8, b: u8, m: 33, n: 20, k: 64}, {a: i8, b: i8, m: 33, n: 21, k: 131, zeros: 2},
		{a: u8, b: i8, m: 20, n: 37, k: 75, turnB: true, zeros: 2}, {a: i8, b: u8, m: 17, n: 70, k: 33, turnA: true, gap: 3, zeros: 1},
		{a: u8, b: u8, m: 9, n: 12, k: 130, batch: []int{2, 3}, sharedB: true, turnB: true, zeros: 2},
		{a: i8, b: u8, m: 9, n: 12, k: 20, batch: []int{2, 3}, zeros: 1}, {a: u8, b: u8, m: 3, n: 4, k: 40000, zeros: 1},
	} {
		t.Run(fmt.Sprintf("%v %v %dx%dx%d", c.a, c.b, c.m, c.n, c.k), func(t *testing.T) {
			r := rand.New(rand.NewPCG(11, uint64(i)))
			b := kerneltest.New(t)
			x, w := narrows(r, c.a, c.m, c.k, c.turnA, false, c.gap, c.batch), narrows(r, c.b, c.n, c.k, c.turnB, c.sharedB, c.gap, c.batch)
			p := kernel.Product{M: c.m, N: c.n, K: x.Words(), Batch: c.batch, A: x.words(t, b), B: w.words(t, b),
				Precision: precisions[[2]tensor.DType{c.a, c.b}]}
			count := 1
			p.C = kernel.Matrix{Row: c.n, Inner: 1, Batch: make([]int, len(c.batch))}
			for d := len(c.batch) - 1; d >= 0; d-- {
				p.C.Batch[d] = count * c.m * c.n
				count *= c.batch[d]
			}
			var points [2][]float64
			whole := c.a.IsInt()
			switch {
			case whole:
				p.Result = kernel.SumI32
			case c.a == f16:
				p.Result = kernel.SumF16
			default:
				p.Result = kernel.SumBF16
			}
			if c.zeros > 0 {
				var tables [2]kernel.Matrix
				for side, s := range []*narrowStack{x, w} {
					typ := []tensor.DType{c.a, c.b}[side]
					n, times := 1, 0
					if c.zeros == 2 {
						n = s.Rows
					}
					if side == 0 {
						times = c.k
					}
					z := narrows(r, typ, 1, n, false, true, 0, nil)
					for j := range s.Rows {
						points[side] = append(points[side], z.values[j%n])
					}
					m := []kernel.Matrix{p.A, p.B}[side]
					table, call := s.ZeroPoints(b.Out(8*s.Stack()), m, typ == i8, b.In(z.data), c.zeros == 2, times)
					b.Run(call)
					tables[side] = table
				}
				p.Zeros = &tables
			}
			size := p.Result.Size()
			p.C.Buffer = b.Out(size * count * c.m * c.n)
			b.Run(p.Calls(b.Out)...)
			got := tensor.New(map[kernel.SumType]tensor.DType{kernel.SumI32: tensor.Int32, kernel.SumF16: f16,
				kernel.SumBF16: bf16}[p.Result], count, c.m, c.n)
			copy(got.Bytes(), b.Bytes(p.C.Buffer))
			found, err := got.Float64s()
			if err != nil {
				t.Fatal(err)
			}
			index := make([]int, len(c.batch))
			for at := range found {
				rest := at / (c.m * c.n)
				for d := len(index) - 1; d >= 0; d-- {
					index[d] = rest % c.batch[d]
					rest /= c.batch[d]
				}
				row, col := at/c.n%c.m, at%c.n
				sum, sizes := 0.0, 0.0
				for l := range c.k {
					u, v := x.get(index, row, l), w.get(index, col, l)
					if c.zeros > 0 {
						u, v = u-points[0][row], v-points[1][col]
					}
					sum += u * v
					sizes += math.Abs(u * v)
				}
				// Results are rounded to 11 or 8 bits; sums to float32.
				if whole && found[at] != float64(int32(int64(sum))) ||
					!whole && math.Abs(found[at]-sum) > math.Abs(sum)*map[tensor.DType]float64{f16: 0x1p-11, bf16: 0x1p-8}[c.a]+1e-6*sizes {
					t.Fatalf("at %d: found %v, expected %v", at, found[at], sum)
				}
			}
		})
	}
}
