package cpu

import (
	"testing"

	"github.com/essmc/essmc/ir"
)

func TestGridSample(t *testing.T) {
	r := newGen(52)
	for _, mode := range []string{"linear", "nearest", "cubic"} {
		for _, padding := range []string{"zeros", "border", "reflection"} {
			for corners := range 2 {
				attrs := []ir.Attr{ir.A("mode", mode), ir.A("padding_mode", padding), ir.A("align_corners", corners)}
				sameNode(t, "GridSample", 1, []operand{given(r.odd(2, 3, 7, 9)), given(r.odd(2, 40, 30, 2))}, attrs...)
				if mode != "cubic" {
					sameNode(t, "GridSample", 1, []operand{given(r.floats(1, 1, 2, 4, 5, 6)), given(r.floats(0.7, 1, 3, 4, 5, 3))}, attrs...)
				}
			}
		}
	}
}
