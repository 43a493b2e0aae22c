package samples

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/opstest"
)

// stdSamples returns samples for the operators of ai.onnx that have none in the other files.
func stdSamples(o *ir.Op) []opstest.Sample {
	f32type := func(dims ...any) ir.Type { return ir.Tensor(tensor.Float32, dims...) }
	strs := tensor.FromStrings([]string{"a", "b", "c"}, 3)
	switch o.Name {
	case "Exp", "Sin", "Cos", "Sinh", "Cosh", "Asinh", "Atan", "Tanh", "Sigmoid", "Erf", "Floor", "Ceil", "Round",
		"IsNaN", "IsInf", "Softsign", "Softplus", "HardSwish", "Mish", "Relu", "Abs", "Neg", "Sign":
		out := []opstest.Sample{of(normal(2, 5, 3)), of(normal()), of(normal(0, 3))}
		switch o.Name {
		case "Abs", "Neg", "Sign", "Relu":
			out = append(out, of(whole(tensor.Int32, -5, 5, 4)), of(whole(tensor.Int64, -5, 5, 4)))
		}
		return out
	case "Log", "Sqrt", "Reciprocal":
		return []opstest.Sample{of(inside(0.1, 4, 2, 5, 3)), of(inside(0.1, 4))}
	case "Acosh":
		return []opstest.Sample{of(inside(1, 4, 2, 5))}
	case "Asin", "Acos", "Atanh", "Tan":
		return []opstest.Sample{of(inside(-1, 1, 2, 5))}
	case "LeakyRelu", "Elu", "Celu", "Selu", "ThresholdedRelu", "Swish":
		return []opstest.Sample{of(normal(2, 5, 3)), of(normal(4, 5)).With(ir.A("alpha", 0.3))}
	case "SwiGLU":
		return []opstest.Sample{of(normal(2, 5, 3), normal(2, 5, 3)),
			of(normal(4, 5), normal(4, 5)).With(ir.A("alpha", 0.3))}
	case "HardSigmoid":
		return []opstest.Sample{of(normal(2, 5, 3)), of(normal(4)).With(ir.A("alpha", 0.5), ir.A("beta", 0.1))}
	case "Gelu":
		return []opstest.Sample{of(normal(2, 5, 3)), of(normal(4)).With(ir.A("approximate", "tanh"))}
	case "Not":
		return []opstest.Sample{of(bools(2, 3))}
	case "And", "Or", "Xor":
		return []opstest.Sample{of(bools(2, 5, 3), bools(3)), of(bools(), bools(4))}
	case "Add", "Sub", "Mul", "Div", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Min", "Max":
		return []opstest.Sample{of(normal(2, 5, 3), normal(2, 5, 3)), of(normal(5, 1), normal(2, 1, 3)),
			of(normal(), normal(3)), of(normal(0, 3), normal(3)),
			of(whole(tensor.Uint64, 1, 9, 4), whole(tensor.Uint64, 1, 9, 4)),
			of(whole(tensor.Int8, -9, 9, 4), whole(tensor.Int8, 1, 9, 1))}
	case "Equal":
		return []opstest.Sample{of(whole(tensor.Int64, 0, 3, 2, 5), whole(tensor.Int64, 0, 3, 5)), of(strs, strs),
			of(normal(2, 5), normal(2, 5))}
	case "Sum", "Mean":
		return []opstest.Sample{of(normal(2, 5, 3), normal(3), normal(5, 1)), of(normal(3))}
	case "Mod":
		return []opstest.Sample{of(whole(tensor.Int32, -9, 9, 2, 5), whole(tensor.Int32, 1, 5, 5)),
			of(normal(4), normal(4)).With(ir.A("fmod", 1))}
	case "Pow":
		return []opstest.Sample{of(inside(0.1, 2, 2, 5), normal(5)),
			of(whole(tensor.Int64, -3, 4, 4), whole(tensor.Int64, 0, 4, 4)), of(normal(3), num(2))}
	case "Where":
		return []opstest.Sample{of(bools(5, 1), normal(2, 5, 3), normal(3)), of(bools(3), strs, strs),
			of(bools(2, 4), whole(tensor.Int4, -8, 8, 2, 4), whole(tensor.Int4, -8, 8, 4))}
	case "Clip":
		return []opstest.Sample{of(normal(2, 5), inside(-1, 0), inside(0, 1)), of(normal(4), nil, inside(0, 1)),
			of(whole(tensor.Int32, -9, 9, 4), whole(tensor.Int32, -3, -2)), of(normal(4))}
	case "MatMul":
		return []opstest.Sample{of(normal(2, 5, 3), normal(3, 4)), of(normal(3), normal(3)),
			of(normal(3), normal(2, 3, 4)), of(normal(2, 5, 3), normal(3)),
			of(normal(2, 1, 5, 3), normal(4, 3, 6)), of(whole(tensor.Int32, -9, 9, 2, 3),
				whole(tensor.Int32, -9, 9, 3, 2)), of(normal(2, 0), normal(0, 3))}
	case "Gemm":
		return []opstest.Sample{of(normal(5, 3), normal(3, 4), normal(4)),
			of(normal(3, 5), normal(4, 3), normal(5, 1)).With(ir.A("transA", 1), ir.A("transB", 1), ir.A("alpha", 0.5),
				ir.A("beta", 2.0)), of(normal(5, 3), normal(3, 4))}
	case "Einsum":
		return []opstest.Sample{of(normal(2, 5, 3), normal(3, 4)).With(ir.A("equation", "bij,jk->bik")),
			of(normal(4, 4)).With(ir.A("equation", "ii")),
			of(normal(2, 5, 3), normal(2, 3, 4)).With(ir.A("equation", "...ij,...jk->...ik")),
			of(normal(2, 5)).With(ir.A("equation", "ij->ji"))}
	case "ReduceSum", "ReduceMean", "ReduceProd", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSumExp",
		"ReduceMax", "ReduceMin", "ReduceLogSum":
		x := func(shape ...int) tensor.Datum { return inside(0.1, 2, shape...) }
		return []opstest.Sample{of(x(2, 5, 3)), of(x(2, 5, 3), vec(-1)).Fixed(1),
			of(x(2, 5, 3), vec(0, 2)).Fixed(1).With(ir.A("keepdims", 0)),
			of(x(2, 5), vec()).Fixed(1).With(ir.A("noop_with_empty_axes", 1)), of(x(2, 5, 3), vec(1)),
			of(whole(tensor.Int32, 1, 5, 2, 5), vec(1)).Fixed(1), of(x())}
	case "ArgMax", "ArgMin":
		return []opstest.Sample{of(normal(2, 5, 3)), of(normal(2, 5, 3)).With(ir.A("axis", -2), ir.A("keepdims", 0)),
			of(whole(tensor.Int32, 0, 2, 2, 5)).With(ir.A("axis", 1), ir.A("select_last_index", 1))}
	case "Softmax", "LogSoftmax", "Hardmax":
		return []opstest.Sample{of(normal(2, 5, 3)), of(normal(2, 5, 3)).With(ir.A("axis", 1)), of(normal(0, 3))}
	case "LayerNormalization":
		return []opstest.Sample{of(normal(2, 5, 3), normal(3), normal(3)).Gives(3),
			of(normal(2, 5, 3), normal(5, 3)).With(ir.A("axis", 1))}
	case "RMSNormalization":
		return []opstest.Sample{of(normal(2, 5, 3), normal(3)),
			of(normal(2, 5, 3), normal(5, 3)).With(ir.A("axis", -2))}
	case "InstanceNormalization":
		return []opstest.Sample{of(normal(2, 3, 5), normal(3), normal(3))}
	case "BatchNormalization":
		stats := []tensor.Datum{normal(2, 3, 5), normal(3), normal(3), normal(3), inside(0.1, 2, 3)}
		return []opstest.Sample{of(stats...), of(stats...).With(ir.A("training_mode", 1)).Gives(3)}
	case "MeanVarianceNormalization":
		return []opstest.Sample{of(normal(2, 3, 5, 4)), of(normal(2, 5, 3)).With(ir.A("axes", []int64{-1}))}
	case "Identity":
		return []opstest.Sample{of(normal(2, 5)), of(strs), of(seqOf(normal(2)))}
	case "Cast":
		return []opstest.Sample{of(normal(2, 5)).With(ir.A("to", int(tensor.Int32))),
			of(normal(3)).With(ir.A("to", int(tensor.Float16))), of(normal(3)).With(ir.A("to", int(tensor.String))),
			of(whole(tensor.Int64, -9, 9, 3)).With(ir.A("to", int(tensor.Uint8)))}
	case "CastLike":
		return []opstest.Sample{of(normal(2, 5), whole(tensor.Int8, 0, 2))}
	case "Constant":
		return []opstest.Sample{of().With(ir.A("value_float", 0.5)), of().With(ir.A("value_ints", []int64{1, 2})),
			of().With(ir.A("value", normal(2, 3))), of().With(ir.A("value_string", "x"))}
	case "ConstantOfShape":
		return []opstest.Sample{of(vec(2, 3)).Fixed(0),
			of(vec(2, 0)).With(ir.A("value", tensor.FromSlice([]int64{7}, 1))), of(vec())}
	case "Shape":
		return []opstest.Sample{of(normal(2, 5, 3)), of(normal(2, 5, 3)).With(ir.A("start", -2), ir.A("end", 2)),
			of(normal())}
	case "Size":
		return []opstest.Sample{of(normal(2, 5))}
	case "Range":
		return []opstest.Sample{of(num(1), num(9), num(3)).Fixed(0, 1, 2), of(num(9), num(1), num(-3)).Fixed(0, 1, 2),
			of(num(1), num(4), num(2)), of(normal(), inside(3, 4), inside(0.4, 0.5)), of(num(3), num(1), num(2)),
			of(tensor.Scalar(int16(9)), tensor.Scalar(int16(-4)), tensor.Scalar(int16(-3)))}
	case "Reshape":
		return []opstest.Sample{of(normal(2, 5, 3), vec(0, -1)).Fixed(1), of(normal(2, 5, 4), vec(0, 0, 2, 2)).Fixed(1),
			of(normal(2, 5, 3), vec(-1)).Fixed(1), of(normal(0, 3), vec(3, 0)).Fixed(1).With(ir.A("allowzero", 1)),
			of(normal(2, 5), vec(5, 2))}
	case "Flatten":
		return []opstest.Sample{of(normal(2, 5, 3)), of(normal(2, 5, 3)).With(ir.A("axis", -1)),
			of(normal(2, 5)).With(ir.A("axis", 0))}
	case "Squeeze":
		return []opstest.Sample{of(normal(2, 1, 5, 1), vec(1)).Fixed(1), of(normal(2, 1, 5, 1)),
			of(normal(1, 5), vec(-2))}
	case "Unsqueeze":
		return []opstest.Sample{of(normal(2, 5), vec(0, -1)).Fixed(1), of(normal(), vec(0)).Fixed(1),
			of(normal(2, 5), vec(1))}
	case "Expand":
		return []opstest.Sample{of(normal(5, 1), vec(2, 1, 3)).Fixed(1), of(normal(5, 3), vec(5, 3)),
			of(normal(2, 5, 3), vec(1)).Fixed(1)}
	case "Transpose":
		return []opstest.Sample{of(normal(2, 5, 3)), of(normal(2, 5, 3)).With(ir.A("perm", []int64{1, 2, 0})),
			of(whole(tensor.Uint4, 0, 16, 2, 3)), of(normal())}
	case "Concat":
		return []opstest.Sample{of(normal(2, 5, 3), normal(2, 5, 1)).With(ir.A("axis", -1)),
			of(normal(2, 3), normal(0, 3), normal(1, 3)).With(ir.A("axis", 0)), of(strs, strs).With(ir.A("axis", 0))}
	case "Split":
		return []opstest.Sample{of(normal(2, 5, 6)).With(ir.A("axis", -1), ir.A("num_outputs", 3)).Gives(3),
			of(normal(2, 5), vec(2, 3)).Fixed(1).With(ir.A("axis", 1)).Gives(2),
			of(normal(7)).With(ir.A("num_outputs", 3)).Gives(3)}
	case "Slice":
		return []opstest.Sample{of(normal(2, 5, 7), vec(1, 0), vec(4, 1<<62), vec(1, 2), vec(1, 2)).Fixed(1, 2, 3, 4),
			of(normal(2, 5, 7), vec(-1), vec(-1<<62), vec(1), vec(-1)).Fixed(1, 2, 3, 4),
			of(normal(5, 7), vec(0), vec(-2), vec(0)).Fixed(1, 2, 3),
			of(normal(5, 7), vec(-2), vec(99), vec(0)).Fixed(1, 2, 3),
			of(normal(5, 7), vec(1, 2), vec(3, 9)).Fixed(1, 2), of(normal(5, 7), vec(3), vec(1)),
			of(normal(8, 2), vec(2), vec(8), vec(0), vec(3)).Fixed(1, 2, 3, 4)}
	case "Gather":
		return []opstest.Sample{of(normal(2, 5, 3), vec(0, -1)).Fixed(1).With(ir.A("axis", 1)),
			of(normal(5, 3), whole(tensor.Int64, 0, 5, 2, 4)), of(normal(2, 5, 3), num(1)).Fixed(1),
			of(strs, vec(2, 0))}
	case "GatherElements":
		return []opstest.Sample{of(normal(2, 5), whole(tensor.Int64, -2, 2, 1, 5)),
			of(normal(2, 5), whole(tensor.Int32, 0, 5, 2, 3)).With(ir.A("axis", 1))}
	case "GatherND":
		return []opstest.Sample{of(normal(2, 5, 3), whole(tensor.Int64, 0, 2, 4, 2)),
			of(normal(2, 5, 3), whole(tensor.Int64, 0, 3, 2, 4, 1)).With(ir.A("batch_dims", 1))}
	case "ScatterND":
		return []opstest.Sample{of(normal(4, 3), whole(tensor.Int64, 0, 4, 2, 1), normal(2, 3)),
			of(normal(4, 3), whole(tensor.Int64, 0, 3, 2, 2), normal(2)).With(ir.A("reduction", "add")),
			of(whole(tensor.Int32, 0, 9, 4), whole(tensor.Int64, 0, 4, 2, 1),
				whole(tensor.Int32, 0, 9, 2)).With(ir.A("reduction", "max"))}
	case "ScatterElements":
		return []opstest.Sample{of(normal(4, 3), whole(tensor.Int64, -4, 4, 2, 3), normal(2, 3)),
			of(normal(4, 3), whole(tensor.Int64, 0, 3, 4, 1), normal(4, 1)).With(ir.A("axis", 1),
				ir.A("reduction", "mul"))}
	case "Tile":
		return []opstest.Sample{of(normal(2, 5), vec(3, 1)).Fixed(1), of(normal(2, 5), vec(0, 2))}
	case "Pad":
		return []opstest.Sample{of(normal(2, 5), vec(0, 2, 0, 1), inside(0, 1)).Fixed(1),
			of(normal(2, 5), vec(1, 2, 0, 3)).Fixed(1).With(ir.A("mode", "reflect")),
			of(normal(2, 5), vec(-1, 2), nil, vec(1)).Fixed(1, 3).With(ir.A("mode", "edge")),
			of(normal(2, 5), vec(6, 7), nil, vec(-1)).With(ir.A("mode", "wrap")),
			of(normal(2, 5, 3), vec(2, -2), nil, vec(1)).Fixed(1, 3)}
	case "ReverseSequence":
		return []opstest.Sample{of(normal(5, 2, 3), vec(3, 5)),
			of(normal(2, 5), vec(0, 4)).With(ir.A("batch_axis", 0), ir.A("time_axis", 1))}
	case "CumSum":
		return []opstest.Sample{of(normal(2, 5, 3), num(1)).Fixed(1),
			of(normal(2, 5), num(-1)).Fixed(1).With(ir.A("exclusive", 1), ir.A("reverse", 1)),
			of(whole(tensor.Int32, 0, 9, 4), num(0))}
	case "OneHot":
		return []opstest.Sample{of(whole(tensor.Int64, -4, 4, 2, 5), num(4), normal(2)).Fixed(1),
			of(whole(tensor.Int32, 0, 4, 3), num(4), whole(tensor.Int32, 0, 9, 2)).With(ir.A("axis", 0))}
	case "TopK":
		return []opstest.Sample{of(normal(2, 5, 3), vec(2)).Fixed(1).With(ir.A("axis", 1)).Gives(2),
			of(whole(tensor.Int64, 0, 3, 2, 5), vec(3)).With(ir.A("largest", 0)).Gives(2)}
	case "Conv":
		return []opstest.Sample{of(normal(2, 3, 7), normal(4, 3, 3), normal(4)).With(ir.A("pads", []int64{2, 0})),
			of(normal(1, 4, 8), normal(4, 1, 2)).With(ir.A("group", 4), ir.A("strides", []int64{2})),
			of(normal(1, 2, 6, 5), normal(2, 2, 3, 2)).With(ir.A("dilations", []int64{2, 1}),
				ir.A("auto_pad", "SAME_LOWER")), of(normal(1, 2, 9),
				normal(2, 2, 3)).With(ir.A("auto_pad", "SAME_UPPER"), ir.A("strides", []int64{2})),
			of(normal(1, 1, 9), normal(1, 1, 3)).With(ir.A("dilations", []int64{2}), ir.A("pads", []int64{4, 4}))}
	case "If":
		branch := func(name string, k int) *ir.Graph {
			return graphOf(func(b *ir.Builder) {
				b.Output(name+"_out", op(b, "Identity", b.Const(name+"_zeros", tensor.New(tensor.Int64, k))))
			})
		}
		return []opstest.Sample{of(bools()).With(ir.A("then_branch", branch("then", 2)),
			ir.A("else_branch", branch("else", 3)))}
	case "Loop":
		body := graphOf(func(b *ir.Builder) {
			i := b.Input("i", ir.Tensor(tensor.Int64))
			b.Input("go", ir.Tensor(tensor.Bool))
			x := b.Input("x", f32type("N"))
			b.Output("more", op(b, "Less", i, b.Const("limit", tensor.Scalar(int64(3)))))
			y := op(b, "Add", x, x)
			b.Output("y", y)
			b.Output("z", op(b, "Neg", y))
		})
		return []opstest.Sample{of(num(2), nil, normal(5)).With(ir.A("body", body)).Gives(2),
			of(nil, tensor.Scalar(true), normal(5)).With(ir.A("body", body)).Gives(2),
			of(num(0), nil, normal(5)).With(ir.A("body", body)).Gives(2)}
	case "Scan":
		body := graphOf(func(b *ir.Builder) {
			s, x := b.Input("s", f32type(3)), b.Input("x", f32type(3))
			t := op(b, "Add", s, x)
			b.Output("t", t)
			b.Output("y", op(b, "Neg", t))
		})
		return []opstest.Sample{of(normal(3), normal(5, 3)).With(ir.A("body", body),
			ir.A("num_scan_inputs", 1)).Gives(2),
			of(normal(3), normal(3, 5)).With(ir.A("body", body), ir.A("num_scan_inputs", 1),
				ir.A("scan_input_axes", []int64{1}), ir.A("scan_input_directions", []int64{1}),
				ir.A("scan_output_axes", []int64{-1}), ir.A("scan_output_directions", []int64{1})).Gives(2)}
	case "SequenceEmpty":
		return []opstest.Sample{of().With(ir.A("dtype", int(tensor.Int64)))}
	case "SequenceConstruct":
		return []opstest.Sample{of(normal(2, 5), normal(2, 3))}
	case "SequenceInsert":
		return []opstest.Sample{of(seqOf(normal(2), normal(3)), normal(4), num(-2)), of(seqOf(normal(2)), normal(4))}
	case "SequenceErase":
		return []opstest.Sample{of(seqOf(normal(2), normal(3)), num(0)), of(seqOf(normal(2)))}
	case "SequenceAt":
		return []opstest.Sample{of(seqOf(normal(2), normal(3)), num(-1))}
	case "SequenceLength":
		return []opstest.Sample{of(seqOf(normal(2), normal(3)))}
	case "SequenceMap":
		body := graphOf(func(b *ir.Builder) {
			x, y := b.Input("x", f32type("N")), b.Input("y", f32type(1))
			b.Output("z", op(b, "Add", x, y))
		})
		return []opstest.Sample{of(seqOf(normal(2), normal(3)), normal(1)).With(ir.A("body", body)),
			of(seqOf(normal(2), normal(3)), seqOf(normal(1), normal(1))).With(ir.A("body", body))}
	case "ConcatFromSequence":
		return []opstest.Sample{of(seqOf(normal(2, 5), normal(2, 3))).With(ir.A("axis", 1)),
			of(seqOf(normal(2, 5), normal(2, 5))).With(ir.A("axis", -1), ir.A("new_axis", 1))}
	case "SplitToSequence":
		return []opstest.Sample{of(normal(2, 5)).With(ir.A("keepdims", 0)),
			of(normal(2, 5), num(2)).With(ir.A("axis", 1)), of(normal(2, 5), vec(1, 4)).With(ir.A("axis", -1))}
	case "Optional":
		return []opstest.Sample{of(normal(2, 5)), of().With(ir.A("type", f32type(2)))}
	case "OptionalHasElement":
		return []opstest.Sample{of(&tensor.Optional{Value: normal(2)}), of(), of(normal(2))}
	case "OptionalGetElement":
		return []opstest.Sample{of(&tensor.Optional{Value: normal(2)}), of(normal(2))}
	}
	return nil
}
