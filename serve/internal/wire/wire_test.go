package wire

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
)

// Every type of the protocol goes to its bytes and back, and all that JSON can write to JSON and back.
func TestRoundTrip(t *testing.T) {
	f := func(x *tensor.Tensor) {
		t.Helper()
		b, err := Encode(x)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Decode(x.DType(), Dims(x), b)
		if err != nil || !tensor.Equal(x, back) {
			t.Errorf("binary: %v became %v, %v", x, back, err)
		}
		text, err := AppendJSON(nil, x)
		if binary := x.DType() == tensor.Float16 || x.DType() == tensor.BFloat16; binary {
			if err == nil {
				t.Errorf("%v became JSON %s", x, text)
			}
			return
		}
		if err != nil || !json.Valid(text) {
			t.Fatalf("%v became JSON %s, %v", x, text, err)
		}
		if back, err = DecodeJSON(x.DType(), Dims(x), text); err != nil || !tensor.Equal(x, back) {
			t.Errorf("JSON: %v became %s and %v, %v", x, text, back, err)
		}
	}
	f(tensor.FromSlice([]bool{true, false, true}, 3))
	f(tensor.FromSlice([]int8{-128, 127}, 2))
	f(tensor.FromSlice([]int16{math.MinInt16, 1}, 2, 1))
	f(tensor.FromSlice([]int32{math.MinInt32, 7}, 1, 2))
	f(tensor.FromSlice([]int64{math.MinInt64, math.MaxInt64}, 2))
	f(tensor.FromSlice([]uint8{0, 255}, 2))
	f(tensor.FromSlice([]uint16{0, 65535}, 2))
	f(tensor.FromSlice([]uint32{0, math.MaxUint32}, 2))
	f(tensor.FromSlice([]uint64{0, math.MaxUint64}, 2))
	f(tensor.FromSlice([]tensor.F16{0x3c00, 0x7e00}, 2))
	f(tensor.FromSlice([]tensor.BF16{0x3f80}, 1))
	f(tensor.FromSlice([]float32{0.1, -3e-45, math.MaxFloat32, float32(math.Inf(1))}, 2, 2))
	f(tensor.FromSlice([]float64{0.1, math.SmallestNonzeroFloat64, math.Inf(-1)}, 3))
	f(tensor.FromStrings([]string{"", "ä\"\\\n", "z"}, 3))
	f(tensor.FromSlice([]float32{}, 0, 4))
	f(tensor.FromStrings(nil, 0))
	f(tensor.FromSlice([]float32{1}))
}

func TestNaN(t *testing.T) {
	text, err := AppendJSON(nil, tensor.FromSlice([]float32{float32(math.NaN())}, 1))
	if err != nil || string(text) != `["NaN"]` {
		t.Errorf("found %s, %v", text, err)
	}
	for _, x := range []*tensor.Tensor{tensor.FromSlice([]float32{0, float32(math.NaN())}, 2),
		tensor.FromSlice([]float64{math.NaN()}, 1), tensor.FromSlice([]tensor.F16{0xfe00}, 1),
		tensor.FromSlice([]tensor.BF16{0x7fc0}, 1)} {
		if !HasNaN(x) {
			t.Errorf("%v: its NaN was not found", x)
		}
	}
	for _, x := range []*tensor.Tensor{tensor.FromSlice([]float32{0, float32(math.Inf(1))}, 2),
		tensor.FromSlice([]tensor.F16{0x7c00}, 1), tensor.FromSlice([]tensor.BF16{0xff80}, 1),
		tensor.FromSlice([]int8{-1}, 1)} {
		if HasNaN(x) {
			t.Errorf("%v has no NaN", x)
		}
	}
}

// A list may be nested as the shape is, and not otherwise.
func TestNested(t *testing.T) {
	want := tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 1, 2, 3)
	for _, text := range []string{`[1,2,3,4,5,6]`, `[[[1,2,3],[4,5,6]]]`, " [ [ [ 1 , 2e0,3] ,\n[4,5.0,6]]] "} {
		x, err := DecodeJSON(tensor.Float32, []int64{1, 2, 3}, []byte(text))
		if err != nil || !tensor.Equal(x, want) {
			t.Errorf("%s: found %v, %v", text, x, err)
		}
	}
	for _, text := range []string{`[[[1,2],[3,4],[5,6]]]`, `[[1,2,3],[4,5,6]]`, `[1,2,3,[4,5,6]]`, `[[[1,2,3],[4,5]]]`,
		`[1,2,3,4,5]`, `[1,2,3,4,5,6,7]`, `[]`, `[[]]`, `3`, `{}`, `[1,2,3,4,5,null]`, `[1,2,3,4,5,"6"]`, `[1 2 3 4 5 6]`,
		`[1,2,3,4,5,`, `[1,2,3,4,5,inf]`, `[1,2,3,4,5,+6]`, `[,1,2,3,4,5]`} {
		if x, err := DecodeJSON(tensor.Float32, []int64{1, 2, 3}, []byte(text)); err == nil {
			t.Errorf("%s: became %v", text, x)
		}
	}
}

func TestBad(t *testing.T) {
	for _, c := range []struct {
		d    tensor.DType
		dims []int64
		b    string
	}{
		{tensor.Float32, []int64{2}, "1234567"}, {tensor.Float32, []int64{-1}, ""}, {tensor.Float32, []int64{1 << 40}, ""},
		{tensor.Float32, []int64{1 << 31, 1 << 31, 1 << 31}, ""}, {tensor.Float32, make([]int64, 65), ""},
		{tensor.Bool, []int64{1}, "\x02"}, {tensor.String, []int64{1 << 30}, "\x00\x00\x00\x00"},
		{tensor.String, []int64{1}, "\x05\x00\x00\x00abcd"}, {tensor.String, []int64{1}, "\x01\x00\x00\x00abcd"},
		{tensor.String, []int64{1}, "\xff\xff\xff\xffabcd"}, {tensor.String, []int64{2}, "\x04\x00\x00\x00abcd"},
	} {
		if x, err := Decode(c.d, c.dims, []byte(c.b)); err == nil {
			t.Errorf("%v%v of %q became %v", c.d, c.dims, c.b, x)
		}
	}
	for _, c := range []struct {
		d    tensor.DType
		text string
	}{{tensor.Int8, `[128]`}, {tensor.Uint8, `[-1]`}, {tensor.Int32, `[1.5]`}, {tensor.Bool, `[2]`}, {tensor.String, `[1]`},
		{tensor.Float32, `[1e400]`}, {tensor.Float16, `[1]`}, {tensor.String, `["a`}, {tensor.String, `["a\"]`}} {
		if x, err := DecodeJSON(c.d, []int64{1}, []byte(c.text)); err == nil {
			t.Errorf("%v of %s became %v", c.d, c.text, x)
		}
	}
	if _, err := Type("FP8"); err == nil || !strings.Contains(err.Error(), "FP8") {
		t.Error("FP8 is a type:", err)
	}
}

// Any text gives a tensor or an error.
func FuzzJSON(f *testing.F) {
	f.Add([]byte(`[[1,2],[3,4]]`), int64(2), int64(2))
	f.Add([]byte(`["a\\",""]`), int64(1), int64(2))
	f.Fuzz(func(t *testing.T, text []byte, a, b int64) {
		for _, d := range []tensor.DType{tensor.Float32, tensor.Int8, tensor.String, tensor.Bool} {
			x, err := DecodeJSON(d, []int64{a, b}, text)
			if err != nil {
				continue
			}
			again, err := AppendJSON(nil, x)
			if err != nil {
				t.Fatal(err)
			}
			if y, err := DecodeJSON(d, []int64{a, b}, again); err != nil || !equal(x, y) {
				t.Fatalf("%q: %v and %v, %v", text, x, y, err)
			}
		}
	})
}

func equal(x, y *tensor.Tensor) bool {
	a, errA := Encode(x)
	b, errB := Encode(y)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// Floats are rounded as strconv rounds them, also where the short way is between two float32 numbers.
func TestFloats(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	texts := []string{"0", "-0", "1.", "0.1", "16777217", "16777219.0", "16777217.00000001", "-16777217", "1e3", "1E-3", "123456789012345",
		"1234567890123456", "0.123456789012345", "0.1234567890123456", "3.4028235e38", "1e-46", "0.000000000000001", "8388608.5", "8388609.5"}
	for range 20000 {
		f := math.Float32frombits(r.Uint32())
		if f != f || math.IsInf(float64(f), 0) {
			continue
		}
		texts = append(texts, strconv.FormatFloat(float64(f), 'f', r.IntN(9), 64), strconv.FormatFloat(float64(r.Float32()), 'f', r.IntN(16), 64),
			strconv.FormatFloat(float64(r.Uint32())+0.5, 'f', 1+r.IntN(3), 64))
	}
	want32, want64 := make([]float32, len(texts)), make([]float64, len(texts))
	for i, text := range texts {
		v, err := strconv.ParseFloat(text, 32)
		if err != nil {
			t.Fatal(err)
		}
		want32[i] = float32(v)
		if want64[i], err = strconv.ParseFloat(text, 64); err != nil {
			t.Fatal(err)
		}
	}
	for _, sep := range []string{",", " ,\n\t"} {
		list := []byte(" [ " + strings.Join(texts, sep) + " ] ")
		a, err := DecodeJSON(tensor.Float32, []int64{int64(len(texts))}, list)
		if err != nil {
			t.Fatal(err)
		}
		b, err := DecodeJSON(tensor.Float64, []int64{int64(len(texts))}, list)
		if err != nil {
			t.Fatal(err)
		}
		for i, text := range texts {
			if x, y := tensor.Data[float32](a)[i], tensor.Data[float64](b)[i]; math.Float32bits(x) != math.Float32bits(want32[i]) ||
				math.Float64bits(y) != math.Float64bits(want64[i]) {
				t.Fatalf("%s: expected %v and %v, found %v and %v", text, want32[i], want64[i], x, y)
			}
		}
	}
}
