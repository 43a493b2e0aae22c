package std

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// AffineGrid computes the sampling grid of an affine map, for GridSample.
var AffineGrid = ops.Register(&ir.Op{
	Name: "AffineGrid", Since: 20,
	Doc: "Coordinates (N,H,W,2) or (N,D,H,W,3) in an image of the given size (N,C,H,W) or (N,C,D,H,W), mapped by " +
		"theta (N,2,3) or (N,3,4); coordinates run from -1 to 1, last axis first.",
	In: ops.Sig("theta:T1[N,_,_]", "size:int64[_]"), Out: ops.Sig("grid:T1"),
	Elems: map[string][]tensor.DType{"T1": ops.Floats},
	Attrs: []ir.AttrSpec{intAttr("align_corners", 0,
		"whether -1 and 1 are the centers of the outermost elements (1) or their edges (0)")},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if _, err := ops.Bind(n); err != nil {
			return nil, err
		}
		size, ok := ops.DimsOf(n.In(1))
		if !ok {
			return one(noRank(n.In(0).Elem()))
		}
		if len(size) != 4 && len(size) != 5 {
			return nil, fmt.Errorf("size: expected 4 or 5 numbers, found %d", len(size))
		}
		shape := append(ir.Shape{size[0]}, size[2:]...)
		return one(typed(n.In(0).Elem(), append(shape, ir.Const(int64(len(size)-2)))))
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		theta, err := need(in, 0, "theta")
		if err != nil {
			return nil, err
		}
		size, err := ints(c, in, 1)
		if err != nil {
			return nil, err
		}
		k := len(size) - 2
		if k != 2 && k != 3 {
			return nil, fmt.Errorf("size %v: expected 4 or 5 numbers", size)
		}
		if err := ops.SameShape(theta.Shape(), []int{int(size[0]), k, k + 1}); err != nil {
			return nil, fmt.Errorf("theta: %w", err)
		}
		shape, err := intShape(c, append(append([]int64{size[0]}, size[2:]...), int64(k)))
		if err != nil {
			return nil, err
		}
		if _, err := ops.Elems(shape); err != nil {
			return nil, err
		}
		t, corners := ops.F64(c, in, 0), getInt(c.Node, "align_corners") != 0
		y, index, at := ops.Make[float64](c, product(shape))[:0], make([]int, k), ops.Make[float64](c, k)
		for b := range shape[0] {
			c.Step(1)
			for p := range product(shape[1 : k+1]) {
				c.Step(1)
				unravel(p, shape[1:k+1], index)
				for a, i := range index {
					d := float64(shape[a+1])
					x := (2*float64(i)+1)/d - 1
					if corners {
						x = -1
						if d > 1 {
							x = 2*float64(i)/(d-1) - 1
						}
					}
					at[k-1-a] = x
				}
				for r := range k {
					row := t[(b*k+r)*(k+1):]
					sum := row[k]
					for i, x := range at {
						sum += row[i] * x
					}
					y = append(y, sum)
				}
			}
		}
		return ops.One(ops.Real(c, theta.DType(), y, shape...))
	},
	Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		theta, size := in[0], in[1]
		k, err := affineAxes(theta, size)
		if err != nil {
			b.Fail(err)
			return []*ir.Value{nil}
		}
		c := func(v float64) *ir.Value { return b.Const("c", tensor.Scalar(v)) }
		part := func(from, to int64) *ir.Value { return op(b, "Slice", size, b.Ints(from), b.Ints(to), b.Ints(0)) }
		spatial := part(2, k+2)
		column := attr(b, "Concat", []*ir.Value{spatial, b.Ints(1)}, ir.A("axis", 0))
		columns := make([]*ir.Value, k+1) // the coordinates of each position, last axis first, and 1
		for a := range k {
			length := op(b, "Squeeze", part(a+2, a+3))
			i := op(b, "Range", b.Const("c", tensor.Scalar(int64(0))), length, b.Const("c", tensor.Scalar(int64(1))))
			x := op(b, "Mul", attr(b, "Cast", []*ir.Value{i}, ir.A("to", int64(tensor.Float64))), c(2))
			d := attr(b, "Cast", []*ir.Value{length}, ir.A("to", int64(tensor.Float64)))
			if getInt(n, "align_corners") != 0 {
				d = op(b, "Max", op(b, "Sub", d, c(1)), c(1)) // the single position of an axis of size 1 is -1
			} else {
				x = op(b, "Add", x, c(1))
			}
			x = attr(b, "Cast", []*ir.Value{op(b, "Sub", op(b, "Div", x, d), c(1))}, ir.A("to", int64(theta.Elem())))
			shape := make([]int64, k+1)
			for j := range shape {
				shape[j] = 1
			}
			shape[a] = -1
			columns[k-1-a] = op(b, "Expand", op(b, "Reshape", x, b.Ints(shape...)), column)
		}
		columns[k] = op(b, "Expand", constLike(b, theta, 1), column)
		places := op(b, "Reshape", attr(b, "Concat", columns, ir.A("axis", -1)), b.Ints(-1, k+1))
		// Nothing but a check that there is a map for each image.
		theta = attr(b, "Reshape", []*ir.Value{theta, attr(b, "Concat", []*ir.Value{part(0, 1), b.Ints(k, k+1)},
			ir.A("axis", 0))}, ir.A("allowzero", 1))
		grid := op(b, "MatMul", places, attr(b, "Transpose", []*ir.Value{theta}, i64Attr("perm", 0, 2, 1)))
		return []*ir.Value{op(b, "Reshape", grid, attr(b, "Concat", []*ir.Value{part(0, 1), spatial, b.Ints(k)},
			ir.A("axis", 0)))}
	},
	Linear: ops.LinearFirst,
	Along:  alongKeep(func(_ *ir.Node, axis, _ int) bool { return axis > 0 }), Tol: ir.Rounding,
})

// affineAxes returns the number of axes of the image, from the types.
func affineAxes(theta, size *ir.Value) (int64, error) {
	if s := size.Shape(); len(s) == 1 {
		if k, ok := s[0].Known(); ok && (k == 4 || k == 5) {
			return k - 2, nil
		}
	}
	if s := theta.Shape(); len(s) == 3 {
		if k, ok := s[1].Known(); ok && (k == 2 || k == 3) {
			return k, nil
		}
	}
	return 0, fmt.Errorf("theta %v, size %v: expected a known number of axes, 2 or 3", theta.Type, size.Type)
}
