package kernel_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/internal/kerneltest"
	. "github.com/essmc/essmc/runtime/cuda/kernel"
)

// walk calls f with the places of operands for each coordinate of a shape, in row-major order.
func walk(shape []int, list []Operand, f func(at []int)) {
	at := make([]int, len(list))
	var step func(d int)
	step = func(d int) {
		if d == len(shape) {
			f(at)
			return
		}
		for i := range shape[d] {
			for j, o := range list {
				s := o.Strides
				if s == nil {
					s = RowMajor(shape)
				}
				at[j] += i * s[d]
			}
			step(d + 1)
			for j, o := range list {
				s := o.Strides
				if s == nil {
					s = RowMajor(shape)
				}
				at[j] -= i * s[d]
			}
		}
	}
	for j, o := range list {
		at[j] = o.Offset
	}
	step(0)
}

// TestParts checks that parts of shapes cover each element once, at the offsets of the operands.
func TestParts(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		var shape []int
		for range r.IntN(5) {
			shape = append(shape, r.IntN(4)+r.IntN(2))
		}
		list := []Operand{{}, {Offset: r.IntN(9)}, {Offset: 3}}
		for d := range shape {
			list[1].Strides = append(list[1].Strides, []int{0, RowMajor(shape)[d], -2, 7}[r.IntN(4)])
			list[2].Strides = append(list[2].Strides, []int{0, RowMajor(shape)[d]}[r.IntN(2)])
		}
		if len(shape) == 0 {
			list[1].Strides, list[2].Strides = []int{}, []int{}
		}
		limit := 1 + r.IntN(9)
		var want, got []string
		walk(shape, list, func(at []int) { want = append(want, fmt.Sprint(at)) })
		EachPart(shape, list, limit, func(dims []int, part []Operand) {
			n := 1
			for _, d := range dims {
				n *= d
			}
			if n > limit || len(dims) == 0 {
				t.Fatalf("a part %v of more than %d elements", dims, limit)
			}
			walk(dims, part, func(at []int) { got = append(got, fmt.Sprint(at)) })
		})
		if slices.Sort(want); !slices.Equal(sorted(got), want) {
			t.Fatalf("shape %v, operands %v, parts of %d: expected %v, found %v", shape, list, limit, want, got)
		}
	}
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}

func TestDivider(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for i := range 200000 {
		n := 1 + r.IntN(1<<r.IntN(31))
		x := uint32(r.Int32())
		switch i % 3 {
		case 1:
			x = uint32(n*r.IntN((1<<31-1)/n+1)) - uint32(i&1)
		case 2:
			x = 1<<31 - 1 - uint32(i&7)
		}
		x &= 1<<31 - 1
		magic, shift := Divider(n)
		if q := (uint32(uint64(x)*uint64(magic)>>32) + x) >> shift; q != x/uint32(n) {
			t.Fatalf("%d/%d: expected %d, found %d", x, n, x/uint32(n), q)
		}
	}
}

// operandsOf returns operands that broadcast to a shape, and their random elements.
func operandsOf(r *rand.Rand, shape []int, types []tensor.DType) (list []Operand, data []*tensor.Tensor) {
	for i, d := range types {
		own := slices.Clone(shape)
		for k := range own {
			if r.IntN(4) == 0 {
				own[k] = 1
			}
		}
		n, _ := tensor.Size(own)
		v := make([]float64, n)
		for j := range v {
			v[j] = 4 * r.NormFloat64()
			if d.IsInt() {
				v[j] = math.Trunc(10 * v[j])
				if !Signed(d) {
					v[j] = math.Abs(v[j]) // float64 cannot represent uint64 near its end
				}
			}
			if d == tensor.Bool {
				v[j] = float64(r.IntN(2))
			}
		}
		x, err := tensor.FromFloat64s(d, v, own...)
		if err != nil {
			panic(err)
		}
		o := Operand{Buffer: Buffer(i + 2), Type: d, Strides: RowMajor(own)}
		for k := range own {
			if own[k] == 1 {
				o.Strides[k] = 0
			}
		}
		list, data = append(list, o), append(data, x)
	}
	return list, data
}

// run launches calls with the result in buffer 1, of bytes of 0xa5, and data in the buffers from 2 on, and returns the bytes
// of the result.
func run(t testing.TB, calls []Call, size int, data []*tensor.Tensor) []byte {
	t.Helper()
	b := kerneltest.New(t)
	out := b.In(bytes.Repeat([]byte{0xa5}, size))
	for _, x := range data {
		b.In(x.Bytes())
	}
	b.Run(calls...)
	return b.Bytes(out)
}

var shapes = [][]int{{}, {1}, {5}, {1027}, {3, 4}, {7, 5}, {2, 3, 8}, {2, 3, 5, 4}, {1, 37, 3}, {5, 260}, {0, 3}}

// TestElementwise checks fused kernels on operands of all forms and types against the expression in float64.
func TestElementwise(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	x := scalar.Inputs(3)
	f32, f16, bf16, yes, i64, i8, u8, i32, f64, u64 := tensor.Float32, tensor.Float16, tensor.BFloat16, tensor.Bool, tensor.Int64,
		tensor.Int8, tensor.Uint8, tensor.Int32, tensor.Float64, tensor.Uint64
	for _, c := range []struct {
		e   scalar.Expr
		out tensor.DType
		in  []tensor.DType
	}{
		{scalar.Add(x[0], x[1]), f32, []tensor.DType{f32, f32}},
		{scalar.FMA(x[0], x[1], x[2]), f32, []tensor.DType{f32, f32, f32}},
		{scalar.Mul(x[0], scalar.Sigmoid(x[1])), f32, []tensor.DType{f32, f32}},
		{scalar.Sub(x[0], x[1]), f16, []tensor.DType{f16, f16}}, {scalar.Sub(x[0], x[1]), bf16, []tensor.DType{bf16, f32}},
		{scalar.Less(x[0], x[1]), yes, []tensor.DType{f32, f32}}, {scalar.Less(x[0], x[1]), yes, []tensor.DType{i64, i64}},
		{scalar.Select(x[0], x[1], x[2]), f32, []tensor.DType{yes, f32, f32}},
		{scalar.Select(x[0], x[1], x[2]), i32, []tensor.DType{yes, i32, i32}},
		{scalar.Select(x[0], x[1], x[2]), f64, []tensor.DType{yes, f64, f64}},
		{scalar.Select(x[0], scalar.Const(3), scalar.Const(5)), i64, []tensor.DType{yes}},
		{scalar.Xor(x[0], x[1]), yes, []tensor.DType{yes, yes}}, {scalar.Not(x[0]), yes, []tensor.DType{yes}},
		{scalar.Equal(x[0], x[1]), yes, []tensor.DType{yes, yes}},
		{scalar.Add(scalar.Mul(x[0], x[1]), scalar.Const(7)), i64, []tensor.DType{i64, i64}},
		{scalar.Div(x[0], scalar.Const(-3)), i32, []tensor.DType{i32}}, {scalar.FloorMod(x[0], scalar.Const(-3)), i32, []tensor.DType{i32}},
		{scalar.Max(x[0], x[1]), i8, []tensor.DType{i8, i8}}, {scalar.Abs(scalar.Min(x[0], x[1])), i8, []tensor.DType{i8, i8}},
		{scalar.Sub(x[0], x[1]), f64, []tensor.DType{f64, f64}}, {scalar.Less(scalar.Max(x[0], x[1]), x[2]), yes, []tensor.DType{f64, f64, f64}},
		{scalar.Min(x[0], x[1]), u8, []tensor.DType{u8, u8}}, {scalar.Less(x[0], x[1]), yes, []tensor.DType{u64, u64}},
		{scalar.Const(2.5), f32, nil}, {scalar.Const(7), i64, nil}, {scalar.Const(1), yes, nil},
	} {
		for _, shape := range shapes {
			list, data := operandsOf(r, shape, c.in)
			n, _ := tensor.Size(shape)
			calls, ok := Elementwise(c.e, shape, Dense(1, c.out), list...)
			if !ok || !Computes(c.e, c.in, c.out) {
				t.Fatalf("%v on %v is not computed", c.e, c.in)
			}
			bits := run(t, calls, tensor.ByteSize(c.out, n), data)
			got, err := tensor.FromBytes(c.out, shape, bits)
			if err != nil {
				t.Fatal(err)
			}
			numbers, _ := got.Float64s()
			i := 0
			values := make([][]float64, len(data))
			for j := range data {
				values[j], _ = data[j].Float64s()
			}
			walk(shape, list, func(at []int) {
				in := make([]float64, len(at))
				for j := range in {
					in[j] = values[j][at[j]]
				}
				want := c.e.At(in...)
				if c.out.IsInt() {
					want = math.Trunc(want)
				}
				round, _ := tensor.FromFloat64s(c.out, []float64{want}, 1)
				w, _ := round.Float64s()
				if g := numbers[i]; g != w[0] && !(c.out == f32 && math.Abs(g-want) <= 2e-6*max(1, math.Abs(want))) {
					t.Fatalf("%v on %v of shape %v, element %d: expected %v, found %v", c.e, c.in, shape, i, w[0], g)
				}
				i++
			})
		}
	}
	for _, c := range []struct {
		e   scalar.Expr
		out tensor.DType
		in  []tensor.DType
	}{
		{scalar.Div(x[0], x[1]), i64, []tensor.DType{i64, i64}}, {scalar.Sin(x[0]), f64, []tensor.DType{f64}},
		{scalar.Add(x[0], x[1]), f32, []tensor.DType{f32, i64}}, {scalar.Add(x[0], x[1]), f32, []tensor.DType{i32, i32}},
		{scalar.Add(x[0], scalar.Const(0.5)), i32, []tensor.DType{i32}}, {scalar.Neg(x[0]), tensor.Complex64, []tensor.DType{tensor.Complex64}},
		{scalar.Expr{}, f32, []tensor.DType{f32}},
	} {
		if Computes(c.e, c.in, c.out) {
			t.Errorf("%v on %v is computed as %v", c.e, c.in, c.out)
		}
	}
}

// TestConvert compares conversions between all types with package tensor's.
func TestConvert(t *testing.T) {
	numbers := []float64{0, math.Copysign(0, -1), 1, -1, 0.5, -2.5, 3.99, 127, 128, 255, 256, -129, 65504, 65519, 65520, 1e5, 70000.4,
		1 << 24, 1<<24 + 1, 1<<31 - 1, -1 << 31, 1e-8, 6e-8, 5.9604645e-8 * 1.5, 1 + 0x1p-8, 1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-11 + 0x1p-40, 3e38,
		math.Inf(1), math.Inf(-1), math.NaN(), 33}
	var types []tensor.DType
	for _, d := range tensor.DTypes() {
		if Known(d) {
			types = append(types, d)
		}
	}
	for _, from := range types {
		v := numbers
		if from.IsInt() {
			v = slices.Clone(numbers)
			for i, x := range v {
				if !(math.Abs(x) < 1e18) {
					v[i] = 1e17 + 1234567
				}
			}
		}
		x, err := tensor.FromFloat64s(from, v, len(v))
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range types {
			want, err := x.Convert(to, false)
			if err != nil {
				t.Fatal(err)
			}
			calls, ok := Convert([]int{len(v)}, Dense(1, to), Dense(2, from))
			if !ok {
				t.Fatalf("%v to %v: not converted", from, to)
			}
			got, err := tensor.FromBytes(to, []int{len(v)}, run(t, calls, len(want.Bytes()), []*tensor.Tensor{x}))
			if err != nil {
				t.Fatal(err)
			}
			before, _ := x.Float64s()
			w, _ := want.Float64s()
			g, _ := got.Float64s()
			for i := range w {
				if to.IsInt() && from.IsFloat() && !(math.Abs(before[i]) < 9e18) {
					continue // undefined
				}
				if w[i] != g[i] && !(w[i] != w[i] && g[i] != g[i]) {
					t.Errorf("%v %v to %v: expected %v, found %v", from, before[i], to, w[i], g[i])
				}
			}
		}
	}
	if _, ok := Convert([]int{3}, Dense(1, tensor.Int4), Dense(2, tensor.Float32)); ok {
		t.Error("4 bits are converted")
	}
}

// TestMove checks copies between operands of all forms; TestTranspose checks transposed copies.
func TestMove(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, d := range []tensor.DType{tensor.Int8, tensor.Bool, tensor.Float16, tensor.Float32, tensor.Int64, tensor.Complex128} {
		for range 60 {
			shape := []int{1 + r.IntN(5), 1 + r.IntN(7), 1 + r.IntN(6)}
			if r.IntN(3) == 0 {
				shape[2] = 4 * (1 + r.IntN(5))
			}
			size := d.Bits() / 8
			in := Operand{Buffer: 2, Type: d, Offset: 400 + 4*r.IntN(3)}
			out := Operand{Buffer: 1, Type: d, Offset: r.IntN(5) * r.IntN(2)}
			out.Strides = []int{shape[1] * (shape[2] + 3), shape[2] + 3, 1}
			in.Strides = [][]int{{0, 20, 1}, {20, 1, -1}, {40, 0, 0}, {1, 7, 40}, {-20, -4, 4}}[r.IntN(5)]
			n := 1500
			x := tensor.New(d, n)
			for i := range x.Bytes() {
				x.Bytes()[i] = byte(r.IntN(2))
			}
			calls, ok := Move(shape, out, in)
			if !ok {
				t.Fatalf("%v is not moved", d)
			}
			got := run(t, calls, 1200*size, []*tensor.Tensor{x})
			want := bytes.Repeat([]byte{0xa5}, 1200*size)
			walk(shape, []Operand{out, in}, func(at []int) {
				copy(want[at[0]*size:][:size], x.Bytes()[at[1]*size:][:size])
			})
			if !bytes.Equal(got, want) {
				t.Fatalf("%v of shape %v from %v to %v: wrong", d, shape, in, out)
			}
		}
	}
	if _, ok := Move([]int{3}, Dense(1, tensor.Int4), Dense(2, tensor.Int4)); ok {
		t.Error("4 bits are moved")
	}
}
