package std

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// The operators in this file have outputs whose sizes depend on data.

// Compress selects the elements or slices for which a condition is true.
var Compress = ops.Same(ops.Register(&ir.Op{
	Name: "Compress", Since: 11,
	Doc: "The slices of input along axis (without one: the elements) for which condition is true. Those after the " +
		"end of condition are dropped.",
	In: ops.Sig("input:T", "condition:bool[_]"), Out: ops.Sig("output:T"), Elems: elems("T", ops.Any),
	Attrs: []ir.AttrSpec{intAttr("axis", nil, "the axis; absent: the input is flattened")},
	Infer: inferShape(func(n *ir.Node, in ir.Shape) (ir.Shape, error) {
		ax, ok := n.Attrs.Get("axis").(int64)
		if !ok {
			return unknownShape(1), nil
		}
		a, err := ops.Axis(ax, len(in))
		if err != nil {
			return nil, err
		}
		out := slices.Clone(in)
		out[a] = ir.Unknown
		return out, nil
	}),
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "input")
		if err != nil {
			return nil, err
		}
		cond, err := need(in, 1, "condition")
		if err != nil {
			return nil, err
		}
		if cond.DType() != tensor.Bool {
			return nil, fmt.Errorf("condition: expected bools, found %s", cond)
		}
		shape, a := []int{x.Len()}, 0
		if ax, ok := c.Node.Attrs.Get("axis").(int64); ok {
			shape = slices.Clone(x.Shape())
			if a, err = ops.Axis(ax, len(shape)); err != nil {
				return nil, err
			}
		}
		outer, n, inner := splitAt(shape, a)
		keep := notZero(c, cond.Bytes())
		if len(keep) > 0 && keep[len(keep)-1] >= n {
			first, _ := slices.BinarySearch(keep, n)
			return nil, fmt.Errorf("condition is true at index %d, but there are only %d slices of %s", keep[first], n,
				x)
		}
		shape[a] = len(keep)
		out, err := alloc(c, x.DType(), shape)
		if err != nil {
			return nil, err
		}
		m := newMover(c, out, x)
		for o := range outer {
			c.Step(1)
			for i := 0; i < len(keep); {
				run := 1 // slices that follow each other
				for i+run < len(keep) && keep[i+run] == keep[i]+run {
					run++
				}
				c.Step(run)
				m.copy((o*len(keep)+i)*inner, (o*n+keep[i])*inner, run*inner)
				i += run
			}
		}
		return ops.One(out, nil)
	},
	Along: alongKeep(func(n *ir.Node, axis, rank int) bool {
		ax, ok := n.Attrs.Get("axis").(int64)
		if !ok {
			return true
		}
		a, err := ops.Axis(ax, rank)
		return err != nil || a == axis
	}),
	Gradient: ops.GradientMoved(0),
	Linear:   ops.LinearFirst,
	Tol:      ir.Exact,
}), 9)

// NonZero finds the elements that are not zero.
var NonZero = ops.Same(ops.Register(&ir.Op{
	Name: "NonZero", Since: 13,
	Doc: "Indices of the elements that are not 0 (or empty strings), in order: a row per axis, a column per element.",
	In:  ops.Sig("X:T"), Out: ops.Sig("Y:int64[_,_]"), Elems: elems("T", ops.Any),
	Infer: inferAs(elemIs(tensor.Int64), func(_ *ir.Node, in ir.Shape) (ir.Shape, error) {
		return ir.Shape{ir.Const(int64(len(in))), ir.Unknown}, nil
	}),
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "X")
		if err != nil {
			return nil, err
		}
		set, err := nonZero(c, x)
		if err != nil {
			return nil, err
		}
		rank := x.Rank()
		if _, err := ops.Elems([]int{rank, len(set)}); err != nil {
			return nil, err
		}
		out, strides := ops.Make[int64](c, rank*len(set)), ops.Strides(x.Shape())
		from, end := 0, 0 // of the row that holds the element before
		for i, p := range set {
			c.Step(1)
			if rank > 1 && p < end { // all indices but the last equal the previous element's
				for a := range rank - 1 {
					out[a*len(set)+i] = out[a*len(set)+i-1]
				}
				out[(rank-1)*len(set)+i] = int64(p - from)
				continue
			}
			if rank > 1 {
				from = p - p%strides[rank-2]
				end = from + strides[rank-2]
			}
			for a, s := range strides {
				out[a*len(set)+i] = int64(p / s)
				p %= s
			}
		}
		return ops.One(tensor.FromSlice(out, rank, len(set)), nil)
	},
	Tol: ir.Exact,
}), 9)

// nonZero returns the offsets of elements that are not zero.
func nonZero(c *ir.EvalCtx, x *tensor.Tensor) ([]int, error) {
	var out []int
	switch {
	case x.DType() == tensor.String:
		for i, s := range ops.All(c, x.Strings()) {
			if s != "" {
				out = ops.Append(c, out, i)
			}
		}
		return out, nil
	case x.DType().IsComplex():
		w := x.DType().Bits() / 8
		wide, err := ops.Convert(c, x, tensor.Complex128, false)
		if err != nil {
			return nil, fmt.Errorf("elements of %d bytes: %w", w, err)
		}
		for i, z := range ops.All(c, tensor.Data[complex128](wide)) {
			if z != 0 {
				out = ops.Append(c, out, i)
			}
		}
		return out, nil
	}
	switch x.DType() {
	case tensor.Bool, tensor.Int8, tensor.Uint8:
		return notZero(c, x.Bytes()), nil
	case tensor.Float32:
		return notZero(c, tensor.Data[float32](x)), nil
	case tensor.Int32:
		return notZero(c, tensor.Data[int32](x)), nil
	case tensor.Int64:
		return notZero(c, tensor.Data[int64](x)), nil
	}
	v, err := ops.Float64s(c, x)
	if err != nil {
		return nil, err
	}
	return notZero(c, v), nil
}

// notZero returns the indices of elements that are not zero.
func notZero[T float32 | float64 | int32 | int64 | uint8](c *ir.EvalCtx, v []T) []int {
	n := 0
	for lo, hi := range ops.Parts(c, len(v)) {
		for _, x := range v[lo:hi] {
			if x != 0 {
				n++
			}
		}
	}
	out, at := ops.Make[int](c, n+1), 0
	for lo, hi := range ops.Parts(c, len(v)) {
		for i, x := range v[lo:hi] {
			if out[at] = lo + i; x != 0 { // compiles to no jump, which would be mispredicted
				at++
			}
		}
	}
	return out[:n]
}

// Unique removes repeated elements or slices.
var Unique = ops.Register(&ir.Op{
	Name: "Unique", Since: 11,
	Doc: "The distinct elements of X, or its distinct slices along axis, in ascending order or in the order of their " +
		"first occurrence; with the indices of these in X, the index in Y of each element of X, and the numbers of " +
		"occurrences.",
	In: ops.Sig("X:T"), Out: ops.Sig("Y:T", "indices:int64[_]", "inverse_indices:int64[_]", "counts:int64[_]"),
	Elems: elems("T", ops.Any),
	Attrs: []ir.AttrSpec{intAttr("axis", nil, "the axis of the slices; absent: elements"),
		intAttr("sorted", 1, "whether the order is ascending")},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if _, err := ops.Bind(n); err != nil {
			return nil, err
		}
		x := tensorIn(n, 0)
		y, all := typed(x.Elem, unknownShape(1)), ir.Unknown
		if ax, ok := n.Attrs.Get("axis").(int64); !ok {
			if !x.NoRank {
				all = x.Shape.Size()
			}
		} else if x.NoRank {
			y = noRank(x.Elem)
		} else {
			a, err := ops.Axis(ax, len(x.Shape))
			if err != nil {
				return nil, err
			}
			s := slices.Clone(x.Shape)
			all, s[a] = s[a], ir.Unknown
			y = typed(x.Elem, s)
		}
		v := typed(tensor.Int64, unknownShape(1))
		return []ir.Type{y, v, typed(tensor.Int64, ir.Shape{all}), v}, nil
	},
	Cost: sortCost,
	Eval: evalUnique, NoGradient: ops.NotYet, Tol: ir.Exact,
})

func evalUnique(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	x, err := need(in, 0, "X")
	if err != nil {
		return nil, err
	}
	shape, a := []int{x.Len()}, 0
	if ax, ok := c.Node.Attrs.Get("axis").(int64); ok {
		shape = slices.Clone(x.Shape())
		if a, err = ops.Axis(ax, len(shape)); err != nil {
			return nil, err
		}
	}
	outer, n, inner := splitAt(shape, a)
	rows := ops.Make[int](c, n)
	for i := range ops.Each(c, len(rows)) {
		rows[i] = i
	}
	var compare func(i, j int) int
	if keys, bits := orderedKeys(c, x); keys != nil && outer*inner == 1 {
		sortByKeys(c, rows, keys, bits)
		compare = func(i, j int) int { return cmp.Compare(keys[i], keys[j]) }
	} else if compare, err = sliceOrder(c, x, outer, n, inner); err != nil {
		return nil, err
	} else {
		slices.SortStableFunc(rows, compare)
	}
	type group struct{ first, count, at int }
	var groups []group
	of := ops.Make[int](c, n)
	for i, r := range ops.All(c, rows) {
		if i == 0 || compare(rows[i-1], r) != 0 {
			groups = ops.Append(c, groups, group{first: r})
		}
		groups[len(groups)-1].count++
		of[r] = len(groups) - 1
	}
	ordered := ops.Make[int](c, len(groups))
	for i := range ops.Each(c, len(ordered)) {
		ordered[i] = i
	}
	if getInt(c.Node, "sorted") == 0 {
		slices.SortFunc(ordered, func(i, j int) int { c.Step(4); return cmp.Compare(groups[i].first, groups[j].first) })
	}
	firsts, counts, inverse := ops.Make[int64](c, len(groups)), ops.Make[int64](c, len(groups)), ops.Make[int64](c, n)
	for at, g := range ops.All(c, ordered) {
		groups[g].at = at
		firsts[at], counts[at] = int64(groups[g].first), int64(groups[g].count)
	}
	for i, g := range ops.All(c, of) {
		inverse[i] = int64(groups[g].at)
	}
	shape[a] = len(groups)
	y, err := alloc(c, x.DType(), shape)
	if err != nil {
		return nil, err
	}
	m := newMover(c, y, x)
	for o := range outer {
		c.Step(1)
		for i, f := range ops.All(c, firsts) {
			m.copy((o*len(firsts)+i)*inner, (o*n+int(f))*inner, inner)
		}
	}
	return []tensor.Datum{y, tensor.FromSlice(firsts, len(firsts)), tensor.FromSlice(inverse, n),
		tensor.FromSlice(counts, len(counts))}, nil
}

// elementOrder returns a function that compares elements of x by their offsets. Numbers are ordered by value with NaN
// last, strings and complex numbers by their bytes.
func elementOrder(c *ir.EvalCtx, x *tensor.Tensor) (func(i, j int) int, error) {
	switch {
	case x.DType() == tensor.String:
		s := x.Strings()
		return func(i, j int) int { return ops.CompareText(c, s[i], s[j]) }, nil
	case x.DType().IsComplex():
		w, b := x.DType().Bits()/8, x.Bytes()
		return func(i, j int) int { return bytes.Compare(b[i*w:(i+1)*w], b[j*w:(j+1)*w]) }, nil
	}
	return ordering(c, x, false)
}
