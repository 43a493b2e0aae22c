package std

import (
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Reshape returns the same elements in another shape.
var Reshape = ops.Register(&ir.Op{
	Name: "Reshape", Since: 24,
	Doc: "data with another shape: 0 copies the dimension at its index (unless allowzero), and one -1 is computed " +
		"from the number of elements.",
	Reshapes: true,
	In:       ops.Sig("data:T", "shape:int64[_]"), Out: ops.Sig("reshaped:T"), Elems: elems("T", ops.Any),
	Attrs: []ir.AttrSpec{intAttr("allowzero", 0, "whether 0 means an empty dimension")},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if _, err := ops.Bind(n); err != nil {
			return nil, err
		}
		x := tensorIn(n, 0)
		want, ok := ops.DimsOf(n.In(1))
		if !ok {
			return one(noRank(x.Elem))
		}
		out, err := reshapedDims(n, x, want)
		if err != nil {
			return nil, err
		}
		return one(typed(x.Elem, out))
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "data")
		if err != nil {
			return nil, err
		}
		want, err := ints(c, in, 1)
		if err != nil {
			return nil, err
		}
		shape, copied, rest := ops.Make[int](c, len(want)), ops.Make[bool](c, len(want)), -1
		for i, d := range want {
			switch {
			case d == -1 && rest < 0:
				rest, d = i, 1
			case d == 0 && getInt(c.Node, "allowzero") == 0:
				copied[i] = true
				if i >= x.Rank() {
					return nil, fmt.Errorf("shape %v: 0 at place %d has nothing to copy from %s", want, i, x)
				}
				d = int64(x.Dim(i))
			case d < 0:
				return nil, fmt.Errorf("shape %v: %d at place %d", want, d, i)
			}
			shape[i] = tensor.Extent(d)
		}
		if rest >= 0 {
			shape[rest] = 1
			n, err := tensor.Size(shape)
			if err != nil {
				return nil, err
			}
			switch {
			case n == 0 && x.Len() == 0:
				out := make(ir.Shape, len(shape))
				for i, k := range shape {
					out[i] = ir.Const(int64(k))
				}
				size, _ := leftOver(ir.Of(x).Shape, out, copied, rest).Known()
				shape[rest] = int(size)
			case n == 0 || x.Len()%n != 0:
				return nil, fmt.Errorf("shape %v does not divide the %d elements of %s", want, x.Len(), x)
			default:
				shape[rest] = x.Len() / n
			}
		}
		return ops.One(x.Reshape(shape...))
	},
	Gradient: ops.GradientReshaped,
	Linear:   ops.LinearFirst,
	Along:    alongMove(reshapedAxis), Tol: ir.Exact,
})

func reshapedDims(n *ir.Node, x *ir.TensorType, want ir.Shape) (ir.Shape, error) {
	out, copied, rest := slices.Clone(want), make([]bool, len(want)), -1
	zero := getInt(n, "allowzero") != 0
	for i, d := range want {
		k, known := d.Known()
		switch {
		case known && k == -1:
			if rest >= 0 {
				return nil, fmt.Errorf("shape %v: more than one -1", want)
			}
			rest = i
		case known && k == 0 && !zero:
			switch {
			case x.NoRank:
				out[i] = ir.Unknown
			case i >= len(x.Shape):
				return nil, fmt.Errorf("shape %v: 0 at place %d has nothing to copy from %v", want, i, x.Shape)
			default:
				out[i], copied[i] = x.Shape[i], true
			}
		case known && k < 0:
			return nil, fmt.Errorf("shape %v: %d at place %d", want, k, i)
		}
	}
	if x.NoRank {
		if rest >= 0 {
			out[rest] = ir.Unknown
		}
		return out, nil
	}
	if rest < 0 {
		p, okP := x.Shape.Size().Known()
		q, okQ := out.Size().Known()
		if okP && okQ && p != q {
			return nil, fmt.Errorf("cannot reshape %v to %v", x.Shape, out)
		}
		return out, nil
	}
	out[rest] = leftOver(x.Shape, out, copied, rest)
	if k, ok := out[rest].Known(); ok {
		q, okQ := out.Size().Known()
		p, okP := x.Shape.Size().Known()
		if okP && okQ && p != q {
			return nil, fmt.Errorf("shape %v does not divide %v (%d left)", want, x.Shape, k)
		}
	}
	return out, nil
}

// leftOver returns the dimension for -1: the size of the input divided by the other output dimensions, after common
// dimensions are canceled. Copied ones are, empty or not: an empty batch has samples of the same size.
func leftOver(in, out ir.Shape, copied []bool, rest int) ir.Dim {
	var num, den ir.Shape
	for i, d := range in {
		if i >= len(copied) || !copied[i] {
			num = append(num, d)
		}
	}
	for i, d := range out {
		if i != rest && !copied[i] {
			den = append(den, d)
		}
	}
	for i := 0; i < len(den); {
		if j := slices.IndexFunc(num, den[i].Equal); j >= 0 {
			if k, ok := den[i].Known(); !ok || k != 0 {
				num, den = slices.Delete(num, j, j+1), slices.Delete(den, i, i+1)
				continue
			}
		}
		i++
	}
	d := den.Size()
	if k, ok := d.Known(); ok && k == 0 {
		if n, ok := num.Size().Known(); ok && n == 0 {
			return ir.Const(0)
		}
		return ir.Unknown
	}
	return num.Size().FloorDiv(d)
}

// reshapedAxis returns the axis of the output with the same size as the input's axis, and as many elements before it.
// It returns -1 if there is none.
func reshapedAxis(n *ir.Node, axis int) int {
	in, out := n.In(0).Shape(), n.Outputs[0].Shape()
	if axis >= len(in) {
		return -1
	}
	before := in[:axis].Size()
	for i, d := range out {
		if d.Equal(in[axis]) && out[:i].Size().Equal(before) {
			return i
		}
	}
	return -1
}

// Flatten returns a matrix.
var Flatten = ops.Register(&ir.Op{
	Name: "Flatten", Since: 24, Doc: "input as a matrix: the axes before axis are its rows, the others its columns.",
	Reshapes: true,
	In:       ops.Sig("input:T"), Out: ops.Sig("output:T[_,_]"), Elems: elems("T", ops.Any),
	Attrs: []ir.AttrSpec{intAttr("axis", 1, "first axis of the columns")},
	Infer: inferAs(elemOf(0), func(n *ir.Node, in ir.Shape) (ir.Shape, error) {
		a, err := flattenAxis(n, len(in))
		if err != nil {
			return nil, err
		}
		return ir.Shape{in[:a].Size(), in[a:].Size()}, nil
	}),
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "input")
		if err != nil {
			return nil, err
		}
		a, err := flattenAxis(c.Node, x.Rank())
		if err != nil {
			return nil, err
		}
		return ops.One(x.Reshape(product(x.Shape()[:a]), product(x.Shape()[a:])))
	},
	Gradient: ops.GradientReshaped,
	Linear:   ops.LinearFirst,
	Along:    alongMove(reshapedAxis), Tol: ir.Exact,
})

func flattenAxis(n *ir.Node, rank int) (int, error) {
	a := getInt(n, "axis")
	if a == int64(rank) {
		return rank, nil
	}
	return ops.Axis(a, rank)
}

// Squeeze removes axes of size 1.
var Squeeze = ops.Register(&ir.Op{
	Name: "Squeeze", Since: 24, Doc: "data without the given axes, or without all axes of size 1 if none are given.",
	Reshapes: true,
	In:       ops.Sig("data:T", "axes:int64?"), Out: ops.Sig("squeezed:T"), Elems: elems("T", ops.Any),
	Infer: inferShape(func(n *ir.Node, in ir.Shape) (ir.Shape, error) {
		drop, ok, err := squeezeAxes(n, in)
		if err != nil || !ok {
			return nil, err
		}
		out := ir.Shape{}
		for i, d := range in {
			if !slices.Contains(drop, i) {
				out = append(out, d)
			} else if k, ok := d.Known(); ok && k != 1 {
				return nil, fmt.Errorf("axis %d of %v is not of size 1", i, in)
			}
		}
		return out, nil
	}),
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "data")
		if err != nil {
			return nil, err
		}
		given, err := ints(c, in, 1)
		if err != nil {
			return nil, err
		}
		axes, err := ops.AxesOf(given, x.Rank())
		if err != nil {
			return nil, err
		}
		out := []int{}
		for i, d := range x.Shape() {
			drop := slices.Contains(axes, i)
			if drop && d != 1 {
				return nil, fmt.Errorf("axis %d of %s is not of size 1", i, x)
			}
			if drop || given == nil && d == 1 {
				continue
			}
			out = append(out, d)
		}
		return ops.One(x.Reshape(out...))
	},
	Along: alongMove(func(n *ir.Node, axis int) int {
		drop, ok, err := squeezeAxes(n, n.In(0).Shape())
		if !ok || err != nil || slices.Contains(drop, axis) {
			return -1
		}
		before := 0
		for _, a := range drop {
			if a < axis {
				before++
			}
		}
		return axis - before
	}), Tol: ir.Exact,
	Gradient: ops.GradientReshaped,
	Linear:   ops.LinearFirst,
})

// squeezeAxes returns the axes that a Squeeze removes. ok is false if they are known only at run time.
func squeezeAxes(n *ir.Node, in ir.Shape) (axes []int, ok bool, err error) {
	if n.In(1) != nil {
		given, ok := ops.ConstInts(n.In(1))
		if !ok {
			return nil, false, nil
		}
		axes, err = ops.AxesOf(given, len(in))
		return axes, true, err
	}
	for i, d := range in {
		k, known := d.Known()
		if !known {
			return nil, false, nil
		}
		if k == 1 {
			axes = append(axes, i)
		}
	}
	return axes, true, nil
}

// Unsqueeze inserts axes of size 1.
var Unsqueeze = ops.Register(&ir.Op{
	Name: "Unsqueeze", Since: 24, Doc: "data with axes of size 1 inserted; axes are indices in the output.",
	Reshapes: true,
	In:       ops.Sig("data:T", "axes:int64"), Out: ops.Sig("expanded:T"), Elems: elems("T", ops.Any),
	Infer: inferShape(func(n *ir.Node, in ir.Shape) (ir.Shape, error) {
		given, ok := ops.ConstInts(n.In(1))
		if !ok {
			if s := n.In(1).Shape(); len(s) == 1 {
				if k, ok := s[0].Known(); ok && k >= 0 && k < 64 {
					return unknownShape(len(in) + int(k)), nil
				}
			}
			return nil, nil
		}
		axes, err := ops.AxesOf(given, len(in)+len(given))
		if err != nil {
			return nil, err
		}
		out := slices.Clone(in)
		if out == nil {
			out = ir.Shape{}
		}
		for _, a := range axes {
			out = slices.Insert(out, a, ir.Const(1))
		}
		return out, nil
	}),
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "data")
		if err != nil {
			return nil, err
		}
		given, err := ints(c, in, 1)
		if err != nil {
			return nil, err
		}
		axes, err := ops.AxesOf(given, x.Rank()+len(given))
		if err != nil {
			return nil, err
		}
		out := slices.Clone(x.Shape())
		for _, a := range axes {
			out = slices.Insert(out, a, 1)
		}
		return ops.One(x.Reshape(out...))
	},
	Along: alongMove(func(n *ir.Node, axis int) int {
		given, ok := ops.ConstInts(n.In(1))
		if !ok {
			return -1
		}
		axes, err := ops.AxesOf(given, len(n.In(0).Shape())+len(given))
		if err != nil {
			return -1
		}
		for _, a := range axes { // sorted, so each insertion counts the previous ones
			if a <= axis {
				axis++
			}
		}
		return axis
	}), Tol: ir.Exact,
	Gradient: ops.GradientReshaped,
	Linear:   ops.LinearFirst,
})

// Expand broadcasts to a shape.
var Expand = ops.Register(&ir.Op{
	Name: "Expand", Since: 13, Doc: "input broadcast with shape, by the multidirectional rule.",
	In: ops.Sig("input:T", "shape:int64[_]"), Out: ops.Sig("output:T"), Elems: elems("T", ops.Any),
	Infer: inferShape(func(n *ir.Node, in ir.Shape) (ir.Shape, error) {
		want, ok := ops.DimsOf(n.In(1))
		if !ok {
			return nil, nil
		}
		return ops.BroadcastShape(in, want)
	}),
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "input")
		if err != nil {
			return nil, err
		}
		want, err := ints(c, in, 1)
		if err != nil {
			return nil, err
		}
		target, err := intShape(c, want)
		if err != nil {
			return nil, err
		}
		shape, err := ops.Broadcast(x.Shape(), target)
		if err != nil {
			return nil, err
		}
		out, err := alloc(c, x.DType(), shape)
		if err != nil {
			return nil, err
		}
		m, i := newMover(c, out, x), 0
		ops.Walk(c, shape, ops.BroadcastStrides(x.Shape(), shape), 0, func(o int) {
			m.copy(i, o, 1)
			i++
		})
		return ops.One(out, nil)
	},
	Along: alongMove(func(n *ir.Node, axis int) int {
		return axis + len(n.Outputs[0].Shape()) - len(n.In(0).Shape())
	}), Tol: ir.Exact,
	Gradient: gradExpand,
	Linear:   ops.LinearFirst,
})

// intShape converts a vector of sizes, which must not be negative.
func intShape(c *ir.EvalCtx, v []int64) ([]int, error) {
	out := ops.Make[int](c, len(v))
	for i, d := range v {
		if d < 0 || d > min(math.MaxInt32*16, math.MaxInt) {
			return nil, fmt.Errorf("shape %v: size %d at place %d", v, d, i)
		}
		out[i] = int(d)
	}
	_, err := ops.Elems(out)
	return out, err
}
