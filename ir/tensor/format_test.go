package tensor

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestFormat(t *testing.T) {
	count := func(n int, shape ...int) *Tensor {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(i)
		}
		return FromSlice(v, shape...)
	}
	packed, err := FromFloat64s(Int4, []float64{-8, 7, 1}, 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		x    any
		want string
	}{
		{FromSlice([]float32{1, 0.5, -3, 0.1}, 2, 2), "float32[2,2] [[1 0.5] [-3 0.1]]"},
		{FromSlice([]float64{0.1, math.Inf(-1), math.NaN()}, 3), "float64[3] [0.1 -Inf NaN]"},
		{Scalar(int64(math.MaxInt64)), "int64[] 9223372036854775807"},
		{Scalar(uint64(math.MaxUint64)), "uint64[] 18446744073709551615"},
		{FromSlice([]bool{true, false}, 2), "bool[2] [true false]"},
		{FromSlice([]F16{ToF16(0.1)}, 1), "float16[1] [0.099975586]"},
		{FromSlice([]complex64{1 + 2i}, 1), "complex64[1] [(1+2i)]"},
		{packed, "int4[3] [-8 7 1]"},
		{FromStrings([]string{"a b", strings.Repeat("x", 99)}, 2), `string[2] ["a b" "` + strings.Repeat("x", 32) + `…"]`},
		{New(Float32, 2, 0), "float32[2,0] [[] []]"},
		{count(64, 64), fmt.Sprintf("float32[64] %v", Data[float32](count(64, 64)))},
		{count(65, 65), "float32[65] [0 1 2 … 62 63 64]"},
		{count(1000, 10, 100), "float32[10,100] [[0 1 2 … 97 98 99] [100 101 102 … 197 198 199] [200 201 202 … 297 298 299] … " +
			"[700 701 702 … 797 798 799] [800 801 802 … 897 898 899] [900 901 902 … 997 998 999]]"},
		{count(128, 2, 2, 2, 2, 2, 2, 2), "float32[2,2,2,2,2,2,2] [0 1 2 … 125 126 127]"},
		{[]*Tensor{Scalar(int32(3))}, "[int32[] 3]"},
		{(*Tensor)(nil), "<nil>"},
	} {
		if got := fmt.Sprintf("%v", c.x); got != c.want {
			t.Errorf("found    %s\nexpected %s", got, c.want)
		}
	}
	x := count(4, 4)
	if got := fmt.Sprintf("%s %d %q", x, x, x) + fmt.Sprint(x); got != "float32[4] float32[4] float32[4]float32[4] [0 1 2 3]" {
		t.Errorf("found %s", got)
	}
	many := count(1<<20, 4, 16, 16, 32, 32)
	if got := fmt.Sprintf("%s", many); len(got) > 1000 {
		t.Errorf("%d bytes for %s", len(got), many)
	}
}

func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		d    Datum
		want string
	}{
		{New(Float32, 2, 3), "float32[2,3]"},
		{&Sequence{Items: []Datum{nil, nil}}, "a sequence of 2"},
		{&Optional{Value: New(Bool)}, "bool[]"},
		{&Optional{}, "nothing"},
		{(*Tensor)(nil), "nothing"},
		{nil, "nothing"},
	} {
		if got := Describe(c.d); got != c.want {
			t.Errorf("found %s, expected %s", got, c.want)
		}
	}
}

func TestElements(t *testing.T) {
	x := FromSlice([]float32{1, 2}, 2)
	v, err := Elements[float32](x)
	if err != nil || len(v) != 2 || &v[0] != &Data[float32](x)[0] {
		t.Errorf("%v (%v): expected the storage itself", v, err)
	}
	if s, err := Elements[string](FromStrings([]string{"a"}, 1)); err != nil || len(s) != 1 || s[0] != "a" {
		t.Errorf("%v (%v)", s, err)
	}
	if v, err := Elements[int64](New(Int64, 0)); err != nil || len(v) != 0 {
		t.Errorf("%v (%v)", v, err)
	}
	for _, c := range []struct {
		err  func() error
		want string
	}{
		{func() error { _, err := Elements[float64](x); return err },
			"expected elements of float64, found float32[2]; ask for float32, or convert the tensor by Tensor.Convert"},
		{func() error { _, err := Elements[float32](FromStrings([]string{"a"}, 1)); return err },
			"expected elements of float32, found string[1]; ask for string, or convert the tensor by Tensor.Convert"},
		{func() error { _, err := Elements[string](New(Float16)); return err },
			"expected elements of string, found float16[]; ask for tensor.F16, or convert the tensor by Tensor.Convert"},
		{func() error { _, err := Elements[BF16](New(Int4, 3)); return err },
			"expected elements of bfloat16, found int4[3]; convert the tensor by Tensor.Convert(tensor.BFloat16, false)"},
		{func() error { _, err := Elements[int8](nil); return err }, "expected elements of int8, found no tensor"},
	} {
		if err := c.err(); err == nil || err.Error() != c.want {
			t.Errorf("found %v, expected %s", err, c.want)
		}
	}
}

// TestGoName tests the names against the types that have them.
func TestGoName(t *testing.T) {
	if len(constants) != len(dtypes) {
		t.Fatalf("%d names of %d types", len(constants), len(dtypes))
	}
	for _, d := range DTypes() {
		if got := strings.ToLower(strings.TrimPrefix(d.GoName(), "tensor.")); got != d.String() {
			t.Errorf("%v is called %s", d, d.GoName())
		}
	}
}

func TestConvertExact(t *testing.T) {
	f64 := func(v ...float64) *Tensor { return FromSlice(v, len(v)) }
	for _, c := range []struct {
		x    *Tensor
		d    DType
		want string // the error, or the tensor
	}{
		{f64(0.1, math.Inf(1), math.NaN()), Float32, "float32[3] [0.1 +Inf NaN]"},
		{f64(1, 1e300), Float32, "element 1: 1e+300 does not fit into float32"},
		{f64(65519), Float16, "float16[1] [65504]"},
		{f64(65520), Float16, "element 0: 65520 does not fit into float16"},
		{f64(448, 500), Float8E4M3FN, "element 1: 500 does not fit into float8e4m3fn"},
		{f64(255, 0), Uint8, "uint8[2] [255 0]"},
		{f64(256), Uint8, "element 0: 256 does not fit into uint8"},
		{f64(-1), Uint64, "element 0: -1 does not fit into uint64"},
		{f64(1.5), Int32, "element 0: 1.5 does not fit into int32"},
		{f64(math.NaN()), Int64, "element 0: NaN does not fit into int64"},
		{f64(1 << 63), Int64, "element 0: 9.223372036854776e+18 does not fit into int64"},
		{f64(-1 << 63), Int64, "int64[1] [-9223372036854775808]"},
		{f64(1 << 63), Uint64, "uint64[1] [9223372036854775808]"},
		{f64(1 << 64), Uint64, "element 0: 1.8446744073709552e+19 does not fit into uint64"},
		{f64(1, 0), Bool, "bool[2] [true false]"},
		{f64(2), Bool, "element 0: 2 does not fit into bool"},
		{FromSlice([]int64{-128, 127}, 2), Int8, "int8[2] [-128 127]"},
		{FromSlice([]int64{128}, 1), Int8, "element 0: 128 does not fit into int8"},
		{FromSlice([]int64{-1}, 1), Uint64, "element 0: -1 does not fit into uint64"},
		{FromSlice([]int64{math.MaxInt64}, 1), Uint64, "uint64[1] [9223372036854775807]"},
		{FromSlice([]uint64{math.MaxInt64 + 1}, 1), Int64, "element 0: 9223372036854775808 does not fit into int64"},
		{FromSlice([]uint64{math.MaxUint64}, 1), Int4, "element 0: 18446744073709551615 does not fit into int4"},
		{FromSlice([]int8{-9}, 1), Int4, "element 0: -9 does not fit into int4"},
		{FromSlice([]bool{true}, 1), Float32, "float32[1] [1]"},
		{FromStrings([]string{"1.5"}, 1), Float32, "float32[1] [1.5]"},
		{FromStrings([]string{"x"}, 1), Float32, `cannot convert string "x" to float32`},
	} {
		out, err := c.x.ConvertExact(c.d)
		got := fmt.Sprint(out)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s to %v: found %s, expected %s", c.x, c.d, got, c.want)
		}
	}
}
