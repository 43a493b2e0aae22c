package std

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// TopK returns the largest or smallest elements of each row.
var TopK = ops.Register(&ir.Op{
	Name: "TopK", Since: 24,
	Doc: "The K largest (largest=1) or smallest elements along axis, and their indices, in order. Equal elements are " +
		"in the order of their indices.",
	In: ops.Sig("X:T", "K:int64[1]"), Out: ops.Sig("Values:T", "Indices:int64"), Elems: elems("T", ops.Numbers),
	Attrs: []ir.AttrSpec{intAttr("axis", -1, "the axis"),
		intAttr("largest", 1, "whether to return the largest elements"),
		intAttr("sorted", 1, "whether results are sorted; here they always are")},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if _, err := ops.Bind(n); err != nil {
			return nil, err
		}
		t := tensorIn(n, 0)
		if t.NoRank {
			return []ir.Type{t, noRank(tensor.Int64)}, nil
		}
		a, err := ops.Axis(getInt(n, "axis"), len(t.Shape))
		if err != nil {
			return nil, err
		}
		s := slices.Clone(t.Shape)
		s[a] = ir.Unknown
		if k, ok := ops.DimsOf(n.In(1)); ok && len(k) == 1 {
			s[a] = k[0]
		}
		return []ir.Type{typed(t.Elem, s), typed(tensor.Int64, s)}, nil
	},
	Cost: sortCost,
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "X")
		if err != nil {
			return nil, err
		}
		k, err := scalarInt(c, in, 1, "K")
		if err != nil {
			return nil, err
		}
		a, err := ops.Axis(getInt(c.Node, "axis"), x.Rank())
		if err != nil {
			return nil, err
		}
		if k < 0 || k > int64(x.Dim(a)) {
			return nil, fmt.Errorf("K: %d of %d elements along axis %d", k, x.Dim(a), a)
		}
		order, err := ordering(c, x, getInt(c.Node, "largest") != 0)
		if err != nil {
			return nil, err
		}
		shape := slices.Clone(x.Shape())
		shape[a] = int(k)
		out := ops.New(c, x.DType(), shape...)
		pos := ops.Make[int64](c, product(shape))
		outer, n, inner := splitAt(x.Shape(), a)
		m, row := newMover(c, out, x), ops.Make[int](c, n)
		for o := range outer {
			c.Step(1)
			for i := range inner {
				c.Step(1)
				for j := range ops.Each(c, len(row)) {
					row[j] = (o*n+j)*inner + i
				}
				slices.SortStableFunc(row, order)
				for j, p := range ops.All(c, row[:k]) {
					at := (o*int(k)+j)*inner + i
					m.copy(at, p, 1)
					pos[at] = int64(p / inner % n)
				}
			}
		}
		return []tensor.Datum{out, tensor.FromSlice(pos, shape...)}, nil
	},
	Along: alongKeep(func(n *ir.Node, axis, rank int) bool {
		a, err := ops.Axis(getInt(n, "axis"), rank)
		return err != nil || a == axis
	}),
	Tol: ir.Exact,
})

// ordering returns a function that compares elements of x by their offsets: the largest first, or the smallest. NaN
// counts as the largest.
func ordering(c *ir.EvalCtx, x *tensor.Tensor, largest bool) (func(i, j int) int, error) {
	sign := 1
	if largest {
		sign = -1
	}
	switch x.DType() {
	case tensor.Int64:
		return orderBy(c, tensor.Data[int64](x), sign, func(a, b int64) bool { return a < b }), nil
	case tensor.Uint64:
		return orderBy(c, tensor.Data[uint64](x), sign, func(a, b uint64) bool { return a < b }), nil
	}
	v, err := ops.Float64s(c, x)
	if err != nil {
		return nil, err
	}
	return orderBy(c, v, sign, func(a, b float64) bool { return a < b || math.IsNaN(b) && !math.IsNaN(a) }), nil
}

func orderBy[T any](c *ir.EvalCtx, v []T, sign int, less func(a, b T) bool) func(i, j int) int {
	return func(i, j int) int {
		c.Step(4)
		switch {
		case less(v[i], v[j]):
			return -sign
		case less(v[j], v[i]):
			return sign
		}
		return 0
	}
}

// sortCost is the cost of sorting the elements of the first input, about.
func sortCost(n *ir.Node, bind map[string]int64) ir.Work {
	size := ops.Count(n.In(0), bind)
	return ops.Stated(n, bind, ops.Product(8, size, int64(bits.Len64(uint64(size)))))
}
