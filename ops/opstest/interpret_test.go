package opstest

import (
	"math"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
)

func TestNear(t *testing.T) {
	f := func(v ...float64) tensor.Datum { return tensor.FromSlice(v, len(v)) }
	c := func(v ...complex128) tensor.Datum { return tensor.FromSlice(v, len(v)) }
	inf, nan := math.Inf(1), math.NaN()
	for _, x := range []struct {
		name      string
		got, want tensor.Datum
		near      bool
	}{
		{"within", f(1.009, 100.9), f(1, 100), true},
		{"too far", f(1.02), f(1), false},
		{"infinity", f(inf, -inf), f(inf, -inf), true},
		{"a number for infinity", f(3), f(inf), false},
		{"the other infinity", f(-inf), f(inf), false},
		{"infinity for a number", f(inf), f(3), false},
		{"NaN", f(nan), f(nan), true},
		{"NaN for a number", f(nan), f(3), false},
		{"a number for NaN", f(3), f(nan), false},
		{"complex", c(1.001 + 2i), c(1 + 2i), true},
		{"another imaginary part", c(1 + 3i), c(1 + 2i), false},
		{"another shape", f(1, 1), f(1), false},
		{"another type", tensor.FromSlice([]float32{1}, 1), f(1), false},
		{"nothing", nil, f(1), false},
		{"nothing is wanted", f(1), nil, false},
		{"integers", tensor.FromSlice([]int64{1<<53 + 1}, 1), tensor.FromSlice([]int64{1 << 53}, 1), false},
		{"a sequence", &tensor.Sequence{Items: []tensor.Datum{f(1)}}, &tensor.Sequence{Items: []tensor.Datum{f(2)}},
			false},
		{"an optional", &tensor.Optional{Value: f(1)}, &tensor.Optional{Value: f(2)}, false},
	} {
		if err := Near(x.got, x.want, 0.01, 0); (err == nil) != x.near {
			t.Errorf("%s: %v", x.name, err)
		}
	}
}
