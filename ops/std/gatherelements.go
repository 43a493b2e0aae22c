package std

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// GatherElements selects single elements along an axis.
var GatherElements = ops.Register(&ir.Op{
	Name: "GatherElements", Since: 13,
	Doc: "output[i,j,…] is the element of data at the same position, except for index indices[i,j,…] along axis.",
	In:  ops.Sig("data:T", "indices:Tind"), Out: ops.Sig("output:T"),
	Elems: map[string][]tensor.DType{"T": ops.Any, "Tind": indexTypes},
	Attrs: []ir.AttrSpec{intAttr("axis", 0, "the axis")},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if _, err := ops.Bind(n); err != nil {
			return nil, err
		}
		x, idx := tensorIn(n, 0), tensorIn(n, 1)
		if idx.NoRank {
			return one(noRank(x.Elem))
		}
		if !x.NoRank && len(x.Shape) != len(idx.Shape) {
			return nil, fmt.Errorf("data %v and indices %v differ in rank", x.Shape, idx.Shape)
		}
		if _, err := ops.Axis(getInt(n, "axis"), len(idx.Shape)); err != nil {
			return nil, err
		}
		return one(typed(x.Elem, idx.Shape))
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "data")
		if err != nil {
			return nil, err
		}
		it, err := need(in, 1, "indices")
		if err != nil {
			return nil, err
		}
		places, err := elementPlaces(c, x, it, getInt(c.Node, "axis"))
		if err != nil {
			return nil, err
		}
		out, err := alloc(c, x.DType(), it.Shape())
		if err != nil {
			return nil, err
		}
		m := newMover(c, out, x)
		for i, p := range ops.All(c, places) {
			m.copy(i, p, 1)
		}
		return ops.One(out, nil)
	},
	Gradient: ops.GradientMoved(0),
	Linear:   ops.LinearFirst,
	Tol:      ir.Exact,
})

// elementPlaces returns, for each element of indices, the element of x at the same position, but with the index along
// axis.
func elementPlaces(c *ir.EvalCtx, x, it *tensor.Tensor, axis int64) ([]int, error) {
	a, err := ops.Axis(axis, x.Rank())
	if err != nil {
		return nil, err
	}
	if x.Rank() != it.Rank() {
		return nil, fmt.Errorf("data %s and indices %s differ in rank", x, it)
	}
	for i, d := range it.Shape() {
		if i != a && d > x.Dim(i) {
			return nil, fmt.Errorf("indices %s reach beyond data %s on axis %d", it, x, i)
		}
	}
	idx, err := indices(c, it, x.Dim(a))
	if err != nil {
		return nil, err
	}
	strides := ops.Strides(x.Shape())
	along := strides[a]
	strides[a] = 0
	places, i := ops.Make[int](c, len(idx)), 0
	ops.Walk(c, it.Shape(), strides, 0, func(o int) {
		places[i] = o + idx[i]*along
		i++
	})
	return places, nil
}

// GatherND selects slices by index vectors.
var GatherND = ops.Register(&ir.Op{
	Name: "GatherND", Since: 13,
	Doc: "The slices of data at the vectors of indices along the last axis of indices. The first batch_dims axes are " +
		"common to both.",
	In: ops.Sig("data:T", "indices:int64"), Out: ops.Sig("output:T"), Elems: elems("T", ops.Any),
	Attrs: []ir.AttrSpec{intAttr("batch_dims", 0, "number of shared leading axes")},
	Infer: inferShape(func(n *ir.Node, in ir.Shape) (ir.Shape, error) {
		idx, b := tensorIn(n, 1), getInt(n, "batch_dims")
		if idx.NoRank || len(idx.Shape) == 0 {
			return nil, nil
		}
		k, ok := idx.Shape[len(idx.Shape)-1].Known()
		if !ok {
			return nil, nil
		}
		if b < 0 || b >= int64(len(idx.Shape)) || k < 0 || b+k > int64(len(in)) {
			return nil, fmt.Errorf("data %v, indices %v and batch_dims %d do not match", in, idx.Shape, b)
		}
		// not nil, which would mean an unknown rank
		return append(append(ir.Shape{}, idx.Shape[:len(idx.Shape)-1]...), in[b+k:]...), nil
	}),
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "data")
		if err != nil {
			return nil, err
		}
		it, err := need(in, 1, "indices")
		if err != nil {
			return nil, err
		}
		b := getInt(c.Node, "batch_dims")
		if it.Rank() == 0 || b < 0 || b >= int64(it.Rank()) {
			return nil, fmt.Errorf("indices %s with batch_dims %d", it, b)
		}
		places, run, err := slicePlaces(c, x, it, int(b))
		if err != nil {
			return nil, err
		}
		k := it.Dim(-1)
		out, err := alloc(c, x.DType(), slices.Concat(it.Shape()[:it.Rank()-1], x.Shape()[int(b)+k:]))
		if err != nil {
			return nil, err
		}
		m := newMover(c, out, x)
		for i, p := range ops.All(c, places) {
			m.copy(i*run, p, run)
		}
		return ops.One(out, nil)
	},
	Gradient: ops.GradientMoved(0),
	Linear:   ops.LinearFirst,
	Tol:      ir.Exact,
})

// slicePlaces returns, for each vector along the last axis of indices, the first element of the slice of x at these
// indices, and the size of a slice.
func slicePlaces(c *ir.EvalCtx, x, it *tensor.Tensor, batch int) (places []int, run int, err error) {
	k := it.Dim(-1)
	if batch+k > x.Rank() {
		return nil, 0, fmt.Errorf("indices %s name %d axes of %s", it, batch+k, x)
	}
	for i := range ops.Each(c, batch) {
		if x.Dim(i) != it.Dim(i) {
			return nil, 0, fmt.Errorf("data %s and indices %s differ on batch axis %d", x, it, i)
		}
	}
	v, err := ops.Int64s(c, it)
	if err != nil {
		return nil, 0, err
	}
	strides := ops.Strides(x.Shape())
	run = product(x.Shape()[batch+k:])
	perBatch := product(it.Shape()[batch : it.Rank()-1])
	for i := range product(it.Shape()[:it.Rank()-1]) {
		c.Step(1)
		p := 0
		if batch > 0 {
			p = i / perBatch * strides[batch-1]
		}
		for j := range k {
			at, err := index(v[i*k+j], x.Dim(batch+j))
			if err != nil {
				return nil, 0, err
			}
			p += at * strides[batch+j]
		}
		places = append(places, p)
	}
	return places, run, nil
}
