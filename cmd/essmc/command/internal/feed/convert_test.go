package feed

import (
	"math"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// TestConverted checks that conversions keep values, or round them and say so, or are refused.
func TestConverted(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	f64 := func(v ...float64) *tensor.Tensor { return tensor.FromSlice(v, len(v)) }
	i64 := func(v ...int64) *tensor.Tensor { return tensor.FromSlice(v, len(v)) }
	u64 := func(v ...uint64) *tensor.Tensor { return tensor.FromSlice(v, len(v)) }
	u8 := func(v ...uint8) *tensor.Tensor { return tensor.FromSlice(v, len(v)) }
	flags := tensor.FromSlice([]bool{true, false}, 2)
	for _, c := range []struct {
		from *tensor.Tensor
		to   tensor.DType
		want []float64 // nil: refused
		note string    // or the error
	}{
		{f64(0.5, 1, inf, nan), tensor.Float32, []float64{0.5, 1, inf, nan}, ""},
		{f64(0.1, 1, 1e-50), tensor.Float32, []float64{float64(float32(0.1)), 1, 0}, "converted from float64 to float32: 2 of 3 values are rounded"},
		{f64(1, 1e300), tensor.Float32, nil, "cannot convert float64 to float32: 1e+300, at [1], does not fit"},
		{f64(1, -70000), tensor.Float16, nil, "-70000, at [1], does not fit"},
		{f64(1, 2), tensor.Int64, []float64{1, 2}, ""},
		{f64(1, 2.5), tensor.Int64, nil, "2.5, at [1], is not an integer"},
		{f64(1, nan), tensor.Int64, nil, "NaN, at [1], does not fit"},
		{f64(1e19), tensor.Int64, nil, "1e+19, at [0], does not fit"},
		{f64(1, -1), tensor.Uint8, nil, "-1, at [1], does not fit"},
		{f64(1, 0), tensor.Bool, []float64{1, 0}, ""},
		{f64(2), tensor.Bool, nil, "2, at [0], does not fit"},
		{u8(0, 255), tensor.Float32, []float64{0, 255}, ""},
		{u8(0, 255), tensor.Float16, []float64{0, 255}, ""},
		{u8(0, 255), tensor.Int8, nil, "255, at [1], does not fit"},
		{i64(7, -3), tensor.Int32, []float64{7, -3}, ""},
		{i64(1 << 40), tensor.Int32, nil, "1099511627776, at [0], does not fit"},
		{i64(-1), tensor.Uint64, nil, "-1, at [0], does not fit"},
		{i64(1<<24 + 1), tensor.Float32, []float64{1 << 24}, "1 of 1 values are rounded"},
		{i64(math.MaxInt64), tensor.Float64, []float64{1 << 63}, "1 of 1 values are rounded"},
		{i64(70000), tensor.Float16, nil, "70000, at [0], does not fit"},
		{u64(math.MaxUint64), tensor.Int64, nil, "18446744073709551615, at [0], does not fit"},
		{u64(math.MaxUint64), tensor.Float64, []float64{1 << 64}, "1 of 1 values are rounded"},
		{u64(1 << 63), tensor.Float32, []float64{1 << 63}, ""},
		{flags, tensor.Float32, []float64{1, 0}, ""},
		{flags, tensor.Int64, []float64{1, 0}, ""},
		{i64(0, 2), tensor.Bool, nil, "2, at [1], does not fit"},
	} {
		port := runtime.Port{Name: "x", Type: &ir.TensorType{Elem: c.to, Shape: ir.Shape{ir.Unknown}}}
		got, note, err := converted(c.from, port, false)
		if err != nil {
			note = err.Error()
		}
		if (err != nil) != (c.want == nil) || !strings.Contains(note, c.note) || c.note == "" && note != "" {
			t.Errorf("%s to %v: found %q, expected %q", c.from, c.to, note, c.note)
		}
		if err != nil || c.want == nil {
			continue
		}
		v, err := got.Float64s()
		if err != nil || got.DType() != c.to {
			t.Errorf("%s to %v: found %s, %v", c.from, c.to, got, err)
		}
		for i, w := range c.want {
			if v[i] != w && !(math.IsNaN(v[i]) && math.IsNaN(w)) {
				t.Errorf("%s to %v: element %d: found %v, expected %v", c.from, c.to, i, v[i], w)
			}
		}
	}
	// A model in float64 takes float64 where it declares float32; texts and complex numbers stay.
	single := runtime.Port{Name: "x", Type: &ir.TensorType{Elem: tensor.Float32, Shape: ir.Shape{ir.Unknown}}}
	if got, note, err := converted(f64(0.1), single, true); err != nil || note != "" || got.DType() != tensor.Float64 {
		t.Errorf("wide: found %s, %q, %v", got, note, err)
	}
	for _, x := range []*tensor.Tensor{tensor.FromStrings([]string{"1"}, 1), tensor.FromSlice([]complex64{1i}, 1)} {
		if got, _, err := converted(x, single, false); err != nil || got != x {
			t.Errorf("%s: found %s, %v", x, got, err)
		}
	}
}
