package microsoft

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Products of quantized matrices as floats.
var (
	DynamicQuantizeMatMul = composed(&ir.Op{Name: "DynamicQuantizeMatMul",
		Doc: "A is quantized by DynamicQuantizeLinear; its MatMulInteger with B, times both scales, plus bias. Scale " +
			"and zero point of B are scalars or one per column.",
		In:  ops.Sig("A:float32", "B:T2", "b_scale:float32", "b_zero_point:T2?", "bias:float32?"),
		Out: ops.Sig("Y:float32"), Elems: types{"T2": bytesOnly}, Tol: ir.Rounding,
		Body: func(b *ir.Builder, _ *ir.Node, x []*ir.Value) []*ir.Value {
			q := b.Ops("", "DynamicQuantizeLinear", 3, x[:1])
			return vals(scaledProduct(b, q[0], x[1], q[1], x[2], q[2], in(x, 3), in(x, 4)))
		}})
	MatMulIntegerToFloat = composed(&ir.Op{Name: "MatMulIntegerToFloat",
		Doc: "MatMulInteger of A and B, times both scales, plus bias. Scales and zero points are scalars, or one " +
			"per column for B.",
		In:    ops.Sig("A:T1", "B:T2", "a_scale:T3", "b_scale:T3", "a_zero_point:T1?", "b_zero_point:T2?", "bias:T3?"),
		Out:   ops.Sig("Y:T3"),
		Elems: types{"T1": bytesOnly, "T2": bytesOnly, "T3": {tensor.Float32, tensor.Float16}}, Tol: ir.Rounding,
		Body: func(b *ir.Builder, _ *ir.Node, x []*ir.Value) []*ir.Value {
			return vals(scaledProduct(b, x[0], x[1], x[2], x[3], in(x, 4), in(x, 5), in(x, 6)))
		}})
	MatMulInteger16 = composed(&ir.Op{Name: "MatMulInteger16", Doc: "MatMul of A and B in int32.",
		In: ops.Sig("A:T1", "B:T2"), Out: ops.Sig("Y:int32"), Tol: ir.Exact,
		Elems: types{"T1": {tensor.Int16, tensor.Uint16}, "T2": {tensor.Int16, tensor.Uint16}},
		Body: func(b *ir.Builder, _ *ir.Node, x []*ir.Value) []*ir.Value {
			return vals(std(b, "MatMul", cast(b, x[0], tensor.Int32), cast(b, x[1], tensor.Int32)))
		}})
)

func scaledProduct(b *ir.Builder, x, y, xScale, yScale, xZero, yZero, bias *ir.Value) *ir.Value {
	if b.Err() != nil {
		return nil
	}
	args := vals(x, y, xZero, yZero)
	for len(args) > 2 && args[len(args)-1] == nil {
		args = args[:len(args)-1]
	}
	p := cast(b, with(b, "MatMulInteger", args), xScale.Elem())
	return add(b, std(b, "Mul", p, std(b, "Mul", xScale, yScale)), bias)
}
