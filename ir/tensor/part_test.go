package tensor

import (
	"slices"
	"testing"
)

func TestCopyPart(t *testing.T) {
	for _, c := range []struct {
		axis, k int
		shape   []int
		want    []int32
	}{{0, 1, []int{4, 3}, []int32{0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6}}, {1, 0, []int{2, 6}, []int32{1, 2, 3, 0, 0, 0, 4, 5, 6, 0, 0, 0}}} {
		whole, part := New(Int32, c.shape...), FromSlice([]int32{1, 2, 3, 4, 5, 6}, 2, 3)
		CopyPart(whole, part, c.axis, c.k, true)
		if !slices.Equal(Data[int32](whole), c.want) {
			t.Errorf("axis %d: expected %v, found %v", c.axis, c.want, Data[int32](whole))
		}
		back := New(Int32, 2, 3)
		if CopyPart(whole, back, c.axis, c.k, false); !Equal(back, part) {
			t.Errorf("axis %d: back: %v", c.axis, Data[int32](back))
		}
	}
	CopyPart(New(Int32, 0, 2), New(Int32, 0, 1), 1, 1, true) // nothing to copy
}
