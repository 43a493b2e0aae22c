package samples

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/opstest"
)

func scalarOf(d tensor.DType, x int) tensor.Datum { return whole(d, x, x+1) }

func quantSamples(o *ir.Op) []opstest.Sample {
	f := func(v ...float32) tensor.Datum { return tensor.FromSlice(v, len(v)) }
	one := func(v float32) tensor.Datum { return tensor.Scalar(v) }
	u8 := func(shape ...int) tensor.Datum { return whole(tensor.Uint8, 0, 255, shape...) }
	i8 := func(shape ...int) tensor.Datum { return whole(tensor.Int8, -99, 99, shape...) }
	switch o.Name {
	case "QuantizeLinear":
		return []opstest.Sample{of(normal(2, 5, 3), one(0.25)),
			of(normal(2, 5, 3), one(0.01), scalarOf(tensor.Int8, 3)),
			of(normal(2, 5, 3), f(0.1, 0.2, 0.3, 0.4, 0.5), i8(5)),
			of(normal(2, 6), inside(0.1, 1, 2, 3)).With(ir.A("block_size", 2), ir.A("output_dtype", int(tensor.Int4))),
			of(normal(4, 2), inside(0.1, 1, 2, 2), whole(tensor.Uint16, 0, 9, 2, 2)).With(ir.A("axis", 0),
				ir.A("block_size", 3)),
			of(normal(4), one(0.5)).With(ir.A("output_dtype", int(tensor.Float8E4M3FN)), ir.A("saturate", 0))}
	case "DequantizeLinear":
		return []opstest.Sample{of(u8(2, 5, 3), one(0.25)), of(i8(2, 5, 3), one(0.25), scalarOf(tensor.Int8, 3)),
			of(u8(2, 5), f(0.1, 0.2), u8(2)).With(ir.A("axis", 0)),
			of(whole(tensor.Int4, -8, 8, 2, 6), inside(0.1, 1, 2, 3)).With(ir.A("block_size", 2)),
			of(whole(tensor.Int32, -99, 99, 4), one(0.5))}
	case "DynamicQuantizeLinear":
		return []opstest.Sample{of(normal(2, 5)).Gives(3), of(inside(1, 2, 7)).Gives(3)}
	case "MatMulInteger":
		return []opstest.Sample{of(u8(4, 3), i8(3, 2)),
			of(i8(4, 3), u8(3, 2), scalarOf(tensor.Int8, 3), scalarOf(tensor.Uint8, 7)),
			of(u8(2, 4, 3), u8(3, 2), u8(4), u8(2))}
	case "QLinearMatMul":
		return []opstest.Sample{of(u8(2, 4, 3), one(0.125), scalarOf(tensor.Uint8, 100), i8(3, 2), one(0.0625),
			scalarOf(tensor.Int8, 3), one(1), scalarOf(tensor.Uint8, 90)),
			of(i8(4, 3), inside(0.1, 1, 4), i8(4), i8(3, 2), inside(0.1, 1, 2), i8(2), one(3),
				scalarOf(tensor.Int8, 3)),
			of(whole(tensor.Float8E4M3FN, -9, 9, 4, 3), one(0.5), scalarOf(tensor.Float8E4M3FN, 0),
				whole(tensor.Float8E5M2, -9, 9, 3, 2), one(0.5), scalarOf(tensor.Float8E5M2, 0), one(0.5),
				scalarOf(tensor.Float8E4M3FN, 0))}
	case "ConvInteger":
		return []opstest.Sample{of(u8(1, 2, 7), i8(3, 2, 3)).With(ir.A("pads", []int64{1, 1})),
			of(u8(2, 2, 5, 4), u8(4, 1, 2, 2), scalarOf(tensor.Uint8, 3), u8(4)).With(ir.A("group", 2))}
	case "QLinearConv":
		return []opstest.Sample{of(u8(1, 2, 7), one(0.125), scalarOf(tensor.Uint8, 100), i8(3, 2, 3), one(0.0625),
			scalarOf(tensor.Int8, 3), one(1), scalarOf(tensor.Uint8, 90)).With(ir.A("pads", []int64{2, 0})),
			of(u8(1, 2, 5, 4), one(0.1), scalarOf(tensor.Uint8, 100), i8(3, 2, 2, 2), inside(0.1, 1, 3), i8(3), one(9),
				scalarOf(tensor.Int8, 3), whole(tensor.Int32, -99, 99, 3))}
	case "BitwiseAnd", "BitwiseOr", "BitwiseXor":
		return []opstest.Sample{of(whole(tensor.Int32, -99, 99, 2, 5), whole(tensor.Int32, -99, 99, 5)),
			of(whole(tensor.Uint64, 0, 99, 3), whole(tensor.Uint64, 0, 99)), of(i8(4), i8(4))}
	case "BitwiseNot":
		return []opstest.Sample{of(u8(2, 5)), of(whole(tensor.Int64, -9, 9, 3))}
	case "BitShift":
		return []opstest.Sample{of(u8(2, 5), whole(tensor.Uint8, 0, 9, 5)).With(ir.A("direction", "LEFT")),
			of(whole(tensor.Uint64, 0, 99, 3), whole(tensor.Uint64, 0, 70, 3)).With(ir.A("direction", "RIGHT"))}
	case "BitCast":
		return []opstest.Sample{of(u8(2, 5)).With(ir.A("to", int(tensor.Int8))),
			of(whole(tensor.Int64, -9, 9, 3)).With(ir.A("to", int(tensor.Float64))),
			of(normal(2, 3)).With(ir.A("to", int(tensor.Int32))),
			of(whole(tensor.Int32, 1<<20, 1<<24, 3)).With(ir.A("to", int(tensor.Float32)))}
	}
	return nil
}

func selectSamples(o *ir.Op) []opstest.Sample {
	strs := tensor.FromStrings([]string{"b", "a", "b"}, 3)
	yes := func(v ...bool) tensor.Datum { return tensor.FromSlice(v, len(v)) }
	switch o.Name {
	case "Compress":
		return []opstest.Sample{of(normal(2, 5, 3), yes(true, false, true)).With(ir.A("axis", 1)),
			of(normal(2, 5), yes(false, true, true)), of(strs, yes(true, false, true)).With(ir.A("axis", -1))}
	case "NonZero":
		return []opstest.Sample{of(whole(tensor.Int32, 0, 2, 2, 5)), of(normal()), of(strs), of(bools(3, 2))}
	case "Unique":
		return []opstest.Sample{of(whole(tensor.Int64, 0, 3, 2, 5)).Gives(4),
			of(whole(tensor.Int64, 0, 2, 7, 2)).With(ir.A("axis", 0)).Gives(4),
			of(whole(tensor.Int64, 0, 9, 3, 4)).With(ir.A("axis", -1), ir.A("sorted", 0)).Gives(2),
			of(strs).With(ir.A("sorted", 0)).Gives(4), of(normal(0)).Gives(4)}
	case "Trilu":
		return []opstest.Sample{of(normal(2, 5, 4)), of(normal(5, 7), num(-2)).With(ir.A("upper", 0)),
			of(whole(tensor.Int64, 0, 9, 4, 3), num(2)), of(normal(0, 3))}
	case "EyeLike":
		return []opstest.Sample{of(normal(4, 5)), of(normal(4, 5)).With(ir.A("k", -1),
			ir.A("dtype", int(tensor.Int32)))}
	case "CumProd":
		return []opstest.Sample{of(inside(0.5, 2, 2, 5, 3), num(1)).Fixed(1),
			of(inside(0.5, 2, 2, 5), num(-1)).Fixed(1).With(ir.A("exclusive", 1), ir.A("reverse", 1)),
			of(whole(tensor.Int32, 1, 4, 4), num(0))}
	case "TensorScatter":
		return []opstest.Sample{of(normal(2, 3, 6, 4), normal(2, 3, 2, 4), vec(1, 4)),
			of(normal(2, 6, 4), normal(2, 3, 4), vec(5, 2)).With(ir.A("mode", "circular")),
			of(normal(2, 6), normal(2, 3)).With(ir.A("axis", 1))}
	}
	return nil
}

func randomSamples(o *ir.Op) []opstest.Sample {
	shape := ir.A("shape", []int64{2, 5})
	switch o.Name {
	case "RandomUniform":
		return []opstest.Sample{of().With(shape, ir.A("seed", 3.0)),
			of().With(shape, ir.A("seed", 3.0), ir.A("low", -2.0), ir.A("dtype", int(tensor.Float64)))}
	case "RandomNormal":
		return []opstest.Sample{of().With(shape, ir.A("seed", 3.0)),
			of().With(shape, ir.A("seed", 4.5), ir.A("mean", -2.0), ir.A("scale", 0.5))}
	case "RandomUniformLike", "RandomNormalLike":
		return []opstest.Sample{of(normal(2, 5)).With(ir.A("seed", 3.0)),
			of(whole(tensor.Int32, 0, 9, 7)).With(ir.A("seed", 3.0), ir.A("dtype", int(tensor.Float16)))}
	case "Bernoulli":
		return []opstest.Sample{of(inside(0, 1, 2, 5)).With(ir.A("seed", 3.0)),
			of(inside(0, 1, 7)).With(ir.A("seed", 3.0), ir.A("dtype", int(tensor.Bool)))}
	case "Multinomial":
		return []opstest.Sample{of(normal(3, 5)).With(ir.A("seed", 3.0), ir.A("sample_size", 4)),
			of(normal(1, 2)).With(ir.A("seed", 3.0), ir.A("dtype", int(tensor.Int64)))}
	case "Dropout":
		if o.Since < 12 {
			return []opstest.Sample{of(normal(2, 5)).Gives(2), of(normal(3)).With(ir.A("ratio", 0.1))}
		}
		return []opstest.Sample{of(normal(2, 5, 3)).Gives(2),
			of(normal(2, 5, 3), tensor.Scalar(float32(0.3)), tensor.Scalar(true)).With(ir.A("seed", 7)).Gives(2)}
	}
	return nil
}
