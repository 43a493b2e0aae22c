package graphfuzz

import (
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/essm"
)

// attempts bounds the nodes that are tried for each one that is added.
const attempts = 12

// any adds nodes of all operators alike.
func (g *generator) any() { g.all(operatorNames()) }

// systems adds nodes of the operators of systems, and some others.
func (g *generator) systems() {
	names := operatorNames()
	own := slices.DeleteFunc(slices.Clone(names), func(n [2]string) bool { return n[0] != "essm" })
	for range len(names) / len(own) { // as many of either
		names = append(names, own...)
	}
	g.all(names)
}

// all adds nodes of given operators.
func (g *generator) all(names [][2]string) {
	switch g.IntN(12) {
	case 10:
		g.opsets[""] = newest("")
	case 11:
		g.opsets[""] = 7 + g.IntN(21)
	}
	for _, n := range operatorNames() { // those of other domains, in their newest versions
		if _, ok := g.opsets[n[0]]; !ok {
			g.opsets[n[0]] = newest(n[0])
		}
	}
	for range attempts * (g.nodes + 1) {
		if g.nodes <= 0 || g.fault != nil {
			return
		}
		n := names[g.IntN(len(names))]
		g.apply(n[0], n[1])
	}
}

// common are the operators that exporters write most.
var common = []string{"Add", "Mul", "Sub", "Div", "MatMul", "Gemm", "Conv", "Relu", "Sigmoid", "Tanh", "Gelu",
	"Softmax",
	"LayerNormalization", "ReduceMean", "ReduceSum", "ReduceMax", "Transpose", "Reshape", "Slice", "Pad", "Concat",
	"Split",
	"Gather", "Where", "Cast", "Unsqueeze", "Squeeze", "Expand", "Clip", "Max", "Min", "Pow", "Sqrt", "Exp", "Neg",
	"Abs",
	"MaxPool", "AveragePool", "BatchNormalization", "CumSum", "ArgMax", "TopK", "Shape", "Flatten", "Tile",
	"GatherElements",
	"ScatterElements", "ScatterND", "LSTM", "GRU", "Einsum", "Resize", "ConvTranspose", "Attention", "QuantizeLinear",
	"DequantizeLinear", "Equal", "Less", "Not", "And", "Trilu", "Range", "Mod", "Round", "Floor", "Sign", "Erf", "Log",
	"Reciprocal", "LeakyRelu", "Elu", "HardSwish", "Softplus", "Sin", "Cos", "Identity", "Dropout", "DFT",
	"GlobalAveragePool"}

// mixed adds nodes of the common operators.
func (g *generator) mixed() {
	g.plain = g.one(2)
	g.nodes += g.IntN(10)
	for range attempts * (g.nodes + 1) {
		if g.nodes <= 0 || g.fault != nil {
			return
		}
		g.apply("", common[g.IntN(len(common))])
	}
}

// f32 returns a constant of random numbers.
func (g *generator) f32(scale float64, shape ...int) *value {
	rng := g.Rand()
	w := tensor.New(tensor.Float32, shape...)
	for i := range tensor.Data[float32](w) {
		tensor.Data[float32](w)[i] = float32(scale * rng.NormFloat64())
	}
	return g.constant(w)
}

func (g *generator) f64(number func() float64, shape ...int) *value {
	w := tensor.New(tensor.Float64, shape...)
	for i := range tensor.Data[float64](w) {
		tensor.Data[float64](w)[i] = number()
	}
	return g.constant(w)
}

// network adds layers to a sequence float[B,L,H], as eSSM models have them.
func (g *generator) network() {
	g.root.Meta[ir.MetaTime], g.root.Meta[ir.MetaBatch] = "L", "B"
	h := pick(g.Source, 2, 1, 3, 5, 8, 40)
	x := g.newInput(tensor.Float32, ir.Shape{ir.Sym("B"), ir.Sym("L"), ir.Const(int64(h))},
		[]int{g.sizes["B"], g.sizes["L"], h}, g.fillOf(normal))
	vals := []*value{x}
	if y := g.linear(x, pick(g.Source, 4, 1, 7, 16, 33, 64)); y != nil {
		vals = append(vals, y)
	}
	g.nodes += g.IntN(8)
	for range 3 * (g.nodes + 1) {
		if g.nodes <= 0 || g.fault != nil {
			break
		}
		var y *value
		if g.one(8) {
			g.apply("", common[g.IntN(len(common))])
		} else if g.one(16) {
			g.apply("", "If")
		} else if y = g.layer(vals); y != nil {
			vals = append(vals, y)
		}
	}
	if g.one(3) {
		g.ops("essm", "Pick", 1, []*value{vals[len(vals)-1], g.lengths()},
			ir.A("mode", pick(g.Source, "pool", "last", "first", "sum")))
	}
}

// lengths returns the lengths of the samples, or nil.
func (g *generator) lengths() *value {
	if g.IntN(2) == 0 || g.sizes["L"] == 0 {
		return nil
	}
	return g.newInput(tensor.Int64, ir.Shape{ir.Sym("B")}, []int{g.sizes["B"]},
		fill{kind: whole, lo: 1, hi: g.sizes["L"] + 1, seed: uint64(g.IntN(1 << 16))})
}

func (g *generator) last(x *value) int { return x.shape()[len(x.shape())-1] }

func (g *generator) linear(x *value, to int) *value {
	k := g.last(x)
	in := []*value{x, g.f32(1/math.Sqrt(float64(max(k, 1))), to, k)}
	if g.IntN(2) == 0 {
		in = append(in, g.f32(1, to))
	}
	return first(g.ops("essm", "Linear", 1, in))
}

func first(out []*value) *value {
	if len(out) == 0 {
		return nil
	}
	return out[0]
}

var activations = []string{"Gelu", "Relu", "Sigmoid", "Tanh", "LeakyRelu", "Softplus", "Neg", "Abs", "Elu", "HardSwish",
	"Mish", "Erf", "Selu", "Swish", "Exp", "Sqrt", "Floor", "Round", "Sin", "Softsign", "Clip"}

// layer applies a random operator to the last value, or to an earlier one.
func (g *generator) layer(vals []*value) *value {
	x := vals[len(vals)-1]
	if g.one(4) {
		x = vals[g.IntN(len(vals))]
	}
	h := g.last(x)
	same := func() *value {
		y := vals[g.IntN(len(vals))]
		if g.last(y) != h {
			y = g.linear(y, h)
		}
		return y
	}
	switch g.IntN(14) {
	case 0, 1:
		return g.linear(x, pick(g.Source, 1+g.IntN(20), 32, 40, 64))
	case 2, 3:
		return g.op(activations[g.IntN(len(activations))], []*value{x})
	case 4:
		if y := same(); y != nil {
			if g.one(3) {
				s := g.op("Sigmoid", []*value{y})
				return g.op("Mul", []*value{x, s})
			}
			return g.op(pick(g.Source, "Add", "Sub", "Mul", "Max", "Min"), []*value{x, y})
		}
	case 5:
		rng := g.Rand()
		return first(g.ops("essm", "Affine", 1, []*value{x, g.f64(rng.NormFloat64, h), g.f64(rng.NormFloat64, h)}))
	case 6:
		return g.op("LayerNormalization", []*value{x, g.f32(1, h), g.f32(1, h)}, ir.A("epsilon", 0.1))
	case 7:
		in := append([]*value{x}, g.system(1, h, 1)...)
		return first(g.ops("essm", "Scan", 1, in, g.direction()...))
	case 8:
		in := []*value{x, g.fresh(tensor.Float32,
			pick(g.Source, []int{h}, []int{1}, []int{}, []int{g.sizes["L"], 1}, []int{1, 1, h}), g.fillOf(positive))}
		name := pick(g.Source, "Add", "Mul", "Sub", "Div", "PRelu", "Pow", "Max")
		if g.one(3) && name != "PRelu" {
			slices.Reverse(in)
		}
		return g.op(name, in)
	case 9:
		return g.op("MatMul", []*value{x, g.f32(1/math.Sqrt(float64(h+1)), h, pick(g.Source, 3, 1, 16, 32, 50))})
	case 10:
		return g.op(pick(g.Source, "Softmax", "LogSoftmax", "Hardmax"), []*value{x}, ir.A("axis", -1))
	}
	return g.stateSpace(x, h)
}

func (g *generator) stateSpace(x *value, h int) *value {
	heads := 1
	for _, s := range []int{2, 3, 5} {
		if h%s == 0 && g.IntN(2) == 0 {
			heads = s
		}
	}
	per, states := h/heads, 1+g.IntN(9)
	out := pick(g.Source, 1+g.IntN(6), per)
	scale := 1 / math.Sqrt(float64(per*states))
	in := append([]*value{x}, g.system(1, heads, states)...)
	in = append(in, g.f32(scale, 1, heads, states, per), g.f32(scale, 1, heads, out, states), nil, nil, nil)
	switch g.IntN(4) {
	case 0:
		in[7], in[8] = g.f32(scale, 1, heads, states, per), g.f32(scale, 1, heads, out, states)
	case 1:
		in[8] = g.f32(scale, 1, heads, out, states)
	}
	if g.one(3) {
		in[9] = g.f32(1, 1, heads, out, per)
	} else if out == per && g.IntN(2) == 0 {
		in[9] = g.f32(1, 1, heads, out)
	}
	return first(g.ops("essm", "SSM", 1, in, g.direction()...))
}

// system returns λΔ and b of a stable system. Some states decay at once, some hardly.
func (g *generator) system(shape ...int) []*value {
	rng := g.Rand()
	return []*value{
		g.f64(func() float64 { return -math.Exp(-7 + 8*rng.Float64()) }, shape...),
		g.f64(func() float64 { return 2 * rng.NormFloat64() }, shape...),
		g.f64(rng.NormFloat64, shape...), g.f64(rng.NormFloat64, shape...),
	}
}

func (g *generator) direction() []ir.Attr {
	a := []ir.Attr{ir.A("direction", pick(g.Source, essm.Forward, essm.Forward, essm.Backward, essm.Bidirectional))}
	if g.one(3) {
		a = append(a, ir.A("window", pick(g.Source, 17, 1, 2, 100, 300)))
	}
	return a
}

// sequences adds operators along the last axis of float[B,C,L], as exporters write them.
func (g *generator) sequences() {
	g.root.Meta[ir.MetaTime], g.root.Meta[ir.MetaBatch] = "L", "B"
	x := g.newInput(tensor.Float32, ir.Shape{ir.Sym("B"), ir.Const(3), ir.Sym("L")},
		[]int{g.sizes["B"], 3, g.sizes["L"]}, g.fillOf(normal))
	vals := []*value{x}
	g.nodes += g.IntN(8)
	for range 3 * (g.nodes + 1) {
		if g.nodes <= 0 || g.fault != nil {
			return
		}
		if g.one(10) {
			g.apply("", common[g.IntN(len(common))])
		} else if g.one(16) {
			g.apply("", "If")
		} else if y := g.along(vals); y != nil && len(y.shape()) == 3 {
			vals = append(vals, y)
		}
	}
}

func (g *generator) turned(x *value) *value {
	if x == nil {
		return nil
	}
	return g.op("Transpose", []*value{x}, ir.A("perm", []int64{0, 2, 1}))
}

// pads divides the reach of a window into pads before and after the sequence.
func (g *generator) pads(reach int) (begin, end int) {
	switch g.IntN(4) {
	case 0:
		return reach / 2, reach - reach/2
	case 1:
		return 0, reach
	}
	return reach, 0
}

// along applies a random operator along time to the last value, or to an earlier one.
func (g *generator) along(vals []*value) *value {
	x := vals[len(vals)-1]
	if g.one(4) {
		x = vals[g.IntN(len(vals))]
	}
	c := x.shape()[1]
	if c == 0 {
		return nil
	}
	switch g.IntN(14) {
	case 0:
		return g.op(activations[g.IntN(len(activations))], []*value{x})
	case 1:
		in := []*value{x, g.f32(1, pick(g.Source, []int{c, 1}, []int{1, c, 1}, []int{1})...)}
		if g.one(3) {
			slices.Reverse(in)
		}
		return g.op(pick(g.Source, "Add", "Mul", "Max", "Sub"), in)
	case 2:
		y := vals[g.IntN(len(vals))]
		if n := y.shape()[1]; n != c {
			y = g.op("MatMul", []*value{g.f32(1/math.Sqrt(float64(n+1)), c, n), y})
		}
		if y != nil {
			return g.op(pick(g.Source, "Add", "Sub", "Mul"), []*value{x, y})
		}
	case 3:
		if c%2 == 1 {
			if x = g.op("Concat", []*value{x, x}, ir.A("axis", 1)); x == nil {
				return nil
			}
		}
		halves := g.ops("", "Split", 2, []*value{x}, ir.A("axis", 1), ir.A("num_outputs", 2))
		if len(halves) == 2 && halves[1] != nil {
			a, b := g.op("Tanh", halves[:1]), g.op("Sigmoid", halves[1:])
			if a != nil && b != nil {
				return g.op("Mul", []*value{a, b})
			}
		}
	case 4:
		k := 1 + g.IntN(6)
		begin, end := g.pads(k - 1)
		name := pick(g.Source, "MaxPool", "AveragePool")
		attrs := []ir.Attr{ir.A("kernel_shape", []int64{int64(k)}), ir.A("pads", []int64{int64(begin), int64(end)})}
		if name == "AveragePool" && g.IntN(2) == 0 {
			attrs = append(attrs, ir.A("count_include_pad", 1))
		}
		if g.one(4) {
			attrs = append(attrs, ir.A("strides", []int64{2}))
		}
		return g.op(name, []*value{x}, attrs...)
	case 5:
		y := g.op("Pad", []*value{x, g.ints(0, 0, 1, 0, 0, 0)})
		if y != nil {
			return g.op("Slice", []*value{y, g.ints(0), g.ints(-1), g.ints(2)})
		}
	case 6:
		mean := g.op("CumSum", []*value{x, g.constant(tensor.Scalar(int64(2)))}, ir.A("exclusive", g.IntN(2)))
		if mean != nil {
			if y := g.op("Mul", []*value{mean, g.f32(0.1, 1)}); y != nil {
				return g.op("Tanh", []*value{y})
			}
		}
	case 7:
		if y := g.turned(x); y != nil {
			y = g.op("LayerNormalization", []*value{y, g.f32(1, c)}, ir.A("epsilon", 0.1))
			if y != nil {
				return g.turned(g.linear(y, 1+g.IntN(12)))
			}
		}
	case 8:
		if y := g.turned(x); y != nil {
			return g.turned(g.layer([]*value{y}))
		}
	}
	return g.window(x)
}

// window returns a convolution of the length of its input: with pads, after a Pad, or before a Slice.
func (g *generator) window(x *value) *value {
	c := x.shape()[1]
	k, dilation := 1+g.IntN(5), pick(g.Source, 1, 1, 2, 7, 40)
	reach := (k - 1) * dilation
	group, to := 1, 1+g.IntN(20)
	switch g.IntN(3) {
	case 0:
		group, to = c, c
	case 1:
		for _, n := range []int{2, 3} {
			if c%n == 0 {
				group, to = n, n*(1+g.IntN(9))
			}
		}
	}
	in := []*value{x, g.f32(1/math.Sqrt(float64(k*c/group)), to, c/group, k)}
	if g.IntN(2) == 0 {
		in = append(in, g.f32(1, to))
	}
	conv := func(begin, end int) *value {
		return g.op("Conv", in, ir.A("dilations", []int64{int64(dilation)}), ir.A("group", group),
			ir.A("pads", []int64{int64(begin), int64(end)}))
	}
	begin, end := g.pads(reach)
	switch g.IntN(3) {
	case 0:
		if in[0] = g.op("Pad", []*value{x, g.ints(0, 0, int64(begin), 0, 0, int64(end))}); in[0] != nil {
			return conv(0, 0)
		}
		return nil
	case 1:
		if reach > 0 {
			upTo := end - reach
			if upTo == 0 {
				upTo = math.MaxInt32
			}
			if y := conv(reach, reach); y != nil {
				return g.op("Slice", []*value{y, g.ints(int64(end)), g.ints(int64(upTo)), g.ints(2)})
			}
			return nil
		}
	}
	return conv(begin, end)
}
