package std

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// bitwise registers an operator on the bits of two integers.
func bitwise(name, doc string, f func(a, b int64) int64) *ir.Op {
	o := &ir.Op{
		Name: name, Since: 18, Doc: doc,
		In: ops.Sig("A:T", "B:T"), Out: ops.Sig("C:T"), Elems: elems("T", ops.Ints),
		Infer: inferBroadcast(elemOf(0)),
		Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			a, b, shape, err := operands(in)
			if err != nil {
				return nil, err
			}
			return ops.One(arith{i: f}.apply(c, a, b, shape))
		},
		Along: ops.AlongElementwise, Tol: ir.Exact, Commutative: true,
	}
	return ops.Register(o)
}

// Operators on bits, with broadcasting.
var (
	BitwiseAnd = bitwise("BitwiseAnd", "The bits that both A and B have.", func(a, b int64) int64 { return a & b })
	BitwiseOr  = bitwise("BitwiseOr", "The bits that A or B have.", func(a, b int64) int64 { return a | b })
	BitwiseXor = bitwise("BitwiseXor", "The bits that differ between A and B.", func(a, b int64) int64 { return a ^ b })
)

// BitwiseNot inverts bits.
var BitwiseNot = ops.Register(&ir.Op{
	Name: "BitwiseNot", Since: 18, Doc: "All bits inverted.",
	In: ops.Sig("X:T[...]"), Out: ops.Sig("Y:T[...]"), Elems: elems("T", ops.Ints),
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		t, err := need(in, 0, "X")
		if err != nil {
			return nil, err
		}
		v, err := ops.Int64s(c, t)
		if err != nil {
			return nil, err
		}
		for i, x := range ops.All(c, v) {
			v[i] = ^x
		}
		return ops.One(fromInts(c, t.DType(), v, t.Shape()...))
	},
	Along: ops.AlongElementwise, Tol: ir.Exact,
})

// BitShift shifts bits.
var BitShift = ops.Register(&ir.Op{
	Name: "BitShift", Since: 11, Doc: "X with its bits shifted by Y places, with broadcasting; zeros are shifted in.",
	In: ops.Sig("X:T", "Y:T"), Out: ops.Sig("Z:T"),
	Elems: elems("T", []tensor.DType{tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64}),
	Attrs: []ir.AttrSpec{{Name: "direction", Kind: ir.AttrString, Required: true, OneOf: []string{"LEFT", "RIGHT"},
		Doc: "which way"}},
	Infer: inferBroadcast(elemOf(0)),
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		a, b, shape, err := operands(in)
		if err != nil {
			return nil, err
		}
		shift := func(a, b uint64) uint64 { return a << b }
		if c.Node.Attrs.Str("direction", "") == "RIGHT" {
			shift = func(a, b uint64) uint64 { return a >> b }
		}
		o := arith{u: shift, i: func(a, b int64) int64 { return int64(shift(uint64(a), uint64(b))) }}
		return ops.One(o.apply(c, a, b, shape))
	},
	Along: ops.AlongElementwise, Tol: ir.Exact,
})

var bitsTypes = slices.DeleteFunc(slices.Clone(ops.Any), func(d tensor.DType) bool { return d == tensor.String })

// BitCast reinterprets bits as another element type.
var BitCast = ops.Register(&ir.Op{
	Name: "BitCast", Since: 26, Doc: "The bits of the input as elements of type to, which has the same number of bits.",
	In: ops.Sig("input:T1[...]"), Out: ops.Sig("output:T2[...]"),
	Elems: map[string][]tensor.DType{"T1": bitsTypes, "T2": bitsTypes},
	Attrs: []ir.AttrSpec{{Name: "to", Kind: ir.AttrInt, Required: true, Doc: "element type, by ONNX's number"}},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if _, err := ops.Bind(n); err != nil {
			return nil, err
		}
		to, err := bitCastTo(n)
		if err != nil {
			return nil, err
		}
		t := tensorIn(n, 0)
		return one(&ir.TensorType{Elem: to, Shape: t.Shape, NoRank: t.NoRank})
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		t, err := need(in, 0, "input")
		if err != nil {
			return nil, err
		}
		to, err := bitCastTo(c.Node)
		if err != nil {
			return nil, err
		}
		// The bits are those of the graph's type, even if a wide evaluation stores float64.
		if from := c.Node.In(0).Elem(); t.DType() != from {
			if t, err = ops.Convert(c, t, from, false); err != nil {
				return nil, err
			}
		}
		out, err := tensor.FromBytes(to, t.Shape(), t.Bytes())
		if err != nil {
			return nil, err
		}
		return ops.One(ops.Convert(c, out, wide(c, to), false))
	},
	Along: ops.AlongElementwise, Tol: ir.Exact,
})

func bitCastTo(n *ir.Node) (tensor.DType, error) {
	to, err := castTo(n)
	if from := n.In(0).Elem(); err == nil && (to == tensor.String || to.Bits() != from.Bits()) {
		err = fmt.Errorf("attribute to: %v has another size than the %d bits of %v", to, from.Bits(), from)
	}
	return to, err
}
