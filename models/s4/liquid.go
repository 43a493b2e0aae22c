package s4

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/backbone"
	"github.com/essmc/essmc/models/config"
)

// LiquidType is the model_type of Liquid-S4 (Hasani et al., Liquid Structural State-Space Models, 2022), as in
// raminmh/liquid-s4: S4 with the names of its versions before 4, and a term of products of the input.
const LiquidType = "liquid-s4"

// Liquid is the configuration of a layer.
type Liquid struct {
	config.Keyed[Liquid]
	Layer    Layer // what it has in common with S4
	Kernel   string
	Degree   int
	AllCombs bool
	Contract string
}

var liquidTable = &config.Table[Liquid]{
	Ignored: append(slices.Clone(training), "hyper_act", "trainable", "resample", "dt_tie"),
	Fields: []config.Field[Liquid]{
		{Key: "mode", Ref: func(l *Liquid) any { return &l.Layer.Mode }, OneOf: lowRankModes, Def: "nplr"},
		{Key: "d_state", Ref: func(l *Liquid) any { return &l.Layer.DState }, Lo: 2, Hi: maxLegS, Def: 64},
		{Key: "rank", Ref: func(l *Liquid) any { return &l.Layer.Rank }, Lo: 1, Hi: 1 << 10, Def: 1},
		{Key: "channels", Ref: func(l *Liquid) any { return &l.Layer.Channels }, Lo: 1, Hi: 1 << 10, Def: 1},
		{Key: "bidirectional", Ref: func(l *Liquid) any { return &l.Layer.Bidirectional }, Def: false},
		{Key: "activation", Ref: func(l *Liquid) any { return &l.Layer.Activation }, OneOf: backbone.Activations,
			Null: true, Def: "gelu"},
		{Key: "postact", Ref: func(l *Liquid) any { return &l.Layer.FinalAct },
			OneOf: append(slices.Clone(backbone.Activations),
				"glu"), Null: true},
		{Key: "real_type", Ref: func(l *Liquid) any { return &l.Layer.RealTransform }, OneOf: transforms, Def: "exp",
			OmitDefault: true},
		{Key: "n_ssm", Ref: func(l *Liquid) any { return &l.Layer.NSSM }, Lo: 1, Hi: backbone.MaxSize, Null: true},
		{Key: "l_max", Ref: func(l *Liquid) any { return &l.Layer.LMax }, Lo: 1, Hi: 1 << 30, Null: true},
		{Key: "measure", Ref: func(l *Liquid) any { return &l.Layer.InitMethod }, OneOf: rankInits, Def: "legs"},
		{Key: "dt_min", Ref: func(l *Liquid) any { return &l.Layer.DtMin }, Def: 1e-3},
		{Key: "dt_max", Ref: func(l *Liquid) any { return &l.Layer.DtMax }, Def: 1e-1},
		{Key: "liquid_kernel", Ref: func(l *Liquid) any { return &l.Kernel }, OneOf: []string{"polyb", "kb"},
			Null: true},
		{Key: "liquid_degree", Ref: func(l *Liquid) any { return &l.Degree }, Lo: 2, Hi: 16, Def: 2},
		{Key: "allcombs", Ref: func(l *Liquid) any { return &l.AllCombs }, Def: true},
		{Key: "lcontract", Ref: func(l *Liquid) any { return &l.Contract }, OneOf: []string{"tanh", "lecun"},
			Null: true},
	},
}

func newLiquid() *Liquid {
	l := &Liquid{Layer: *newLayer()}
	l.Keyed = config.Keyed[Liquid]{Type: LiquidType, C: l, Table: liquidTable}
	liquidTable.Defaults(l)
	l.Layer.DtTransform, l.Layer.ImagTransform = "exp", "none"
	return l
}

// Check checks the values against each other.
func (l *Liquid) Check(d int) error {
	switch {
	case l.Kernel == "kb" && l.Layer.Bidirectional:
		return fmt.Errorf("bidirectional: expected false with liquid_kernel kb, which the released code has for " +
			"causal kernels only")
	case l.Kernel != "" && l.Layer.Channels > 1:
		return fmt.Errorf("channels: expected 1 with liquid_kernel %s, found %d", l.Kernel, l.Layer.Channels)
	}
	return l.Layer.Check(d)
}

// Causal reports whether the layer looks at no later step. The liquid term is reversed in time.
func (l *Liquid) Causal() bool { return l.Layer.Causal() && l.Kernel == "" }

// Streams reports whether the layer looks at no later step.
func (l *Liquid) Streams() bool { return l.Causal() }

// State returns the number of float32 of its state, as that of S4.
func (l *Liquid) State(d int, w models.Weights, prefix string) int {
	return l.Layer.State(d, w, prefix)
}

// Specs lists the layer's tensors.
func (l *Liquid) Specs(d int, w models.Weights, prefix string) []models.Spec {
	s, n, kernel := l.Layer.systems(d), l.Layer.states(), prefix+"kernel.kernel."
	halves := l.Layer.Channels
	if l.Layer.Bidirectional {
		halves *= 2
	}
	all := []models.Spec{{Name: prefix + "D", Shape: []int{l.Layer.Channels, d}},
		{Name: kernel + "log_dt", Shape: []int{d}},
		{Name: kernel + "inv_w_real", Shape: []int{s, n}}, {Name: kernel + "w_imag", Shape: []int{s, n}},
		{Name: kernel + "P", Shape: []int{l.Layer.Rank, s, n, 2}}, {Name: kernel + "B", Shape: []int{1, s, n, 2}},
		{Name: kernel + "C", Shape: []int{halves, d, n, 2}},
		{Name: kernel + "L", Shape: []int{}, Statistic: true, Int: true}}
	if l.Kernel != "" { // copies that the released code keeps beside the parameters
		liquid := prefix + "liquid."
		all = append(all, models.Spec{Name: liquid + "log_dt", Shape: []int{d}, Statistic: true},
			models.Spec{Name: liquid + "B", Shape: []int{s, n, 2}, Statistic: true},
			models.Spec{Name: liquid + "C", Shape: []int{halves, d, n, 2}, Statistic: true},
			models.Spec{Name: liquid + "w", Shape: []int{s, n, 2}, Statistic: true})
	}
	if l.Layer.FinalAct == "" {
		return all
	}
	outputs := d
	if l.Layer.gated() {
		outputs = 2 * d
	}
	return append(all, backbone.OlderLinearSpecs(w, prefix+"output_linear.0", outputs, l.Layer.Channels*d)...)
}

// Init fills a tensor of the layer with initial values. Copies begin like the parameters, with values of their own
// where these are drawn.
func (l *Liquid) Init(x []float64, s models.Spec, name string, r *backbone.Random) bool {
	as := func(name string, shape []int) bool {
		s.Shape = shape
		return l.Layer.Init(x, s, "layer.kernel."+name, r)
	}
	switch name {
	case "D":
		return l.Layer.Init(x, s, "layer.D", r)
	case "kernel.kernel.log_dt", "liquid.log_dt":
		return as("inv_dt", s.Shape)
	case "kernel.kernel.inv_w_real":
		return as("A_real", s.Shape)
	case "kernel.kernel.w_imag":
		as("A_imag", s.Shape)
		for i := range x {
			x[i] = -x[i]
		}
		return true
	case "kernel.kernel.P":
		return as("P", s.Shape)
	case "kernel.kernel.B":
		return as("B", s.Shape)
	case "liquid.B":
		return as("B", append([]int{1}, s.Shape...))
	case "kernel.kernel.C", "liquid.C":
		return as("C", s.Shape)
	case "liquid.w":
		re, im := make([]float64, len(x)/2), make([]float64, len(x)/2)
		linear := l.Layer
		linear.RealTransform = "none"
		shape := models.Spec{Shape: s.Shape[:2]}
		linear.Init(re, shape, "layer.kernel.A_real", r)
		linear.Init(im, shape, "layer.kernel.A_imag", r)
		for i := range re {
			x[2*i], x[2*i+1] = -re[i], -im[i]
		}
		return true
	}
	return false
}

// Build adds the layer to the graph.
func (l *Liquid) Build(n *backbone.Network, x, lengths, state *ir.Value, prefix string) (y, next *ir.Value) {
	d, systems, kernel := n.Shape(prefix + "D")[1], 0, prefix+"kernel.kernel."
	systems = l.Layer.systems(d)
	if lengths != nil && !l.Causal() { // the released code hides later steps from each layer
		x = n.Op("essm", "StepMask", []*ir.Value{x, n.Ints("before", 0), lengths}, ir.A("axis", 1))
	}
	stored := func(name string) *ir.Value { return n.Double(n.Weight(kernel + name)) }
	s := &lowRank{n: n, features: d, channels: l.Layer.Channels, window: l.Layer.LMax, prepared: n.Weight(kernel + "L")}
	first, column := n.Ints("first", 0), n.Ints("column", 1)
	s.lambda = backbone.Complex{
		Re: s.each(n.Do("Neg", []*ir.Value{transform(n, stored("inv_w_real"), l.Layer.RealTransform)}), systems),
		Im: s.each(stored("w_imag"), systems)}
	steps := func(v *ir.Value) *ir.Value {
		return n.Do("Unsqueeze", []*ir.Value{n.Do("Exp", []*ir.Value{v}), column})
	}
	s.dt = s.each(steps(stored("log_dt")), d)
	s.b = s.eachComplex(n.Complex(n.Do("Squeeze", []*ir.Value{stored("B"), first})), systems)
	s.p = s.eachComplex(n.Complex(n.Do("Transpose", []*ir.Value{stored("P")}, ir.A("perm", []int64{1, 0, 2, 3}))),
		systems)
	half := func(of *ir.Value, i int) backbone.Complex {
		from, to := int64(i*l.Layer.Channels), int64((i+1)*l.Layer.Channels)
		return n.Complex(n.Do("Slice", []*ir.Value{of, n.Ints("from", from), n.Ints("to", to), first}))
	}
	var later backbone.Complex
	if l.Layer.Bidirectional {
		later = half(stored("C"), 1)
	}
	y, next = s.apply(x, half(stored("C"), 0), later, state)
	direct := n.Do("Unsqueeze", []*ir.Value{n.Weight(prefix + "D"), n.Ints("last", 2)})
	y = n.Do("Add", []*ir.Value{y, n.Op("essm", "HeadScale", []*ir.Value{x, direct})})
	if l.Kernel != "" {
		kept := func(name string) *ir.Value { return n.Double(n.Weight(prefix + "liquid." + name)) }
		dt := n.Do("Mul", []*ir.Value{steps(kept("log_dt")), n.Scalar("rate", n.Rate)})
		g := s.gains(s.eachComplex(n.Complex(kept("w")), systems), s.eachComplex(n.Complex(kept("B")), systems), dt)
		var term *ir.Value
		if l.Kernel == "kb" {
			term = l.correlation(n, s, x, g, half(stored("C"), 0))
		} else {
			term = l.liquid(n, x, g, func(i int) backbone.Complex { return half(kept("C"), i) })
		}
		y = n.Do("Add", []*ir.Value{y, term})
	}
	y = n.Activation(y, l.Layer.Activation)
	if l.Layer.FinalAct != "" {
		y = n.Activation(n.OlderLinear(y, prefix+"output_linear.0"), l.Layer.FinalAct)
	}
	return y, next
}

// gains returns Δb/(1 - ½Δλ), for each feature and state.
func (s *lowRank) gains(lambda, b backbone.Complex, dt *ir.Value) backbone.Complex {
	do := func(op string, v ...*ir.Value) *ir.Value { return s.n.Do(op, v) }
	x := lambda.Scale(s.n, do("Mul", dt, s.n.Scalar("half", 0.5)))
	re := do("Sub", s.n.Scalar("one", 1), x.Re) // 1 - ½Δλ = re - i·Im x
	size := do("Add", do("Mul", re, re), do("Mul", x.Im, x.Im))
	inverse := backbone.Complex{Re: do("Div", re, size), Im: do("Div", x.Im, size)}
	return b.Scale(s.n, dt).Mul(s.n, inverse)
}

// liquid returns the terms of all degrees: for each feature a factor times products of the input, reversed in time.
func (l *Liquid) liquid(n *backbone.Network, x *ir.Value, g backbone.Complex,
	c func(half int) backbone.Complex) (y *ir.Value) {
	do := func(op string, v ...*ir.Value) *ir.Value { return n.Do(op, v) }
	last := n.Ints("last", -1)
	for early, late := range l.degrees(n, x) {
		g = g.Scale(n, l.sum(n, g.Re))
		for half, v := range []*ir.Value{late, early} {
			if half == 1 && !l.Layer.Bidirectional {
				break
			}
			factor := do("Squeeze", l.sum(n, c(half).Mul(n, g).Re), last) // (1, features)
			y = plus(n, y, do("Mul", v, do("CastLike", factor, v)))
		}
	}
	return y
}

// correlation returns the terms of all degrees that liquid_kernel kb adds: the products of the input, reversed in time,
// and the kernel K, times a power of ΣG, are multiplied as spectra. The released code takes the whole spectrum of the
// kernel at half the length, so this is no convolution: with n = L + lags of K and m = ⌊n/2⌋+1, it is the inverse
// transform of n numbers, the first m of which are those of the transform of n products times those of the transform of
// m lags.
func (l *Liquid) correlation(n *backbone.Network, s *lowRank, x *ir.Value, g, c backbone.Complex) *ir.Value {
	do := func(op string, v ...*ir.Value) *ir.Value { return n.Do(op, v) }
	number := func(name string, k int64) *ir.Value { return n.Const(name, tensor.Scalar(k)) }
	zero, one, two := number("zero", 0), number("one", 1), number("two", 2)
	time, parts := n.Ints("time", 1), n.Ints("parts", 3)
	steps := do("Squeeze", do("Slice", do("Shape", x), n.Ints("from", 1), n.Ints("to", 2)))
	lags := steps
	if l.Layer.LMax > 0 {
		lags = do("Min", steps, number("l_max", int64(l.Layer.LMax)))
	}
	size := do("Add", steps, lags)
	bins := do("Add", do("Div", size, two), one)
	// The kernel is the response to an impulse.
	impulse := do("CastLike", do("Equal", do("Range", zero, steps, one), zero), x)
	impulse = do("Expand", do("Unsqueeze", impulse, n.Ints("around", 0, 2)),
		n.Ints("features", 1, 1, int64(s.features)))
	kernel, _ := s.apply(impulse, c, backbone.Complex{}, nil)
	factor := do("CastLike", do("Squeeze", l.sum(n, g.Re), n.Ints("last", -1)), x)
	transform := func(v, length *ir.Value, attrs ...ir.Attr) backbone.Complex {
		z := n.Op("", "DFT", []*ir.Value{do("Unsqueeze", v, parts), length, number("axis", 1)}, attrs...)
		return backbone.Complex{Re: component(n, z, zero), Im: component(n, z, one)}
	}
	var re, im *ir.Value
	for _, late := range l.degrees(n, x) {
		kernel = do("Mul", kernel, factor)
		z := transform(late, size, ir.A("onesided", 1)).Mul(n, transform(kernel, bins))
		re, im = plus(n, re, z.Re), plus(n, im, z.Im)
	}
	// Of real numbers, the other half of the spectrum is the conjugate: all but the first and the middle number count
	// twice.
	at := do("Range", zero, bins, one)
	single := do("Or", do("Equal", at, zero), do("Equal", do("Mul", at, two), size))
	weight := do("CastLike", do("Where", single, one, two), x)
	weight = do("Unsqueeze", weight, n.Ints("after", 1))
	join := func(v *ir.Value) *ir.Value { return do("Unsqueeze", do("Mul", v, weight), parts) }
	z := n.Op("", "Concat", []*ir.Value{join(re), join(im)}, ir.A("axis", 3))
	z = n.Op("", "DFT", []*ir.Value{z, size, number("axis", 1)}, ir.A("inverse", 1))
	return do("Slice", component(n, z, zero), n.Ints("begin", 0), do("Unsqueeze", steps, n.Ints("vector", 0)), time)
}

// component is the real part of a transform, or the imaginary one.
func component(n *backbone.Network, z, i *ir.Value) *ir.Value {
	return n.Op("", "Gather", []*ir.Value{z, i}, ir.A("axis", 3))
}

// plus adds v to a sum; nil is an empty one.
func plus(n *backbone.Network, sum, v *ir.Value) *ir.Value {
	if sum == nil {
		return v
	}
	return n.Do("Add", []*ir.Value{sum, v})
}

// sum adds the states and their conjugates; it keeps the axis.
func (l *Liquid) sum(n *backbone.Network, v *ir.Value) *ir.Value {
	return n.Do("Mul", []*ir.Value{n.Do("ReduceSum", []*ir.Value{v, n.Ints("last", -1)}), n.Scalar("two", 2)})
}

// degrees yields the products of the input of each degree, in the order of time (nil where nobody needs it) and
// reversed.
func (l *Liquid) degrees(n *backbone.Network, x *ir.Value) iter.Seq2[*ir.Value, *ir.Value] {
	do := func(op string, v ...*ir.Value) *ir.Value { return n.Do(op, v) }
	reverse := func(v *ir.Value) *ir.Value {
		return do("Slice", v, n.Ints("end", -1), n.Ints("begin", math.MinInt64), n.Ints("time", 1), n.Ints("back", -1))
	}
	return func(yield func(early, late *ir.Value) bool) {
		products := x // of the degree before
		for degree := 2; degree <= l.Degree; degree++ {
			var early, late *ir.Value
			if l.AllCombs {
				late = n.Op("essm", "SubsetProducts", []*ir.Value{x}, ir.A("size", degree))
				late = l.contract(n, late)
				if l.Layer.Bidirectional {
					early = reverse(late)
				}
			} else {
				before := do("Slice", do("Pad", products, n.Ints("pads", 0, 1, 0, 0, 0, 0)), n.Ints("from", 0),
					n.Ints("to", -1), n.Ints("time", 1))
				products = do("Mul", products, before)
				early = l.contract(n, products)
				late = reverse(early)
			}
			if !yield(early, late) {
				return
			}
		}
	}
}

// contract applies lcontract.
func (l *Liquid) contract(n *backbone.Network, v *ir.Value) *ir.Value {
	scalar := func(name string, x float64) *ir.Value { return n.Do("CastLike", []*ir.Value{n.Scalar(name, x), v}) }
	switch l.Contract {
	case "tanh":
		return n.Do("Tanh", []*ir.Value{v})
	case "lecun":
		v = n.Do("Tanh", []*ir.Value{n.Do("Mul", []*ir.Value{v, scalar("inner", 0.666)})})
		return n.Do("Mul", []*ir.Value{v, scalar("outer", 1.7159)})
	}
	return v
}
