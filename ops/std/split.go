package std

import (
	"fmt"
	"slices"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Split splits a tensor along an axis.
var Split = ops.Register(&ir.Op{
	Name: "Split", Since: 18,
	Doc: "Parts of input along axis: of the sizes in split, or num_outputs parts of equal size, the last of which " +
		"may be smaller.",
	In:  ops.Sig("input:T", "split:int64[_]?"),
	Out: []ir.Param{{Name: "outputs", Elem: "T", Variadic: true}}, Elems: elems("T", ops.Any),
	Attrs: []ir.AttrSpec{intAttr("axis", 0, "the axis"), intAttr("num_outputs", nil, "number of equal parts")},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if _, err := ops.Bind(n); err != nil {
			return nil, err
		}
		t := tensorIn(n, 0)
		out := make([]ir.Type, len(n.Outputs))
		if err := checkSplit(n, len(n.Outputs)); err != nil {
			return nil, err
		}
		var axis int
		if !t.NoRank {
			var err error
			if axis, err = ops.Axis(getInt(n, "axis"), len(t.Shape)); err != nil {
				return nil, err
			}
		}
		sizes, ok := ops.ConstInts(n.In(1))
		if ok && len(sizes) != len(out) {
			return nil, fmt.Errorf("split has %d sizes, the node %d outputs", len(sizes), len(out))
		}
		count := int64(len(out))
		for i := range out {
			if n.Step(4); t.NoRank {
				out[i] = noRank(t.Elem)
				continue
			}
			s := slices.Clone(t.Shape)
			d := s[axis]
			switch {
			case ok:
				s[axis] = ir.Const(sizes[i])
			case n.In(1) != nil:
				s[axis] = ir.Unknown
			default:
				s[axis] = equalPart(d, int64(i), count)
			}
			out[i] = typed(t.Elem, s)
		}
		return out, nil
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "input")
		if err != nil {
			return nil, err
		}
		count := len(c.Node.Outputs)
		if err := checkSplit(c.Node, count); err != nil {
			return nil, err
		}
		axis, err := ops.Axis(getInt(c.Node, "axis"), x.Rank())
		if err != nil {
			return nil, err
		}
		sizes, err := ints(c, in, 1)
		if err != nil {
			return nil, err
		}
		if sizes == nil {
			sizes = equalParts(c, x.Dim(axis), count)
		}
		if len(sizes) != count {
			return nil, fmt.Errorf("split has %d sizes, the node %d outputs", len(sizes), count)
		}
		parts, err := split(c, x, axis, sizes)
		if err != nil {
			return nil, err
		}
		out := make([]tensor.Datum, count)
		for i, p := range parts {
			out[i] = p
		}
		return out, nil
	},
	Along: alongKeep(func(n *ir.Node, axis, rank int) bool {
		a, err := ops.Axis(getInt(n, "axis"), rank)
		return err != nil || a == axis
	}),
	Moves: func(n *ir.Node) (pieces []ir.Piece, ok bool) {
		shape := n.In(0).Shape()
		axis, err := ops.Axis(getInt(n, "axis"), len(shape))
		if err != nil || checkSplit(n, len(n.Outputs)) != nil {
			return nil, false
		}
		size, ok := shape[axis].Known()
		if !ok {
			return nil, false
		}
		sizes := equalParts(nil, int(size), len(n.Outputs))
		if n.In(1) != nil {
			if sizes, ok = ops.ConstInts(n.In(1)); !ok || len(sizes) != len(n.Outputs) {
				return nil, false
			}
		}
		pieces = make([]ir.Piece, 0, len(sizes))
		at := int64(0)
		for i, k := range sizes {
			if n.Step(1); k < 0 || k > size-at {
				return nil, false
			}
			from := make([]int, len(shape))
			from[axis] = int(at)
			if n.Outputs[i] != nil {
				pieces = append(pieces, ir.Piece{Output: i, From: from})
			}
			at += k
		}
		return pieces, at == size
	},
	Gradient: gradSplit,
	Linear:   ops.LinearFirst,
	Tol:      ir.Exact,
})

func checkSplit(n *ir.Node, count int) error {
	if k, ok := n.Attrs.Get("num_outputs").(int64); ok && (n.In(1) != nil || k != int64(count)) {
		return fmt.Errorf("num_outputs is %d, with split given: %v; the node has %d outputs", k, n.In(1) != nil, count)
	}
	return nil
}

// equalPart returns the size of part i of a dimension, as in equalParts.
func equalPart(d ir.Dim, i, count int64) ir.Dim {
	n := ir.Const(count)
	if even := d.FloorDiv(n); even.Mul(n).Equal(d) {
		return even
	}
	part := d.Add(ir.Const(count - 1)).FloorDiv(n)
	left := d.Sub(part.Mul(ir.Const(i)))
	switch {
	case i == 0:
		return part
	case i == 1 && count == 2:
		return left
	}
	return left.Max(ir.Const(0)).Min(part) // the last parts are empty if there are more parts than elements
}

// equalParts cuts a dimension into parts of one size, rounded up. The last ones are smaller, or empty.
func equalParts(c *ir.EvalCtx, dim, count int) []int64 {
	sizes, part := ops.Make[int64](c, count), (dim+count-1)/count
	for i := range ops.Each(c, len(sizes)) {
		sizes[i] = int64(min(part, dim))
		dim -= min(part, dim)
	}
	return sizes
}

// split cuts x along axis into parts of the given sizes, which add up to its dimension.
func split(c *ir.EvalCtx, x *tensor.Tensor, axis int, sizes []int64) ([]*tensor.Tensor, error) {
	left := int64(x.Dim(axis))
	for _, k := range ops.All(c, sizes) {
		if k < 0 || k > left {
			return nil, fmt.Errorf("split %v does not fit axis %d of %s", few(sizes), axis, x)
		}
		left -= k
	}
	if left != 0 {
		return nil, fmt.Errorf("split %v leaves %d of axis %d of %s", few(sizes), left, axis, x)
	}
	outer, n, inner := splitAt(x.Shape(), axis)
	c.Charge(ops.ItemSize * int64(len(sizes)))
	out, at := ops.Make[*tensor.Tensor](c, len(sizes)), 0
	for i, k := range sizes {
		c.Step(200)
		shape := slices.Clone(x.Shape())
		shape[axis] = int(k)
		out[i] = ops.New(c, x.DType(), shape...)
		m, run := newMover(c, out[i], x), int(k)*inner
		for o := range ops.Each(c, outer) {
			m.copy(o*run, o*n*inner+at, run)
		}
		at += run
	}
	return out, nil
}

// few returns the first sizes, for messages.
func few(sizes []int64) string {
	if len(sizes) <= 8 {
		return fmt.Sprint(sizes)
	}
	return strings.TrimSuffix(fmt.Sprint(sizes[:8]), "]") + " …]"
}
