package passes

import (
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	. "github.com/essmc/essmc/passes/match" //nolint:revive // patterns are written like the operators that they match
)

// FoldConv multiplies scales and shifts of channels into the weights of the convolutions beside them.
var FoldConv = &Pass{
	Name: "fold-conv",
	Doc: "Batch norm with fixed statistics, and arithmetic with one constant for each channel, after Conv, " +
		"ConvTranspose, Gemm or a linear layer, or before a Conv → its weights and bias. " +
		"Computed in float64 and rounded to the weights' type, which the operators of ONNX share with their data. " +
		"What follows from parameters is written as nodes.",
	After: []Reason{
		{"fold", "weights and their factors must be constants"},
	},
	Run: func(c *Context, g *ir.Graph) (int, error) { return Apply(c, g, convRules()) },
}

// scaled are the operators whose output channels can be scaled, with the axis of these from the left (1) or the right
// (-1), their number, and the factors of the weights.
var scaled = []struct {
	op       string
	axis     int
	channels func(n *ir.Node, shape []int) int
	factors  func(n *ir.Node, shape []int, s []float64) factors
}{
	{"Conv", 1, rowsOf, eachRow},
	{"ConvTranspose", 1, func(n *ir.Node, shape []int) int { return shape[1] * int(ops.Int(n, "group")) },
		func(n *ir.Node, shape []int, s []float64) factors {
			each := shape[0] / int(ops.Int(n, "group")) // input channels per group
			return factors{tapsOf(shape), func(i int) []float64 { return s[i/shape[1]/each*shape[1]+i%shape[1]:][:1] },
				nil}
		}},
	{"essm.Linear", -1, rowsOf, eachRow},
	{"Gemm", -1, func(n *ir.Node, shape []int) int {
		if ops.Int(n, "transB") != 0 {
			return shape[0]
		}
		return shape[1]
	}, func(n *ir.Node, shape []int, s []float64) factors {
		if ops.Int(n, "transB") != 0 {
			return eachRow(n, shape, s)
		}
		return factors{shape[1], func(int) []float64 { return s }, nil}
	}},
}

// factors are the factors of a matrix of weights with the given number of columns. of(i) returns the factors of row
// i: one for all columns, or one for each.
type factors struct {
	columns int
	of      func(i int) []float64
	rows    []float64 // the factors of rows, if each has one
}

// eachRow returns one factor for each output channel, whose weights are a row.
func eachRow(_ *ir.Node, shape []int, s []float64) factors {
	return factors{shape[1] * tapsOf(shape), func(i int) []float64 { return s[i : i+1] }, s}
}

func rowsOf(_ *ir.Node, shape []int) int { return shape[0] }

// channelOps returns the patterns of operators that scale and shift the channels of x.
func channelOps(x Pattern) []*OpPattern {
	k := Fixed("k")
	return []*OpPattern{
		Op("BatchNormalization", x, Fixed("scale"), Fixed("shift"), Fixed("mean"),
			Fixed("variance")).As("affine").If(func(n *ir.Node) bool {
			return ops.Newest(n.Op) && n.Attrs.Int("training_mode", 0) == 0 && len(n.Outputs) == 1
		}),
		Op("Mul", x, k).As("affine"), Op("Add", x, k).As("affine"), Op("Div", x, k).As("affine"),
		Op("Sub", x, k).As("affine"),
	}
}

var convRules = sync.OnceValue(func() *Set {
	var rules []*Rule
	for _, l := range scaled {
		inner := Op(l.op, Var("x"), Fixed("w"), Fixed("b")).As("linear")
		bare := Op(l.op, Var("x"), Fixed("w"), Absent()).As("linear")
		for _, p := range append(channelOps(inner), channelOps(bare)...) {
			rules = append(rules, &Rule{
				Name: "conv-affine", Doc: "a scale and shift of channels after a linear operator",
				Pattern: p,
				Check: func(m *Match) string {
					if !ofConstants(m) {
						return writeAfter(m, l.op, l.axis)
					}
					n, shape := m.Node("linear"), m.Val("w").Const.Shape()
					if l.op == "Gemm" && (n.Attrs.Float("alpha", 1) != 1 || n.Attrs.Float("beta", 1) != 1) {
						return Leave
					}
					bias, ok := biasOf(m, l.channels)
					if !ok {
						return Leave
					}
					s, t, ok := channelAffine(m, len(m.Root.Outputs[0].Shape()), l.axis, len(bias))
					if !ok {
						return Leave
					}
					for i := range bias {
						bias[i] = bias[i]*s[i] + t[i]
					}
					return scaleWeights(m, l.factors(n, shape, s), isOne(s), bias)
				},
				Make: makeLinear,
			})
		}
	}
	for _, a := range channelOps(Var("x")) {
		for _, bias := range []Pattern{Fixed("b"), Absent()} {
			rules = append(rules, &Rule{
				Name:    "affine-conv",
				Doc:     "a scale and shift of channels before a convolution; a shift only where nothing is padded",
				Pattern: Op("Conv", a, Fixed("w"), bias).As("linear"),
				Check:   foldBefore,
				Make:    makeLinear,
			})
		}
	}
	return NewSet(rules...)
})

// biasOf returns the bias of a match in float64, or zeros, one for each channel. It returns false if the weights cannot
// be scaled.
func biasOf(m *Match, channels func(n *ir.Node, shape []int) int) (bias []float64, ok bool) {
	w := m.Val("w").Const
	if d := w.DType(); d != tensor.Float32 && d != tensor.Float64 || w.Rank() < 2 || w.Len() == 0 {
		return nil, false
	}
	bias = make([]float64, channels(m.Node("linear"), w.Shape()))
	if b := m.Val("b"); b != nil {
		v, err := b.Const.Float64s()
		if err != nil || b.Const.Rank() != 1 || len(v) != len(bias) {
			return nil, false
		}
		copy(bias, v)
	}
	return bias, true
}

// tapsOf returns the number of weights between one input channel and one output channel.
func tapsOf(shape []int) int {
	taps := 1
	for _, d := range shape[2:] {
		taps *= d
	}
	return taps
}

// channelAffine returns the scale and the shift of each of the n channels on an axis of a value of the given rank.
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
	if rank == 0 || k.Rank() > rank || k.Len() != 1 && k.Len() != n {
		return nil, nil, false
	}
	if axis < 0 {
		axis += rank
	}
	if at := axis - rank + k.Rank(); k.Len() > 1 && (at < 0 || k.Shape()[at] != n) {
		return nil, nil, false
	}
	v, err := k.Float64s()
	if err != nil {
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

// foldBefore computes the weights and bias of a convolution whose input channels are scaled and shifted before it.
func foldBefore(m *Match) string {
	if !ofConstants(m) {
		return writeBefore(m)
	}
	n, w := m.Node("linear"), m.Val("w").Const
	bias, ok := biasOf(m, rowsOf)
	group := int(ops.Int(n, "group"))
	if !ok || group < 1 || w.Dim(0)%group != 0 {
		return Leave
	}
	each, ins := w.Dim(0)/group, w.Dim(1) // output and input channels per group
	s, t, ok := channelAffine(m, w.Rank(), 1, ins*group)
	if !ok {
		return Leave
	}
	rows := func(s []float64) factors { // the factor of each input channel, for all its taps
		taps := tapsOf(w.Shape())
		all := make([]float64, 0, len(s)*taps)
		for _, x := range s {
			all = append(all, slices.Repeat([]float64{x}, taps)...)
		}
		return factors{ins * taps, func(i int) []float64 { return all[i/each*ins*taps:][:ins*taps] }, nil}
	}
	if slices.ContainsFunc(t, func(x float64) bool { return x != 0 }) {
		ws, err := ops.Windows(n, w.Rank()-2)
		if err != nil || slices.ContainsFunc(ws, ops.Window.Padded) {
			return Leave
		}
		if w.DType() == tensor.Float64 {
			addProducts(bias, tensor.Data[float64](w), rows(t))
		} else {
			addProducts(bias, tensor.Data[float32](w), rows(t))
		}
	}
	return scaleWeights(m, rows(s), isOne(s), bias)
}

// addProducts adds to each sum the products of a row of weights.
func addProducts[F float](sums []float64, w []F, by factors) {
	for i, sum := range sums {
		row, k := w[i*by.columns:][:by.columns], by.of(i)
		for j, v := range row {
			sum += float64(v) * k[j]
		}
		sums[i] = sum
	}
}

func isOne(s []float64) bool { return !slices.ContainsFunc(s, func(x float64) bool { return x != 1 }) }

// folded holds the weights and bias that a Check has computed.
type folded struct{ w, bias *tensor.Tensor }

// scaleWeights multiplies the weights of a match by their factors, and stores them with their bias in the match. one
// reports whether all factors are 1. The weights of essm.Linear become float64, so that a plan in double precision
// computes the same as its source. If the weights cannot be scaled, scaleWeights returns why.
func scaleWeights(m *Match, by factors, one bool, bias []float64) (why string) {
	w := m.Val("w").Const
	f := &folded{w: w}
	wide := w.DType() == tensor.Float64
	double := wide || m.Node("linear").Op.Domain == "essm"
	ok := false
	if double {
		f.bias = tensor.New(tensor.Float64, len(bias))
		ok = scaleRow(tensor.Data[float64](f.bias), bias, 1)
	} else {
		f.bias = tensor.New(tensor.Float32, len(bias))
		ok = scaleRow(tensor.Data[float32](f.bias), bias, 1)
	}
	lazy := w.Lazy() && w.DType() == tensor.Float32
	if lazy {
		by := &scaledWeights{w, by, double}
		ok = ok && by.finite()
		if !one || double {
			f.w = by.tensor()
		}
	} else if !one || double != wide {
		f.w = tensor.New(f.bias.DType(), w.Shape()...)
	}
	switch {
	case !ok || lazy:
	case f.w == w && wide:
		ok = finite(tensor.Data[float64](w))
	case f.w == w:
		ok = finite(tensor.Data[float32](w))
	case wide:
		ok = scale(tensor.Data[float64](f.w), tensor.Data[float64](w), by)
	case double:
		ok = scale(tensor.Data[float64](f.w), tensor.Data[float32](w), by)
	default:
		ok = scale(tensor.Data[float32](f.w), tensor.Data[float32](w), by)
	}
	if !ok { // the result of the separate operators might be finite
		return "a weight would not be finite"
	}
	m.Found = f
	return ""
}

type float interface{ float32 | float64 }

// scale reports whether all products are in the range of float32.
func scale[T, F float](to []T, from []F, by factors) bool {
	for i := range len(from) / by.columns {
		x, y, k := from[i*by.columns:][:by.columns], to[i*by.columns:][:by.columns], by.of(i)
		switch {
		case len(k) > 1:
			k = k[:len(x)]
			for j, v := range x {
				p := float64(v) * k[j]
				if !(math.Abs(p) <= math.MaxFloat32) {
					return false
				}
				y[j] = T(p)
			}
		case !scaleRow(y, x, k[0]):
			return false
		}
	}
	return true
}

func scaleRow[T, F float](to []T, from []F, k float64) bool {
	to = to[:len(from)]
	for j, v := range from {
		p := float64(v) * k
		if !(math.Abs(p) <= math.MaxFloat32) {
			return false
		}
		to[j] = T(p)
	}
	return true
}

// finite reports whether all numbers are in the range of float32.
func finite[F float](x []F) bool {
	return !slices.ContainsFunc(x, func(v F) bool { return !(math.Abs(float64(v)) <= math.MaxFloat32) })
}

// makeLinear makes the linear operator of a match again with the folded weights.
func makeLinear(b *ir.Builder, m *Match) []*ir.Value {
	if w, ok := m.Found.(*rewritten); ok {
		return w.make(b, m)
	}
	n, name, f := m.Node("linear"), strings.TrimSuffix(m.Val("w").Name, ".folded"), m.Found.(*folded)
	in := []*ir.Value{m.Val("x"), b.Const(name+".folded", f.w), b.Const(name+".bias", f.bias)}
	return []*ir.Value{b.Op(n.Op.Domain, n.Op.Name, in, n.Attrs...)}
}
