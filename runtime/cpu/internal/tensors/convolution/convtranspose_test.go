package convolution_test

import (
	"testing"

	"github.com/essmc/essmc/ir"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestConvTranspose(t *testing.T) {
	r := NewGen(4)
	for _, c := range []struct {
		n, c, group, m int // m per group
		size, taps     []int
		attrs          []ir.Attr
	}{
		{1, 3, 1, 5, []int{7}, []int{3}, nil},
		{2, 4, 2, 3, []int{9}, []int{4}, []ir.Attr{ir.A("strides", []int64{3}), ir.A("pads", []int64{1, 2})}},
		{1, 24, 1, 24, []int{6, 11}, []int{2, 2}, []ir.Attr{ir.A("strides", []int64{2, 2})}},
		{1, 3, 1, 2, []int{5, 4}, []int{3, 2}, []ir.Attr{ir.A("auto_pad", "VALID"), ir.A("pads", []int64{1, 1, 1, 1})}},
		{2, 5, 1, 3, []int{5, 9}, []int{3, 3},
			[]ir.Attr{ir.A("strides", []int64{2, 1}), ir.A("dilations", []int64{2, 2}),
				ir.A("pads", []int64{1, 2, 3, 1}), ir.A("output_padding", []int64{1, 0})}},
		// pairs of taps that give each output once, in bands of rows and parts of channels
		{2, 65, 1, 131, []int{21, 19}, []int{2, 2}, []ir.Attr{ir.A("strides", []int64{2, 2})}},
		{1, 48, 2, 33, []int{37, 5}, []int{1, 2}, []ir.Attr{ir.A("strides", []int64{1, 2})}},
		// bands of rows with pads, and more rows of the output than the taps meet
		{1, 64, 1, 70, []int{23, 17}, []int{2, 4},
			[]ir.Attr{ir.A("strides", []int64{3, 2}), ir.A("pads", []int64{1, 1, 2, 2}), ir.A("output_padding", []int64{2, 1})}},
		// columns by phases, of a width that is a multiple of the stride, and of others
		{1, 7, 1, 9, []int{11, 13}, []int{4, 4},
			[]ir.Attr{ir.A("strides", []int64{2, 2}), ir.A("pads", []int64{1, 1, 1, 1})}},
		{1, 7, 1, 29, []int{6, 35}, []int{3, 3},
			[]ir.Attr{ir.A("strides", []int64{2, 2}), ir.A("pads", []int64{1, 1, 1, 1})}},
		{1, 5, 1, 3, []int{41}, []int{16}, []ir.Attr{ir.A("strides", []int64{8}), ir.A("pads", []int64{4, 4})}},
		{1, 5, 1, 3, []int{41}, []int{5}, []ir.Attr{ir.A("strides", []int64{3}), ir.A("dilations", []int64{2})}},
		{1, 2, 1, 2, []int{1}, []int{2}, []ir.Attr{ir.A("strides", []int64{5})}},
	} {
		in := []Operand{Given(r.Floats(1, append([]int{c.n, c.c}, c.size...)...)),
			Fixed(r.Floats(1, append([]int{c.c, c.m}, c.taps...)...))}
		attrs := append(c.attrs, ir.A("group", c.group))
		on.Node(t, "ConvTranspose", 1, in, attrs...)
		on.Node(t, "ConvTranspose", 1, append(in, Fixed(r.Floats(1, c.m*c.group))), attrs...)
	}
}
