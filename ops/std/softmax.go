package std

import (
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// rowwise registers an operator that replaces each row along the attribute axis (default -1) by a function of it.
func rowwise(name string, since int, doc string, f func(c *ir.EvalCtx, row []float64),
	body func(b *ir.Builder, x, axes *ir.Value) *ir.Value, tol ir.Tolerance) *ir.Op {
	o := &ir.Op{
		Name: name, Since: since, Doc: doc,
		In: ops.Sig("input:T"), Out: ops.Sig("output:T"),
		Attrs: []ir.AttrSpec{intAttr("axis", -1, "the axis")},
		Infer: inferShape(func(n *ir.Node, in ir.Shape) (ir.Shape, error) {
			_, err := ops.Axis(getInt(n, "axis"), len(in))
			return in, err
		}),
		Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			t, err := need(in, 0, "input")
			if err != nil {
				return nil, err
			}
			a, err := ops.Axis(getInt(c.Node, "axis"), t.Rank())
			if err != nil {
				return nil, err
			}
			v, err := ops.Float64s(c, t)
			if err != nil {
				return nil, err
			}
			outer, n, inner := splitAt(t.Shape(), a)
			row := ops.Make[float64](c, n)
			if n > 0 {
				for o := range outer {
					c.Step(1)
					for i := range inner {
						c.Step(1)
						at := o*n*inner + i
						for j := range ops.Each(c, len(row)) {
							row[j] = v[at+j*inner]
						}
						f(c, row)
						for j := range ops.Each(c, len(row)) {
							v[at+j*inner] = row[j]
						}
					}
				}
			}
			return ops.One(ops.Real(c, t.DType(), v, t.Shape()...))
		},
		Along: alongKeep(func(n *ir.Node, axis, rank int) bool {
			a, err := ops.Axis(getInt(n, "axis"), rank)
			return err != nil || a == axis
		}),
		Tol: tol,
	}
	o.Gradient = ops.GradientZero // of Hardmax
	if body != nil {
		o.Gradient = gradSoftmax
		o.Body = func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
			return []*ir.Value{body(b, in[0], b.Ints(getInt(n, "axis")))}
		}
	}
	return ops.Register(o)
}

func rowMax(c *ir.EvalCtx, row []float64) float64 {
	m := math.Inf(-1)
	for _, x := range ops.All(c, row) {
		m = max(m, x)
	}
	return m
}

// Operators on rows.
var (
	Softmax = rowwise("Softmax", 13, "exp(x) divided by the sum of exp(x) along an axis.",
		func(c *ir.EvalCtx, row []float64) {
			m, sum := rowMax(c, row), 0.0
			for i, x := range ops.All(c, row) {
				row[i] = math.Exp(x - m)
				sum += row[i]
			}
			for i := range ops.Each(c, len(row)) {
				row[i] /= sum
			}
		}, func(b *ir.Builder, x, axes *ir.Value) *ir.Value {
			e := op(b, "Exp", op(b, "Sub", x, op(b, "ReduceMax", x, axes)))
			return op(b, "Div", e, op(b, "ReduceSum", e, axes))
		}, ir.Summing)
	LogSoftmax = rowwise("LogSoftmax", 13, "Logarithm of Softmax along an axis.", func(c *ir.EvalCtx, row []float64) {
		m, sum := rowMax(c, row), 0.0
		for _, x := range ops.All(c, row) {
			sum += math.Exp(x - m)
		}
		for i, x := range ops.All(c, row) {
			row[i] = x - m - math.Log(sum)
		}
	}, func(b *ir.Builder, x, axes *ir.Value) *ir.Value {
		d := op(b, "Sub", x, op(b, "ReduceMax", x, axes))
		return op(b, "Sub", d, op(b, "Log", op(b, "ReduceSum", op(b, "Exp", d), axes)))
	}, ir.Summing)
	Hardmax = rowwise("Hardmax", 13, "1 at the first largest element along an axis, 0 elsewhere.",
		func(c *ir.EvalCtx, row []float64) {
			at := 0
			for i, x := range ops.All(c, row) {
				if x > row[at] {
					at = i
				}
			}
			ops.Fill(c, row, 0)
			row[at] = 1
		}, nil, ir.Exact)
)
