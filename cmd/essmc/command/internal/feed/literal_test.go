package feed

import (
	"math"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

func port(elem tensor.DType, dims ...ir.Dim) []runtime.Port {
	return []runtime.Port{{Name: "x", Type: &ir.TensorType{Elem: elem, Shape: append(ir.Shape{}, dims...)}}}
}

func TestLiterals(t *testing.T) {
	b, three := ir.Sym("B"), ir.Const(3)
	for _, c := range []struct {
		spec  string
		ports []runtime.Port
		wide  bool
		want  *tensor.Tensor
	}{
		{"x=16000", port(tensor.Int64), false, tensor.Scalar(int64(16000))},
		{"16000", port(tensor.Int64), false, tensor.Scalar(int64(16000))},
		{"x=9007199254740993", port(tensor.Int64), false, tensor.Scalar(int64(9007199254740993))},
		{"x=18446744073709551615", port(tensor.Uint64), false, tensor.Scalar(uint64(math.MaxUint64))},
		{"x=-2.5e-1", port(tensor.Float32), false, tensor.Scalar(float32(-0.25))},
		{"x=0.1", port(tensor.Float32), true, tensor.Scalar(0.1)},
		{"x=inf", port(tensor.Float32), false, tensor.Scalar(float32(math.Inf(1)))},
		{"x=7", port(tensor.Int32, ir.Const(1)), false, tensor.FromSlice([]int32{7}, 1)},
		{"x=7", port(tensor.Int32, b, ir.Const(1)), false, tensor.FromSlice([]int32{7}, 1, 1)},
		{"x=[1,2,3]", port(tensor.Float32, three), false, tensor.FromSlice([]float32{1, 2, 3}, 3)},
		{"x=[1,2,3]", port(tensor.Float32, b, three), false, tensor.FromSlice([]float32{1, 2, 3}, 1, 3)},
		{"x=[[1, 2, 3], [4, 5, 6]]", port(tensor.Int8, b, three), false,
			tensor.FromSlice([]int8{1, 2, 3, 4, 5, 6}, 2, 3)},
		{"x=[]", port(tensor.Float32, b), false, tensor.FromSlice([]float32{}, 0)},
		{"x=true", port(tensor.Bool), false, tensor.Scalar(true)},
		{"x=[true,false]", port(tensor.Bool, b), false, tensor.FromSlice([]bool{true, false}, 2)},
		{`x=["a","1"]`, port(tensor.String, b), false, tensor.FromStrings([]string{"a", "1"}, 2)},
		{`x="a \"b\""`, port(tensor.String, b, ir.Const(1)), false, tensor.FromStrings([]string{`a "b"`}, 1, 1)},
		{`x=["a","b"]`, port(tensor.String, b, ir.Const(1)), false, tensor.FromStrings([]string{"a", "b"}, 2, 1)},
		{"x=1", port(tensor.String), false, tensor.FromStrings([]string{"1"})},
	} {
		in, err := Read(t.Context(), []string{c.spec}, c.ports, Options{Wide: c.wide})
		if err != nil {
			t.Errorf("%s: %v", c.spec, err)
			continue
		}
		if got := in.Data["x"].(*tensor.Tensor); !tensor.Equal(got, c.want) {
			t.Errorf("%s: found %s, expected %s", c.spec, got, c.want)
		}
	}
	text := port(tensor.String)
	sequence := []runtime.Port{{Name: "x", Type: &ir.SequenceType{Elem: text[0].Type}}}
	for _, c := range []struct {
		spec  string
		ports []runtime.Port
		want  string
	}{
		{"x=1.5", port(tensor.Int64), `input "x": expected integers (int64), found 1.5`},
		{"x=300", port(tensor.Uint8), "expected integers that fit uint8, found 300"},
		{"x=-1", port(tensor.Uint64), "expected integers (uint64), found -1"},
		{"x=1e400", port(tensor.Float32), "expected numbers (float32), found 1e400"},
		{"x=true", port(tensor.Float32), "expected numbers (float32), found true"},
		{"x=1", port(tensor.Bool), "expected true or false, found 1"},
		{"x=[1,2", port(tensor.Float32, b),
			"expected a number or a list of numbers as in [1,2,3] (float[B]): found [1,2"},
		{"x=[1,2]]", port(tensor.Float32, b), "found [1,2]]"},
		{"x=[1,null]", port(tensor.Float32, b), "found <nil>"},
		{"x=[[1,2],[3]]", port(tensor.Float32, b, three), "rows of different lengths"},
		{"x=[1,[2]]", port(tensor.Float32, b), "rows of different lengths"},
		{"x=[[[1]],[]]", port(tensor.Float32, b), "rows of different lengths"},
		{"x=[1,2]", port(tensor.Float32, three), "expected float[3], found"},
		{"x=1", port(tensor.Float32, three), "expected float[3], found"},
		{"x=[1,2]", port(tensor.Float32), "expected float, found"},
		{"x=[1]", port(tensor.String, b), `expected a text or a list of texts as in ["a","b"] (string[B]): found 1 without quotes`},
		{`x=["a"`, port(tensor.String, b), `found ["a"`},
		{`x="a" b`, text, `found "a" b`},
		{`x=["a"]`, port(tensor.Float32, b), `found "a" in ["a"]`},
		{"x=1", sequence, "only be read from a file"},
		{"x=sixteen", port(tensor.Int64),
			`sixteen: input "x": expected a file (.npy, .npz, .csv, .wav, .png, .jpg, .json), a number, or a list as in [1,2,3] (int64)`},
		{"x=some words", port(tensor.String, b, ir.Const(1)),
			`some words: input "x": expected a file (.npy, .npz, .csv, .wav, .png, .jpg, .json), a text in quotes, or a list as in ["a","b"] (string[B,1])`},
		{`x=["a","b"]`, port(tensor.String, b, three), "expected string[B,3], found"},
		{"x=[1,2]", port(tensor.Float32, b, ir.Const(1)), "expected float[B,1], found"},
		{"x=nothing.npy", port(tensor.Int64), "nothing.npy: "},
	} {
		if in, err := Read(t.Context(), []string{c.spec}, c.ports, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v, expected %q", c.spec, in, err, c.want)
		}
	}
}
