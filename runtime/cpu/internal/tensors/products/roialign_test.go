package products_test

import (
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

// TestRoiAlign checks bins of regions.
func TestRoiAlign(t *testing.T) {
	r := NewGen(183)
	for _, d := range Reals {
		for _, n := range []int{0, 1, 5} {
			rois, samples := tensor.New(tensor.Float64, n, 4), tensor.New(tensor.Int64, n)
			for i := range n {
				for j := range 4 {
					tensor.Data[float64](rois)[4*i+j] = float64(r.IntN(120)-12)/8 + float64(j/2)*5
				}
				tensor.Data[int64](samples)[i] = int64(r.IntN(2))
			}
			boxes, err := rois.Convert(d, false)
			if err != nil {
				t.Fatal(err)
			}
			for _, mode := range []string{"avg", "max"} {
				for _, ratio := range []int{0, 1, 3, 9} {
					for _, shift := range []string{"half_pixel", "output_half_pixel"} {
						on.Node(t, "RoiAlign", 1, []Operand{Given(r.Real(d, 1, 2, 5, 13, 11)), Given(boxes), Given(samples)},
							ir.A("mode", mode), ir.A("sampling_ratio", ratio), ir.A("output_height", 3), ir.A("output_width", 2),
							ir.A("spatial_scale", 0.75), ir.A("coordinate_transformation_mode", shift))
					}
				}
			}
		}
	}
}
