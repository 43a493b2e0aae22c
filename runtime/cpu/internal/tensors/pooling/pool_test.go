package pooling_test

import (
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestPool(t *testing.T) {
	r := NewGen(8)
	for _, c := range []struct {
		shape []int
		attrs []ir.Attr
	}{
		{[]int{2, 3, 9}, []ir.Attr{ir.A("kernel_shape", []int64{3}), ir.A("strides", []int64{2}),
			ir.A("pads", []int64{1, 1})}},
		{[]int{1, 3, 8, 13}, []ir.Attr{ir.A("kernel_shape", []int64{2, 2}), ir.A("strides", []int64{2, 2})}},
		{[]int{1, 2, 9, 13}, []ir.Attr{ir.A("kernel_shape", []int64{3, 2}), ir.A("strides", []int64{2, 1}),
			ir.A("pads", []int64{1, 1, 0, 1})}},
		{[]int{1, 2, 9, 14}, []ir.Attr{ir.A("kernel_shape", []int64{2, 2}), ir.A("strides", []int64{2, 3}),
			ir.A("ceil_mode", 1)}},
		{[]int{1, 2, 9, 14}, []ir.Attr{ir.A("kernel_shape", []int64{3, 4}), ir.A("auto_pad", "SAME_UPPER"),
			ir.A("strides", []int64{2, 3})}},
		{[]int{1, 2, 9, 14}, []ir.Attr{ir.A("kernel_shape", []int64{3, 2}), ir.A("dilations", []int64{2, 3})}},
		{[]int{2, 3, 70, 66}, []ir.Attr{ir.A("kernel_shape", []int64{2, 2}), ir.A("strides", []int64{2, 2})}},
		{[]int{1, 2, 90, 81}, []ir.Attr{ir.A("kernel_shape", []int64{3, 3}), ir.A("strides", []int64{2, 2}),
			ir.A("pads", []int64{1, 1, 1, 1})}},
		{[]int{1, 2, 45, 130}, []ir.Attr{ir.A("kernel_shape", []int64{1, 4}), ir.A("strides", []int64{1, 4})}},
		{[]int{1, 2, 3, 5000}, []ir.Attr{ir.A("kernel_shape", []int64{2, 7}), ir.A("strides", []int64{1, 3}),
			ir.A("dilations", []int64{1, 2})}},
		{[]int{1, 2, 61, 77}, []ir.Attr{ir.A("kernel_shape", []int64{3, 3}), ir.A("pads", []int64{1, 1, 1, 1})}},
		{[]int{1, 2, 37, 141}, []ir.Attr{ir.A("kernel_shape", []int64{5, 3}), ir.A("strides", []int64{2, 1}),
			ir.A("pads", []int64{2, 0, 1, 0})}},
		{[]int{1, 2, 33, 83}, []ir.Attr{ir.A("kernel_shape", []int64{3, 3}), ir.A("strides", []int64{1, 4}),
			ir.A("pads", []int64{1, 1, 1, 0})}},
		{[]int{2, 3, 4099}, []ir.Attr{ir.A("kernel_shape", []int64{6}), ir.A("strides", []int64{4}),
			ir.A("pads", []int64{2, 3})}},
		{[]int{1, 2, 29, 31}, []ir.Attr{ir.A("kernel_shape", []int64{3, 3}), ir.A("strides", []int64{2, 2}),
			ir.A("pads", []int64{1, 1, 1, 1}), ir.A("ceil_mode", 1)}},
	} {
		x := r.Floats(1, c.shape...)
		on.Node(t, "AveragePool", 1, []Operand{Given(x)}, c.attrs...)
		on.Node(t, "MaxPool", 1, []Operand{Given(With(x, 7, math.NaN()))}, c.attrs...)
	}
	for _, shape := range [][]int{{1, 2, 5, 6}, {1, 2, 61, 77}} {
		for _, strides := range [][]int64{{1, 1}, {2, 2}, {2, 4}, {3, 1}} {
			on.Node(t, "AveragePool", 1, []Operand{Given(r.Floats(1, shape...))}, ir.A("kernel_shape", []int64{3, 3}),
				ir.A("strides", strides), ir.A("pads", []int64{1, 1, 1, 1}), ir.A("count_include_pad", 1))
		}
	}
}

func TestMaxPoolOfBytes(t *testing.T) {
	r := NewGen(186)
	for _, d := range []tensor.DType{tensor.Int8, tensor.Uint8} {
		for _, attrs := range [][]ir.Attr{
			{ir.A("kernel_shape", []int{3, 3})},
			{ir.A("kernel_shape", []int{3, 2}), ir.A("strides", []int{2, 3}), ir.A("pads", []int{1, 1, 2, 0})},
			{ir.A("kernel_shape", []int{2, 3}), ir.A("dilations", []int{2, 1}), ir.A("auto_pad", "SAME_UPPER")},
			{ir.A("kernel_shape", []int{3, 3}), ir.A("strides", []int{2, 2}), ir.A("ceil_mode", 1)},
		} {
			on.Same(t, "MaxPool", 1, []Operand{Given(r.Bytes(d, 2, 3, 17, 13))}, attrs...)
		}
		on.Same(t, "MaxPool", 1, []Operand{Given(r.Bytes(d, 2, 3, 17))}, ir.A("kernel_shape", []int{3}))
	}
}
