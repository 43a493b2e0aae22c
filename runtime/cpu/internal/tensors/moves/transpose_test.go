package moves_test

import (
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors/moves"
)

// TestTransposition compares every order of the axes with the definition, at shapes with axes of size one and zero, and
// with matrices that take several work items.
func TestTransposition(t *testing.T) {
	var orders func(rank int) [][]int
	orders = func(rank int) [][]int {
		if rank == 0 {
			return [][]int{{}}
		}
		var out [][]int
		for _, o := range orders(rank - 1) {
			for i := range rank {
				p := append([]int(nil), o[:i]...)
				out = append(out, append(append(p, rank-1), o[i:]...))
			}
		}
		return out
	}
	for _, shape := range [][]int{{}, {1}, {7}, {0, 3}, {3, 1}, {5, 9}, {2, 1, 17}, {3, 8, 16}, {4, 1, 3, 2},
		{2, 3, 5, 11}, {5, 1, 7000}, {7000, 9}, {200, 300}, {2, 3, 2, 1, 4}} {
		size := 1
		for _, n := range shape {
			size *= n
		}
		src := make([]float32, size)
		for i := range src {
			src[i] = float32(i)
		}
		for _, order := range orders(len(shape)) {
			out, strides := make([]int, len(shape)), make([]int, len(shape))
			for i, k := range order {
				out[i], strides[i] = shape[k], ops.Strides(shape)[k]
			}
			x := moves.NewTransposition(shape, order)
			x.Src, x.Dst = src, make([]float32, size)
			for i := range x.Dst {
				x.Dst[i] = -1
			}
			for _, k := range rand.Perm(x.Items) {
				x.Do(&record.Workspace{}, k)
			}
			i := 0
			ops.Walk(nil, out, strides, 0, func(o int) {
				if x.Dst[i] != src[o] {
					t.Fatalf("%v by %v: number %d is %g, expected %g", shape, order, i, x.Dst[i], src[o])
				}
				i++
			})
		}
	}
}
