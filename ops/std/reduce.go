package std

import (
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// reduction is one Reduce operator: a function of each element, one that joins two, and one of the result of n
// elements.
type reduction struct {
	initF float64
	preF  func(x float64) float64
	f     func(acc, x float64) float64
	postF func(acc float64, n int) float64

	initI func(d tensor.DType) int64 // nil: integers are computed as floats
	i     func(acc, x int64) int64
	u     func(acc, x uint64) uint64

	linear bool // the result is linear in the data
}

func reduce(name string, since int, doc string, types []tensor.DType, r reduction, tol ir.Tolerance) *ir.Op {
	op := &ir.Op{
		Name: name, Since: since, Doc: doc +
			" Axes may be negative; without any, all are reduced, or none with noop_with_empty_axes.",
		In: ops.Sig("data:T", "axes:int64?"), Out: ops.Sig("reduced:T"), Elems: elems("T", types),
		Attrs: []ir.AttrSpec{
			intAttr("keepdims", 1, "whether reduced axes are kept, with size 1"),
			intAttr("noop_with_empty_axes", 0, "true: reduce nothing if there are no axes"),
		},
		Infer: inferShape(reducedShape),
		Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			t, err := need(in, 0, "data")
			if err != nil {
				return nil, err
			}
			a, err := ints(c, in, 1)
			if err != nil {
				return nil, err
			}
			axes, err := reduceAxes(c.Node, a, t.Rank())
			if err != nil {
				return nil, err
			}
			return ops.One(r.apply(c, t, axes, getInt(c.Node, "keepdims") != 0))
		},
		Along: alongReduce, Gradient: gradReduce, Tol: tol,
	}
	if r.linear {
		op.Linear = ops.LinearFirst
	}
	return ops.Register(op)
}

// reduceAxes returns the axes of a reduction, from an input or the attributes.
func reduceAxes(n *ir.Node, given []int64, rank int) ([]int, error) {
	if len(given) > 0 {
		return ops.AxesOf(given, rank)
	}
	if getInt(n, "noop_with_empty_axes") != 0 {
		return nil, nil
	}
	all := make([]int, rank)
	for i := range all {
		all[i] = i
	}
	return all, nil
}

// constReduceAxes is reduceAxes on a node. It returns false if the axes are computed at run time.
func constReduceAxes(n *ir.Node, rank int) (axes []int, ok bool, err error) {
	var given []int64
	if v := n.In(1); v != nil {
		if given, ok = ops.ConstInts(v); !ok {
			if s := v.Shape(); len(s) != 1 || !s[0].Equal(ir.Const(0)) {
				return nil, false, nil
			}
		}
	}
	axes, err = reduceAxes(n, given, rank)
	return axes, true, err
}

func reducedShape(n *ir.Node, in ir.Shape) (ir.Shape, error) {
	keep := getInt(n, "keepdims") != 0
	axes, ok, err := constReduceAxes(n, len(in))
	if err != nil {
		return nil, err
	}
	if !ok {
		if keep {
			return unknownShape(len(in)), nil
		}
		return nil, nil
	}
	out := ir.Shape{}
	for i, d := range in {
		switch {
		case !slices.Contains(axes, i):
			out = append(out, d)
		case keep:
			out = append(out, ir.Const(1))
		}
	}
	return out, nil
}

// reducedDims returns the shape of the result with and without the reduced axes, and the number of elements of each
// result.
func reducedDims(shape, axes []int) (kept, dropped []int, count int) {
	kept, count = slices.Clone(shape), 1
	for i, d := range shape {
		if slices.Contains(axes, i) {
			kept[i] = 1
			count *= d
		} else {
			dropped = append(dropped, d)
		}
	}
	return kept, dropped, count
}

// fold joins the elements of v at the same position of the shape kept, in which some axes of shape are reduced.
func fold[T, U any](c *ir.EvalCtx, v []T, shape, kept []int, acc []U, f func(acc U, x T) U) {
	i := 0
	ops.Walk(c, shape, ops.BroadcastStrides(kept, shape), 0, func(o int) {
		acc[o] = f(acc[o], v[i])
		i++
	})
}

func (r reduction) apply(c *ir.EvalCtx, t *tensor.Tensor, axes []int, keep bool) (*tensor.Tensor, error) {
	kept, dropped, count := reducedDims(t.Shape(), axes)
	shape := kept
	if !keep {
		shape = dropped
	}
	size, err := ops.Elems(shape)
	if err != nil {
		return nil, err
	}
	if t.DType() == tensor.Uint64 && r.u != nil {
		acc := ops.Make[int64](c, size)
		for i := range ops.Each(c, len(acc)) {
			acc[i] = r.initI(tensor.Uint64)
		}
		fold(c, tensor.Data[uint64](t), t.Shape(), kept, acc,
			func(a int64, x uint64) int64 { return int64(r.u(uint64(a), x)) })
		return fromInts(c, tensor.Uint64, acc, shape...)
	}
	if t.DType().IsInt() && r.initI != nil {
		v, err := ops.Int64s(c, t)
		if err != nil {
			return nil, err
		}
		acc := ops.Make[int64](c, size)
		for i := range ops.Each(c, len(acc)) {
			acc[i] = r.initI(t.DType())
		}
		fold(c, v, t.Shape(), kept, acc, r.i)
		return fromInts(c, t.DType(), acc, shape...)
	}
	v, err := ops.Float64s(c, t)
	if err != nil {
		return nil, err
	}
	acc := ops.Make[float64](c, size)
	for i := range ops.Each(c, len(acc)) {
		acc[i] = r.initF
	}
	f := r.f
	if r.preF != nil {
		f = func(a, x float64) float64 { return r.f(a, r.preF(x)) }
	}
	fold(c, v, t.Shape(), kept, acc, f)
	if r.postF != nil {
		for i, x := range ops.All(c, acc) {
			acc[i] = r.postF(x, count)
		}
	}
	if t.DType() == tensor.Bool {
		for i, x := range ops.All(c, acc) { // the start of an empty fold is infinite
			acc[i] = max(0, min(1, x))
		}
	}
	return ops.Real(c, t.DType(), acc, shape...)
}

// alongReduce returns the facts of a reduction: over the axis, a summary with a state as large as the result; over
// others, the same axis.
func alongReduce(n *ir.Node, in []ir.Fact) []ir.Fact {
	rank := len(n.In(0).Shape())
	axes, ok, err := constReduceAxes(n, rank)
	f := in[0]
	f.State = 0
	switch {
	case f.Constant() || f.Global || f.Axis < 0:
		return spread(n, f)
	case !ok || err != nil || len(in) > 1 && !in[1].Constant():
		return spread(n, ops.Global(n, in))
	case slices.Contains(axes, f.Axis):
		return spread(n, summed(n, f))
	}
	if getInt(n, "keepdims") == 0 {
		before := 0
		for _, a := range axes {
			if a < f.Axis {
				before++
			}
		}
		f.Axis -= before
	}
	return spread(n, f)
}

func plus(a, x float64) float64 { return a + x }

func start(x int64) func(tensor.DType) int64 { return func(tensor.DType) int64 { return x } }

// intLimit returns the smallest or largest number of an integer type.
func intLimit(d tensor.DType, greatest bool) int64 {
	w := d.Bits()
	switch unsigned := d == tensor.Uint8 || d == tensor.Uint16 || d == tensor.Uint32 || d == tensor.Uint64 ||
		d == tensor.Uint4 || d == tensor.Uint2; {
	case unsigned && !greatest:
		return 0
	case unsigned && w == 64:
		return -1 // all bits
	case unsigned:
		return 1<<w - 1
	case greatest:
		return 1<<(w-1) - 1
	}
	return -1 << (w - 1)
}

var extremeTypes = append(append(slices.Clone(sumTypes), tensor.Int8, tensor.Uint8), tensor.Bool)

// Reductions.
var (
	ReduceSum = reduce("ReduceSum", 13, "Sum over axes.", sumTypes, reduction{f: plus, linear: true,
		initI: start(0), i: func(a, x int64) int64 { return a + x }}, ir.Summing)
	ReduceMean = reduce("ReduceMean", 18, "Mean over axes.", sumTypes, reduction{f: plus, linear: true,
		postF: func(a float64, n int) float64 { return a / float64(n) }}, ir.Summing)
	ReduceProd = reduce("ReduceProd", 18, "Product over axes.", sumTypes, reduction{initF: 1,
		f:     func(a, x float64) float64 { return a * x },
		initI: start(1), i: func(a, x int64) int64 { return a * x }}, ir.Summing)
	ReduceSumSquare = reduce("ReduceSumSquare", 18, "Sum of squares over axes.", sumTypes, reduction{f: plus,
		preF:  func(x float64) float64 { return x * x },
		initI: start(0), i: func(a, x int64) int64 { return a + x*x }}, ir.Summing)
	ReduceL1 = reduce("ReduceL1", 18, "Sum of absolute values over axes.", sumTypes, reduction{f: plus,
		preF:  math.Abs,
		initI: start(0), i: func(a, x int64) int64 { return a + max(x, -x) },
		u: func(a, x uint64) uint64 { return a + x }}, ir.Summing)
	ReduceL2 = reduce("ReduceL2", 18, "Square root of the sum of squares over axes.", sumTypes, reduction{f: plus,
		preF:  func(x float64) float64 { return x * x },
		postF: func(a float64, _ int) float64 { return math.Sqrt(a) }}, ir.Summing)
	ReduceLogSum = reduce("ReduceLogSum", 18, "Logarithm of the sum over axes.", sumTypes, reduction{f: plus,
		postF: func(a float64, _ int) float64 { return math.Log(a) }}, ir.Summing)
	ReduceLogSumExp = reduce("ReduceLogSumExp", 18, "Logarithm of the sum of exponentials over axes.", sumTypes,
		reduction{
			initF: math.Inf(-1), f: logAddExp}, ir.Summing)
	ReduceMax = reduce("ReduceMax", 20, "Maximum over axes.", extremeTypes, reduction{initF: math.Inf(-1),
		f:     func(a, x float64) float64 { return max(a, x) },
		initI: func(d tensor.DType) int64 { return intLimit(d, false) }, i: func(a, x int64) int64 { return max(a, x) },
		u: func(a, x uint64) uint64 { return max(a, x) }}, ir.Exact)
	ReduceMin = reduce("ReduceMin", 20, "Minimum over axes.", extremeTypes, reduction{initF: math.Inf(1),
		f:     func(a, x float64) float64 { return min(a, x) },
		initI: func(d tensor.DType) int64 { return intLimit(d, true) }, i: func(a, x int64) int64 { return min(a, x) },
		u: func(a, x uint64) uint64 { return min(a, x) }}, ir.Exact)
)

// logAddExp is log(exp(a)+exp(x)) without overflow.
func logAddExp(a, x float64) float64 {
	hi, lo := max(a, x), min(a, x)
	if math.IsInf(hi, 0) || math.IsNaN(hi) {
		return hi
	}
	return hi + math.Log1p(math.Exp(lo-hi))
}

// ArgMax and ArgMin return indices.
var (
	ArgMax = argExtreme("ArgMax", "Index of the largest element along an axis.",
		func(x, best float64) bool { return x > best })
	ArgMin = argExtreme("ArgMin", "Index of the smallest element along an axis.",
		func(x, best float64) bool { return x < best })
)

func argExtreme(name, doc string, better func(x, best float64) bool) *ir.Op {
	axisOf := func(n *ir.Node, rank int) (int, error) { return ops.Axis(getInt(n, "axis"), rank) }
	return ops.Register(&ir.Op{
		Name: name, Since: 13, Doc: doc + " Of equal elements it is the first or, with select_last_index, the last.",
		In: ops.Sig("data:T"), Out: ops.Sig("reduced:int64"), Elems: elems("T", ops.Numbers),
		Attrs: []ir.AttrSpec{intAttr("axis", 0, "the axis"),
			intAttr("keepdims", 1, "whether the axis is kept, with size 1"),
			intAttr("select_last_index", 0, "whether the last of equal elements is selected")},
		Infer: inferAs(elemIs(tensor.Int64), func(n *ir.Node, in ir.Shape) (ir.Shape, error) {
			a, err := axisOf(n, len(in))
			if err != nil {
				return nil, err
			}
			out := slices.Clone(in)
			if out[a] = ir.Const(1); getInt(n, "keepdims") == 0 {
				out = slices.Delete(out, a, a+1)
			}
			return out, nil
		}),
		Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			t, err := need(in, 0, "data")
			if err != nil {
				return nil, err
			}
			a, err := axisOf(c.Node, t.Rank())
			if err != nil {
				return nil, err
			}
			kept, dropped, _ := reducedDims(t.Shape(), []int{a})
			if t.Dim(a) == 0 && product(kept) > 0 {
				return nil, fmt.Errorf("axis %d of %s is empty", a, t)
			}
			v, err := ops.Float64s(c, t)
			if err != nil {
				return nil, err
			}
			last := getInt(c.Node, "select_last_index") != 0
			outer, n, inner := splitAt(t.Shape(), a)
			best := ops.Make[int64](c, outer*inner)[:0]
			for o := range outer {
				c.Step(1)
				for i := range inner {
					c.Step(1)
					row, at := v[o*n*inner+i:], 0
					for j := 1; j < n; j++ {
						x, b := row[j*inner], row[at*inner]
						if better(x, b) || last && x == b || math.IsNaN(x) && !math.IsNaN(b) {
							at = j
						}
					}
					best = append(best, int64(at))
				}
			}
			if getInt(c.Node, "keepdims") == 0 {
				kept = dropped
			}
			return ops.One(tensor.FromSlice(best, kept...), nil)
		},
		Along: alongMove(func(n *ir.Node, axis int) int {
			a, err := axisOf(n, len(n.In(0).Shape()))
			switch {
			case err != nil || a == axis:
				return -1
			case a < axis && getInt(n, "keepdims") == 0:
				return axis - 1
			}
			return axis
		}),
		Tol: ir.Exact,
	})
}

// splitAt returns the number of elements before an axis, on it, and after it.
func splitAt(shape []int, axis int) (outer, n, inner int) {
	return product(shape[:axis]), shape[axis], product(shape[axis+1:])
}
