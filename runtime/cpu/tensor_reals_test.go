package cpu

import (
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

var reals = []tensor.DType{tensor.Float32, tensor.Float64}

// TestLRN checks sums over neighbouring channels.
func TestLRN(t *testing.T) {
	r := newGen(181)
	for _, d := range reals {
		for _, shape := range [][]int{{1, 1}, {2, 5}, {3, 7, 11}, {2, 9, 13, 5}, {1, 3, 47, 61}} {
			for _, size := range []int{1, 2, 5, 40} {
				for _, beta := range []float64{0.75, 0.5, 1, 0.3} {
					checkNode(t, "LRN", 1, []operand{given(r.real(d, 1, shape...))}, ir.A("size", size),
						ir.A("alpha", 0.7), ir.A("beta", beta), ir.A("bias", 1.5))
				}
			}
		}
	}
}

// TestRealPools checks the places of largest elements, norms of windows, and pools of float64.
func TestRealPools(t *testing.T) {
	r := newGen(182)
	type shape struct {
		in, taps, strides, pads, dilations []int
	}
	list := []shape{{in: []int{2, 3, 17}, taps: []int{3}, strides: []int{2}, pads: []int{1, 0}, dilations: []int{1}},
		{in: []int{1, 3, 9, 14}, taps: []int{2, 2}, strides: []int{2, 2}, pads: []int{0, 0, 0, 0}, dilations: []int{1, 1}},
		{in: []int{2, 2, 7, 11}, taps: []int{3, 2}, strides: []int{1, 3}, pads: []int{1, 1, 2, 0}, dilations: []int{2, 1}},
		{in: []int{1, 2, 5, 6, 7}, taps: []int{2, 3, 2}, strides: []int{2, 1, 2}, pads: []int{1, 0, 0, 1, 2, 1},
			dilations: []int{1, 1, 3}}}
	for _, d := range reals {
		for _, s := range list {
			for ceil := range 2 {
				attrs := []ir.Attr{ir.A("kernel_shape", s.taps), ir.A("strides", s.strides), ir.A("pads", s.pads),
					ir.A("dilations", s.dilations), ir.A("ceil_mode", ceil)}
				with := func(a ...ir.Attr) []ir.Attr { return append(attrs[:len(attrs):len(attrs)], a...) }
				x := given(r.typed(d, s.in...))
				for order := range 2 {
					sameNode(t, "MaxPool", 2, []operand{x}, with(ir.A("storage_order", order))...)
				}
				x = given(r.real(d, 1, s.in...))
				sameNode(t, "MaxPool", 1, []operand{x}, attrs...)
				for p := 1; p <= 3; p++ {
					checkNode(t, "LpPool", 1, []operand{x}, with(ir.A("p", p))...)
				}
				for all := range 2 {
					checkNode(t, "AveragePool", 1, []operand{x}, with(ir.A("count_include_pad", all))...)
				}
			}
		}
	}
}

// TestRoiAlign checks bins of regions.
func TestRoiAlign(t *testing.T) {
	r := newGen(183)
	for _, d := range reals {
		for _, n := range []int{0, 1, 5} {
			rois, samples := tensor.New(tensor.Float64, n, 4), tensor.New(tensor.Int64, n)
			for i := range n {
				for j := range 4 {
					tensor.Data[float64](rois)[4*i+j] = float64(r.IntN(120)-12)/8 + float64(j/2)*5
				}
				tensor.Data[int64](samples)[i] = int64(r.IntN(2))
			}
			boxes, err := rois.Convert(d, false)
			if err != nil {
				t.Fatal(err)
			}
			for _, mode := range []string{"avg", "max"} {
				for _, ratio := range []int{0, 1, 3, 9} {
					for _, shift := range []string{"half_pixel", "output_half_pixel"} {
						checkNode(t, "RoiAlign", 1, []operand{given(r.real(d, 1, 2, 5, 13, 11)), given(boxes), given(samples)},
							ir.A("mode", mode), ir.A("sampling_ratio", ratio), ir.A("output_height", 3), ir.A("output_width", 2),
							ir.A("spatial_scale", 0.75), ir.A("coordinate_transformation_mode", shift))
					}
				}
			}
		}
	}
}

// TestPlacedElements checks operators that write or move elements of any type.
func TestPlacedElements(t *testing.T) {
	r := newGen(184)
	for _, d := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int64, tensor.Int32, tensor.Int16, tensor.Uint8} {
		for _, shape := range [][]int{{1, 1}, {5, 9}, {9, 5}} {
			for _, k := range []int{0, 3, -2, 40} {
				sameNode(t, "EyeLike", 1, []operand{given(r.typed(d, shape...))}, ir.A("k", k))
			}
		}
		for axis := range 2 {
			x, lens := r.typed(d, 7, 7, 3), make([]int64, 7)
			for i := range lens {
				lens[i] = int64(i)
			}
			sameNode(t, "ReverseSequence", 1, []operand{given(x), given(tensor.FromSlice(lens, 7))},
				ir.A("batch_axis", axis), ir.A("time_axis", 1-axis))
		}
	}
	for _, d := range []tensor.DType{tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64} {
		places := tensor.New(tensor.Int64, 1, 13)
		for i := range 13 {
			tensor.Data[int64](places)[i] = int64(6 * i)
		}
		by, err := places.Convert(d, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, way := range []string{"LEFT", "RIGHT"} {
			sameNode(t, "BitShift", 1, []operand{given(r.small(d, 7, 13)), given(by)}, ir.A("direction", way))
		}
	}
	for _, d := range reals {
		for corners := range 2 {
			for _, size := range [][]int64{{2, 3, 5, 7}, {1, 1, 1, 4}, {2, 1, 3, 1, 5}} {
				k := len(size) - 2
				sameNode(t, "AffineGrid", 1, []operand{given(r.real(d, 1, int(size[0]), k, k+1)),
					fixed(tensor.FromSlice(size, len(size)))}, ir.A("align_corners", corners))
			}
		}
	}
}

// real returns normally distributed numbers.
func (r gen) real(d tensor.DType, scale float64, shape ...int) *tensor.Tensor {
	if d == tensor.Float32 {
		return r.floats(scale, shape...)
	}
	return r.doubles(func() float64 { return scale * r.NormFloat64() }, shape...)
}
