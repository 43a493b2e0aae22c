package passes

import (
	"math"
	"slices"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	. "github.com/essmc/essmc/passes/match" //nolint:revive // patterns read like the operators they stand for
)

// FoldConv moves scales and shifts of channels into the weights of the convolutions beside them.
var FoldConv = &Pass{
	Name: "fold-conv",
	Doc: "Batch norm with fixed statistics, and arithmetic with one constant for each channel, behind Conv, ConvTranspose, Gemm or a linear layer, or before a Conv → its weights and bias. " +
		"Computed in float64 and rounded to the weights' type, which the operators of ONNX share with their data.",
	Run: func(c *Context, g *ir.Graph) (int, error) { return apply(c, g, convRules) },
}

var convRules = makeConvRules()

// scaled are the operators whose output channels can be scaled, with the axis that these lie on, from the left (1) or the
// right (-1), and what multiplies channel i of the weights by s[i].
var scaled = []struct {
	op    string
	axis  int
	scale func(n *ir.Node, w []float64, shape []int, s []float64)
}{
	{"Conv", 1, func(_ *ir.Node, w []float64, shape []int, s []float64) {
		per := len(w) / shape[0]
		for i := range w {
			w[i] *= s[i/per]
		}
	}},
	{"ConvTranspose", 1, func(n *ir.Node, w []float64, shape []int, s []float64) {
		each := shape[0] / int(ops.Int(n, "group")) // input channels of a group
		taps := len(w) / (shape[0] * shape[1])
		for i := range w {
			w[i] *= s[i/taps/shape[1]/each*shape[1]+i/taps%shape[1]]
		}
	}},
	{"essm.Linear", -1, func(_ *ir.Node, w []float64, shape []int, s []float64) {
		for i := range w {
			w[i] *= s[i/shape[1]]
		}
	}},
	{"Gemm", -1, func(n *ir.Node, w []float64, shape []int, s []float64) {
		for i := range w {
			if ops.Int(n, "transB") != 0 {
				w[i] *= s[i/shape[1]]
			} else {
				w[i] *= s[i%shape[1]]
			}
		}
	}},
}

// channelOps are the operators that scale and shift channels, as patterns around what they do it to.
func channelOps(x Pattern) []*OpPattern {
	k := Const("k")
	return []*OpPattern{
		Op("BatchNormalization", x, Const("scale"), Const("shift"), Const("mean"), Const("variance")).As("affine").If(func(n *ir.Node) bool {
			return ops.Newest(n.Op) && n.Attrs.Int("training_mode", 0) == 0 && len(n.Outputs) == 1
		}),
		Op("Mul", x, k).As("affine"), Op("Add", x, k).As("affine"), Op("Div", x, k).As("affine"), Op("Sub", x, k).As("affine"),
	}
}

func makeConvRules() (rules []*Rule) {
	for _, l := range scaled {
		inner := Op(l.op, Var("x"), Const("w"), Where("b", isConst)).As("linear")
		bare := Op(l.op, Var("x"), Const("w"), Absent()).As("linear")
		for _, p := range append(channelOps(inner), channelOps(bare)...) {
			rules = append(rules, &Rule{
				Name: "conv-affine", Doc: "a scale and shift of channels behind a linear operator",
				Pattern: p,
				Check: func(m *Match) string {
					n := m.Node("linear")
					if l.op == "Gemm" && (n.Attrs.Float("alpha", 1) != 1 || n.Attrs.Float("beta", 1) != 1) {
						return leave
					}
					_, _, why := foldBehind(m, l.axis, l.scale)
					return why
				},
				Make: func(b *ir.Builder, m *Match) []*ir.Value {
					w, bias, _ := foldBehind(m, l.axis, l.scale)
					return []*ir.Value{withWeights(b, m, w, bias)}
				},
			})
		}
	}
	for _, a := range channelOps(Var("x")) {
		for _, bias := range []Pattern{Where("b", isConst), Absent()} {
			rules = append(rules, &Rule{
				Name: "affine-conv", Doc: "a scale and shift of channels before a convolution; a shift only where nothing is padded",
				Pattern: Op("Conv", a, Const("w"), bias).As("linear"),
				Check:   func(m *Match) string { _, _, why := foldBefore(m); return why },
				Make: func(b *ir.Builder, m *Match) []*ir.Value {
					w, bias, _ := foldBefore(m)
					return []*ir.Value{withWeights(b, m, w, bias)}
				},
			})
		}
	}
	return rules
}

// weightsOf reads the constants of a match, in float64: weights with their shape, the bias or zeros, one for each of channels.
func weightsOf(m *Match, channels func(shape []int) int) (w []float64, shape []int, bias []float64, ok bool) {
	t := m.Val("w").Const
	shape = t.Shape()
	if d := t.DType(); d != tensor.Float32 && d != tensor.Float64 || len(shape) < 2 || t.Len() == 0 {
		return nil, nil, nil, false
	}
	w, err := t.Float64s()
	if err != nil {
		return nil, nil, nil, false
	}
	bias = make([]float64, channels(shape))
	if b := m.Val("b"); b != nil {
		v, err := b.Const.Float64s()
		if err != nil || len(b.Const.Shape()) != 1 || len(v) != len(bias) {
			return nil, nil, nil, false
		}
		copy(bias, v)
	}
	return w, shape, bias, true
}

// channelAffine gives scale and shift of each of n channels, which lie on the given axis of a value of some rank.
func channelAffine(m *Match, rank, axis, n int) (scale, shift []float64, ok bool) {
	node := m.Node("affine")
	scale, shift = slices.Repeat([]float64{1}, n), make([]float64, n)
	if node.Op.Name == "BatchNormalization" {
		var v [4][]float64
		for i, name := range []string{"scale", "shift", "mean", "variance"} {
			x, err := m.Val(name).Const.Float64s()
			if err != nil || len(x) != n {
				return nil, nil, false
			}
			v[i] = x
		}
		if axis != 1 && rank != 2 { // its channels are on axis 1
			return nil, nil, false
		}
		eps := node.Attrs.Float("epsilon", float64(float32(1e-5)))
		for i := range n {
			scale[i] = v[0][i] / math.Sqrt(v[3][i]+eps)
			shift[i] = v[1][i] - v[2][i]*scale[i]
		}
		return scale, shift, true
	}
	k := m.Val("k").Const
	v, err := k.Float64s()
	if err != nil || rank == 0 || k.Rank() > rank || k.Len() != 1 && k.Len() != n {
		return nil, nil, false
	}
	if axis < 0 {
		axis += rank
	}
	if at := axis - rank + k.Rank(); k.Len() > 1 && (at < 0 || k.Shape()[at] != n) {
		return nil, nil, false
	}
	for i := range n {
		x := v[i%len(v)]
		switch node.Op.Name {
		case "Mul":
			scale[i] = x
		case "Div":
			scale[i] = 1 / x
		case "Add":
			shift[i] = x
		case "Sub":
			shift[i] = -x
		}
	}
	return scale, shift, true
}

// foldBehind gives the weights and bias of a linear operator and what scales and shifts its channels, as one. A reason says
// why not.
func foldBehind(m *Match, axis int, scale func(*ir.Node, []float64, []int, []float64)) (w, bias []float64, why string) {
	n := m.Node("linear")
	channels := func(shape []int) int {
		switch {
		case n.Op.Name == "ConvTranspose":
			return shape[1] * int(ops.Int(n, "group"))
		case n.Op.Name == "Gemm" && ops.Int(n, "transB") == 0:
			return shape[1]
		}
		return shape[0]
	}
	w, shape, bias, ok := weightsOf(m, channels)
	if !ok {
		return nil, nil, leave
	}
	s, t, ok := channelAffine(m, len(m.Root.Outputs[0].Shape()), axis, len(bias))
	if !ok {
		return nil, nil, leave
	}
	scale(n, w, shape, s)
	for i := range bias {
		bias[i] = bias[i]*s[i] + t[i]
	}
	return w, bias, unlessFinite(w, bias)
}

// foldBefore gives the weights and bias of a convolution whose input channels are scaled and shifted before it.
func foldBefore(m *Match) (w, bias []float64, why string) {
	n := m.Node("linear")
	w, shape, bias, ok := weightsOf(m, func(shape []int) int { return shape[0] })
	group := int(ops.Int(n, "group"))
	if !ok || group < 1 || shape[0]%group != 0 {
		return nil, nil, leave
	}
	s, t, ok := channelAffine(m, len(shape), 1, shape[1]*group)
	if !ok {
		return nil, nil, leave
	}
	auto := ops.Str(n, "auto_pad")
	padded := auto != "NOTSET" && auto != "VALID" || auto == "NOTSET" && slices.ContainsFunc(n.Attrs.Ints("pads", nil), func(p int64) bool { return p != 0 })
	if padded && slices.ContainsFunc(t, func(x float64) bool { return x != 0 }) {
		return nil, nil, leave
	}
	taps := len(w) / (shape[0] * shape[1])
	for i := range w {
		out := i / taps / shape[1]
		c := out/(shape[0]/group)*shape[1] + i/taps%shape[1]
		bias[out] += w[i] * t[c]
		w[i] *= s[c]
	}
	return w, bias, unlessFinite(w, bias)
}

// unlessFinite refuses weights that a float32 does not hold: what the operators gave one after the other might be finite.
func unlessFinite(lists ...[]float64) string {
	for _, v := range lists {
		for _, x := range v {
			if !(math.Abs(x) <= math.MaxFloat32) {
				return "a weight would not be finite"
			}
		}
	}
	return ""
}

// withWeights makes the linear operator of a match again, with other weights.
func withWeights(b *ir.Builder, m *Match, w, bias []float64) *ir.Value {
	n, old, name := m.Node("linear"), m.Val("w").Const, strings.TrimSuffix(m.Val("w").Name, ".folded")
	if n.Op.FullName() == "essm.Linear" {
		return b.Op("essm", "Linear", []*ir.Value{m.Val("x"), b.Const(name+".folded", tensor.FromSlice(w, old.Shape()...)), b.Const(name+".bias", tensor.FromSlice(bias, len(bias)))})
	}
	konst := func(name string, v []float64, shape ...int) *ir.Value {
		if old.DType() == tensor.Float64 {
			return b.Const(name, tensor.FromSlice(v, shape...))
		}
		f := make([]float32, len(v))
		for i, x := range v {
			f[i] = float32(x)
		}
		return b.Const(name, tensor.FromSlice(f, shape...))
	}
	return b.Op("", n.Op.Name, []*ir.Value{m.Val("x"), konst(name+".folded", w, old.Shape()...), konst(name+".bias", bias, len(bias))}, n.Attrs...)
}
