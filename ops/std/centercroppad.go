package std

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// CenterCropPad crops or pads axes to given sizes, around their center.
var CenterCropPad = ops.Register(&ir.Op{
	Name: "CenterCropPad", Since: 18,
	Doc: "input_data with its axes (default: all) cropped or padded with zeros to the sizes in shape, around the " +
		"center. Of an odd difference the smaller half comes first.",
	In: ops.Sig("input_data:T", "shape:Tind[_]"), Out: ops.Sig("output_data:T"),
	Elems: map[string][]tensor.DType{"T": ops.Any, "Tind": indexTypes},
	Attrs: []ir.AttrSpec{intsAttr("axes", "axes of the sizes in shape")},
	Infer: inferShape(func(n *ir.Node, in ir.Shape) (ir.Shape, error) {
		axes, err := resizeAxes(n, len(in))
		if err != nil {
			return nil, err
		}
		if s := n.In(1).Shape(); len(s) == 1 {
			if k, ok := s[0].Known(); ok && k != int64(len(axes)) {
				return nil, fmt.Errorf("shape has %d sizes for %d axes", k, len(axes))
			}
		}
		out := slices.Clone(in)
		want, ok := ops.DimsOf(n.In(1))
		for i, a := range axes {
			out[a] = ir.Unknown
			if ok && i < len(want) {
				out[a] = want[i]
			}
		}
		return out, nil
	}),
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "input_data")
		if err != nil {
			return nil, err
		}
		want, err := ints(c, in, 1)
		if err != nil {
			return nil, err
		}
		axes, err := resizeAxes(c.Node, x.Rank())
		if err != nil {
			return nil, err
		}
		if len(want) != len(axes) {
			return nil, fmt.Errorf("shape has %d sizes for %d axes", len(want), len(axes))
		}
		sizes, err := intShape(c, want)
		if err != nil {
			return nil, err
		}
		shape, kept := slices.Clone(x.Shape()), slices.Clone(x.Shape())
		xOff, yOff, xStr := 0, 0, ops.Strides(x.Shape())
		for i, a := range axes {
			shape[a] = sizes[i]
		}
		out, err := alloc(c, x.DType(), shape)
		if err != nil {
			return nil, err
		}
		yStr := ops.Strides(shape)
		for _, a := range axes {
			kept[a] = min(x.Dim(a), shape[a])
			xOff += (x.Dim(a) - kept[a]) / 2 * xStr[a]
			yOff += (shape[a] - kept[a]) / 2 * yStr[a]
		}
		m, from, i := newMover(c, out, x), offsets(c, ops.Make[int](c, product(kept)), kept, xStr, xOff), 0
		ops.Walk(c, kept, yStr, yOff, func(o int) {
			m.copy(o, from[i], 1)
			i++
		})
		return ops.One(out, nil)
	},
	Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		x := in[0]
		t, _ := x.TensorType()
		if t.NoRank {
			b.Fail(fmt.Errorf("input_data %v: expected a known number of axes", x.Type))
			return []*ir.Value{nil}
		}
		list, err := resizeAxes(n, len(t.Shape))
		if err != nil {
			b.Fail(err)
			return []*ir.Value{nil}
		}
		at := make([]int64, len(list))
		for i, a := range list {
			at[i] = int64(a)
		}
		axes, zero, two := b.Ints(at...), b.Ints(0), b.Ints(2)
		have := op(b, "Gather", op(b, "Shape", x), axes)
		want := attr(b, "Cast", in[1:2], ir.A("to", int64(tensor.Int64)))
		from := op(b, "Div", op(b, "Max", op(b, "Sub", have, want), zero), two)
		kept := op(b, "Max", op(b, "Min", have, want), zero) // a negative size is left to Pad, which refuses it
		x = op(b, "Slice", x, from, op(b, "Add", from, kept), axes)
		extra := op(b, "Sub", want, kept)
		before := op(b, "Div", extra, two)
		pads := attr(b, "Concat", []*ir.Value{before, op(b, "Sub", extra, before)}, ir.A("axis", 0))
		return []*ir.Value{op(b, "Pad", x, pads, nil, axes)}
	},
	Along: alongKeep(func(n *ir.Node, axis, rank int) bool {
		axes, err := resizeAxes(n, rank)
		out := n.Outputs[0].Shape()
		return err != nil || slices.Contains(axes, axis) &&
			!(len(out) == rank && out[axis].Equal(n.In(0).Shape()[axis]))
	}),
	Linear: ops.LinearFirst,
	Tol:    ir.Exact,
})
