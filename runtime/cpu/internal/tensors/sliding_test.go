package tensors_test

import (
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

// TestSliding tests windows over three and four axes.
func TestSliding(t *testing.T) {
	r := NewGen(35)
	three := func(name string, v ...int64) ir.Attr { return ir.A(name, v) }
	for _, c := range []struct {
		x, w  []int
		group int
		attrs []ir.Attr
	}{
		{[]int{1, 1, 2, 3, 4}, []int{1, 1, 1, 1, 1}, 1, nil},
		{[]int{2, 3, 4, 5, 20}, []int{5, 3, 3, 2, 3}, 1, []ir.Attr{three("pads", 1, 0, 1, 1, 1, 1)}},
		{[]int{1, 4, 5, 6, 7}, []int{6, 2, 2, 3, 3}, 2,
			[]ir.Attr{three("pads", 1, 0, 2, 1, 2, 1), three("strides", 2, 1, 2), three("dilations", 1, 2, 1)}},
		{[]int{1, 6, 5, 6, 17}, []int{6, 1, 3, 3, 3}, 6,
			[]ir.Attr{ir.A("auto_pad", "SAME_UPPER"), three("strides", 1, 2, 3)}},
		{[]int{1, 2, 3, 2, 3, 19}, []int{3, 2, 2, 2, 2, 2}, 1, nil},
		{[]int{1, 2, 3, 3, 3}, []int{2, 1, 2, 2, 2}, 2, []ir.Attr{three("strides", 1<<30, 1, 1<<31)}},
		{[]int{1, 2, 3, 3}, []int{2, 1, 2, 2}, 2, []ir.Attr{three("strides", 1<<30, 1<<31)}},
		{[]int{1, 16, 6, 16, 16}, []int{32, 16, 3, 3, 3}, 1, []ir.Attr{three("pads", 1, 1, 1, 1, 1, 1)}},
	} {
		attrs := append([]ir.Attr{ir.A("group", c.group)}, c.attrs...)
		on.Node(t, "Conv", 1, []Operand{Given(r.Floats(1, c.x...)), Fixed(r.Floats(1, c.w...)),
			Fixed(r.Floats(1, c.w[0]))}, attrs...)
		on.Node(t, "Conv", 1, []Operand{Given(With(r.Floats(1, c.x...), 3, math.NaN())), Fixed(r.Floats(1, c.w...))},
			attrs...)
	}
	for _, c := range []struct {
		x, w  []int
		group int
		attrs []ir.Attr
	}{
		{[]int{1, 1, 2, 3, 4}, []int{1, 1, 1, 1, 1}, 1, nil},
		{[]int{2, 3, 4, 5, 7}, []int{3, 5, 2, 2, 2}, 1, []ir.Attr{three("strides", 2, 2, 2)}},
		{[]int{1, 4, 3, 4, 20}, []int{4, 3, 3, 2, 3}, 2,
			[]ir.Attr{three("strides", 1, 2, 3), three("pads", 1, 0, 2, 1, 1, 1), three("dilations", 2, 1, 2),
				three("output_padding", 0, 1, 2)}},
		{[]int{1, 2, 3, 2, 3, 5}, []int{2, 3, 2, 2, 2, 2}, 1, nil},
	} {
		attrs := append([]ir.Attr{ir.A("group", c.group)}, c.attrs...)
		on.Node(t, "ConvTranspose", 1, []Operand{Given(r.Floats(1, c.x...)), Fixed(r.Floats(1, c.w...)),
			Fixed(r.Floats(1, c.w[1]*c.group))}, attrs...)
	}
	for _, c := range []struct {
		x     []int
		attrs []ir.Attr
	}{
		{[]int{2, 3, 4, 5, 20}, []ir.Attr{three("kernel_shape", 2, 2, 2), three("strides", 2, 2, 2)}},
		{[]int{1, 2, 4, 7, 9}, []ir.Attr{three("kernel_shape", 3, 2, 3), three("strides", 1, 2, 3),
			three("pads", 1, 0, 1, 1, 1, 2)}},
		{[]int{1, 2, 5, 7, 9}, []ir.Attr{three("kernel_shape", 2, 2, 2), three("strides", 2, 2, 2),
			ir.A("ceil_mode", 1)}},
		{[]int{1, 2, 5, 7, 9}, []ir.Attr{three("kernel_shape", 2, 2, 3), three("dilations", 2, 3, 1),
			ir.A("auto_pad", "SAME_LOWER")}},
		{[]int{1, 2, 3, 3, 4, 5}, []ir.Attr{three("kernel_shape", 2, 2, 2, 2)}},
	} {
		on.Node(t, "MaxPool", 1, []Operand{Given(With(r.Floats(1, c.x...), 7, math.NaN()))}, c.attrs...)
		on.Node(t, "AveragePool", 1, []Operand{Given(r.Floats(1, c.x...))}, c.attrs...)
	}
	on.Node(t, "AveragePool", 1, []Operand{Given(r.Floats(1, 1, 2, 5, 7, 9))}, three("kernel_shape", 3, 2, 3),
		three("pads", 1, 1, 1, 1, 1, 1), ir.A("count_include_pad", 1))
}
