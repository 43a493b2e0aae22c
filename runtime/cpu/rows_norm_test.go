package cpu

import (
	"testing"

	"github.com/essmc/essmc/ir"
)

// Norms over the last axis are row kernels, whatever the rank and however the axis is named.
func TestRowNorms(t *testing.T) {
	r := newGen(5)
	for _, f := range []int{1, 7, 20} {
		for _, axis := range []int64{-1, 2} {
			x, scale, shift := given(r.floats(1, 2, 5, f)), fixed(r.floats(1, f)), fixed(r.floats(1, f))
			attrs := []ir.Attr{ir.A("axis", axis), ir.A("epsilon", 1e-3)}
			checkNode(t, "LayerNormalization", 1, []operand{x, scale, shift}, attrs...)
			checkNode(t, "LayerNormalization", 1, []operand{x, scale}, attrs...)
			checkNode(t, "RMSNormalization", 1, []operand{x, scale}, attrs...)
		}
	}
}
