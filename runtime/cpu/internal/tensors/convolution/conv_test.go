package convolution_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestConv(t *testing.T) {
	r := NewGen(3)
	for _, c := range []struct {
		n, c, group, m int
		size, taps     []int
		attrs          []ir.Attr
	}{
		{1, 3, 1, 5, []int{7}, []int{3}, nil},
		{2, 1, 1, 33, []int{700}, []int{64}, []ir.Attr{ir.A("strides", []int64{16})}},
		{2, 4, 1, 17, []int{9}, []int{3}, []ir.Attr{ir.A("pads", []int64{1, 2}), ir.A("strides", []int64{2})}},
		{1, 8, 1, 8, []int{1}, []int{3}, []ir.Attr{ir.A("pads", []int64{1, 1})}},
		{1, 2, 1, 13, []int{40}, []int{5}, []ir.Attr{ir.A("dilations", []int64{3})}},
		{2, 3, 1, 7, []int{11, 23}, []int{3, 3}, []ir.Attr{ir.A("pads", []int64{1, 1, 1, 1})}},
		{1, 3, 1, 7, []int{33, 47}, []int{3, 3}, []ir.Attr{ir.A("auto_pad", "SAME_UPPER"), ir.A("strides", []int64{2, 2})}},
		{1, 3, 1, 7, []int{12, 13}, []int{2, 4}, []ir.Attr{ir.A("auto_pad", "SAME_LOWER"), ir.A("strides", []int64{3, 1})}},
		{1, 6, 3, 9, []int{9, 31}, []int{3, 1},
			[]ir.Attr{ir.A("pads", []int64{0, 3, 2, 0}), ir.A("dilations", []int64{2, 1})}},
		{2, 16, 1, 31, []int{5, 40}, []int{1, 1}, nil},
		{1, 5, 1, 3, []int{6, 7}, []int{1, 1}, []ir.Attr{ir.A("strides", []int64{2, 2})}},
		{1, 40, 1, 20, []int{2, 3}, []int{1, 3},
			[]ir.Attr{ir.A("dilations", []int64{1, 1}), ir.A("pads", []int64{0, 1, 0, 1})}},
		{1, 40, 1, 20, []int{2, 9}, []int{2, 3},
			[]ir.Attr{ir.A("dilations", []int64{1, 2}), ir.A("pads", []int64{1, 2, 0, 1})}},
		// one input channel to a group
		{2, 6, 6, 6, []int{9, 21}, []int{3, 3}, []ir.Attr{ir.A("pads", []int64{1, 1, 1, 1})}},
		{1, 6, 6, 12, []int{17, 12}, []int{5, 5},
			[]ir.Attr{ir.A("pads", []int64{2, 2, 2, 2}), ir.A("strides", []int64{2, 2})}},
		{1, 5, 5, 5, []int{16, 33}, []int{3, 3},
			[]ir.Attr{ir.A("pads", []int64{1, 1, 1, 1}), ir.A("strides", []int64{2, 1})}},
		{1, 5, 5, 5, []int{8, 30}, []int{3, 4},
			[]ir.Attr{ir.A("pads", []int64{3, 2, 1, 0}), ir.A("strides", []int64{1, 3}), ir.A("dilations", []int64{2, 2})}},
		{1, 3, 3, 3, []int{9, 43}, []int{3, 3},
			[]ir.Attr{ir.A("pads", []int64{1, 1, 1, 1}), ir.A("strides", []int64{2, 2})}},
		{1, 3, 3, 3, []int{9, 19}, []int{3, 4},
			[]ir.Attr{ir.A("pads", []int64{0, 2, 1, 3}), ir.A("strides", []int64{3, 2})}},
		{1, 4, 4, 4, []int{13}, []int{5}, []ir.Attr{ir.A("pads", []int64{2, 2})}},
		{1, 4, 4, 4, []int{2}, []int{1}, nil},
		{1, 64, 1, 96, []int{30, 50}, []int{3, 3}, []ir.Attr{ir.A("pads", []int64{1, 1, 1, 1})}},
		// without panels
		{2, 3, 1, 19, []int{31, 64}, []int{7, 7},
			[]ir.Attr{ir.A("pads", []int64{3, 3, 3, 3}), ir.A("strides", []int64{2, 2})}},
		{1, 6, 2, 26, []int{40, 33}, []int{3, 2},
			[]ir.Attr{ir.A("pads", []int64{0, 1, 2, 0}), ir.A("strides", []int64{1, 2}), ir.A("dilations", []int64{2, 3})}},
		{1, 130, 1, 13, []int{1000}, []int{3}, []ir.Attr{ir.A("pads", []int64{9, 9}), ir.A("dilations", []int64{9})}},
		{2, 9, 3, 12, []int{5, 320}, []int{2, 3}, []ir.Attr{ir.A("pads", []int64{1, 1, 0, 1})}},
		// by tiles
		{2, 67, 1, 61, []int{14, 15}, []int{3, 3}, []ir.Attr{ir.A("pads", []int64{1, 1, 1, 1})}},
		{1, 32, 1, 49, []int{61, 35}, []int{3, 3}, nil},
		{1, 40, 1, 33, []int{19, 22}, []int{3, 3}, []ir.Attr{ir.A("pads", []int64{0, 2, 3, 1})}},
		{1, 48, 1, 128, []int{130, 33}, []int{3, 3}, []ir.Attr{ir.A("auto_pad", "SAME_UPPER")}},
		{1, 96, 1, 32, []int{9, 3}, []int{3, 3}, []ir.Attr{ir.A("pads", []int64{5, 5, 5, 5})}},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			w := append([]int{c.m, c.c / c.group}, c.taps...)
			in := []Operand{Given(r.Floats(1, append([]int{c.n, c.c}, c.size...)...)), Fixed(r.Floats(1, w...))}
			attrs := append(c.attrs, ir.A("group", c.group))
			on.Node(t, "Conv", 1, in, attrs...)
			on.Node(t, "Conv", 1, append(in, Fixed(r.Floats(1, c.m))), attrs...)
		})
	}
}

// A number that is not finite reaches the outputs whose windows hold it, and no others; sums of the largest numbers do not
// overflow on their way.
func TestConvNotFinite(t *testing.T) {
	r := NewGen(5)
	pads := ir.A("pads", []int64{1, 1, 1, 1})
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 2e38} {
		x, w := r.Floats(1, 1, 24, 13, 15), r.Floats(1, 24, 24, 3, 3)
		for _, at := range []int{0, 13*15 - 1, 20*13*15 + 77} {
			tensor.Data[float32](x)[at] = float32(v)
		}
		if math.Abs(v) < math.Inf(1) {
			for i := range tensor.Data[float32](w) {
				tensor.Data[float32](w)[i] = 0.25
			}
		}
		on.Node(t, "Conv", 1, []Operand{Given(x), Fixed(w), Fixed(r.Floats(1, 24))}, pads)
	}
}
