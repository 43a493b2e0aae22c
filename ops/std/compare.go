package std

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// relation is a comparison of integers or bools.
type relation struct{ less, equal, greater bool }

func relate[T cmp.Ordered](c *ir.EvalCtx, r relation, x, y []T) []bool {
	out := ops.Make[bool](c, len(x))
	for i := range ops.Each(c, len(x)) {
		out[i] = r.less && x[i] < y[i] || r.equal && x[i] == y[i] || r.greater && x[i] > y[i]
	}
	return out
}

func equalTexts(c *ir.EvalCtx, x, y []string) []bool {
	out := ops.Make[bool](c, len(x))
	for i := range ops.Each(c, len(x)) {
		out[i] = len(x[i]) == len(y[i]) && ops.CompareText(c, x[i], y[i]) == 0
	}
	return out
}

func relateAs[T cmp.Ordered](c *ir.EvalCtx, r relation, x, y []T, a, b *tensor.Tensor,
	shape []int) ([]tensor.Datum, error) {
	x, y = ops.BroadcastTo(c, x, a.Shape(), shape), ops.BroadcastTo(c, y, b.Shape(), shape)
	return ops.One(tensor.FromSlice(relate(c, r, x, y), shape...), nil)
}

func compare(name string, since int, doc string, types []tensor.DType, f scalarBinary, r relation) *ir.Op {
	return ops.Register(&ir.Op{
		Name: name, Since: since, Doc: doc,
		In: ops.Sig("A:T", "B:T"), Out: ops.Sig("C:bool"), Elems: elems("T", types),
		Element: func(_ *ir.Node, x []scalar.Expr) scalar.Expr { return f(x[0], x[1]) },
		Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			if t := ops.Tensor(in, 0); t != nil && t.DType().IsFloat() {
				return ops.EvalElement(c, in)
			}
			a, b, shape, err := operands(in)
			if err != nil {
				return nil, err
			}
			if err := sameElem(a, b); err != nil {
				return nil, err
			}
			switch d := a.DType(); {
			case d == tensor.String:
				x, y := ops.BroadcastTo(c, a.Strings(), a.Shape(), shape),
					ops.BroadcastTo(c, b.Strings(), b.Shape(), shape)
				return ops.One(tensor.FromSlice(equalTexts(c, x, y), shape...), nil)
			case d == tensor.Uint64:
				return relateAs(c, r, tensor.Data[uint64](a), tensor.Data[uint64](b), a, b, shape)
			case d == tensor.Int64:
				return relateAs(c, r, tensor.Data[int64](a), tensor.Data[int64](b), a, b, shape)
			}
			return relateAs(c, r, ops.F64(c, in, 0), ops.F64(c, in, 1), a, b, shape)
		},
		Tol: ir.Exact,
	})
}

// Comparisons with broadcasting.
var (
	Equal = compare("Equal", 19, "Whether A equals B.", append(slices.Clone(numbersAndBool), tensor.String),
		scalar.Equal, relation{equal: true})
	Less = compare("Less", 13, "Whether A is below B.", ops.Numbers,
		scalar.Less, relation{less: true})
	LessOrEqual = compare("LessOrEqual", 16, "Whether A is not above B.", ops.Numbers,
		scalar.LessEqual, relation{less: true, equal: true})
	Greater = compare("Greater", 13, "Whether A is above B.", ops.Numbers,
		scalar.Greater, relation{greater: true})
	GreaterOrEqual = compare("GreaterOrEqual", 16, "Whether A is not below B.", ops.Numbers,
		scalar.GreaterEqual, relation{greater: true, equal: true})
)

func logical(name, doc string, e scalarBinary, f func(a, b bool) bool) *ir.Op {
	return ops.Register(&ir.Op{
		Name: name, Since: 7, Doc: doc,
		In: ops.Sig("A:bool", "B:bool"), Out: ops.Sig("C:bool"),
		Element: func(_ *ir.Node, x []scalar.Expr) scalar.Expr { return e(x[0], x[1]) },
		Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			a, b, shape, err := operands(in)
			if err != nil {
				return nil, err
			}
			if a.DType() != tensor.Bool || b.DType() != tensor.Bool {
				return nil, fmt.Errorf("expected bool, found %v and %v", a.DType(), b.DType())
			}
			x := ops.BroadcastTo(c, tensor.Data[bool](a), a.Shape(), shape)
			y := ops.BroadcastTo(c, tensor.Data[bool](b), b.Shape(), shape)
			out := ops.Make[bool](c, len(x))
			for i := range ops.Each(c, len(out)) {
				out[i] = f(x[i], y[i])
			}
			return ops.One(tensor.FromSlice(out, shape...), nil)
		},
		Tol: ir.Exact,
	})
}

// Logic with broadcasting.
var (
	And = logical("And", "Whether A and B hold.",
		scalar.And, func(a, b bool) bool { return a && b })
	Or = logical("Or", "Whether A or B holds.",
		scalar.Or, func(a, b bool) bool { return a || b })
	Xor = logical("Xor", "Whether exactly one of A and B holds.",
		scalar.Xor, func(a, b bool) bool { return a != b })
)

// Not is the negation.
var Not = ops.Register(&ir.Op{
	Name: "Not", Since: 1, Doc: "Logical negation of each element.",
	In: ops.Sig("X:T1[...]"), Out: ops.Sig("Y:bool[...]"), Elems: elems("T1", boolOnly),
	Element: func(_ *ir.Node, x []scalar.Expr) scalar.Expr { return scalar.Not(x[0]) },
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		t, err := need(in, 0, "X")
		if err != nil {
			return nil, err
		}
		if t.DType() != tensor.Bool {
			return nil, fmt.Errorf("expected bool, found %v", t.DType())
		}
		out := ops.Make[bool](c, t.Len())
		for i, x := range ops.All(c, tensor.Data[bool](t)) {
			out[i] = !x
		}
		return ops.One(tensor.FromSlice(out, t.Shape()...), nil)
	},
	Tol: ir.Exact,
})
