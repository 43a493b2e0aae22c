package integers_test

import (
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestIntegerConv(t *testing.T) {
	r := NewGen(26)
	for _, c := range []struct {
		x, w  []int
		group int
		attrs []ir.Attr
	}{
		{[]int{1, 1, 5}, []int{1, 1, 1}, 1, nil},
		{[]int{2, 3, 20}, []int{5, 3, 4}, 1, []ir.Attr{ir.A("pads", []int64{2, 1}), ir.A("strides", []int64{3})}},
		{[]int{1, 3, 11, 13}, []int{6, 3, 3, 3}, 1, []ir.Attr{ir.A("pads", []int64{1, 1, 1, 1})}},
		{[]int{2, 4, 12, 17}, []int{6, 2, 3, 2}, 2,
			[]ir.Attr{ir.A("pads", []int64{1, 0, 2, 1}), ir.A("strides", []int64{2, 2}), ir.A("dilations", []int64{1, 3})}},
		{[]int{1, 8, 9, 9}, []int{8, 1, 3, 3}, 8,
			[]ir.Attr{ir.A("auto_pad", "SAME_UPPER"), ir.A("strides", []int64{2, 1})}},
		{[]int{1, 4, 9, 9}, []int{8, 1, 5, 5}, 4,
			[]ir.Attr{ir.A("auto_pad", "SAME_LOWER"), ir.A("strides", []int64{3, 3})}},
		{[]int{2, 3, 19, 33}, []int{3, 1, 3, 3}, 3, []ir.Attr{ir.A("pads", []int64{1, 1, 1, 1})}},
		{[]int{1, 5, 21, 18}, []int{10, 1, 5, 5}, 5,
			[]ir.Attr{ir.A("pads", []int64{2, 2, 2, 2}), ir.A("strides", []int64{2, 2})}},
		{[]int{1, 3, 40}, []int{3, 1, 7}, 3, []ir.Attr{ir.A("pads", []int64{12, 0}), ir.A("dilations", []int64{2})}},
		{[]int{1, 2, 30, 30}, []int{2, 1, 17, 17}, 2, nil}, // more weights than sums in float32 hold
		{[]int{1, 70, 20, 20}, []int{67, 70, 1, 1}, 1, nil},
		{[]int{1, 16, 40, 40}, []int{33, 16, 3, 3}, 1, []ir.Attr{ir.A("pads", []int64{1, 1, 1, 1})}},
		{[]int{1, 2, 3, 3}, []int{3, 2, 3, 3}, 1, nil},
		{[]int{1, 520, 5, 5}, []int{9, 520, 3, 3}, 1, []ir.Attr{ir.A("pads", []int64{1, 1, 1, 1})}},
		{[]int{1, 40, 7, 7}, []int{300, 40, 1, 1}, 1, nil},
		{[]int{2, 6, 14, 14}, []int{300, 3, 1, 1}, 2, []ir.Attr{ir.A("strides", []int64{2, 2})}},
		{[]int{1, 24, 7, 7}, []int{70, 24, 3, 3}, 1, []ir.Attr{ir.A("pads", []int64{1, 1, 1, 1})}},
		{[]int{1, 3, 90, 150}, []int{5, 3, 3, 3}, 1, []ir.Attr{ir.A("pads", []int64{1, 1, 1, 1})}},
		{[]int{2, 16, 77}, []int{20, 16, 3}, 1, []ir.Attr{ir.A("dilations", []int64{2})}},
		{[]int{1, 16, 400}, []int{20, 16, 3}, 1, []ir.Attr{ir.A("pads", []int64{2, 2}), ir.A("dilations", []int64{2})}},
		{[]int{1, 2, 3, 3}, []int{2, 1, 2, 2}, 2, []ir.Attr{ir.A("strides", []int64{1 << 30, 1 << 31})}},
	} {
		attrs := append([]ir.Attr{ir.A("group", c.group)}, c.attrs...)
		m := c.w[0]
		for _, types := range ByteTypes {
			x, w := Given(r.Bytes(types[0], c.x...)), Fixed(r.Bytes(types[1], c.w...))
			on.Same(t, "ConvInteger", 1, []Operand{x, w}, attrs...)
			on.Same(t, "ConvInteger", 1, []Operand{x, w, Given(r.Bytes(types[0])), Fixed(r.Bytes(types[1], m))}, attrs...)
			bias := tensor.New(tensor.Int32, m)
			for i := range m {
				tensor.Data[int32](bias)[i] = int32(r.Uint32()) >> 10
			}
			in := []Operand{x, Fixed(r.Scales(0.01)), Fixed(r.Bytes(types[0])), w, Fixed(r.Scales(0.01, m)),
				Fixed(r.Bytes(types[1], m)), Fixed(r.Scales(0.3)), Fixed(r.Bytes(types[0])), Fixed(bias)}
			on.Same(t, "QLinearConv", 1, in, attrs...)
			in[6] = Fixed(r.Scales(300))
			on.Same(t, "QLinearConv", 1, in, attrs...)
			in[4], in[5] = Fixed(r.Scales(0.01)), Fixed(r.Bytes(types[1]))
			on.Same(t, "QLinearConv", 1, in[:8], attrs...)
		}
	}
	w := r.Bytes(tensor.Int8, 3, 2, 3, 2, 1)
	on.SameAnyhow(t, "ConvInteger", 1, []Operand{Given(r.Bytes(tensor.Uint8, 1, 2, 4, 4, 4)), Fixed(w)})
	on.SameAnyhow(t, "ConvInteger", 1,
		[]Operand{Given(r.Bytes(tensor.Uint8, 1, 2, 4, 4)), Given(r.Bytes(tensor.Int8, 3, 2, 3, 2))})
}
