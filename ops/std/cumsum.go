package std

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// CumSum computes sums along an axis.
var CumSum = func() *ir.Op {
	op := cumulative("CumSum", 14, "sums", sumTypes, 0, plus, func(a, x int64) int64 { return a + x })
	op.Linear = ops.LinearFirst
	op.Sums = func(n *ir.Node) (sum ir.RunningSum, ok bool) {
		at, ok := ops.ConstInts(n.In(1))
		if !ok || len(at) != 1 {
			return sum, false
		}
		axis, err := ops.Axis(at[0], len(n.In(0).Shape()))
		sum = ir.RunningSum{Axis: axis, Exclusive: getInt(n, "exclusive") != 0, Reverse: getInt(n, "reverse") != 0}
		return sum, err == nil
	}
	op.Gradient, op.NoGradient = gradCumSum, ""
	return ops.Register(op)
}()

// CumProd computes products along an axis.
var CumProd = ops.Register(cumulative("CumProd", 26, "products", sumTypes, 1,
	func(a, x float64) float64 { return a * x }, func(a, x int64) int64 { return a * x }))

// cumulative returns an operator that combines the elements along an axis one after the other.
func cumulative(name string, since int, what string, types []tensor.DType, start int64,
	f func(a, x float64) float64, g func(a, x int64) int64) *ir.Op {
	return &ir.Op{
		Name: name, Since: since,
		Doc: "Running " + what + " of x along axis, without the element itself if exclusive is set, from the end if " +
			"reverse is set.",
		In: ops.Sig("x:T[...]", "axis:T2"), Out: ops.Sig("y:T[...]"),
		Elems: map[string][]tensor.DType{"T": types, "T2": indexTypes},
		Attrs: []ir.AttrSpec{intAttr("exclusive", 0, "whether an element's own value is excluded"),
			intAttr("reverse", 0, "whether to start at the end")},
		Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			x, err := need(in, 0, "x")
			if err != nil {
				return nil, err
			}
			ax, err := scalarInt(c, in, 1, "axis")
			if err != nil {
				return nil, err
			}
			a, err := ops.Axis(ax, x.Rank())
			if err != nil {
				return nil, err
			}
			exclusive, reverse := getInt(c.Node, "exclusive") != 0, getInt(c.Node, "reverse") != 0
			if x.DType().IsInt() {
				v, err := ops.Int64s(c, x)
				if err != nil {
					return nil, err
				}
				cumulate(c, v, x.Shape(), a, exclusive, reverse, start, g)
				return ops.One(fromInts(c, x.DType(), v, x.Shape()...))
			}
			v, err := ops.Float64s(c, x)
			if err != nil {
				return nil, err
			}
			cumulate(c, v, x.Shape(), a, exclusive, reverse, float64(start), f)
			return ops.One(ops.Real(c, x.DType(), v, x.Shape()...))
		},
		Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
			f := in[0]
			f.State = 0
			axis, ok := ops.ConstInts(n.In(1))
			switch {
			case f.Constant() || f.Global || f.Axis < 0:
				return spread(n, f)
			case !ok || len(axis) != 1:
				return spread(n, ops.Global(n, in))
			}
			shape := n.In(0).Shape()
			a, err := ops.Axis(axis[0], len(shape))
			switch {
			case err != nil:
				return spread(n, ops.Global(n, in))
			case a != f.Axis:
				return spread(n, f)
			case getInt(n, "reverse") != 0:
				f.Ahead, f.Cause = ir.Unbounded, n
				return spread(n, f)
			}
			f.Back, f.Summary, f.Cause = ir.Unbounded, true, n
			f.State = stateSize(append(shape[:a:a], shape[a+1:]...))
			return spread(n, f)
		},
		NoGradient: ops.NotYet,
		Tol:        ir.Summing,
	}
}

func cumulate[T float64 | int64](c *ir.EvalCtx, v []T, shape []int, axis int, exclusive, reverse bool, start T,
	join func(a, x T) T) {
	outer, n, inner := splitAt(shape, axis)
	for o := range outer {
		c.Step(1)
		for i := range inner {
			c.Step(1)
			acc := start
			for j := range ops.Each(c, n) {
				k := j
				if reverse {
					k = n - 1 - j
				}
				p := &v[(o*n+k)*inner+i]
				x := *p
				if exclusive {
					*p = acc
				} else {
					*p = join(acc, x)
				}
				acc = join(acc, x)
			}
		}
	}
}
