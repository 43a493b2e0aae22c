package moves_test

import (
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestResize(t *testing.T) {
	r := NewGen(34)
	scales := func(v ...float32) Operand { return Fixed(tensor.FromSlice(v, len(v))) }
	for _, c := range []struct {
		shape  []int
		scales Operand
		sizes  Operand
	}{
		{[]int{2, 3, 5, 7}, scales(1, 1, 2, 2), Operand{}}, {[]int{1, 2, 33, 70}, scales(1, 1, 0.5, 0.37), Operand{}},
		{[]int{2, 9}, Operand{}, Ints(2, 31)}, {[]int{5}, scales(3), Operand{}},
		{[]int{1, 12, 9, 3}, scales(1, 2, 3, 1), Operand{}}, {[]int{1, 2, 4, 5, 6}, Operand{}, Ints(1, 2, 7, 3, 13)},
		{[]int{100, 20, 3}, scales(1, 1.5, 1), Operand{}}, {[]int{1, 1, 1, 1}, scales(1, 1, 4, 4), Operand{}},
	} {
		for _, mode := range []string{"linear", "cubic"} {
			for _, place := range []string{"half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel",
				"half_pixel_symmetric"} {
				attrs := []ir.Attr{ir.A("mode", mode), ir.A("coordinate_transformation_mode", place)}
				in := []Operand{Given(r.Floats(1, c.shape...)), {}, c.scales}
				if c.sizes.Data != nil {
					in = append(in, c.sizes)
				}
				on.Node(t, "Resize", 1, in, attrs...)
				on.Node(t, "Resize", 1, in, append(attrs, ir.A("exclude_outside", 1))...)
				on.Node(t, "Resize", 1, in, append(attrs, ir.A("antialias", 1))...)
			}
		}
	}
	odd := Given(With(With(r.Floats(1, 1, 1, 20, 20), 45, math.Inf(1)), 190, math.NaN()))
	on.Node(t, "Resize", 1, []Operand{odd, {}, scales(1, 1, 2, 2)}, ir.A("mode", "linear"),
		ir.A("coordinate_transformation_mode", "asymmetric"))
	roi := Fixed(tensor.FromSlice([]float32{0, 0, -0.2, 0.3, 1, 1, 1.2, 0.9}, 8))
	on.Node(t, "Resize", 1, []Operand{Given(r.Floats(1, 1, 2, 9, 8)), roi, {}, Ints(1, 2, 17, 20)},
		ir.A("mode", "linear"), ir.A("coordinate_transformation_mode", "tf_crop_and_resize"),
		ir.A("extrapolation_value", 9.5))
}
