package std

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

var preluTypes = append(ops.Floats[:len(ops.Floats):len(ops.Floats)], tensor.Int32, tensor.Int64, tensor.Uint32, tensor.Uint64)

// PRelu is a leaky relu with an input of slopes.
var PRelu = ops.Same(ops.Register(&ir.Op{
	Name: "PRelu", Since: 16, Doc: "x, or slope·x below zero; slope broadcasts to X.",
	In: ops.Sig("X:T[...]", "slope:T"), Out: ops.Sig("Y:T[...]"), Elems: elems("T", preluTypes),
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
			v, err := x.Int64s()
			if err != nil {
				return nil, err
			}
			s, err := slope.Int64s()
			if err != nil {
				return nil, err
			}
			return ops.One(fromInts(x.DType(), leak(v, ops.BroadcastTo(s, slope.Shape(), shape)), shape...))
		}
		return ops.One(ops.Real(c, x.DType(), leak(ops.F64(in, 0), ops.BroadcastTo(ops.F64(in, 1), slope.Shape(), shape)), shape...))
	},
	Body: func(b *ir.Builder, _ *ir.Node, in []*ir.Value) []*ir.Value {
		return []*ir.Value{whereNegative(b, in[0], op(b, "Mul", in[1], in[0]))}
	},
	Along: ops.AlongElementwise, Tol: ir.Rounding,
}), 9, 7)

// Before version 7 slopes were numbered by channels.
var prelu6 = earlier(&ir.Op{
	Name: "PRelu", Since: 6, Doc: "x, or slope·x below zero, for X (N,C,…), and slope (C) or of one element.",
	In: ops.Sig("X:T[...]", "slope:T[_]"), Out: ops.Sig("Y:T[...]"),
	Body: func(b *ir.Builder, _ *ir.Node, in []*ir.Value) []*ir.Value {
		return []*ir.Value{op(b, "PRelu", in[0], perChannel(b, in[1], len(in[0].Shape())))}
	},
	Along: alongKeep(func(*ir.Node, int, int) bool { return false }), Tol: ir.Rounding,
})

func init() { sameButFor(prelu6, 1, consumed()) }

func leak[T float64 | int64](v, slope []T) []T {
	for i, x := range v {
		if x < 0 {
			v[i] = slope[i] * x
		}
	}
	return v
}

// Shrink pulls towards zero.
var Shrink = ops.Register(&ir.Op{
	Name: "Shrink", Since: 9, Doc: "x+bias below -lambd, x-bias above lambd, 0 between.",
	In: ops.Sig("input:T[...]"), Out: ops.Sig("output:T[...]"), Elems: elems("T", ops.Numbers),
	Attrs: []ir.AttrSpec{floatAttr("bias", 0, "how far"), floatAttr("lambd", 0.5, "threshold")},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		bias, lambd := getFloat(c.Node, "bias"), getFloat(c.Node, "lambd")
		return mapReal(c, in, func(x float64) float64 {
			switch {
			case x < -lambd:
				return x + bias
			case x > lambd:
				return x - bias
			}
			return 0
		})
	},
	Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		x, elem := in[0], in[0].Elem()
		if elem != tensor.Float32 && elem != tensor.Float64 { // the attributes are no numbers of its type
			x = attr(b, "Cast", in[:1], ir.A("to", int64(tensor.Float64)))
		}
		c := func(v float64) *ir.Value { return scalar(b, x, v) }
		bias, lambd := getFloat(n, "bias"), getFloat(n, "lambd")
		above := op(b, "Where", op(b, "Greater", x, c(lambd)), op(b, "Sub", x, c(bias)), c(0))
		y := op(b, "Where", op(b, "Less", x, c(-lambd)), op(b, "Add", x, c(bias)), above)
		if x != in[0] {
			y = attr(b, "Cast", []*ir.Value{y}, ir.A("to", int64(elem)))
		}
		return []*ir.Value{y}
	},
	Along: ops.AlongElementwise, Tol: ir.Rounding,
})
