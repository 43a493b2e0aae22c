package std

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// TestSortByKeys compares sorting by keys with sorting by comparisons of elements.
func TestSortByKeys(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	for _, d := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16, tensor.Int8, tensor.Int16,
		tensor.Int32, tensor.Int64, tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64} {
		for _, n := range []int{0, 1, 2, 3000} {
			v := make([]float64, n)
			for i := range v {
				v[i] = math.Round(r.NormFloat64() * math.Pow(10, r.Float64()*9))
				switch {
				case !d.IsFloat():
				case i%7 == 0:
					v[i] = math.Copysign(0, v[i])
				case i%11 == 0:
					v[i] = math.Copysign(math.NaN(), v[i])
				case i%13 == 0:
					v[i] = math.Inf(i%2*2 - 1)
				}
			}
			x, err := tensor.FromSlice(v, n).Convert(d, false)
			if err != nil {
				t.Fatal(err)
			}
			c := &ir.EvalCtx{}
			order, err := elementOrder(c, x)
			if err != nil {
				t.Fatal(err)
			}
			want := make([]int, n)
			for i := range want {
				want[i] = i
			}
			got := slices.Clone(want)
			slices.SortStableFunc(want, order)
			keys, bits := orderedKeys(c, x)
			sortByKeys(c, got, keys, bits)
			if !slices.Equal(got, want) {
				t.Errorf("%v: %d elements are in another order", d, n)
			}
			for i := 1; i < n; i++ {
				if same := order(got[i-1], got[i]) == 0; same != (keys[got[i-1]] == keys[got[i]]) {
					t.Fatalf("%v: elements %d and %d: equal is %v, of their keys it is not", d, got[i-1], got[i], same)
				}
			}
		}
	}
}
