package pooling_test

import (
	"testing"

	"github.com/essmc/essmc/ir"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

// TestRealPools checks the places of largest elements, norms of windows, and pools of float64.
func TestRealPools(t *testing.T) {
	r := NewGen(182)
	type shape struct {
		in, taps, strides, pads, dilations []int
	}
	list := []shape{{in: []int{2, 3, 17}, taps: []int{3}, strides: []int{2}, pads: []int{1, 0}, dilations: []int{1}},
		{in: []int{1, 3, 9, 14}, taps: []int{2, 2}, strides: []int{2, 2}, pads: []int{0, 0, 0, 0}, dilations: []int{1, 1}},
		{in: []int{2, 2, 7, 11}, taps: []int{3, 2}, strides: []int{1, 3}, pads: []int{1, 1, 2, 0}, dilations: []int{2, 1}},
		{in: []int{1, 2, 5, 6, 7}, taps: []int{2, 3, 2}, strides: []int{2, 1, 2}, pads: []int{1, 0, 0, 1, 2, 1},
			dilations: []int{1, 1, 3}}}
	for _, d := range Reals {
		for _, s := range list {
			for ceil := range 2 {
				attrs := []ir.Attr{ir.A("kernel_shape", s.taps), ir.A("strides", s.strides), ir.A("pads", s.pads),
					ir.A("dilations", s.dilations), ir.A("ceil_mode", ceil)}
				with := func(a ...ir.Attr) []ir.Attr { return append(attrs[:len(attrs):len(attrs)], a...) }
				x := Given(r.Typed(d, s.in...))
				for order := range 2 {
					on.Same(t, "MaxPool", 2, []Operand{x}, with(ir.A("storage_order", order))...)
				}
				x = Given(r.Real(d, 1, s.in...))
				on.Same(t, "MaxPool", 1, []Operand{x}, attrs...)
				for p := 1; p <= 3; p++ {
					on.Node(t, "LpPool", 1, []Operand{x}, with(ir.A("p", p))...)
				}
				for all := range 2 {
					on.Node(t, "AveragePool", 1, []Operand{x}, with(ir.A("count_include_pad", all))...)
				}
			}
		}
	}
}
