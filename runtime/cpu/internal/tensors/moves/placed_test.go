package moves_test

import (
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

// TestPlacedElements checks operators that write or move elements of any type.
func TestPlacedElements(t *testing.T) {
	r := NewGen(184)
	for _, d := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int64, tensor.Int32, tensor.Int16, tensor.Uint8} {
		for _, shape := range [][]int{{1, 1}, {5, 9}, {9, 5}} {
			for _, k := range []int{0, 3, -2, 40} {
				on.Same(t, "EyeLike", 1, []Operand{Given(r.Typed(d, shape...))}, ir.A("k", k))
			}
		}
		for axis := range 2 {
			x, lens := r.Typed(d, 7, 7, 3), make([]int64, 7)
			for i := range lens {
				lens[i] = int64(i)
			}
			on.Same(t, "ReverseSequence", 1, []Operand{Given(x), Given(tensor.FromSlice(lens, 7))},
				ir.A("batch_axis", axis), ir.A("time_axis", 1-axis))
		}
	}
	for _, d := range []tensor.DType{tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64} {
		places := tensor.New(tensor.Int64, 1, 13)
		for i := range 13 {
			tensor.Data[int64](places)[i] = int64(6 * i)
		}
		by, err := places.Convert(d, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, way := range []string{"LEFT", "RIGHT"} {
			on.Same(t, "BitShift", 1, []Operand{Given(r.Small(d, 7, 13)), Given(by)}, ir.A("direction", way))
		}
	}
	for _, d := range Reals {
		for corners := range 2 {
			for _, size := range [][]int64{{2, 3, 5, 7}, {1, 1, 1, 4}, {2, 1, 3, 1, 5}} {
				k := len(size) - 2
				on.Same(t, "AffineGrid", 1, []Operand{Given(r.Real(d, 1, int(size[0]), k, k+1)),
					Fixed(tensor.FromSlice(size, len(size)))}, ir.A("align_corners", corners))
			}
		}
	}
}
