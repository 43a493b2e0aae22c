package microsoft

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// quantized registers an operator that dequantizes its inputs to float32, computes, and quantizes the result, rounding
// to nearest even. Some of ONNX Runtime's kernels compute in fixed point and may differ by one.
func quantized(name, doc string, params []ir.Param, body body, attrs ...ir.AttrSpec) *ir.Op {
	return composed(&ir.Op{Name: name, Doc: doc + " of the dequantized inputs, quantized.", In: params,
		Out: ops.Sig("C:T"), Elems: types{"T": bytesOnly}, Attrs: attrs, Tol: ir.Exact, Body: body})
}

// meant dequantizes x.
func meant(b *ir.Builder, x, scale, zero *ir.Value) *ir.Value {
	if zero == nil {
		return std(b, "DequantizeLinear", x, scale)
	}
	return std(b, "DequantizeLinear", x, scale, zero)
}

// quantize quantizes x to the type of like.
func quantize(b *ir.Builder, x, scale, zero, like *ir.Value) *ir.Value {
	if zero == nil {
		zero = constLike(b, like, 0)
	}
	return std(b, "QuantizeLinear", x, scale, zero)
}

var (
	pairSig = ops.Sig("A:T", "A_scale:float32", "A_zero_point:T?", "B:T", "B_scale:float32", "B_zero_point:T?",
		"C_scale:float32", "C_zero_point:T?")
	oneSig = ops.Sig("X:T", "X_scale:float32", "X_zero_point:T?", "Y_scale:float32", "Y_zero_point:T?")
)

// pair applies an operator to two quantized inputs.
func pair(name string) body {
	return func(b *ir.Builder, _ *ir.Node, x []*ir.Value) []*ir.Value {
		y := std(b, name, meant(b, x[0], x[1], x[2]), meant(b, x[3], x[4], x[5]))
		return vals(quantize(b, y, x[6], in(x, 7), x[0]))
	}
}

// single applies an operator to one quantized input.
func single(f func(b *ir.Builder, n *ir.Node, x *ir.Value) *ir.Value) body {
	return func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
		return vals(quantize(b, f(b, n, meant(b, x[0], x[1], x[2])), x[3], in(x, 4), x[0]))
	}
}

// Quantized operators.
var (
	QLinearAdd     = quantized("QLinearAdd", "A+B", pairSig, pair("Add"))
	QLinearMul     = quantized("QLinearMul", "A*B", pairSig, pair("Mul"))
	QLinearSigmoid = quantized("QLinearSigmoid", "Sigmoid", oneSig,
		single(func(b *ir.Builder, _ *ir.Node, x *ir.Value) *ir.Value { return std(b, "Sigmoid", x) }))

	QLinearLeakyRelu = quantized("QLinearLeakyRelu", "LeakyRelu", oneSig,
		single(func(b *ir.Builder, n *ir.Node, x *ir.Value) *ir.Value {
			return with(b, "LeakyRelu", vals(x), ir.A("alpha", ops.Float(n, "alpha")))
		}), ops.FloatSpec("alpha", 0.01, "slope below zero"))

	QLinearReduceMean = quantized("QLinearReduceMean", "ReduceMean over axes", oneSig,
		single(func(b *ir.Builder, n *ir.Node, x *ir.Value) *ir.Value {
			return with(b, "ReduceMean", vals(x, b.Ints(n.Attrs.Ints("axes", nil)...)),
				ir.A("keepdims", ops.Int(n, "keepdims")))
		}), ops.Required(ops.Spec("axes", ir.AttrInts, "axes of the mean")),
		ops.Required(ops.IntSpec("keepdims", nil, "whether they are kept, with size 1")))

	QLinearGlobalAveragePool = quantized("QLinearGlobalAveragePool", "GlobalAveragePool", oneSig,
		single(func(b *ir.Builder, n *ir.Node, x *ir.Value) *ir.Value {
			if ops.Int(n, "channels_last") == 0 {
				return std(b, "GlobalAveragePool", x)
			}
			return channels(b, std(b, "GlobalAveragePool", channels(b, x, false)), true)
		}), ops.IntSpec("channels_last", 0, "whether channels are the last axis"))

	QLinearAveragePool = quantized("QLinearAveragePool", "AveragePool", oneSig,
		single(func(b *ir.Builder, n *ir.Node, x *ir.Value) *ir.Value {
			attrs := attrsOf(n, "auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")
			if ops.Int(n, "channels_last") == 0 {
				return with(b, "AveragePool", vals(x), attrs...)
			}
			return channels(b, with(b, "AveragePool", vals(channels(b, x, false)), attrs...), true)
		}), ops.IntSpec("channels_last", 0, "whether channels are the last axis"), convAttrs[0],
		ops.IntSpec("ceil_mode", 0, "whether sizes are rounded up"),
		ops.IntSpec("count_include_pad", 0, "whether pads count"),
		ops.Required(ops.Spec("kernel_shape", ir.AttrInts, "size of the windows")), convAttrs[4], convAttrs[5])

	QLinearSoftmax = quantized("QLinearSoftmax", "Softmax", oneSig,
		single(func(b *ir.Builder, n *ir.Node, x *ir.Value) *ir.Value {
			axis := ops.Int(n, "axis")
			if ops.Int(n, "opset") >= 13 {
				return with(b, "Softmax", vals(x), ir.A("axis", axis))
			}
			// In versions before 13, all axes from axis on count as one.
			shape := std(b, "Shape", x)
			y := with(b, "Softmax", vals(with(b, "Flatten", vals(x), ir.A("axis", axis))), ir.A("axis", 1))
			return with(b, "Reshape", vals(y, shape), ir.A("allowzero", 1))
		}), ops.IntSpec("axis", -1, "axis of the sums"), ops.Required(ops.IntSpec("opset", nil, "version of Softmax")))

	QLinearConcat = composed(&ir.Op{Name: "QLinearConcat",
		Doc: "Concat along axis of the dequantized inputs, quantized. The inputs are triples: numbers, scale, zero " +
			"point.",
		In: ops.Sig("Y_scale:TF", "Y_zero_point:T8", "inputs:TV*"), Out: ops.Sig("Y:T8"), Tol: ir.Exact,
		Attrs: []ir.AttrSpec{ops.Required(ops.IntSpec("axis", nil, "axis of concatenation"))},
		Elems: types{"TF": {tensor.Float32}, "T8": bytesOnly, "TV": {tensor.Int8, tensor.Uint8, tensor.Float32}},
		Infer: inferConcat, Body: qlinearConcat})

	QLinearWhere = composed(&ir.Op{Name: "QLinearWhere", Doc: "Where of the dequantized X and Y, quantized.",
		Tol: ir.Exact,
		In: ops.Sig("condition:bool", "X:T", "x_scale:float32", "x_zero_point:T", "Y:T", "y_scale:float32",
			"y_zero_point:T", "z_scale:float32", "z_zero_point:T"), Out: ops.Sig("Z:T"), Elems: types{"T": bytesOnly},
		Body: func(b *ir.Builder, _ *ir.Node, x []*ir.Value) []*ir.Value {
			return vals(quantize(b, std(b, "Where", x[0], meant(b, x[1], x[2], x[3]), meant(b, x[4], x[5], x[6])), x[7],
				x[8], x[1]))
		}})

	QuantizeLinear = composed(&ir.Op{Name: "QuantizeLinear",
		Doc: "x/y_scale, rounded to nearest even, plus y_zero_point, within the range of the result's type.",
		In:  ops.Sig("x:T1[...]", "y_scale:T1", "y_zero_point:T2?"), Out: ops.Sig("y:T2[...]"), Attrs: quantAxis,
		Tol: ir.Exact,
		Elems: types{"T1": {tensor.Float32, tensor.Float16},
			"T2": {tensor.Int8, tensor.Uint8, tensor.Int16, tensor.Uint16, tensor.Int4, tensor.Uint4}},
		Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
			return vals(with(b, "QuantizeLinear", x, attrsOf(n, "axis")...))
		}})
	DequantizeLinear = composed(&ir.Op{Name: "DequantizeLinear", Doc: "(x-x_zero_point)*x_scale.",
		In: ops.Sig("x:T1[...]", "x_scale:T2", "x_zero_point:T1?"), Out: ops.Sig("y:T2[...]"), Attrs: quantAxis,
		Tol: ir.Rounding,
		Elems: types{"T1": {tensor.Int8, tensor.Uint8, tensor.Int16, tensor.Uint16, tensor.Int32, tensor.Int4,
			tensor.Uint4}, "T2": {tensor.Float32, tensor.Float16}},
		Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
			return vals(with(b, "DequantizeLinear", x, attrsOf(n, "axis")...))
		}})
)

var quantAxis = []ir.AttrSpec{ops.IntSpec("axis", 1, "axis of scales that are a vector")}

func qlinearConcat(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
	if len(x) < 5 || (len(x)-2)%3 != 0 {
		return fail(b, "expected triples of numbers, scale and zero point, found %d inputs", len(x)-2)
	}
	var parts []*ir.Value
	for i := 2; i < len(x); i += 3 {
		parts = append(parts, meant(b, x[i], x[i+1], x[i+2]))
	}
	return vals(quantize(b, with(b, "Concat", parts, attrsOf(n, "axis")...), x[0], x[1], x[1]))
}

// inferConcat infers by the body, since a signature cannot describe inputs of different types.
func inferConcat(n *ir.Node) ([]ir.Type, error) {
	b := ir.NewBuilder(n.Op.Name, ops.Default, ops.Opsets())
	b.PaceLike(n)
	out := qlinearConcat(b, n, n.Inputs)
	if err := b.Err(); err != nil {
		return nil, err
	}
	return []ir.Type{out[0].Type}, nil
}
