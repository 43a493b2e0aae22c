package microsoft

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// QGemm is the quantized form of Gemm that ONNX Runtime's quantizer writes.
var QGemm = composed(&ir.Op{Name: "QGemm",
	Doc: "((A-a_zero_point)·(B-b_zero_point) + C)·alpha·a_scale·b_scale, of A and B or their transposes, quantized " +
		"where there is y_scale. Scale and zero point of B are scalars or one per column; C is int32.",
	In: ops.Sig("A:TA", "a_scale:T", "a_zero_point:TA", "B:TB", "b_scale:T", "b_zero_point:TB", "C:TC?", "y_scale:T?",
		"y_zero_point:TY?"), Out: ops.Sig("Y:TZ"), Tol: ir.Rounding,
	Elems: types{"T": {tensor.Float32}, "TA": bytesOnly, "TB": bytesOnly, "TC": {tensor.Int32}, "TY": bytesOnly,
		"TZ": {tensor.Float32, tensor.Int8, tensor.Uint8}},
	Attrs: []ir.AttrSpec{ops.FloatSpec("alpha", 1, "factor of the product"),
		ops.IntSpec("transA", 0, "whether A is transposed"), ops.IntSpec("transB", 0, "whether B is transposed")},
	Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
		turned := func(v *ir.Value, attr string) *ir.Value {
			if r := rank(b, v, v.Name); b.Err() == nil && r != 2 {
				fail(b, "%s: expected a matrix, found %v", v.Name, v.Type)
				return nil
			}
			if ops.Int(n, attr) == 0 {
				return v
			}
			return with(b, "Transpose", vals(v), ir.A("perm", []int{1, 0}))
		}
		sum := std(b, "MatMulInteger", turned(x[0], "transA"), turned(x[3], "transB"), x[2], x[5])
		sum = add(b, sum, in(x, 6))
		if b.Err() != nil {
			return vals(nil)
		}
		scale := std(b, "Mul", x[1], x[4])
		if alpha := ops.Float(n, "alpha"); alpha != 1 {
			scale = std(b, "Mul", scale, constLike(b, scale, alpha))
		}
		y := std(b, "Mul", cast(b, sum, tensor.Float32), scale)
		if to := in(x, 7); to != nil {
			args := vals(y, to)
			if zero := in(x, 8); zero != nil {
				args = append(args, zero)
			}
			y = std(b, "QuantizeLinear", args...)
		}
		return vals(y)
	}})
