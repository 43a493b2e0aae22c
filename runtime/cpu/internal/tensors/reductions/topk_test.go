package reductions_test

import (
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestTopK(t *testing.T) {
	r := NewGen(43)
	for _, k := range []int64{1, 10, 200, 1000} { // heaps, and sorted rows
		for _, largest := range []int{0, 1} {
			for _, d := range []tensor.DType{tensor.Float32, tensor.Int32, tensor.Float64} {
				x := Given(r.Typed(d, 3, 1000))
				on.Same(t, "TopK", 2, []Operand{x, Ints(k)}, ir.A("largest", largest))
				on.SameAnyhow(t, "TopK", 2, []Operand{x, Given(tensor.FromSlice([]int64{k}, 1))}, ir.A("largest", largest))
			}
		}
	}
	for _, k := range []int64{1, 2, 5, 9} {
		for _, largest := range []int{0, 1} {
			for axis := range 3 {
				x := r.Indices([]int{6}, 9, 10, 11) // many are equal
				f := tensor.New(tensor.Float32, 9, 10, 11)
				for i, v := range tensor.Data[int64](x) {
					tensor.Data[float32](f)[i] = float32(v)
				}
				attrs := []ir.Attr{ir.A("largest", largest), ir.A("axis", axis)}
				on.Same(t, "TopK", 2, []Operand{Given(x), Ints(k)}, attrs...)
				on.Same(t, "TopK", 2, []Operand{Given(Narrowed(x)), Ints(k)}, attrs...)
				on.Same(t, "TopK", 2, []Operand{Given(f), Ints(k)}, attrs...)
				for _, d := range []tensor.DType{tensor.Float64, tensor.Int8, tensor.Uint8} {
					on.Same(t, "TopK", 2, []Operand{Given(r.Small(d, 9, 10, 11)), Ints(k)}, attrs...)
				}
				on.SameAnyhow(t, "TopK", 2, []Operand{Given(f), Given(tensor.FromSlice([]int64{k}, 1))}, attrs...)
				for i := range 30 {
					tensor.Data[float32](f)[i*17] = float32(Specials[i%len(Specials)])
				}
				on.Same(t, "TopK", 2, []Operand{Given(f), Ints(k)}, attrs...)
			}
		}
	}
}
