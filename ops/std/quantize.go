package std

import (
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

var (
	quantTypes = []tensor.DType{tensor.Int8, tensor.Uint8, tensor.Int16, tensor.Uint16, tensor.Int4, tensor.Uint4,
		tensor.Int2, tensor.Uint2,
		tensor.Float8E4M3FN, tensor.Float8E4M3FNUZ, tensor.Float8E5M2, tensor.Float8E5M2FNUZ, tensor.Float4E2M1}
	scaleTypes = []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16, tensor.Float8E8M0}
)

func quantAttrs(more ...ir.AttrSpec) []ir.AttrSpec {
	return append([]ir.AttrSpec{
		intAttr("axis", 1, "axis of the scales"),
		intAttr("block_size", 0, "number of elements along the axis with the same scale; 0: one scale per index"),
		intAttr("output_dtype", 0,
			"element type of the result, by ONNX's number; 0: the zero point's type, or the scale's"),
	}, more...)
}

// outputType reads the attribute output_dtype. It returns def if it is absent.
func outputType(n *ir.Node, allowed []tensor.DType, def tensor.DType) (tensor.DType, error) {
	k := getInt(n, "output_dtype")
	if k == 0 {
		return def, nil
	}
	if k < 0 || k > 255 || !slices.Contains(allowed, tensor.DType(k)) {
		return def, fmt.Errorf("attribute output_dtype: %d is not among %v", k, allowed)
	}
	return tensor.DType(k), nil
}

// quantType returns the element type of QuantizeLinear's output.
func quantType(n *ir.Node) (tensor.DType, error) {
	zero := n.In(2)
	if zero == nil {
		return outputType(n, quantTypes, tensor.Uint8)
	}
	d, err := outputType(n, quantTypes, zero.Elem())
	if err == nil && d != zero.Elem() {
		err = fmt.Errorf("attribute output_dtype: %v differs from the zero point's %v", d, zero.Elem())
	}
	return d, err
}

// inferScaled returns an inference that checks the scale against the data, and returns the data's shape with element
// type elem.
func inferScaled(elem func(*ir.Node) (tensor.DType, error)) func(*ir.Node) ([]ir.Type, error) {
	return func(n *ir.Node) ([]ir.Type, error) {
		if _, err := ops.Bind(n); err != nil {
			return nil, err
		}
		d, err := elem(n)
		if err != nil {
			return nil, err
		}
		x := tensorIn(n, 0)
		xs, okX := x.Shape.Known()
		ss, okS := tensorIn(n, 1).Shape.Known()
		if !x.NoRank && !tensorIn(n, 1).NoRank && okX && okS {
			if _, _, err := scaleAt(n, xs, ss); err != nil {
				return nil, err
			}
		}
		return one(&ir.TensorType{Elem: d, Shape: x.Shape, NoRank: x.NoRank})
	}
}

// scaleAt returns a function from the index of an element of the data to the index of its scale: one scale for all,
// one per index along the axis, or one per block along it. Starting at each multiple of run, run elements have the
// same scale.
func scaleAt(n *ir.Node, x, scale []int) (at func(i int) int, run int, err error) {
	if len(scale) == 0 || len(scale) == 1 && scale[0] == 1 {
		return func(int) int { return 0 }, math.MaxInt, nil
	}
	a, err := ops.Axis(getInt(n, "axis"), len(x))
	if err != nil {
		return nil, 0, err
	}
	_, size, inner := splitAt(x, a)
	block := getInt(n, "block_size")
	switch {
	case block < 0 || block > math.MaxInt32:
		return nil, 0, fmt.Errorf("attribute block_size: %d", block)
	case block == 0:
		if len(scale) != 1 || scale[0] != size {
			return nil, 0, fmt.Errorf("scale %v: expected a scalar, or %d for axis %d of %v", scale, size, a, x)
		}
		return func(i int) int { return i / inner % size }, max(inner, 1), nil
	}
	want := slices.Clone(x)
	b := int(block)
	want[a] = (size + b - 1) / b
	if !slices.Equal(scale, want) {
		return nil, 0, fmt.Errorf("scale %v: expected %v for blocks of %d along axis %d of %v", scale, want, b, a, x)
	}
	blocks, run := want[a], 1
	if inner == 1 && size%b == 0 {
		run = b
	}
	return func(i int) int {
		return i/(inner*size)*blocks*inner + i/inner%size/b*inner + i%inner
	}, run, nil
}

// scales reads the scale and the zero point, which is zeros if it is absent.
func scales(c *ir.EvalCtx, n *ir.Node, in []tensor.Datum, x *tensor.Tensor) (scale, zero []float64,
	at func(int) int, run int, err error) {
	s, err := need(in, 1, "scale")
	if err != nil {
		return
	}
	if at, run, err = scaleAt(n, x.Shape(), s.Shape()); err != nil {
		return
	}
	if scale, err = ops.Float64s(c, s); err != nil {
		return
	}
	zero = ops.Make[float64](c, len(scale))
	if z := ops.Tensor(in, 2); z != nil {
		if z.Len() != s.Len() {
			return nil, nil, nil, 0, fmt.Errorf("zero point %s, scale %s: expected as many", z, s)
		}
		zero, err = ops.Float64s(c, z)
	}
	return
}

// QuantizeLinear rounds to few bits.
var QuantizeLinear = ops.Same(ops.Register(&ir.Op{
	Name: "QuantizeLinear", Since: 24,
	Doc: "x/y_scale, rounded to nearest even for integers, plus y_zero_point, within the range of the result's type. " +
		"There may be one scale, one per index of axis, or one per block_size elements along it.",
	In: ops.Sig("x:T1[...]", "y_scale:T2", "y_zero_point:T3?"), Out: ops.Sig("y:T3[...]"),
	Elems: map[string][]tensor.DType{"T1": {tensor.Float32, tensor.Float16, tensor.BFloat16, tensor.Int32},
		"T2": append([]tensor.DType{tensor.Int32}, scaleTypes...), "T3": quantTypes},
	Attrs: quantAttrs(intAttr("saturate", 1, "whether 8-bit floats saturate"),
		intAttr("precision", 0, "element type of the division, by ONNX's number; 0: the scale's")),
	Infer: inferScaled(quantType),
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "x")
		if err != nil {
			return nil, err
		}
		to, err := quantType(c.Node)
		if err != nil {
			return nil, err
		}
		scale, zero, at, _, err := scales(c, c.Node, in, x)
		if err != nil {
			return nil, err
		}
		v, err := ops.Float64s(c, x)
		if err != nil {
			return nil, err
		}
		for i := range ops.Each(c, len(v)) {
			v[i] /= scale[at(i)]
		}
		if v, err = inPrecision(c, v, x.DType(), ops.Tensor(in, 1).DType()); err != nil {
			return nil, err
		}
		if !to.IsInt() {
			for i := range ops.Each(c, len(v)) {
				v[i] += zero[at(i)]
			}
			t, err := ops.FromFloat64s(c, tensor.Float64, v, x.Shape()...)
			if err != nil {
				return nil, err
			}
			return ops.One(ops.Convert(c, t, to, getInt(c.Node, "saturate") != 0))
		}
		lo, hi := float64(intLimit(to, false)), float64(intLimit(to, true))
		for i, q := range ops.All(c, v) {
			if q = min(max(math.RoundToEven(q)+zero[at(i)], lo), hi); math.IsNaN(q) {
				q = 0
			}
			v[i] = q
		}
		return ops.One(ops.FromFloat64s(c, to, v, x.Shape()...))
	},
	Along: alongKeep(func(*ir.Node, int, int) bool { return false }), Tol: ir.Exact,
}), 10, 13, 19, 21, 23)

// inPrecision rounds quotients to the type in which the standard divides, so that ties are the same. A wide evaluation
// does not round them.
func inPrecision(c *ir.EvalCtx, v []float64, x, scale tensor.DType) ([]float64, error) {
	d := scale
	if d == tensor.Float8E8M0 {
		d = x
	}
	if p := getInt(c.Node, "precision"); p > 0 && p < 256 && tensor.DType(p).IsFloat() {
		d = tensor.DType(p)
	} else if p != 0 {
		return nil, fmt.Errorf("attribute precision: %d is not a float type", p)
	}
	if !d.IsFloat() || d == tensor.Float64 || c.Wide {
		return v, nil
	}
	t, err := ops.FromFloat64s(c, d, v, len(v))
	if err != nil {
		return nil, err
	}
	return ops.Float64s(c, t)
}

// DequantizeLinear is the inverse of QuantizeLinear, except for rounding.
var DequantizeLinear = ops.Same(ops.Register(&ir.Op{
	Name: "DequantizeLinear", Since: 24, Doc: "(x-x_zero_point)*x_scale; scales as for QuantizeLinear.",
	In: ops.Sig("x:T1[...]", "x_scale:T2", "x_zero_point:T1?"), Out: ops.Sig("y:T3[...]"),
	Elems: map[string][]tensor.DType{"T1": append([]tensor.DType{tensor.Int32}, quantTypes...), "T2": scaleTypes,
		"T3": ops.Floats},
	Attrs: quantAttrs(),
	Infer: inferScaled(dequantType),
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "x")
		if err != nil {
			return nil, err
		}
		to, err := dequantType(c.Node)
		if err != nil {
			return nil, err
		}
		scale, zero, at, run, err := scales(c, c.Node, in, x)
		if err != nil {
			return nil, err
		}
		if c.Wide && to == tensor.Float32 {
			to = tensor.Float64
		}
		y := ops.New(c, to, x.Shape()...)
		part := ops.Make[float64](c, min(x.Len(), dequantized))
		for from := 0; from < x.Len(); from += len(part) {
			c.Step(len(part))
			v := part[:min(len(part), x.Len()-from)]
			if err := x.ReadFloat64s(v, from); err != nil {
				return nil, err
			}
			for i := 0; i < len(v); {
				k, next := at(from+i), len(v)
				if rest := run - (from+i)%run; rest < next-i {
					next = i + rest
				}
				z, f := zero[k], scale[k]
				for ; i < next; i++ {
					v[i] = (v[i] - z) * f
				}
			}
			if err := y.WriteFloat64s(from, v); err != nil {
				return nil, err
			}
		}
		return []tensor.Datum{y}, nil
	},
	NoGradient: "reads quantized numbers, which are not trained",
	Linear:     ops.LinearIn([]int{1}),
	Along:      alongKeep(func(*ir.Node, int, int) bool { return false }), Tol: ir.Rounding,
}), 10, 13, 19, 21, 23)

// dequantized is the number of elements that DequantizeLinear computes at once.
const dequantized = 4096

// dequantType returns the element type of DequantizeLinear's output.
func dequantType(n *ir.Node) (tensor.DType, error) {
	d := n.In(1).Elem()
	if d == tensor.Float8E8M0 {
		d = tensor.Float32
	}
	return outputType(n, ops.Floats, d)
}

// DynamicQuantizeLinear computes the scale from the data and quantizes.
var DynamicQuantizeLinear = ops.Register(ops.ByBody(&ir.Op{
	Name: "DynamicQuantizeLinear", Since: 11,
	Doc: "x quantized to uint8 over its own range, extended to include 0; with the scale and the zero point.",
	In:  ops.Sig("x:T1"), Out: ops.Sig("y:uint8", "y_scale:float", "y_zero_point:uint8"),
	Elems: elems("T1", []tensor.DType{tensor.Float32}), Tol: ir.Rounding,
	Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		x := in[0]
		zero, top := constLike(b, x, 0), constLike(b, x, 255)
		least := op(b, "Min", attr(b, "ReduceMin", []*ir.Value{x}, ir.A("keepdims", 0)), zero)
		greatest := op(b, "Max", attr(b, "ReduceMax", []*ir.Value{x}, ir.A("keepdims", 0)), zero)
		scale := op(b, "Div", op(b, "Sub", greatest, least), top)
		at := op(b, "Round", op(b, "Clip", op(b, "Sub", zero, op(b, "Div", least, scale)), zero, top))
		point := attr(b, "Cast", []*ir.Value{at}, ir.A("to", int64(tensor.Uint8)))
		return []*ir.Value{op(b, "QuantizeLinear", x, scale, point), scale, point}
	},
}))
