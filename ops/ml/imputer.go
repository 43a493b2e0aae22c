package ml

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Imputer replaces missing values.
var Imputer = ops.Register(&ir.Op{
	Domain: Domain, Name: "Imputer", Since: 1,
	Doc: "Replaces elements equal to one value (NaN equals NaN) by another, for all or per feature (last axis).",
	In:  ops.Sig("X:T[...]"), Out: ops.Sig("Y:T[...]"), Elems: elems("T", numeric),
	Attrs: []ir.AttrSpec{floatsAttr("imputed_value_floats", "replacements of floats"),
		intsAttr("imputed_value_int64s", "replacements of integers"),
		ops.FloatSpec("replaced_value_float", 0, "float to replace"),
		ops.IntSpec("replaced_value_int64", 0, "integer to replace")},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x := ops.Tensor(in, 0)
		if x.DType().IsFloat() {
			fill, old := c.Node.Attrs.Floats("imputed_value_floats", nil), ops.Float(c.Node, "replaced_value_float")
			v := ops.F64(c, in, 0)
			if err := impute(c, x, v, fill, "imputed_value_floats",
				func(y float64) bool { return y == old || math.IsNaN(y) && math.IsNaN(old) }); err != nil {
				return nil, err
			}
			return ops.One(ops.FromFloat64s(c, x.DType(), v, x.Shape()...))
		}
		fill, old := c.Node.Attrs.Ints("imputed_value_int64s", nil), ops.Int(c.Node, "replaced_value_int64")
		v, err := ops.Int64s(c, x)
		if err != nil {
			return nil, err
		}
		if err := impute(c, x, v, fill, "imputed_value_int64s", func(y int64) bool { return y == old }); err != nil {
			return nil, err
		}
		return ops.One(ops.Convert(c, tensor.FromSlice(v, x.Shape()...), x.DType(), false))
	},
	Along: alongOwn(func(n *ir.Node) bool {
		return max(len(n.Attrs.Floats("imputed_value_floats", nil)),
			len(n.Attrs.Ints("imputed_value_int64s", nil))) != 1
	}),
	NoGradient: fitted,
	Tol:        ir.Exact,
})

func impute[T int64 | float64](c *ir.EvalCtx, x *tensor.Tensor, v, fill []T, name string, missing func(T) bool) error {
	at, err := featureIndex(x, len(fill), name)
	if err != nil {
		return err
	}
	for i, y := range ops.All(c, v) {
		if missing(y) {
			v[i] = fill[at(i)]
		}
	}
	return nil
}

// featureIndex returns a function from an element of x to its index among n attribute values: the only one, or its
// feature's.
func featureIndex(x *tensor.Tensor, n int, name string) (func(int) int, error) {
	switch {
	case n == 1:
		return func(int) int { return 0 }, nil
	case n > 0 && x.Rank() > 0 && x.Dim(-1) == n:
		return func(i int) int { return i % n }, nil
	}
	return nil, fmt.Errorf("%s: expected 1 element or one per feature of %s, found %d", name, x, n)
}
