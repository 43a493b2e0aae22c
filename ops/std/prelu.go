package std

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

var preluTypes = append(ops.Floats[:len(ops.Floats):len(ops.Floats)], tensor.Int32, tensor.Int64, tensor.Uint32,
	tensor.Uint64)

// PRelu is LeakyRelu with an input of slopes.
var PRelu = ops.Same(ops.Register(&ir.Op{
	Name: "PRelu", Since: 16, Doc: "x, or slope·x below zero; slope broadcasts to X.",
	In: ops.Sig("X:T[...]", "slope:T"), Out: ops.Sig("Y:T[...]"), Elems: elems("T", preluTypes),
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		b, err := ops.Bind(n)
		if err != nil {
			return nil, err
		}
		x, slope := n.In(0).Shape(), n.In(1).Shape()
		behind := len(slope) - len(x)
		for i, d := range slope {
			k, ok := d.Known()
			if behind > 0 {
				ok = x != nil
			} else if ok && k != 1 && x != nil {
				var has int64
				has, ok = x[i-behind].Known()
				ok = ok && has != k
			} else {
				ok = false
			}
			if ok {
				return nil, fmt.Errorf("slope: %v does not broadcast to %v", slope, x)
			}
		}
		return b.Outputs(n.Op)
	},
	Element: func(_ *ir.Node, x []scalar.Expr) scalar.Expr { return scalar.LeakyRelu(x[0], x[1]) },
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "X")
		if err != nil {
			return nil, err
		}
		slope, err := need(in, 1, "slope")
		if err != nil {
			return nil, err
		}
		shape, err := ops.Broadcast(x.Shape(), slope.Shape())
		if err != nil {
			return nil, err
		}
		if err := ops.SameShape(shape, x.Shape()); err != nil {
			return nil, err
		}
		switch x.DType() {
		case tensor.Uint32, tensor.Uint64: // nothing is below zero
			return ops.One(x, nil)
		case tensor.Int32, tensor.Int64:
			v, err := ops.Int64s(c, x)
			if err != nil {
				return nil, err
			}
			s, err := ops.Int64s(c, slope)
			if err != nil {
				return nil, err
			}
			s = ops.BroadcastTo(c, s, slope.Shape(), shape)
			for i, k := range ops.All(c, v) {
				if k < 0 {
					v[i] = s[i] * k
				}
			}
			return ops.One(fromInts(c, x.DType(), v, shape...))
		}
		return ops.EvalElement(c, in)
	},
	Body: func(b *ir.Builder, _ *ir.Node, in []*ir.Value) []*ir.Value {
		return []*ir.Value{whereNegative(b, in[0], op(b, "Mul", in[1], in[0]))}
	},
	Tol: ir.Rounding,
}), 9, 7)

// Before version 7, slopes do not broadcast: there is one for each channel.
var prelu6 = earlier(&ir.Op{
	Name: "PRelu", Since: 6, Doc: "x, or slope·x below zero, for X (N,C,…), and slope (C) or of one element.",
	In: ops.Sig("X:T[...]", "slope:T[_]"), Out: ops.Sig("Y:T[...]"),
	Body: func(b *ir.Builder, _ *ir.Node, in []*ir.Value) []*ir.Value {
		return []*ir.Value{op(b, "PRelu", in[0], perChannel(b, in[1], len(in[0].Shape())))}
	},
	Along: alongKeep(func(*ir.Node, int, int) bool { return false }), Tol: ir.Rounding,
})

func init() { sameButFor(prelu6, 1, consumed()) }

// Shrink moves elements towards zero.
var Shrink = ops.Register(&ir.Op{
	Name: "Shrink", Since: 9, Doc: "x+bias below -lambd, x-bias above lambd, 0 between.",
	In: ops.Sig("input:T[...]"), Out: ops.Sig("output:T[...]"), Elems: elems("T", ops.Numbers),
	Attrs: []ir.AttrSpec{floatAttr("bias", 0, "distance to move"), floatAttr("lambd", 0.5, "threshold")},
	Element: func(n *ir.Node, x []scalar.Expr) scalar.Expr {
		return scalar.Shrink(x[0], constOf(n, "bias"), constOf(n, "lambd"))
	},
	Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		x, elem := in[0], in[0].Elem()
		if elem != tensor.Float32 && elem != tensor.Float64 { // the attributes are not numbers of its type
			x = attr(b, "Cast", in[:1], ir.A("to", int64(tensor.Float64)))
		}
		c := func(v float64) *ir.Value { return constLike(b, x, v) }
		bias, lambd := getFloat(n, "bias"), getFloat(n, "lambd")
		above := op(b, "Where", op(b, "Greater", x, c(lambd)), op(b, "Sub", x, c(bias)), c(0))
		y := op(b, "Where", op(b, "Less", x, c(-lambd)), op(b, "Add", x, c(bias)), above)
		if x != in[0] {
			y = attr(b, "Cast", []*ir.Value{y}, ir.A("to", int64(elem)))
		}
		return []*ir.Value{y}
	},
	Tol: ir.Rounding,
})
