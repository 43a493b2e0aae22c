package lower

import (
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/essm"
)

// softmaxBlock is the number of lags that have the same first factor of their powers.
const softmaxBlock = 16

// complexValue is a complex value in two parts.
type complexValue struct{ re, im *ir.Value }

func (l *lowerer) product(x, y complexValue) complexValue {
	return complexValue{l.op("Sub", l.op("Mul", x.re, y.re), l.op("Mul", x.im, y.im)),
		l.op("Add", l.op("Mul", x.re, y.im), l.op("Mul", x.im, y.re))}
}

// exponential returns e^x, and its absolute value. The cosine is a sine with its phase shifted by π/2, because some
// engines have no cosine in float64.
func (l *lowerer) exponential(x complexValue) (z complexValue, size *ir.Value) {
	size = l.op("Exp", x.re)
	cos := l.op("Sin", l.op("Add", x.im, l.number("quarter", tensor.Float64, []float64{math.Pi / 2})))
	return complexValue{l.op("Mul", size, cos), l.op("Mul", size, l.op("Sin", x.im))}, size
}

// lessOne returns e^x - 1: the real part is eʳ - 1 - 2eʳ sin²(i/2), which keeps the digits of small angles.
func (l *lowerer) lessOne(x complexValue) complexValue {
	z, size := l.exponential(x)
	half := l.op("Sin", l.op("Mul", x.im, l.number("half", tensor.Float64, []float64{0.5})))
	round := l.op("Mul", l.op("Mul", size, l.number("two", tensor.Float64, []float64{2})), l.op("Mul", half, half))
	return complexValue{l.op("Sub", l.op("Sub", size, l.number("one", tensor.Float64, []float64{1})), round), z.im}
}

// lowerSoftmaxConv lowers a convolution with kernels that are normalized over the sequence to a Conv with a group for
// each feature. The kernels are computed for the length, in float64: lag k = k₁T + k₀ is Re Σ (W e^{a(k₁T - s(L-1))})
// e^{ak₀}, a product of matrices for each feature.
func lowerSoftmaxConv(l *lowerer, n *ir.Node) []*ir.Value {
	u, elem := n.Inputs[0], n.Inputs[0].Elem()
	at := func(i int) complexValue { return complexValue{n.In(i), n.In(i + 1)} }
	a, lambda, zero := at(1), at(3), l.number("zero", tensor.Float64, []float64{0})
	wide := func(v *ir.Value) *ir.Value { return l.with("Cast", []*ir.Value{v}, ir.A("to", int(tensor.Float64))) }
	taps := l.op("Squeeze", l.op("Slice", l.op("Shape", u), l.Ints(1), l.Ints(2)))
	if w := n.Attrs.Int("window", 0); w > 0 {
		taps = l.op("Min", taps, l.integer("window", w))
	}
	lags := wide(taps)
	// What all lags have in common.
	grows := l.op("Greater", lambda.re, zero)
	decay := complexValue{l.op("Where", grows, l.op("Neg", a.re), a.re), l.op("Where", grows, l.op("Neg", a.im), a.im)}
	first := l.lessOne(decay)
	q := l.product(l.lessOne(complexValue{l.op("Mul", decay.re, lags), l.op("Mul", decay.im, lags)}), lambda)
	size := l.op("Add", l.op("Add", l.op("Mul", q.re, q.re), l.op("Mul", q.im, q.im)),
		l.number("epsilon", tensor.Float64, []float64{n.Attrs.Float("epsilon", 1e-7)}))
	gain := l.product(first, complexValue{q.re, l.op("Neg", q.im)})
	gain = complexValue{l.op("Div", gain.re, size), l.op("Div", gain.im, size)}
	// The powers: (features, blocks, states), and (features, states, lags of a block).
	block := l.integer("block", softmaxBlock)
	blocks := l.op("Div", l.op("Add", taps, l.integer("last", softmaxBlock-1)), block)
	begins := l.op("Mul", wide(l.op("Range", l.integer("begin", 0), blocks, l.integer("next", 1))),
		l.number("width", tensor.Float64, []float64{softmaxBlock}))
	from := l.op("Where", grows, l.op("Sub", lags, l.number("one", tensor.Float64, []float64{1})), zero)
	places := l.op("Sub", l.op("Unsqueeze", begins, l.Ints(1)), l.op("Unsqueeze", from, l.Ints(1)))
	powers := func(axis int64, of *ir.Value) complexValue {
		z, _ := l.exponential(complexValue{l.op("Mul", l.op("Unsqueeze", a.re, l.Ints(axis)), of),
			l.op("Mul", l.op("Unsqueeze", a.im, l.Ints(axis)), of)})
		return z
	}
	outer := powers(1, places)
	inside := make([]float64, softmaxBlock)
	for i := range inside {
		inside[i] = float64(i)
	}
	inner := powers(2, l.number("lags", tensor.Float64, inside, softmaxBlock))
	kernel := func(w complexValue) *ir.Value {
		w = l.product(w, gain)
		x := l.product(complexValue{l.op("Unsqueeze", w.re, l.Ints(1)), l.op("Unsqueeze", w.im, l.Ints(1))}, outer)
		k := l.op("Sub", l.op("MatMul", x.re, inner.re), l.op("MatMul", x.im, inner.im))
		k = l.op("Slice", l.op("Reshape", k, l.Ints(0, -1)), l.Ints(0), l.op("Unsqueeze", taps, l.Ints(0)), l.Ints(1))
		return l.with("Cast", []*ir.Value{k}, ir.A("to", int(elem)))
	}
	weight := l.op("Slice", kernel(at(5)), l.Ints(-1), l.Ints(-1<<62), l.Ints(1), l.Ints(-1))
	last := l.Ints(0)
	if n.Attrs.Str("direction", essm.Forward) == essm.Bidirectional {
		weight = l.with("Concat", []*ir.Value{weight, kernel(at(7))}, ir.A("axis", 1))
		last = l.op("Unsqueeze", taps, l.Ints(0))
	}
	before := l.op("Sub", l.op("Unsqueeze", taps, l.Ints(0)), l.Ints(1))
	swap := ir.A("perm", []int64{0, 2, 1})
	v := l.op("Pad", l.with("Transpose", []*ir.Value{u}, swap),
		l.with("Concat", []*ir.Value{l.Ints(0, 0), before, l.Ints(0, 0), last}, ir.A("axis", 0)))
	groups, known := u.Shape()[2].Known()
	if !known {
		groups, _ = a.re.Shape()[0].Known()
	}
	y := l.with("Conv", []*ir.Value{v, l.op("Unsqueeze", weight, l.Ints(1))}, ir.A("group", groups))
	return one(l.with("Transpose", []*ir.Value{y}, swap))
}
