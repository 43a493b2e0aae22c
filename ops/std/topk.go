package std

import (
	"cmp"
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
		shape := slices.Clone(x.Shape())
		shape[a] = int(k)
		out := ops.New(c, x.DType(), shape...)
		pos := ops.Make[int64](c, product(shape))
		outer, n, inner := splitAt(x.Shape(), a)
		if k > 0 {
			if err := largestOf(c, x, pos, outer, n, inner, int(k), getInt(c.Node, "largest") != 0); err != nil {
				return nil, err
			}
		}
		m := newMover(c, out, x)
		for o := range outer {
			c.Step(1)
			for j := range ops.Each(c, int(k)*inner) {
				at := o*int(k)*inner + j
				m.copy(at, (o*n+int(pos[at]))*inner+j%inner, 1)
			}
		}
		return []tensor.Datum{out, tensor.FromSlice(pos, shape...)}, nil
	},
	Along: alongKeep(func(n *ir.Node, axis, rank int) bool {
		a, err := ops.Axis(getInt(n, "axis"), rank)
		return err != nil || a == axis
	}),
	Gradient: gradTopK,
	Tol:      ir.Exact,
})

// largestOf finds the indices of the k largest or smallest elements of each row along the middle one of three axes.
func largestOf(c *ir.EvalCtx, x *tensor.Tensor, pos []int64, outer, n, inner, k int, largest bool) error {
	switch x.DType() {
	case tensor.Int64:
		topOf(c, tensor.Data[int64](x), pos, outer, n, inner, k, largest)
	case tensor.Int32:
		topOf(c, tensor.Data[int32](x), pos, outer, n, inner, k, largest)
	case tensor.Uint64:
		topOf(c, tensor.Data[uint64](x), pos, outer, n, inner, k, largest)
	case tensor.Float32:
		topOf(c, tensor.Data[float32](x), pos, outer, n, inner, k, largest)
	default:
		v, err := ops.Float64s(c, x)
		if err != nil {
			return err
		}
		topOf(c, v, pos, outer, n, inner, k, largest)
	}
	return nil
}

// topOf is largestOf for elements of one type. Of each row it keeps the first k in order, in a heap with the last of
// them at the top, which most others do not precede.
func topOf[T int32 | int64 | uint64 | float32 | float64](c *ir.EvalCtx, v []T, pos []int64, outer, n, inner, k int,
	largest bool) {
	heap := ops.Make[int](c, k)
	for o := range outer {
		for i := range inner {
			c.Step(1)
			row := v[o*n*inner+i:]
			compare := func(p, q int) int { // cmp.Compare has NaN first
				a, b := row[p*inner], row[q*inner]
				switch {
				case a == b:
				case a != a || b != b:
					if a != a && b != b {
						break
					}
					return cmp.Compare(b, a) * sign(!largest)
				default:
					return cmp.Compare(a, b) * sign(!largest)
				}
				return p - q
			}
			sink := func(heap []int, at int) {
				c.Step(4 * bits.Len(uint(len(heap))))
				for child := 2*at + 1; child < len(heap); child = 2*at + 1 {
					if child+1 < len(heap) && compare(heap[child], heap[child+1]) < 0 {
						child++
					}
					if compare(heap[at], heap[child]) >= 0 {
						return
					}
					heap[at], heap[child] = heap[child], heap[at]
					at = child
				}
			}
			for j := range ops.Each(c, k) {
				heap[j] = j
			}
			for j := k/2 - 1; j >= 0; j-- {
				sink(heap, j)
			}
			for lo, hi := range ops.Parts(c, n) {
				for j := max(lo, k); j < hi; j++ {
					if x, last := row[j*inner], row[heap[0]*inner]; largest && x <= last || !largest && x >= last {
						continue
					}
					if compare(j, heap[0]) < 0 {
						heap[0] = j
						sink(heap, 0)
					}
				}
			}
			for left := k - 1; left > 0; left-- {
				heap[0], heap[left] = heap[left], heap[0]
				sink(heap[:left], 0)
			}
			for j, p := range ops.All(c, heap) {
				pos[(o*k+j)*inner+i] = int64(p)
			}
		}
	}
}

// sign is 1, or -1 where it is not positive.
func sign(positive bool) int {
	if positive {
		return 1
	}
	return -1
}

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
