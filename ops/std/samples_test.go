package std

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/opstest"
)

// sample is one application of an operator: its inputs, those that are constants of the graph, attributes, and the number
// of outputs.
type sample struct {
	in     []tensor.Datum
	consts []int
	attrs  []ir.Attr
	outs   int
}

func (s sample) shared() opstest.Sample {
	return opstest.Sample{In: s.in, Consts: s.consts, Attrs: s.attrs, Outs: s.outs}
}

// What samples are made of.
var (
	random = opstest.Random
	normal = opstest.Normal
	inside = opstest.Inside
	whole  = opstest.Whole
	bools  = opstest.Bools
	vec    = opstest.Vec
	num    = opstest.Num
)

func of(in ...tensor.Datum) sample { return sample{in: in, outs: 1} }

// with adds attributes.
func (s sample) with(attrs ...ir.Attr) sample { s.attrs = attrs; return s }

// fixed says which inputs are constants.
func (s sample) fixed(consts ...int) sample { s.consts = consts; return s }

// gives sets the number of outputs.
func (s sample) gives(n int) sample { s.outs = n; return s }

func seqOf(items ...tensor.Datum) tensor.Datum { return &tensor.Sequence{Items: items} }

// graphOf builds a subgraph.
func graphOf(build func(b *ir.Builder)) *ir.Graph {
	b := ir.NewBuilder("body", ops.Default, ops.Opsets())
	build(b)
	g, err := b.Build()
	if err != nil {
		panic(err)
	}
	return g
}

// moreSamples is samplesOf for operators, and versions of operators, whose samples are in files of their own, each of which
// adds a function; it gives none for an operator it does not know.
var moreSamples []func(o *ir.Op) []sample

// samplesOf gives samples for an operator; none when it is not known here.
func samplesOf(o *ir.Op) []sample {
	for _, more := range moreSamples {
		if s := more(o); s != nil {
			return s
		}
	}
	f32type := func(dims ...any) ir.Type { return ir.Tensor(tensor.Float32, dims...) }
	strs := tensor.FromStrings([]string{"a", "b", "c"}, 3)
	switch o.Name {
	case "Exp", "Sin", "Cos", "Sinh", "Cosh", "Asinh", "Atan", "Tanh", "Sigmoid", "Erf", "Floor", "Ceil", "Round", "IsNaN", "IsInf", "Softsign", "Softplus", "HardSwish", "Mish", "Relu", "Abs", "Neg", "Sign":
		out := []sample{of(normal(2, 5, 3)), of(normal()), of(normal(0, 3))}
		switch o.Name {
		case "Abs", "Neg", "Sign", "Relu":
			out = append(out, of(whole(tensor.Int32, -5, 5, 4)), of(whole(tensor.Int64, -5, 5, 4)))
		}
		return out
	case "Log", "Sqrt", "Reciprocal":
		return []sample{of(inside(0.1, 4, 2, 5, 3)), of(inside(0.1, 4))}
	case "Acosh":
		return []sample{of(inside(1, 4, 2, 5))}
	case "Asin", "Acos", "Atanh", "Tan":
		return []sample{of(inside(-1, 1, 2, 5))}
	case "LeakyRelu", "Elu", "Celu", "Selu", "ThresholdedRelu", "Swish":
		return []sample{of(normal(2, 5, 3)), of(normal(4, 5)).with(ir.A("alpha", 0.3))}
	case "HardSigmoid":
		return []sample{of(normal(2, 5, 3)), of(normal(4)).with(ir.A("alpha", 0.5), ir.A("beta", 0.1))}
	case "Gelu":
		return []sample{of(normal(2, 5, 3)), of(normal(4)).with(ir.A("approximate", "tanh"))}
	case "Not":
		return []sample{of(bools(2, 3))}
	case "And", "Or", "Xor":
		return []sample{of(bools(2, 5, 3), bools(3)), of(bools(), bools(4))}
	case "Add", "Sub", "Mul", "Div", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Min", "Max":
		return []sample{of(normal(2, 5, 3), normal(2, 5, 3)), of(normal(5, 1), normal(2, 1, 3)), of(normal(), normal(3)), of(normal(0, 3), normal(3)),
			of(whole(tensor.Uint64, 1, 9, 4), whole(tensor.Uint64, 1, 9, 4)), of(whole(tensor.Int8, -9, 9, 4), whole(tensor.Int8, 1, 9, 1))}
	case "Equal":
		return []sample{of(whole(tensor.Int64, 0, 3, 2, 5), whole(tensor.Int64, 0, 3, 5)), of(strs, strs), of(normal(2, 5), normal(2, 5))}
	case "Sum", "Mean":
		return []sample{of(normal(2, 5, 3), normal(3), normal(5, 1)), of(normal(3))}
	case "Mod":
		return []sample{of(whole(tensor.Int32, -9, 9, 2, 5), whole(tensor.Int32, 1, 5, 5)), of(normal(4), normal(4)).with(ir.A("fmod", 1))}
	case "Pow":
		return []sample{of(inside(0.1, 2, 2, 5), normal(5)), of(whole(tensor.Int64, -3, 4, 4), whole(tensor.Int64, 0, 4, 4)), of(normal(3), num(2))}
	case "Where":
		return []sample{of(bools(5, 1), normal(2, 5, 3), normal(3)), of(bools(3), strs, strs), of(bools(2, 4), whole(tensor.Int4, -8, 8, 2, 4), whole(tensor.Int4, -8, 8, 4))}
	case "Clip":
		return []sample{of(normal(2, 5), inside(-1, 0), inside(0, 1)), of(normal(4), nil, inside(0, 1)), of(whole(tensor.Int32, -9, 9, 4), whole(tensor.Int32, -3, -2)), of(normal(4))}
	case "MatMul":
		return []sample{of(normal(2, 5, 3), normal(3, 4)), of(normal(3), normal(3)), of(normal(3), normal(2, 3, 4)), of(normal(2, 5, 3), normal(3)),
			of(normal(2, 1, 5, 3), normal(4, 3, 6)), of(whole(tensor.Int32, -9, 9, 2, 3), whole(tensor.Int32, -9, 9, 3, 2)), of(normal(2, 0), normal(0, 3))}
	case "Gemm":
		return []sample{of(normal(5, 3), normal(3, 4), normal(4)), of(normal(3, 5), normal(4, 3), normal(5, 1)).with(ir.A("transA", 1), ir.A("transB", 1), ir.A("alpha", 0.5), ir.A("beta", 2.0)), of(normal(5, 3), normal(3, 4))}
	case "Einsum":
		return []sample{of(normal(2, 5, 3), normal(3, 4)).with(ir.A("equation", "bij,jk->bik")), of(normal(4, 4)).with(ir.A("equation", "ii")),
			of(normal(2, 5, 3), normal(2, 3, 4)).with(ir.A("equation", "...ij,...jk->...ik")), of(normal(2, 5)).with(ir.A("equation", "ij->ji"))}
	case "ReduceSum", "ReduceMean", "ReduceProd", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMin", "ReduceLogSum":
		x := func(shape ...int) tensor.Datum { return inside(0.1, 2, shape...) }
		return []sample{of(x(2, 5, 3)), of(x(2, 5, 3), vec(-1)).fixed(1), of(x(2, 5, 3), vec(0, 2)).fixed(1).with(ir.A("keepdims", 0)),
			of(x(2, 5), vec()).fixed(1).with(ir.A("noop_with_empty_axes", 1)), of(x(2, 5, 3), vec(1)), of(whole(tensor.Int32, 1, 5, 2, 5), vec(1)).fixed(1), of(x())}
	case "ArgMax", "ArgMin":
		return []sample{of(normal(2, 5, 3)), of(normal(2, 5, 3)).with(ir.A("axis", -2), ir.A("keepdims", 0)), of(whole(tensor.Int32, 0, 2, 2, 5)).with(ir.A("axis", 1), ir.A("select_last_index", 1))}
	case "Softmax", "LogSoftmax", "Hardmax":
		return []sample{of(normal(2, 5, 3)), of(normal(2, 5, 3)).with(ir.A("axis", 1)), of(normal(0, 3))}
	case "LayerNormalization":
		return []sample{of(normal(2, 5, 3), normal(3), normal(3)).gives(3), of(normal(2, 5, 3), normal(5, 3)).with(ir.A("axis", 1))}
	case "RMSNormalization":
		return []sample{of(normal(2, 5, 3), normal(3)), of(normal(2, 5, 3), normal(5, 3)).with(ir.A("axis", -2))}
	case "InstanceNormalization":
		return []sample{of(normal(2, 3, 5), normal(3), normal(3))}
	case "BatchNormalization":
		stats := []tensor.Datum{normal(2, 3, 5), normal(3), normal(3), normal(3), inside(0.1, 2, 3)}
		return []sample{of(stats...), of(stats...).with(ir.A("training_mode", 1)).gives(3)}
	case "MeanVarianceNormalization":
		return []sample{of(normal(2, 3, 5, 4)), of(normal(2, 5, 3)).with(ir.A("axes", []int64{-1}))}
	case "Identity":
		return []sample{of(normal(2, 5)), of(strs), of(seqOf(normal(2)))}
	case "Cast":
		return []sample{of(normal(2, 5)).with(ir.A("to", int(tensor.Int32))), of(normal(3)).with(ir.A("to", int(tensor.Float16))), of(normal(3)).with(ir.A("to", int(tensor.String))), of(whole(tensor.Int64, -9, 9, 3)).with(ir.A("to", int(tensor.Uint8)))}
	case "CastLike":
		return []sample{of(normal(2, 5), whole(tensor.Int8, 0, 2))}
	case "Constant":
		return []sample{of().with(ir.A("value_float", 0.5)), of().with(ir.A("value_ints", []int64{1, 2})), of().with(ir.A("value", normal(2, 3))), of().with(ir.A("value_string", "x"))}
	case "ConstantOfShape":
		return []sample{of(vec(2, 3)).fixed(0), of(vec(2, 0)).with(ir.A("value", tensor.FromSlice([]int64{7}, 1))), of(vec())}
	case "Shape":
		return []sample{of(normal(2, 5, 3)), of(normal(2, 5, 3)).with(ir.A("start", -2), ir.A("end", 2)), of(normal())}
	case "Size":
		return []sample{of(normal(2, 5))}
	case "Range":
		return []sample{of(num(1), num(9), num(3)).fixed(0, 1, 2), of(num(9), num(1), num(-3)).fixed(0, 1, 2), of(num(1), num(4), num(2)), of(normal(), inside(3, 4), inside(0.4, 0.5)), of(num(3), num(1), num(2)), of(tensor.Scalar(int16(9)), tensor.Scalar(int16(-4)), tensor.Scalar(int16(-3)))}
	case "Reshape":
		return []sample{of(normal(2, 5, 3), vec(0, -1)).fixed(1), of(normal(2, 5, 4), vec(0, 0, 2, 2)).fixed(1), of(normal(2, 5, 3), vec(-1)).fixed(1), of(normal(0, 3), vec(3, 0)).fixed(1).with(ir.A("allowzero", 1)), of(normal(2, 5), vec(5, 2))}
	case "Flatten":
		return []sample{of(normal(2, 5, 3)), of(normal(2, 5, 3)).with(ir.A("axis", -1)), of(normal(2, 5)).with(ir.A("axis", 0))}
	case "Squeeze":
		return []sample{of(normal(2, 1, 5, 1), vec(1)).fixed(1), of(normal(2, 1, 5, 1)), of(normal(1, 5), vec(-2))}
	case "Unsqueeze":
		return []sample{of(normal(2, 5), vec(0, -1)).fixed(1), of(normal(), vec(0)).fixed(1), of(normal(2, 5), vec(1))}
	case "Expand":
		return []sample{of(normal(5, 1), vec(2, 1, 3)).fixed(1), of(normal(5, 3), vec(5, 3)), of(normal(2, 5, 3), vec(1)).fixed(1)}
	case "Transpose":
		return []sample{of(normal(2, 5, 3)), of(normal(2, 5, 3)).with(ir.A("perm", []int64{1, 2, 0})), of(whole(tensor.Uint4, 0, 16, 2, 3)), of(normal())}
	case "Concat":
		return []sample{of(normal(2, 5, 3), normal(2, 5, 1)).with(ir.A("axis", -1)), of(normal(2, 3), normal(0, 3), normal(1, 3)).with(ir.A("axis", 0)), of(strs, strs).with(ir.A("axis", 0))}
	case "Split":
		return []sample{of(normal(2, 5, 6)).with(ir.A("axis", -1), ir.A("num_outputs", 3)).gives(3), of(normal(2, 5), vec(2, 3)).fixed(1).with(ir.A("axis", 1)).gives(2), of(normal(7)).with(ir.A("num_outputs", 3)).gives(3)}
	case "Slice":
		return []sample{of(normal(2, 5, 7), vec(1, 0), vec(4, 1<<62), vec(1, 2), vec(1, 2)).fixed(1, 2, 3, 4), of(normal(2, 5, 7), vec(-1), vec(-1<<62), vec(1), vec(-1)).fixed(1, 2, 3, 4),
			of(normal(5, 7), vec(0), vec(-2), vec(0)).fixed(1, 2, 3), of(normal(5, 7), vec(-2), vec(99), vec(0)).fixed(1, 2, 3), of(normal(5, 7), vec(1, 2), vec(3, 9)).fixed(1, 2), of(normal(5, 7), vec(3), vec(1)), of(normal(8, 2), vec(2), vec(8), vec(0), vec(3)).fixed(1, 2, 3, 4)}
	case "Gather":
		return []sample{of(normal(2, 5, 3), vec(0, -1)).fixed(1).with(ir.A("axis", 1)), of(normal(5, 3), whole(tensor.Int64, 0, 5, 2, 4)), of(normal(2, 5, 3), num(1)).fixed(1), of(strs, vec(2, 0))}
	case "GatherElements":
		return []sample{of(normal(2, 5), whole(tensor.Int64, -2, 2, 1, 5)), of(normal(2, 5), whole(tensor.Int32, 0, 5, 2, 3)).with(ir.A("axis", 1))}
	case "GatherND":
		return []sample{of(normal(2, 5, 3), whole(tensor.Int64, 0, 2, 4, 2)), of(normal(2, 5, 3), whole(tensor.Int64, 0, 3, 2, 4, 1)).with(ir.A("batch_dims", 1))}
	case "ScatterND":
		return []sample{of(normal(4, 3), whole(tensor.Int64, 0, 4, 2, 1), normal(2, 3)), of(normal(4, 3), whole(tensor.Int64, 0, 3, 2, 2), normal(2)).with(ir.A("reduction", "add")), of(whole(tensor.Int32, 0, 9, 4), whole(tensor.Int64, 0, 4, 2, 1), whole(tensor.Int32, 0, 9, 2)).with(ir.A("reduction", "max"))}
	case "ScatterElements":
		return []sample{of(normal(4, 3), whole(tensor.Int64, -4, 4, 2, 3), normal(2, 3)), of(normal(4, 3), whole(tensor.Int64, 0, 3, 4, 1), normal(4, 1)).with(ir.A("axis", 1), ir.A("reduction", "mul"))}
	case "Tile":
		return []sample{of(normal(2, 5), vec(3, 1)).fixed(1), of(normal(2, 5), vec(0, 2))}
	case "Pad":
		return []sample{of(normal(2, 5), vec(0, 2, 0, 1), inside(0, 1)).fixed(1), of(normal(2, 5), vec(1, 2, 0, 3)).fixed(1).with(ir.A("mode", "reflect")), of(normal(2, 5), vec(-1, 2), nil, vec(1)).fixed(1, 3).with(ir.A("mode", "edge")), of(normal(2, 5), vec(6, 7), nil, vec(-1)).with(ir.A("mode", "wrap")), of(normal(2, 5, 3), vec(2, -2), nil, vec(1)).fixed(1, 3)}
	case "ReverseSequence":
		return []sample{of(normal(5, 2, 3), vec(3, 5)), of(normal(2, 5), vec(0, 4)).with(ir.A("batch_axis", 0), ir.A("time_axis", 1))}
	case "CumSum":
		return []sample{of(normal(2, 5, 3), num(1)).fixed(1), of(normal(2, 5), num(-1)).fixed(1).with(ir.A("exclusive", 1), ir.A("reverse", 1)), of(whole(tensor.Int32, 0, 9, 4), num(0))}
	case "OneHot":
		return []sample{of(whole(tensor.Int64, -4, 4, 2, 5), num(4), normal(2)).fixed(1), of(whole(tensor.Int32, 0, 4, 3), num(4), whole(tensor.Int32, 0, 9, 2)).with(ir.A("axis", 0))}
	case "TopK":
		return []sample{of(normal(2, 5, 3), vec(2)).fixed(1).with(ir.A("axis", 1)).gives(2), of(whole(tensor.Int64, 0, 3, 2, 5), vec(3)).with(ir.A("largest", 0)).gives(2)}
	case "Conv":
		return []sample{of(normal(2, 3, 7), normal(4, 3, 3), normal(4)).with(ir.A("pads", []int64{2, 0})), of(normal(1, 4, 8), normal(4, 1, 2)).with(ir.A("group", 4), ir.A("strides", []int64{2})),
			of(normal(1, 2, 6, 5), normal(2, 2, 3, 2)).with(ir.A("dilations", []int64{2, 1}), ir.A("auto_pad", "SAME_LOWER")), of(normal(1, 2, 9), normal(2, 2, 3)).with(ir.A("auto_pad", "SAME_UPPER"), ir.A("strides", []int64{2})), of(normal(1, 1, 9), normal(1, 1, 3)).with(ir.A("dilations", []int64{2}), ir.A("pads", []int64{4, 4}))}
	case "If":
		branch := func(k int64) *ir.Graph {
			return graphOf(func(b *ir.Builder) { b.Output("", op(b, "Identity", b.Ints(make([]int64, k)...))) })
		}
		return []sample{of(bools()).with(ir.A("then_branch", branch(2)), ir.A("else_branch", branch(3)))}
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
		return []sample{of(num(2), nil, normal(5)).with(ir.A("body", body)).gives(2), of(nil, tensor.Scalar(true), normal(5)).with(ir.A("body", body)).gives(2), of(num(0), nil, normal(5)).with(ir.A("body", body)).gives(2)}
	case "Scan":
		body := graphOf(func(b *ir.Builder) {
			s, x := b.Input("s", f32type(3)), b.Input("x", f32type(3))
			t := op(b, "Add", s, x)
			b.Output("t", t)
			b.Output("y", op(b, "Neg", t))
		})
		return []sample{of(normal(3), normal(5, 3)).with(ir.A("body", body), ir.A("num_scan_inputs", 1)).gives(2),
			of(normal(3), normal(3, 5)).with(ir.A("body", body), ir.A("num_scan_inputs", 1), ir.A("scan_input_axes", []int64{1}), ir.A("scan_input_directions", []int64{1}), ir.A("scan_output_axes", []int64{-1}), ir.A("scan_output_directions", []int64{1})).gives(2)}
	case "SequenceEmpty":
		return []sample{of().with(ir.A("dtype", int(tensor.Int64)))}
	case "SequenceConstruct":
		return []sample{of(normal(2, 5), normal(2, 3))}
	case "SequenceInsert":
		return []sample{of(seqOf(normal(2), normal(3)), normal(4), num(-2)), of(seqOf(normal(2)), normal(4))}
	case "SequenceErase":
		return []sample{of(seqOf(normal(2), normal(3)), num(0)), of(seqOf(normal(2)))}
	case "SequenceAt":
		return []sample{of(seqOf(normal(2), normal(3)), num(-1))}
	case "SequenceLength":
		return []sample{of(seqOf(normal(2), normal(3)))}
	case "SequenceMap":
		body := graphOf(func(b *ir.Builder) {
			x, y := b.Input("x", f32type("N")), b.Input("y", f32type(1))
			b.Output("z", op(b, "Add", x, y))
		})
		return []sample{of(seqOf(normal(2), normal(3)), normal(1)).with(ir.A("body", body)), of(seqOf(normal(2), normal(3)), seqOf(normal(1), normal(1))).with(ir.A("body", body))}
	case "ConcatFromSequence":
		return []sample{of(seqOf(normal(2, 5), normal(2, 3))).with(ir.A("axis", 1)), of(seqOf(normal(2, 5), normal(2, 5))).with(ir.A("axis", -1), ir.A("new_axis", 1))}
	case "SplitToSequence":
		return []sample{of(normal(2, 5)).with(ir.A("keepdims", 0)), of(normal(2, 5), num(2)).with(ir.A("axis", 1)), of(normal(2, 5), vec(1, 4)).with(ir.A("axis", -1))}
	case "Optional":
		return []sample{of(normal(2, 5)), of().with(ir.A("type", f32type(2)))}
	case "OptionalHasElement":
		return []sample{of(&tensor.Optional{Value: normal(2)}), of(), of(normal(2))}
	case "OptionalGetElement":
		return []sample{of(&tensor.Optional{Value: normal(2)}), of(normal(2))}
	}
	return nil
}
