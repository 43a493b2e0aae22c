package essm_test

import (
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/essm"
)

// TestSubsetProducts compares the operator with its source: all subsets of the last m positions in lexicographic order,
// m the least number of at least 2, below the length, that has as many subsets as there are steps; the last ones of
// these; reversed.
func TestSubsetProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	for size := 2; size <= 5; size++ {
		for _, length := range []int{1, 2, 3, 4, 5, 6, 7, 8, 13, 40} {
			u := random(r, 2, length, 3)
			var subsets [][]int
			for m := 2; m < length; m++ {
				subsets = subsets[:0]
				var grow func(chosen []int, from int)
				grow = func(chosen []int, from int) {
					if len(chosen) == size {
						subsets = append(subsets, append([]int(nil), chosen...))
						return
					}
					for p := from; p < m; p++ {
						grow(append(chosen, length-m+p), p+1)
					}
				}
				grow(nil, 0)
				if len(subsets) >= length {
					break
				}
			}
			want := tensor.New(tensor.Float64, 2, length, 3)
			if len(subsets) >= length {
				last := subsets[len(subsets)-length:]
				for b := range 2 {
					for step, s := range last {
						for j := range 3 {
							x := 1.0
							for _, p := range s {
								x *= tensor.Data[float64](u)[(b*length+p)*3+j]
							}
							tensor.Data[float64](want)[(b*length+length-1-step)*3+j] = x
						}
					}
				}
			}
			got := apply(t, essm.SubsetProducts, "", []bool{true}, []*tensor.Tensor{u}, ir.A("size", size))
			if d := differ(got[0], want); d > 1e-14 {
				t.Errorf("size %d, %d steps: %.2g off", size, length, d)
			}
		}
	}
}
