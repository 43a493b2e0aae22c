package std

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

var (
	bytesOnly = []tensor.DType{tensor.Int8, tensor.Uint8}
	byteTypes = []tensor.DType{tensor.Int8, tensor.Uint8, tensor.Float8E4M3FN, tensor.Float8E4M3FNUZ,
		tensor.Float8E5M2, tensor.Float8E5M2FNUZ}
	float32s   = []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16}
	int32Types = []tensor.DType{tensor.Int32}
)

func castOp(b *ir.Builder, v *ir.Value, to tensor.DType) *ir.Value {
	if v == nil || v.Elem() == to {
		return v
	}
	return attr(b, "Cast", []*ir.Value{v}, ir.A("to", int64(to)))
}

// given returns input i of a body, or nil if it is absent.
func given(in []*ir.Value, i int) *ir.Value {
	if i < len(in) {
		return in[i]
	}
	return nil
}

// perRow converts a vector of one number per row of the matrix m to a column, and a vector of one number to a scalar:
// the only one that an m of one axis, which is a row, has.
func perRow(b *ir.Builder, v, m *ir.Value) *ir.Value {
	if v == nil { // after an error
		return nil
	}
	if s := v.Shape(); len(s) == 1 {
		if k, ok := s[0].Known(); ok && k == 1 || vector(m) {
			return op(b, "Reshape", v, b.Ints())
		}
		return op(b, "Unsqueeze", v, b.Ints(-1))
	}
	return v
}

// perColumn converts a vector of one number to a scalar: the only one that an m of one axis, which is a column, has.
func perColumn(b *ir.Builder, v, m *ir.Value) *ir.Value {
	if v == nil { // after an error
		return nil
	}
	if s := v.Shape(); len(s) == 1 {
		if k, ok := s[0].Known(); ok && k == 1 || vector(m) {
			return op(b, "Reshape", v, b.Ints())
		}
	}
	return v
}

// vector reports whether a matrix has one axis.
func vector(m *ir.Value) bool {
	t, ok := m.TensorType()
	return ok && !t.NoRank && len(t.Shape) == 1
}

// noScalars refuses factors that are scalars, before zero points lend them axes.
func noScalars(b *ir.Builder, factors ...*ir.Value) {
	for _, v := range factors {
		if t, ok := v.TensorType(); ok && !t.NoRank && len(t.Shape) == 0 {
			b.Fail(fmt.Errorf("a scalar has no matrix product"))
		}
	}
}

// MatMulInteger multiplies quantized matrices.
var MatMulInteger = ops.Register(ops.ByBody(&ir.Op{
	Name: "MatMulInteger", Since: 10,
	Doc: "MatMul of A-a_zero_point and B-b_zero_point in int32; zero points are scalars, one per row of A, one per " +
		"column of B.",
	In:    ops.Sig("A:T1", "B:T2", "a_zero_point:T1?", "b_zero_point:T2?"),
	Out:   ops.Sig("Y:int32"),
	Elems: map[string][]tensor.DType{"T1": bytesOnly, "T2": bytesOnly}, Tol: ir.Exact,
	Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		noScalars(b, n.In(0), n.In(1))
		x, y := castOp(b, in[0], tensor.Int32), castOp(b, in[1], tensor.Int32)
		if n.In(2) != nil {
			x = op(b, "Sub", x, perRow(b, castOp(b, in[2], tensor.Int32), in[0]))
		}
		if n.In(3) != nil {
			y = op(b, "Sub", y, perColumn(b, castOp(b, in[3], tensor.Int32), in[1]))
		}
		return []*ir.Value{op(b, "MatMul", x, y)}
	},
}))

// requantized returns the factor from sums of integers to the quantized result, from the scale of the sums and that of
// the result, with the scale by which QuantizeLinear still divides: 1. The order of these float32 operations decides
// ties (scales of 0.1 and 0.1 to 0.02 make one half): the standard states the formula alone, and its reference
// implementation and ONNX Runtime have this order. Of several scales of the result, each is divided by later.
//
// The standard rounds before it adds the zero point, as ONNX Runtime does; the reference implementation of these two
// operators rounds the sum, which differs at ties where the zero point is odd.
func requantized(b *ir.Builder, scale, to *ir.Value) (factor, rest *ir.Value) {
	if scale == nil || to == nil { // after an error
		return scale, to
	}
	if n, known := to.Shape().Size().Known(); !known || n != 1 {
		return scale, to
	}
	shape, _ := to.Shape().Known()
	one := b.Const("one", tensor.FromSlice([]float32{1}, shape...))
	if len(shape) > 0 {
		to = op(b, "Reshape", to, b.Ints())
	}
	return op(b, "Div", scale, to), one
}

// QLinearMatMul multiplies quantized matrices and quantizes the product.
var QLinearMatMul = ops.Same(ops.Register(ops.ByBody(&ir.Op{
	Name: "QLinearMatMul", Since: 21,
	Doc: "MatMul of the dequantized a and b, quantized; scales and zero points are scalars, one per row of a, one " +
		"per column of b. Sums of integers are exact; times a_scale*b_scale/y_scale, all in float32, they are " +
		"rounded to nearest even, and y_zero_point is added.",
	In: ops.Sig("a:T1", "a_scale:TS", "a_zero_point:T1", "b:T2", "b_scale:TS", "b_zero_point:T2", "y_scale:TS",
		"y_zero_point:T3"), Out: ops.Sig("y:T3"),
	Elems: map[string][]tensor.DType{"T1": byteTypes, "T2": byteTypes, "T3": byteTypes, "TS": float32s}, Tol: ir.Exact,
	Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		noScalars(b, n.In(0), n.In(3))
		work := tensor.Int32
		if in[0].Elem().IsFloat() || in[3].Elem().IsFloat() {
			work = tensor.Float32
		}
		x := op(b, "Sub", castOp(b, in[0], work), perRow(b, castOp(b, in[2], work), in[0]))
		y := op(b, "Sub", castOp(b, in[3], work), perColumn(b, castOp(b, in[5], work), in[3]))
		f := tensor.Float32 // the type of the scales may be too small for products
		scale := op(b, "Mul", perRow(b, castOp(b, in[1], f), in[0]), perColumn(b, castOp(b, in[4], f), in[3]))
		scale, to := requantized(b, scale, castOp(b, in[6], f))
		z := op(b, "Mul", castOp(b, op(b, "MatMul", x, y), f), scale)
		return []*ir.Value{op(b, "QuantizeLinear", z, to, in[7])}
	},
})), 10)

var convAttrNames = []string{"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}

// convAttrs returns the node's attributes that Conv also has.
func convAttrs(n *ir.Node) []ir.Attr {
	var out []ir.Attr
	for _, a := range n.Attrs {
		if slices.Contains(convAttrNames, a.Name) {
			out = append(out, a)
		}
	}
	return out
}

// perFilter appends the axes of w after its filters to a vector of one number per filter, with size 1.
func perFilter(b *ir.Builder, v, w *ir.Value) *ir.Value {
	if v == nil || len(v.Shape()) != 1 {
		return v
	}
	if k, ok := v.Shape()[0].Known(); ok && k == 1 {
		return op(b, "Reshape", v, b.Ints())
	}
	rank := len(w.Shape())
	if rank < 3 {
		b.Fail(fmt.Errorf("one number per filter needs W of known rank, at least 3; found %v", w.Type))
		return nil
	}
	return op(b, "Reshape", v, b.Ints(append([]int64{-1}, slices.Repeat([]int64{1}, rank-1)...)...))
}

// integerConv returns the convolution of x-xZero and w-wZero in float64, which holds it exactly. Pads are zeros.
func integerConv(b *ir.Builder, n *ir.Node, x, xZero, w, wZero *ir.Value) *ir.Value {
	f := tensor.Float64
	u, v := castOp(b, x, f), castOp(b, w, f)
	if xZero != nil {
		u = op(b, "Sub", u, perColumn(b, castOp(b, xZero, f), x))
	}
	if wZero != nil {
		v = op(b, "Sub", v, perFilter(b, castOp(b, wZero, f), w))
	}
	return attr(b, "Conv", []*ir.Value{u, v}, convAttrs(n)...)
}

// ConvInteger convolves quantized data.
var ConvInteger = ops.Register(ops.ByBody(&ir.Op{
	Name: "ConvInteger", Since: 10,
	Doc: "Conv of x-x_zero_point and w-w_zero_point in int32; w_zero_point is a scalar, or one per filter.",
	In:  ops.Sig("x:T1", "w:T2", "x_zero_point:T1?", "w_zero_point:T2?"), Out: ops.Sig("y:int32"),
	Elems: map[string][]tensor.DType{"T1": bytesOnly, "T2": bytesOnly}, Attrs: Conv.Attrs, Tol: ir.Exact,
	Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		y := integerConv(b, n, in[0], given(in, 2), in[1], given(in, 3))
		// Sums are below 2^63, so the cast to int64 is exact, and that to int32 keeps the low bits.
		return []*ir.Value{castOp(b, castOp(b, y, tensor.Int64), tensor.Int32)}
	},
}))

// QLinearConv convolves quantized data and quantizes the result.
var QLinearConv = ops.Register(ops.ByBody(&ir.Op{
	Name: "QLinearConv", Since: 10,
	Doc: "Conv of the dequantized x and w, quantized; w_scale and w_zero_point are scalars, or one per filter; B is " +
		"int32, of scale x_scale*w_scale. Sums of integers are exact; times x_scale*w_scale/y_scale in float32, they " +
		"are rounded to float32, then to nearest even, and y_zero_point is added.",
	In: ops.Sig("x:T1", "x_scale:TS", "x_zero_point:T1", "w:T2", "w_scale:TS", "w_zero_point:T2", "y_scale:TS",
		"y_zero_point:T3", "B:T4[_]?"), Out: ops.Sig("y:T3"),
	Elems: map[string][]tensor.DType{"T1": bytesOnly, "T2": bytesOnly, "T3": bytesOnly, "T4": int32Types,
		"TS": {tensor.Float32}}, Attrs: Conv.Attrs, Tol: ir.Exact,
	Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		// One number per filter, as one per channel of the result.
		channels := func(v *ir.Value) *ir.Value {
			v = perFilter(b, v, in[3])
			if v != nil && len(v.Shape()) > 1 {
				v = op(b, "Squeeze", v, b.Ints(-1))
			}
			return v
		}
		f := tensor.Float64
		y := integerConv(b, n, in[0], in[2], in[3], in[5])
		if n.In(8) != nil {
			y = op(b, "Add", y, channels(castOp(b, in[8], f)))
		}
		scale, to := requantized(b, op(b, "Mul", perColumn(b, in[1], in[0]), channels(in[4])), in[6])
		y = castOp(b, op(b, "Mul", y, castOp(b, scale, f)), tensor.Float32)
		return []*ir.Value{op(b, "QuantizeLinear", y, to, in[7])}
	},
}))
