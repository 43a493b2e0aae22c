package cpu

import (
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

func TestResize(t *testing.T) {
	r := newGen(34)
	scales := func(v ...float32) operand { return fixed(tensor.FromSlice(v, len(v))) }
	for _, c := range []struct {
		shape  []int
		scales operand
		sizes  operand
	}{
		{[]int{2, 3, 5, 7}, scales(1, 1, 2, 2), operand{}}, {[]int{1, 2, 33, 70}, scales(1, 1, 0.5, 0.37), operand{}},
		{[]int{2, 9}, operand{}, ints(2, 31)}, {[]int{5}, scales(3), operand{}},
		{[]int{1, 12, 9, 3}, scales(1, 2, 3, 1), operand{}}, {[]int{1, 2, 4, 5, 6}, operand{}, ints(1, 2, 7, 3, 13)},
		{[]int{100, 20, 3}, scales(1, 1.5, 1), operand{}}, {[]int{1, 1, 1, 1}, scales(1, 1, 4, 4), operand{}},
	} {
		for _, mode := range []string{"linear", "cubic"} {
			for _, place := range []string{"half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel",
				"half_pixel_symmetric"} {
				attrs := []ir.Attr{ir.A("mode", mode), ir.A("coordinate_transformation_mode", place)}
				in := []operand{given(r.floats(1, c.shape...)), {}, c.scales}
				if c.sizes.data != nil {
					in = append(in, c.sizes)
				}
				checkNode(t, "Resize", 1, in, attrs...)
				checkNode(t, "Resize", 1, in, append(attrs, ir.A("exclude_outside", 1))...)
				checkNode(t, "Resize", 1, in, append(attrs, ir.A("antialias", 1))...)
			}
		}
	}
	odd := given(with(with(r.floats(1, 1, 1, 20, 20), 45, math.Inf(1)), 190, math.NaN()))
	checkNode(t, "Resize", 1, []operand{odd, {}, scales(1, 1, 2, 2)}, ir.A("mode", "linear"),
		ir.A("coordinate_transformation_mode", "asymmetric"))
	roi := fixed(tensor.FromSlice([]float32{0, 0, -0.2, 0.3, 1, 1, 1.2, 0.9}, 8))
	checkNode(t, "Resize", 1, []operand{given(r.floats(1, 1, 2, 9, 8)), roi, {}, ints(1, 2, 17, 20)},
		ir.A("mode", "linear"), ir.A("coordinate_transformation_mode", "tf_crop_and_resize"),
		ir.A("extrapolation_value", 9.5))
}
