package cpu

import (
	"testing"

	"github.com/essmc/essmc/ir"
)

// TestLayerNorm tests the row kernel at all ranks and with all names of the last axis.
func TestLayerNorm(t *testing.T) {
	r := newGen(5)
	for _, f := range []int{1, 7, 20} {
		for _, axis := range []int64{-1, 2} {
			x, scale, shift := given(r.floats(1, 2, 5, f)), fixed(r.floats(1, f)), fixed(r.floats(1, f))
			attrs := []ir.Attr{ir.A("axis", axis), ir.A("epsilon", 1e-3)}
			checkRow(t, "LayerNormalization", []operand{x, scale, shift}, attrs...)
			checkRow(t, "LayerNormalization", []operand{x, scale}, attrs...)
		}
	}
}
