package std

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// DeformConv is a convolution whose taps are displaced by an input of offsets.
var DeformConv = ops.Same(ops.Register(&ir.Op{
	Name: "DeformConv", Since: 22,
	Doc: "Correlation of X (N,C,…) with filters W (M,C/group,…), with each tap displaced by offset " +
		"(N,offset_group*taps*axes,…), interpolated linearly between elements (0 outside), times mask " +
		"(N,offset_group*taps,…), plus B (M).",
	In: ops.Sig("X:T", "W:T", "offset:T", "B:T[_]?", "mask:T?"), Out: ops.Sig("Y:T"),
	Attrs: []ir.AttrSpec{
		intsAttr("dilations", "distance of filter taps per axis (default 1)"),
		intAttr("group", 1, "number of groups of channels"),
		intsAttr("kernel_shape", "filter sizes (default: from W)"),
		intAttr("offset_group", 1, "number of groups of channels that share offsets"),
		intsAttr("pads", "all begins, then all ends (default 0)"), intsAttr("strides", "steps per axis (default 1)"),
	},
	Infer: inferConv, Eval: evalDeformConv,
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		// Offsets are data, so nothing bounds the reach of a tap. Only samples are separate.
		var out ir.Fact
		for i, f := range in {
			switch {
			case f.Constant():
			case i != 1 && i != 3 && f.Axis == 0 && !f.Global &&
				(out.Constant() || out.Stride == f.Stride && out.Axis == 0):
				out = ops.Join(n, []ir.Fact{out, f}, []int{1, 1}, 1)
			default:
				return spread(n, ops.Global(n, in))
			}
		}
		return spread(n, out)
	},
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work { return Conv.Cost(n, bind) }, Tol: ir.Summing,
	NoGradient: ops.NotYet,
	Linear:     ops.LinearIn([]int{0, 3}, []int{1, 3}, []int{3, 4}),
}), 19)

func evalDeformConv(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	x, err := need(in, 0, "X")
	if err != nil {
		return nil, err
	}
	w, err := need(in, 1, "W")
	if err != nil {
		return nil, err
	}
	offset, err := need(in, 2, "offset")
	if err != nil {
		return nil, err
	}
	k := x.Rank() - 2
	if k < 1 || k > 8 || w.Rank() != k+2 || offset.Rank() != k+2 {
		return nil, fmt.Errorf("X %s, W %s and offset %s: expected equal ranks from 3 to 10", x, w, offset)
	}
	group, offsets := int(getInt(c.Node, "group")), int(getInt(c.Node, "offset_group"))
	channels, m, cg := x.Dim(1), w.Dim(0), w.Dim(1)
	if group < 1 || group > max(1, m) || channels != cg*group || m%group != 0 || offsets < 1 ||
		offsets > max(1, channels) || channels%offsets != 0 {
		return nil, fmt.Errorf("X %s, W %s, group %d and offset_group %d do not match", x, w, group, offsets)
	}
	taps := product(w.Shape()[2:])
	win, err := ops.Windows(c.Node, k)
	if err != nil {
		return nil, err
	}
	shape := []int{x.Dim(0), m}
	for i := range win {
		if w.Dim(i+2) == 0 {
			return nil, fmt.Errorf("W %s has no taps", w)
		}
		size, _ := win[i].Size(ir.Const(int64(x.Dim(i+2))), ir.Const(int64(w.Dim(i+2)))).Known()
		shape = append(shape, tensor.Extent(max(0, size)))
	}
	if _, err := ops.Elems(shape); err != nil {
		return nil, err
	}
	want := append([]int{x.Dim(0), offsets * taps * k}, shape[2:]...)
	if err := ops.SameShape(offset.Shape(), want); err != nil {
		return nil, fmt.Errorf("offset: %w", err)
	}
	mask := ops.F64(c, in, 4)
	if mask != nil {
		want[1] = offsets * taps
		if err := ops.SameShape(ops.Tensor(in, 4).Shape(), want); err != nil {
			return nil, fmt.Errorf("mask: %w", err)
		}
	}
	bias := ops.F64(c, in, 3)
	if bias != nil && len(bias) != m {
		return nil, fmt.Errorf("B: expected %d elements, found %d", m, len(bias))
	}
	xs, wv, off := ops.F64(c, in, 0), ops.F64(c, in, 1), ops.F64(c, in, 2)
	y := ops.Make[float64](c, product(shape))
	places, size, perOffset := product(shape[2:]), product(x.Shape()[2:]), channels/offsets
	at, tap, index := ops.Make[float64](c, k), make([]int, k), make([]int, k)
	sampled := ops.Make[float64](c, channels)
	for s := range x.Dim(0) {
		c.Step(1)
		for place := range places {
			c.Step(1)
			unravel(place, shape[2:], index)
			for t := range taps {
				c.Step(1)
				unravel(t, w.Shape()[2:], tap)
				for g := range offsets {
					c.Step(1)
					for i := range k {
						o := off[((s*offsets+g)*taps+t)*k*places+i*places+place]
						at[i] = float64(int64(index[i])*win[i].Stride-win[i].Begin+int64(tap[i])*win[i].Dilation) + o
					}
					scale := 1.0
					if mask != nil {
						scale = mask[((s*offsets+g)*taps+t)*places+place]
					}
					for ch := g * perOffset; ch < (g+1)*perOffset; ch++ {
						c.Step(8)
						sampled[ch] = scale * linearAt(xs[(s*channels+ch)*size:(s*channels+ch+1)*size], x.Shape()[2:],
							at)
					}
				}
				for f := range m {
					c.Step(1)
					sum := &y[(s*m+f)*places+place]
					for ch := range ops.Each(c, cg) {
						*sum += wv[(f*cg+ch)*taps+t] * sampled[f/(m/group)*cg+ch]
					}
				}
			}
		}
	}
	if bias != nil {
		for i := range ops.Each(c, len(y)) {
			y[i] += bias[i/places%m]
		}
	}
	return ops.One(ops.Real(c, x.DType(), y, shape...))
}

// unravel writes the index of element i of a shape.
func unravel(i int, shape, index []int) {
	for a := len(shape) - 1; a >= 0; a-- {
		index[a], i = i%shape[a], i/shape[a]
	}
}

// linearAt interpolates a plane linearly between its elements, which are 0 outside.
func linearAt(v []float64, shape []int, at []float64) float64 {
	var low [8]int
	var part [8]float64
	for i, x := range at {
		f := math.Floor(x)
		if !(f >= -1 && f < float64(shape[i])) { // true for NaN
			return 0
		}
		low[i], part[i] = int(f), x-f
	}
	var sum float64
corners:
	for corner := range 1 << len(at) {
		weight, o := 1.0, 0
		for i, d := range shape {
			p, q := low[i], 1-part[i]
			if corner>>i&1 == 1 {
				p, q = p+1, part[i]
			}
			if p < 0 || p >= d || q == 0 {
				continue corners
			}
			weight *= q
			o = o*d + p
		}
		sum += weight * v[o]
	}
	return sum
}
