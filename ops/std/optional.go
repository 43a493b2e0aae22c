package std

import (
	"errors"
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

var errEmptyOptional = errors.New("the optional is empty")

// Optional wraps a value, or returns an empty optional.
var Optional = ops.Register(&ir.Op{
	Name: "Optional", Since: 15,
	Doc: "An optional that holds the input; without one, an empty optional of the given type.",
	In:  ops.Sig("input:V?"), Out: ops.Sig("output:O"), Elems: map[string][]tensor.DType{"V": ops.Any, "O": ops.Any},
	Attrs: []ir.AttrSpec{{Name: "type", Kind: ir.AttrType, Doc: "type of the element of an empty optional"}},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if v := n.In(0); v != nil {
			return one(&ir.OptionalType{Elem: v.Type})
		}
		t, ok := n.Attrs.Get("type").(ir.Type)
		if !ok {
			return nil, errors.New("without an input the attribute type is needed")
		}
		return one(&ir.OptionalType{Elem: t})
	},
	Eval: func(_ *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		o := &tensor.Optional{}
		if len(in) > 0 {
			o.Value = in[0]
		}
		return []tensor.Datum{o}, nil
	},
	Linear: ops.LinearFirst,
	Tol:    ir.Exact,
})

// held returns the value of an optional input, or the input itself. It returns nil if there is none.
func held(in []tensor.Datum) tensor.Datum {
	if len(in) == 0 {
		return nil
	}
	if o, ok := in[0].(*tensor.Optional); ok {
		if o == nil {
			return nil
		}
		return o.Value
	}
	return in[0]
}

// OptionalHasElement tests an optional.
var OptionalHasElement = ops.Register(&ir.Op{
	Name: "OptionalHasElement", Since: 18, Doc: "Whether the input is given and, if it is an optional, not empty.",
	In: ops.Sig("input:O?"), Out: ops.Sig("output:bool[]"), Elems: elems("O", ops.Any),
	Infer: func(*ir.Node) ([]ir.Type, error) { return one(ir.Tensor(tensor.Bool)) },
	Eval: func(_ *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		return ops.One(tensor.Scalar(held(in) != nil), nil)
	},
	Tol: ir.Exact,
})

// OptionalGetElement returns the value of an optional.
var OptionalGetElement = ops.Register(&ir.Op{
	Name: "OptionalGetElement", Since: 18,
	Doc: "The value of the optional; an empty one is an error. Other inputs are returned as they are.",
	In:  ops.Sig("input:O"), Out: ops.Sig("output:V"), Elems: map[string][]tensor.DType{"V": ops.Any, "O": ops.Any},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		t := n.In(0).Type
		if o, ok := t.(*ir.OptionalType); ok {
			t = o.Elem
		}
		if t == nil {
			return nil, fmt.Errorf("input %s has no type", n.In(0).Name)
		}
		return one(t)
	},
	Eval: func(_ *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		d := held(in)
		if d == nil {
			return nil, errEmptyOptional
		}
		return []tensor.Datum{d}, nil
	},
	Along:    func(n *ir.Node, in []ir.Fact) []ir.Fact { return spread(n, in[0]) },
	Gradient: gradOptional,
	Linear:   ops.LinearFirst,
	Tol:      ir.Exact,
})
