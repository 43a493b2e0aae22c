package rows_test

import (
	"testing"

	"github.com/essmc/essmc/ir"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

// TestLayerNorm tests the row kernel at all ranks and with all names of the last axis.
func TestLayerNorm(t *testing.T) {
	r := NewGen(5)
	for _, f := range []int{1, 7, 20} {
		for _, axis := range []int64{-1, 2} {
			x, scale, shift := Given(r.Floats(1, 2, 5, f)), Fixed(r.Floats(1, f)), Fixed(r.Floats(1, f))
			attrs := []ir.Attr{ir.A("axis", axis), ir.A("epsilon", 1e-3)}
			on.Row(t, "LayerNormalization", []Operand{x, scale, shift}, attrs...)
			on.Row(t, "LayerNormalization", []Operand{x, scale}, attrs...)
		}
	}
}
