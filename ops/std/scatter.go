package std

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

func scatterReduction() ir.AttrSpec {
	return ir.AttrSpec{Name: "reduction", Kind: ir.AttrString, Default: "none",
		OneOf: []string{"none", "add", "mul", "max", "min"}, Doc: "combination of an update with the element"}
}

// ScatterND writes slices by index vectors.
var ScatterND = ops.Register(&ir.Op{
	Name: "ScatterND", Since: 18,
	Doc: "data, with the slices at the vectors of indices along the last axis of indices replaced by, or combined " +
		"with, those of updates, in order.",
	In: ops.Sig("data:T[...]", "indices:int64", "updates:T"), Out: ops.Sig("output:T[...]"),
	Elems: elems("T", ops.Any),
	Attrs: []ir.AttrSpec{scatterReduction()},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, it, up, err := scatterInputs(in)
		if err != nil {
			return nil, err
		}
		if it.Rank() == 0 {
			return nil, fmt.Errorf("indices: expected at least one axis")
		}
		places, run, err := slicePlaces(c, x, it, 0)
		if err != nil {
			return nil, err
		}
		if up.Len() != len(places)*run {
			return nil, fmt.Errorf("updates %s: expected %d slices of %d elements", up, len(places), run)
		}
		return ops.One(scatter(c, x, up, places, run))
	},
	Gradient: gradScatter,
	Linear:   linearScatter,
	Tol:      ir.Rounding,
})

// ScatterElements writes single elements along an axis.
var ScatterElements = ops.Register(&ir.Op{
	Name: "ScatterElements", Since: 18,
	Doc: "data, with the element at the position of each update, except for the index in indices along axis, " +
		"replaced by, or combined with, the update.",
	In: ops.Sig("data:T[...]", "indices:Tind", "updates:T"), Out: ops.Sig("output:T[...]"),
	Elems: map[string][]tensor.DType{"T": ops.Any, "Tind": indexTypes},
	Attrs: []ir.AttrSpec{intAttr("axis", 0, "the axis"), scatterReduction()},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, it, up, err := scatterInputs(in)
		if err != nil {
			return nil, err
		}
		if err := ops.SameShape(it.Shape(), up.Shape()); err != nil {
			return nil, fmt.Errorf("indices and updates: %w", err)
		}
		places, err := elementPlaces(c, x, it, getInt(c.Node, "axis"))
		if err != nil {
			return nil, err
		}
		return ops.One(scatter(c, x, up, places, 1))
	},
	Gradient: gradScatter,
	Linear:   linearScatter,
	Tol:      ir.Rounding,
})

func scatterInputs(in []tensor.Datum) (x, it, up *tensor.Tensor, err error) {
	if x, err = need(in, 0, "data"); err != nil {
		return
	}
	if it, err = need(in, 1, "indices"); err != nil {
		return
	}
	if up, err = need(in, 2, "updates"); err != nil {
		return
	}
	return x, it, up, sameElem(x, up)
}

// scatter writes runs of updates to places of a copy of x, in order.
func scatter(c *ir.EvalCtx, x, up *tensor.Tensor, places []int, run int) (*tensor.Tensor, error) {
	out := ops.Copy(c, x)
	var join arith
	switch getStr(c.Node, "reduction") {
	case "none":
		m := newMover(c, out, up)
		for i, p := range ops.All(c, places) {
			m.copy(p, i*run, run)
		}
		return out, nil
	case "add":
		join = arith{f: plus, i: func(a, b int64) int64 { return a + b }}
	case "mul":
		join = arith{f: func(a, b float64) float64 { return a * b }, i: func(a, b int64) int64 { return a * b }}
	case "max":
		join = arith{f: func(a, b float64) float64 { return max(a, b) }, i: func(a, b int64) int64 { return max(a, b) },
			u: func(a, b uint64) uint64 { return max(a, b) }}
	case "min":
		join = arith{f: func(a, b float64) float64 { return min(a, b) }, i: func(a, b int64) int64 { return min(a, b) },
			u: func(a, b uint64) uint64 { return min(a, b) }}
	}
	if x.DType().IsInt() {
		v, err := ops.Int64s(c, x)
		if err != nil {
			return nil, err
		}
		w, err := ops.Int64s(c, up)
		if err != nil {
			return nil, err
		}
		f := join.i
		if x.DType() == tensor.Uint64 && join.u != nil {
			f = func(a, b int64) int64 { return int64(join.u(uint64(a), uint64(b))) }
		}
		for i, p := range places {
			c.Step(1)
			for j := range ops.Each(c, run) {
				v[p+j] = f(v[p+j], w[i*run+j])
			}
		}
		return fromInts(c, x.DType(), v, x.Shape()...)
	}
	v, err := ops.Float64s(c, x)
	if err != nil {
		return nil, err
	}
	w, err := ops.Float64s(c, up)
	if err != nil {
		return nil, err
	}
	for i, p := range places {
		c.Step(1)
		for j := range ops.Each(c, run) {
			v[p+j] = join.f(v[p+j], w[i*run+j])
		}
	}
	return ops.Real(c, x.DType(), v, x.Shape()...)
}

// linearScatter are the sets of operators that write updates, by their reduction.
func linearScatter(n *ir.Node) [][]int {
	switch getStr(n, "reduction") {
	case "none", "add":
		return [][]int{{0, 2}}
	case "mul": // updates are not: other elements stay
		return [][]int{{0}}
	}
	return nil
}
