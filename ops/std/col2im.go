package std

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Col2Im adds columns to images.
var Col2Im = ops.Register(&ir.Op{
	Name: "Col2Im", Since: 18,
	Doc: "Images (N,C,…) of sizes image_shape: the sums of the blocks in the columns of input (N,C*taps,blocks) at " +
		"their positions.",
	In: ops.Sig("input:T[_,_,_]", "image_shape:int64[_]", "block_shape:int64[_]"), Out: ops.Sig("output:T"),
	Elems: elems("T", ops.Numbers),
	Attrs: []ir.AttrSpec{intsAttr("dilations", "distance of taps per axis (default 1)"),
		intsAttr("pads", "all begins, then all ends (default 0)"), intsAttr("strides", "steps per axis (default 1)")},
	Infer: inferShape(func(n *ir.Node, in ir.Shape) (ir.Shape, error) {
		image, ok := ops.DimsOf(n.In(1))
		if !ok {
			return nil, nil
		}
		c := ir.Unknown
		if block, ok := ops.DimsOf(n.In(2)); ok {
			c = in[1].FloorDiv(block.Size())
		}
		return append(ir.Shape{in[0], c}, image...), nil
	}),
	Eval:       evalCol2Im,
	NoGradient: ops.NotYet,
	Linear:     ops.LinearFirst,
	Along:      alongKeep(func(_ *ir.Node, axis, _ int) bool { return axis > 0 }), Tol: ir.Summing,
})

// axisBytes is the size of what evalCol2Im keeps for each axis. The number of axes is that of image_shape's elements,
// so it follows from data: the window, and the sizes of the image, its blocks, its places, the tap, and strides of
// three of them.
const axisBytes = 128

func evalCol2Im(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	x, err := need(in, 0, "input")
	if err != nil {
		return nil, err
	}
	image, err := ints(c, in, 1)
	if err != nil {
		return nil, err
	}
	block, err := ints(c, in, 2)
	if err != nil {
		return nil, err
	}
	k := len(image)
	if k == 0 || len(block) != k || x.Rank() != 3 {
		return nil, fmt.Errorf(
			"input %s, image_shape %v, block_shape %v: expected three axes, and as many sizes of blocks as of images",
			x, image, block)
	}
	c.Charge(int64(k) * axisBytes)
	win, err := ops.Windows(c.Node, k)
	if err != nil {
		return nil, err
	}
	places, bs := make([]int, k), make([]int, k)
	taps := int64(1)
	for i, d := range image {
		if d < 0 || d > ops.MaxElems || block[i] < 1 || block[i] > int64(x.Dim(1)) {
			return nil, fmt.Errorf("image_shape %v, block_shape %v: sizes are out of range for input %s", image, block,
				x)
		}
		if taps *= block[i]; taps > int64(x.Dim(1)) {
			return nil, fmt.Errorf("block_shape %v: more taps than input %s has", block, x)
		}
		n, _ := win[i].Size(ir.Const(d), ir.Const(block[i])).Known()
		places[i], bs[i] = int(max(0, n)), int(block[i])
	}
	if _, err := ops.Elems(places); err != nil {
		return nil, err
	}
	if x.Dim(1)%int(taps) != 0 || product(places) != x.Dim(2) {
		return nil, fmt.Errorf("input %s: expected a multiple of %d rows and %d columns", x, taps, product(places))
	}
	channels := x.Dim(1) / int(taps)
	shape := []int{x.Dim(0), channels}
	for _, d := range image {
		shape = append(shape, tensor.Extent(d))
	}
	if _, err := ops.Elems(shape); err != nil {
		return nil, err
	}
	v, err := ops.Float64s(c, x)
	if err != nil {
		return nil, err
	}
	y := ops.Make[float64](c, product(shape))
	size, tap := product(shape[2:]), make([]int, k)
	room := [2][]int{ops.Make[int](c, product(places)), ops.Make[int](c, product(places))}
	for t := range int(taps) {
		c.Step(1)
		unravel(t, bs, tap)
		from, to := tapPlaces(c, tap, win, places, shape[2:], room)
		for p := range shape[0] * channels {
			c.Step(1)
			src, dst := v[(p*int(taps)+t)*x.Dim(2):], y[p*size:]
			for i, o := range ops.All(c, to) {
				dst[o] += src[from[i]]
			}
		}
	}
	return ops.One(ops.Real(c, x.DType(), y, shape...))
}
