package backendtest

import (
	"math"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

func TestDiff(t *testing.T) {
	f32 := func(v ...float32) tensor.Datum { return tensor.FromSlice(v, len(v)) }
	f64 := func(v ...float64) tensor.Datum { return tensor.FromSlice(v, len(v)) }
	i64 := func(v ...int64) tensor.Datum { return tensor.FromSlice(v, len(v)) }
	nan, inf := math.NaN(), math.Inf(1)
	third := float64(1) / 3
	for _, c := range []struct {
		name       string
		got, truth tensor.Datum
		ulps       float64
		want       string // a part of the difference; empty: none
	}{
		{"equal", f32(1, 2), f64(1, 2), 0, ""},
		{"rounded once is exact", f32(float32(third)), f64(third), 0, ""},
		{"one unit at the scale of the largest", f32(1, 1024+0x1p-13), f64(1, 1024), 2, ""},
		{"small ones are held to the same scale", f32(1+0x1p-14, 1024), f64(1, 1024), 2, ""},
		{"too far", f32(1, 1025), f64(1, 1024), 2, "element 1: expected 1024, found 1025: off by 1,"},
		{"float64 is held to float64", f64(1 + 0x1p-40), f64(1), 8, "element 0"},
		{"shape", f32(1), f64(1, 2), 8, "expected float64[2], found float32[1]"},
		{"element type", i64(1), f64(1), 8, "expected float64[1], found int64[1]"},
		{"integers", i64(1, 2), i64(1, 3), 1e9, "element 1: expected 3, found 2"},
		{"NaN", f32(float32(nan)), f64(nan), 0, ""},
		{"NaN for a number", f32(float32(nan)), f64(1), 8, "expected 1, found NaN"},
		{"number for NaN", f32(1), f64(nan), 8, "expected NaN, found 1"},
		{"overflow is infinity", f32(float32(inf)), f64(1e300), 0, ""},
		{"wrong infinity", f32(float32(-inf)), f64(1e300), 8, "found -Inf"},
		{"nothing", nil, nil, 0, ""},
		{"nothing for something", nil, f64(1), 8, "expected *tensor.Tensor, found <nil>"},
		{"sequence", &tensor.Sequence{Items: []tensor.Datum{f32(1)}}, &tensor.Sequence{Items: []tensor.Datum{f64(2)}},
			8, "item 0: element 0"},
		{"sequence length", &tensor.Sequence{}, &tensor.Sequence{Items: []tensor.Datum{f64(2)}}, 8,
			"expected a sequence of 1, found 0"},
	} {
		d := Diff(c.got, c.truth, ir.Tolerance{Ulps: c.ulps})
		if c.want == "" && d != "" || !strings.Contains(d, c.want) {
			t.Errorf("%s: expected %q, found %q", c.name, c.want, d)
		}
	}
}

func TestFarthest(t *testing.T) {
	truth := Data{"a": tensor.FromSlice([]float64{1, 4}, 2), "b": tensor.FromSlice([]float64{0x1p-10, 1.0 / 3}, 2),
		"n": tensor.FromSlice([]int64{1}, 1)}
	got := Data{"a": tensor.FromSlice([]float32{1 + 0x1p-22, 4}, 2),
		"b": tensor.FromSlice([]float32{0x1p-10, 1.0 / 3}, 2), "n": tensor.FromSlice([]int64{1}, 1)}
	third := math.Abs(float64(float32(1.0/3))*3-1) * 0x1p24 // a rounding error, in units at the scale of 1/3
	if d := farthest(got, truth); !(math.Abs(d-1) <= 1e-6) || third >= 1 {
		t.Errorf("%v units, expected 1: 2^-22 at the scale of 4; and b is rounded by %v", d, third)
	}
}

// TestNetworkTolerance checks that the tolerance of networks is a few roundings, and that larger errors fail.
func TestNetworkTolerance(t *testing.T) {
	var in []Data
	for _, length := range []int{7, 120} {
		in = append(in, inputs(1, 2, length, true))
	}
	c := newNetworkCase(t, randomNetwork(t, 3), in...)
	tol := c.tolerance("auto")
	if c.own < sumUnits || tol.Ulps != 4*c.own || c.tolerance("fft").Ulps != 32*c.own {
		t.Errorf("%v units for the interpreter, %v for a backend", c.own, tol.Ulps)
	}
	want := c.runs[1].want["y"].(*tensor.Tensor)
	for _, off := range []float64{0.9, 1.1} {
		got := want.Clone()
		v, most := tensor.Data[float64](got), 0
		for i := range v {
			if math.Abs(v[i]) > math.Abs(v[most]) {
				most = i
			}
		}
		v[0] += off * tol.Ulps * 0x1p-24 * math.Abs(v[most])
		rounded, err := got.Convert(tensor.Float32, false)
		if err != nil {
			t.Fatal(err)
		}
		if d := Diff(rounded, want, tol); (d == "") != (off < 1) {
			t.Errorf("off by %v of the tolerance: %q", off, d)
		}
	}
}

// TestGenerate checks that equal attempts give equal cases, and that most attempts for important operators give one.
func TestGenerate(t *testing.T) {
	for _, name := range []string{"Linear", "Scan", "SSM", "Pick", "Affine", "StateSpace"} {
		op := ops.Default.Resolve("essm", name, 1)
		found := 0
		for attempt := range 120 {
			a, err := generate(op, attempt)
			b, _ := generate(op, attempt)
			if err != nil {
				t.Error(err)
			}
			if (a == nil) != (b == nil) || a != nil && (a.name != b.name || identical(a.in, b.in) != nil) {
				t.Errorf("%s: attempt %d differs from itself", name, attempt)
			}
			if a != nil {
				found++
			}
		}
		if found < 5 {
			t.Errorf("%s: %d cases in 120 attempts", name, found)
		}
	}
}

// TestData checks that parseData reads the text of formatData.
func TestData(t *testing.T) {
	want := Data{"b": tensor.FromSlice([]float64{1, math.Inf(-1), 0.1}, 3), "a": tensor.FromSlice([]int64{-1, 2}, 1, 2),
		"e": tensor.New(tensor.Float32, 0, 2)}
	text, err := formatData(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseData("text", text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if err := identical(got, want); err != nil {
		t.Errorf("%v:\n%s", err, text)
	}
}
