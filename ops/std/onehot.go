package std

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// OneHot converts indices to indicator vectors.
var OneHot = ops.Register(&ir.Op{
	Name: "OneHot", Since: 11,
	Doc: "A new axis of size depth, with values[1] at the index in indices and values[0] elsewhere. An index outside " +
		"of -depth … depth-1 has values[0] only.",
	In: ops.Sig("indices:T1", "depth:T2", "values:T3[2]"), Out: ops.Sig("output:T3"), SizedBy: []int{1},
	Elems: map[string][]tensor.DType{"T1": ops.Numbers, "T2": ops.Numbers, "T3": ops.Any},
	Attrs: []ir.AttrSpec{intAttr("axis", -1, "index of the new axis")},
	Infer: inferAs(elemOf(2), func(n *ir.Node, in ir.Shape) (ir.Shape, error) {
		a, err := ops.Axis(getInt(n, "axis"), len(in)+1)
		if err != nil {
			return nil, err
		}
		depth := ir.Unknown
		if v := n.In(1).Const; v != nil {
			if f, err := v.Float64s(); err == nil && len(f) == 1 && f[0] >= 0 && f[0] < ops.MaxElems {
				depth = ir.Const(int64(f[0]))
			}
		} else if d, ok := ops.DimsOf(n.In(1)); ok && len(d) == 1 && n.In(1).Elem().IsInt() {
			if k, known := d[0].Known(); !known || k >= 0 {
				depth = d[0]
			}
		}
		return slices.Insert(slices.Clone(in), a, depth), nil
	}),
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		it, err := need(in, 0, "indices")
		if err != nil {
			return nil, err
		}
		values, err := need(in, 2, "values")
		if err != nil {
			return nil, err
		}
		d := ops.F64(c, in, 1)
		if len(d) != 1 || !(d[0] >= 0 && d[0] <= ops.MaxElems) || values.Len() != 2 {
			return nil, fmt.Errorf("depth %v and values %s: expected one size and two values", d, values)
		}
		depth := int(d[0])
		a, err := ops.Axis(getInt(c.Node, "axis"), it.Rank()+1)
		if err != nil {
			return nil, err
		}
		out, err := alloc(c, values.DType(), slices.Insert(slices.Clone(it.Shape()), a, depth))
		if err != nil {
			return nil, err
		}
		fillWith(c, out, values)
		idx, err := ops.Float64s(c, it)
		if err != nil {
			return nil, err
		}
		m, inner := newMover(c, out, values), product(it.Shape()[a:])
		for i, f := range ops.All(c, idx) {
			if !(f >= -float64(depth) && f < float64(depth)) { // a depth of 2.5 is 2
				continue
			}
			k := int(f)
			if k < 0 {
				k += depth
			}
			m.copy((i/inner*depth+k)*inner+i%inner, 1, 1)
		}
		return ops.One(out, nil)
	},
	Along: alongMove(func(n *ir.Node, axis int) int {
		a, err := ops.Axis(getInt(n, "axis"), len(n.In(0).Shape())+1)
		switch {
		case err != nil:
			return -1
		case a <= axis:
			return axis + 1
		}
		return axis
	}),
	Gradient: ops.GradientMoved(2),
	Linear:   ops.LinearIn([]int{2}),
	Tol:      ir.Exact,
})
