package std

import (
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Earlier versions whose attributes became inputs.

// axesAttr registers the version of an operator that has axes as an attribute and not as an input. Without the
// attribute, the input is omitted.
func axesAttr(newest *ir.Op, since int, required bool, more ...int) {
	name := newest.Name
	keep := slices.ContainsFunc(newest.Attrs, func(a ir.AttrSpec) bool { return a.Name == "keepdims" })
	op := &ir.Op{
		Name: name, Since: since, Doc: fmt.Sprintf("As version %d, with axes as an attribute.", newest.Since),
		In: newest.In[:1], Out: newest.Out, Elems: newest.Elems, Tol: newest.Tol,
		Attrs: []ir.AttrSpec{{Name: "axes", Kind: ir.AttrInts, Required: required, Doc: "the axes"}},
		Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
			args := in[:1:1]
			if axes := n.Attrs.Ints("axes", nil); axes != nil {
				args = append(args, b.Ints(axes...))
			}
			var attrs []ir.Attr
			if keep {
				attrs = append(attrs, ir.A("keepdims", getInt(n, "keepdims")))
			}
			return []*ir.Value{b.Op("", name, args, attrs...)}
		},
	}
	if keep {
		op.Attrs = append(op.Attrs, intAttr("keepdims", 1, "whether reduced axes are kept, with size 1"))
	}
	earlier(op, more...)
}

func init() {
	axesAttr(Squeeze, 11, false, 1)
	axesAttr(Unsqueeze, 11, true, 1)
	axesAttr(ReduceSum, 11, false, 1)
	for _, op := range []*ir.Op{ReduceMean, ReduceProd, ReduceSumSquare, ReduceL1, ReduceL2, ReduceLogSum,
		ReduceLogSumExp} {
		axesAttr(op, 13, false, 1, 11)
	}
	for _, op := range []*ir.Op{ReduceMax, ReduceMin} {
		axesAttr(op, 13, false, 1, 11, 12)
	}
	for _, since := range []int{1, 6} {
		attrs := []ir.AttrSpec{
			{Name: "min", Kind: ir.AttrFloat, Doc: "smallest value"},
			{Name: "max", Kind: ir.AttrFloat, Doc: "largest value"},
		}
		if since == 1 {
			attrs = append(attrs, consumed())
		} else {
			attrs[0].Default, attrs[1].Default = -math.MaxFloat32, math.MaxFloat32
		}
		earlier(&ir.Op{
			Name: "Clip", Since: since, Doc: "min(max(input, min), max) for each element; bounds are attributes.",
			In: ops.Sig("input:T[...]"), Out: ops.Sig("output:T[...]"), Attrs: attrs, Tol: ir.Exact,
			Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
				bound := func(name string) *ir.Value {
					x, ok := n.Attrs.Get(name).(float64)
					if !ok { // the default is the range of float32, so it bounds infinities there
						x = defaultOf[float64](n, name)
					}
					if x == 0 && !ok {
						return nil
					}
					return constLike(b, in[0], x)
				}
				return []*ir.Value{op(b, "Clip", in[0], bound("min"), bound("max"))}
			},
		})
	}
}

// Reshape1 has its shape as an attribute.
var Reshape1 = earlier(&ir.Op{
	Name: "Reshape", Since: 1,
	Doc: "data with another shape, an attribute: 0 copies the dimension at its index, and one -1 is computed from " +
		"the number of elements.",
	In: ops.Sig("data:T"), Out: ops.Sig("reshaped:T"), Elems: elems("T", ops.Any), Tol: ir.Exact,
	Attrs: []ir.AttrSpec{intsAttr("shape", "the shape"), consumed()},
	Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		return []*ir.Value{op(b, "Reshape", in[0], b.Ints(n.Attrs.Ints("shape", nil)...))}
	},
})

// Slice1 has its ranges as attributes.
var Slice1 = earlier(&ir.Op{
	Name: "Slice", Since: 1, Doc: "data[start:end] on each of the given axes (default: the first ones), by attributes.",
	In: ops.Sig("data:T"), Out: ops.Sig("output:T"), Elems: elems("T", ops.Any), Tol: ir.Exact,
	Attrs: []ir.AttrSpec{intsAttr("axes", "the axes"),
		{Name: "starts", Kind: ir.AttrInts, Required: true, Doc: "first indices"},
		{Name: "ends", Kind: ir.AttrInts, Required: true, Doc: "indices after the last ones"}},
	Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		args := []*ir.Value{in[0], b.Ints(n.Attrs.Ints("starts", nil)...), b.Ints(n.Attrs.Ints("ends", nil)...)}
		if axes := n.Attrs.Ints("axes", nil); axes != nil {
			args = append(args, b.Ints(axes...))
		}
		return []*ir.Value{op(b, "Slice", args...)}
	},
})

func init() {
	for _, v := range []struct {
		since int
		pads  string
	}{{1, "paddings"}, {2, "pads"}} {
		earlier(&ir.Op{
			Name: "Pad", Since: v.since,
			Doc: "data with pads (all begins, then all ends) of a constant, its mirror image, or its edge, by " +
				"attributes.",
			In: ops.Sig("data:T"), Out: ops.Sig("output:T"), Tol: ir.Exact,
			Attrs: []ir.AttrSpec{{Name: v.pads, Kind: ir.AttrInts, Required: true, Doc: "pads of each axis"},
				floatAttr("value", 0, "the constant"),
				{Name: "mode", Kind: ir.AttrString, Default: "constant", OneOf: []string{"constant", "reflect", "edge"},
					Doc: "content of the pads"}},
			Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
				return []*ir.Value{attr(b, "Pad", []*ir.Value{in[0], b.Ints(n.Attrs.Ints(v.pads, nil)...),
					constLike(b, in[0], getFloat(n, "value"))}, ir.A("mode", getStr(n, "mode")))}
			},
		})
	}
}

// Split2 has its sizes as an attribute.
var Split2 = earlier(&ir.Op{
	Name: "Split", Since: 11, Doc: "Parts of input along axis: of the sizes in the attribute split, or equal ones.",
	In: ops.Sig("input:T"), Out: []ir.Param{{Name: "outputs", Elem: "T", Variadic: true}}, Elems: elems("T", ops.Any),
	Tol:   ir.Exact,
	Attrs: []ir.AttrSpec{intAttr("axis", 0, "the axis"), intsAttr("split", "sizes of the parts")},
	Body:  splitByAttr,
}, 2)

func splitByAttr(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
	args, attrs := in[:1:1], []ir.Attr{ir.A("axis", getInt(n, "axis"))}
	if sizes := n.Attrs.Ints("split", nil); sizes != nil {
		args = append(args, b.Ints(sizes...))
	} else if n.In(1) != nil {
		args = append(args, attr(b, "Cast", []*ir.Value{in[1]}, ir.A("to", int64(tensor.Int64))))
	} else {
		attrs = append(attrs, ir.A("num_outputs", int64(len(n.Outputs))))
	}
	return b.Ops("", "Split", len(n.Outputs), args, attrs...)
}

// Split1 also takes its sizes as an input of the data's element type.
var Split1 = earlier(&ir.Op{
	Name: "Split", Since: 1,
	Doc: "Parts of input along axis: of the sizes in split, an attribute or an input, or equal ones.",
	In:  ops.Sig("input:T", "split:T?"), Out: []ir.Param{{Name: "outputs", Elem: "T", Variadic: true}}, Tol: ir.Exact,
	Attrs:   []ir.AttrSpec{intAttr("axis", 0, "the axis"), intsAttr("split", "sizes of the parts")},
	SizedBy: []int{1}, Body: splitByAttr,
})

// TopK1 has K as an attribute.
var TopK1 = earlier(&ir.Op{
	Name: "TopK", Since: 1, Doc: "The k largest elements along axis and their indices, in order.",
	In: ops.Sig("X:T"), Out: ops.Sig("Values:T", "Indices:int64"), Tol: ir.Exact,
	Attrs: []ir.AttrSpec{intAttr("axis", -1, "the axis"),
		{Name: "k", Kind: ir.AttrInt, Required: true, Doc: "number of elements"}},
	Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		return b.Ops("", "TopK", 2, []*ir.Value{in[0], b.Ints(n.Attrs.Int("k", 0))}, ir.A("axis", getInt(n, "axis")))
	},
})

// Tile1 repeats along one axis, which is an input.
var Tile1 = earlier(&ir.Op{
	Name: "Tile", Since: 1, Doc: "input repeated tiles times along axis; both are scalars of the input's element type.",
	In: ops.Sig("input:T", "tiles:T", "axis:T"), Out: ops.Sig("output:T"), SizedBy: []int{1, 2}, Tol: ir.Exact,
	Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		whole := func(v *ir.Value) *ir.Value {
			return op(b, "Reshape", attr(b, "Cast", []*ir.Value{v}, ir.A("to", int64(tensor.Int64))), b.Ints(1))
		}
		values := attr(b, "Concat", []*ir.Value{b.Ints(1), whole(in[1])}, ir.A("axis", 0))
		rank := op(b, "Size", op(b, "Shape", in[0]))
		repeats := op(b, "OneHot", whole(in[2]), rank, values)
		return []*ir.Value{op(b, "Tile", in[0], op(b, "Reshape", repeats, b.Ints(-1)))}
	},
})

// Concat1 is the first version of Concat. Its default axis is the channel axis.
var Concat1 = earlier(&ir.Op{
	Name: "Concat", Since: 1, Doc: "All inputs concatenated along axis (default 1).",
	In: []ir.Param{{Name: "inputs", Elem: "T", Variadic: true}}, Out: ops.Sig("concat_result:T"),
	Elems: elems("T", ops.Any), Tol: ir.Exact,
	Attrs: []ir.AttrSpec{intAttr("axis", 1, "the axis")},
	Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		return []*ir.Value{attr(b, "Concat", in, ir.A("axis", getInt(n, "axis")))}
	},
})

// Cast1 has the name of the element type as an attribute.
var Cast1 = earlier(&ir.Op{
	Name: "Cast", Since: 1, Doc: "The input in the element type whose name in TensorProto is to.",
	In: ops.Sig("input:T1"), Out: ops.Sig("output:T2"), Elems: map[string][]tensor.DType{"T1": ops.Any, "T2": ops.Any},
	Tol:   ir.Rounding,
	Attrs: []ir.AttrSpec{{Name: "to", Kind: ir.AttrString, Required: true, Doc: "FLOAT, INT64, …"}},
	Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		to, err := protoName(n.Attrs.Str("to", ""))
		if err != nil {
			b.Fail(err)
			return make([]*ir.Value, 1)
		}
		return []*ir.Value{attr(b, "Cast", []*ir.Value{in[0]}, ir.A("to", int64(to)))}
	},
})

// Selu1 has defaults of fewer digits.
var Selu1 = earlier(&ir.Op{
	Name: "Selu", Since: 1, Doc: "gamma*(alpha*exp(x)-alpha) below zero, gamma*x elsewhere.",
	In: ops.Sig("X:T[...]"), Out: ops.Sig("Y:T[...]"), Tol: ir.Rounding,
	Attrs: []ir.AttrSpec{floatAttr("alpha", f32(1.6732), "factor below zero"),
		floatAttr("gamma", f32(1.0507), "factor"), consumed()},
	Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		return []*ir.Value{attr(b, "Selu", in, ir.A("alpha", getFloat(n, "alpha")),
			ir.A("gamma", getFloat(n, "gamma")))}
	},
})

// Scatter became ScatterElements.
var Scatter = earlier(&ir.Op{
	Name: "Scatter", Since: 9, Doc: "ScatterElements under its first name.",
	In: ops.Sig("data:T[...]", "indices:Tind", "updates:T"), Out: ops.Sig("output:T[...]"),
	Elems: map[string][]tensor.DType{"T": ops.Any, "Tind": indexTypes}, Tol: ir.Exact,
	Attrs: []ir.AttrSpec{intAttr("axis", 0, "the axis")},
	Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		return []*ir.Value{attr(b, "ScatterElements", in, ir.A("axis", getInt(n, "axis")))}
	},
}, 11)
