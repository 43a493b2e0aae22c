package std

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

var roundModes = []string{"up", "down", "nearest"}

func castAttrs(more ...ir.AttrSpec) []ir.AttrSpec {
	return append([]ir.AttrSpec{
		intAttr("saturate", 1,
			"whether numbers beyond the range of an 8-bit float become its largest number, instead of NaN or infinity"),
		{Name: "round_mode", Kind: ir.AttrString, Default: "up", OneOf: roundModes, Doc: "rounding to float8e8m0"},
	}, more...)
}

// Cast converts the element type.
var Cast = ops.Register(&ir.Op{
	Name: "Cast", Since: 24,
	Doc: "The input in element type to. Floats become integers by truncation, and strings in decimal notation.",
	In:  ops.Sig("input:T1[...]"), Out: ops.Sig("output:T2[...]"),
	Elems: map[string][]tensor.DType{"T1": ops.Any, "T2": ops.Any},
	Attrs: castAttrs(ir.AttrSpec{Name: "to", Kind: ir.AttrInt, Required: true, Doc: "element type, by ONNX's number"}),
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if _, err := ops.Bind(n); err != nil {
			return nil, err
		}
		to, err := castTo(n)
		if err != nil {
			return nil, err
		}
		t := tensorIn(n, 0)
		return one(&ir.TensorType{Elem: to, Shape: t.Shape, NoRank: t.NoRank})
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		to, err := castTo(c.Node)
		if err != nil {
			return nil, err
		}
		return ops.One(cast(c, in, to))
	},
	Gradient: gradCast,
	Linear:   linearCast,
	Along:    ops.AlongElementwise, Tol: ir.Rounding,
})

// CastLike converts to the element type of another tensor.
var CastLike = ops.Register(&ir.Op{
	Name: "CastLike", Since: 24, Doc: "The input in the element type of target_type, as Cast.",
	In: ops.Sig("input:T1[...]", "target_type:T2"), Out: ops.Sig("output:T2[...]"),
	Elems: map[string][]tensor.DType{"T1": ops.Any, "T2": ops.Any},
	Attrs: castAttrs(),
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		to, err := need(in, 1, "target_type")
		if err != nil {
			return nil, err
		}
		return ops.One(cast(c, in, to.DType()))
	},
	Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		return []*ir.Value{attr(b, "Cast", in[:1], n.Attrs.With("to", int64(in[1].Elem()))...)}
	},
	Along:  func(n *ir.Node, in []ir.Fact) []ir.Fact { return ops.AlongElementwise(n, in[:1]) },
	Linear: linearCast,
	Tol:    ir.Rounding,
})

func castTo(n *ir.Node) (tensor.DType, error) {
	to := n.Attrs.Int("to", 0)
	if to <= 0 || to > 255 || !tensor.DType(to).Valid() {
		return tensor.Invalid, fmt.Errorf("attribute to: %d is not an element type", to)
	}
	return tensor.DType(to), nil
}

func cast(c *ir.EvalCtx, in []tensor.Datum, to tensor.DType) (*tensor.Tensor, error) {
	t, err := need(in, 0, "input")
	if err != nil {
		return nil, err
	}
	if t.DType().IsComplex() && !to.IsComplex() {
		return nil, fmt.Errorf("cannot cast %v to %v", t.DType(), to)
	}
	saturate := getInt(c.Node, "saturate") != 0
	if to == tensor.Float8E8M0 && t.DType() != to {
		return powersOfTwo(c, t, getStr(c.Node, "round_mode"), saturate)
	}
	return ops.Convert(c, t, wide(c, to), saturate && to.Bits() <= 8)
}

// powersOfTwo converts to float8e8m0, whose numbers are powers of two, with the given rounding of magnitudes.
func powersOfTwo(c *ir.EvalCtx, t *tensor.Tensor, mode string, saturate bool) (*tensor.Tensor, error) {
	v, err := ops.Float64s(c, t)
	if err != nil {
		return nil, err
	}
	const least, greatest = -127, 127
	for i, x := range v {
		c.Step(1)
		frac, e := math.Frexp(math.Abs(x)) // frac is in [0.5, 1), or 0
		if frac == 0.5 || mode == "down" || mode == "nearest" && frac < 0.75 {
			e--
		}
		if frac == 0 {
			e = least
		}
		switch {
		case math.IsNaN(x) || math.IsInf(x, 0), e > greatest && !saturate:
			v[i] = math.NaN()
		default:
			v[i] = math.Ldexp(1, min(max(e, least), greatest))
		}
	}
	return ops.FromFloat64s(c, tensor.Float8E8M0, v, t.Shape()...)
}

// linearCast are the sets of conversions between floats of at least 32 bits. Narrower floats have too few digits for
// that, and may saturate.
func linearCast(n *ir.Node) [][]int {
	if !isWide(n.In(0)) || !isWide(n.Out(0)) {
		return nil
	}
	return [][]int{{0}}
}

func isWide(v *ir.Value) bool {
	if v == nil {
		return false
	}
	t, ok := v.TensorType()
	return ok && (t.Elem == tensor.Float32 || t.Elem == tensor.Float64)
}
