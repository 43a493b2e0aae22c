package std

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Trilu keeps a triangle.
var Trilu = ops.Register(&ir.Op{
	Name: "Trilu", Since: 14,
	Doc: "The part of each matrix on and above (upper) or below its k-th diagonal; zeros elsewhere.",
	In:  ops.Sig("input:T[...,N,M]", "k:int64?"), Out: ops.Sig("output:T[...,N,M]"), Elems: elems("T", ops.Any),
	Attrs: []ir.AttrSpec{intAttr("upper", 1, "whether the upper part is kept")},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "input")
		if err != nil {
			return nil, err
		}
		if x.Rank() < 2 {
			return nil, fmt.Errorf("expected matrices, found %s", x)
		}
		k := int64(0)
		if ops.Tensor(in, 1) != nil {
			if k, err = scalarInt(c, in, 1, "k"); err != nil {
				return nil, err
			}
		}
		out := ops.New(c, x.DType(), x.Shape()...)
		rows, cols := x.Dim(-2), x.Dim(-1)
		k = min(max(k, -int64(rows)), int64(cols))
		m := newMover(c, out, x)
		for r := range ops.Each(c, product(x.Shape()[:x.Rank()-1])) {
			at := min(max(r%rows+int(k), 0), cols) // where the diagonal crosses the row
			from, to := at, cols
			if getInt(c.Node, "upper") == 0 {
				from, to = 0, min(max(r%rows+int(k)+1, 0), cols)
			}
			m.copy(r*cols+from, r*cols+from, to-from)
		}
		return ops.One(out, nil)
	},
	// Elements of a matrix are kept or cleared by their position in it, so one step does not determine the result.
	Along:    alongKeep(func(_ *ir.Node, axis, rank int) bool { return axis >= rank-2 }),
	Gradient: gradTrilu,
	Linear:   ops.LinearFirst,
	Tol:      ir.Exact,
})

var eyeTypes = append(slices.Clone(ops.Numbers), tensor.Bool)

// EyeLike returns a matrix with ones on a diagonal.
var EyeLike = ops.Same(ops.Register(&ir.Op{
	Name: "EyeLike", Since: 22, Doc: "A matrix of the input's shape with ones on its k-th diagonal, zeros elsewhere.",
	In: ops.Sig("input:T1[N,M]"), Out: ops.Sig("output:T2[N,M]"),
	Elems: map[string][]tensor.DType{"T1": eyeTypes, "T2": eyeTypes},
	Attrs: []ir.AttrSpec{intAttr("dtype", nil, "element type, by ONNX's number; absent: the input's"),
		intAttr("k", 0, "number of the diagonal, positive above the main one")},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if _, err := ops.Bind(n); err != nil {
			return nil, err
		}
		d, err := dtypeAttr(n, eyeTypes, n.In(0).Elem())
		if err != nil {
			return nil, err
		}
		t := tensorIn(n, 0)
		return one(&ir.TensorType{Elem: d, Shape: t.Shape, NoRank: t.NoRank})
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "input")
		if err != nil {
			return nil, err
		}
		if x.Rank() != 2 {
			return nil, fmt.Errorf("expected a matrix, found %s", x)
		}
		d, err := dtypeAttr(c.Node, eyeTypes, c.Node.In(0).Elem())
		if err != nil {
			return nil, err
		}
		rows, cols := x.Dim(0), x.Dim(1)
		k := min(max(getInt(c.Node, "k"), -int64(rows)), int64(cols))
		unit, err := ops.Real(c, d, []float64{1})
		if err != nil {
			return nil, err
		}
		y := ops.New(c, unit.DType(), rows, cols)
		m := newMover(c, y, unit)
		for i := range ops.Each(c, rows) {
			if j := i + int(k); j >= 0 && j < cols {
				m.copy(i*cols+j, 0, 1)
			}
		}
		return []tensor.Datum{y}, nil
	},
	// The result depends only on the sizes of the input, and has the same sizes.
	Along: alongKeep(func(*ir.Node, int, int) bool { return false }), Gradient: ops.GradientZero, Tol: ir.Exact,
}), 9)

// dtypeAttr reads the attribute dtype. It returns def if it is absent.
func dtypeAttr(n *ir.Node, allowed []tensor.DType, def tensor.DType) (tensor.DType, error) {
	k, ok := n.Attrs.Get("dtype").(int64)
	if !ok {
		return def, nil
	}
	if k < 0 || k > 255 || !slices.Contains(allowed, tensor.DType(k)) {
		return def, fmt.Errorf("attribute dtype: %d is not among %v", k, allowed)
	}
	return tensor.DType(k), nil
}

// TensorScatter writes steps into a cache.
var TensorScatter = ops.Register(&ir.Op{
	Name: "TensorScatter", Since: 24,
	Doc: "past_cache with the steps along axis from write_indices[b] on (default 0) of each sample b replaced by " +
		"those of update; modulo the length of the cache if mode is circular.",
	In: ops.Sig("past_cache:T[...]", "update:T", "write_indices:int64[_]?"), Out: ops.Sig("present_cache:T[...]"),
	Elems: elems("T", ops.Any),
	Attrs: []ir.AttrSpec{intAttr("axis", -2, "the axis of the steps; not the first"),
		{Name: "mode", Kind: ir.AttrString, Default: "linear", OneOf: []string{"linear", "circular"},
			Doc: "continuation after the end of the cache"}},
	Infer: inferShape(func(n *ir.Node, in ir.Shape) (ir.Shape, error) {
		a, err := ops.Axis(getInt(n, "axis"), len(in))
		if err == nil && a == 0 {
			err = fmt.Errorf("axis %d is the axis of the samples", a)
		}
		return in, err
	}),
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "past_cache")
		if err != nil {
			return nil, err
		}
		up, err := need(in, 1, "update")
		if err != nil {
			return nil, err
		}
		if err := sameElem(x, up); err != nil {
			return nil, err
		}
		a, err := ops.Axis(getInt(c.Node, "axis"), x.Rank())
		if err != nil || a == 0 {
			return nil, fmt.Errorf("axis %d of %s", getInt(c.Node, "axis"), x)
		}
		want := slices.Clone(x.Shape())
		if up.Rank() == x.Rank() {
			want[a] = up.Dim(a)
		}
		if !slices.Equal(want, up.Shape()) || up.Dim(a) > x.Dim(a) {
			return nil, fmt.Errorf("update %s does not fit into %s along axis %d", up, x, a)
		}
		at, err := ints(c, in, 2)
		if err != nil {
			return nil, err
		}
		if at == nil {
			at = ops.Make[int64](c, x.Dim(0))
		}
		if len(at) != x.Dim(0) {
			return nil, fmt.Errorf("write_indices: %d numbers for %d samples", len(at), x.Dim(0))
		}
		outer, size, inner := splitAt(x.Shape(), a)
		steps, circular := up.Dim(a), getStr(c.Node, "mode") == "circular"
		for b, p := range ops.All(c, at) {
			if circular && size > 0 {
				at[b] = (p%int64(size) + int64(size)) % int64(size)
			} else if p < 0 || p > int64(size-steps) {
				return nil, fmt.Errorf("write_indices[%d] is %d: %d steps do not fit into %d from there", b, p, steps,
					size)
			}
		}
		out := ops.Copy(c, x)
		m := newMover(c, out, up)
		for o := range outer {
			c.Step(1)
			p := int(at[o*x.Dim(0)/outer])
			for s := range ops.Each(c, steps) {
				m.copy((o*size+(p+s)%size)*inner, (o*steps+s)*inner, inner)
			}
		}
		return ops.One(out, nil)
	},
	// The axis of the steps is filled by index. The others are treated separately.
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		rank := len(n.In(0).Shape())
		a, err := ops.Axis(getInt(n, "axis"), rank)
		for i, f := range in {
			if err != nil || !f.Constant() && (f.Axis == a && i < 2 || i == 2 && f.Axis != 0) {
				return spread(n, ops.Global(n, in))
			}
		}
		return spread(n, ops.Join(n, in, []int{rank, rank, rank}[:len(in)], rank))
	},
	Gradient: ops.GradientMoved(0, 1),
	Linear:   ops.LinearIn([]int{0, 1}),
	Tol:      ir.Exact,
})
