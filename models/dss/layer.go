package dss

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/backbone"
	"github.com/essmc/essmc/models/config"
	"github.com/essmc/essmc/ops/essm/spectral"
)

// Type is the model_type of the family.
const Type = "dss"

// Layer is the configuration of a layer.
type Layer struct {
	config.Keyed[Layer]
	DState        int
	Channels      int
	Bidirectional bool
	Activation    string
	Postact       string
	HyperAct      string
	SepDt         bool // one step size for real parts, one for imaginary parts
	MaxKernel     int  // lags of the kernel; 0: all
	Version       string
	MaxReal       float64
	Epsilon       float64
	DtMin, DtMax  float64
}

// maxStates bounds the size of a HiPPO matrix, of twice the states.
const maxStates = 1024

var table = &config.Table[Layer]{
	Ignored: []string{"dropout", "lr", "wd", "trainable", "initializer", "weight_norm", "transposed", "verbose",
		"l_max", "Lambda_init", "d_model", "tie_dropout", "hurwitz"},
	Fields: []config.Field[Layer]{
		{Key: "d_state", Ref: func(l *Layer) any { return &l.DState }, Lo: 1, Hi: maxStates, Def: 64},
		{Key: "channels", Ref: func(l *Layer) any { return &l.Channels }, Lo: 1, Hi: 1 << 10, Def: 1},
		{Key: "bidirectional", Ref: func(l *Layer) any { return &l.Bidirectional }, Def: false},
		{Key: "activation", Ref: func(l *Layer) any { return &l.Activation }, OneOf: backbone.Activations, Null: true,
			Def: "gelu"},
		{Key: "postact", Ref: func(l *Layer) any { return &l.Postact },
			OneOf: append(slices.Clone(backbone.Activations), "glu"), Null: true},
		{Key: "hyper_act", Ref: func(l *Layer) any { return &l.HyperAct }, OneOf: backbone.Activations, Null: true},
		{Key: "sep_dt_re_im", Ref: func(l *Layer) any { return &l.SepDt }, Def: true},
		{Key: "max_kernel_length", Ref: func(l *Layer) any { return &l.MaxKernel }, Lo: 1, Hi: 1 << 30, Null: true},
		{Key: "version", Ref: func(l *Layer) any { return &l.Version }, Def: "softmax",
			OneOf: []string{"softmax", "exp", "exp-re-im", "exp-no-scale", "clip", "clip-no-scale"}},
		{Key: "max_real_Lambda", Ref: func(l *Layer) any { return &l.MaxReal }, Def: 1e-4, Signed: true},
		{Key: "epsilon", Ref: func(l *Layer) any { return &l.Epsilon }, Def: 1e-7},
		{Key: "dt_min", Ref: func(l *Layer) any { return &l.DtMin }, Def: 1e-3},
		{Key: "dt_max", Ref: func(l *Layer) any { return &l.DtMax }, Def: 1e-1},
	},
}

func newLayer() *Layer {
	l := &Layer{}
	l.Keyed = config.Keyed[Layer]{Type: "dss", C: l, Table: table}
	table.Defaults(l)
	return l
}

// Check checks the values against each other.
func (l *Layer) Check(int) error {
	switch {
	case l.Bidirectional && l.MaxKernel > 0:
		return fmt.Errorf("max_kernel_length: expected null with bidirectional, since the released code then lays " +
			"the backward half onto other lags")
	case l.DtMin <= 0 || l.DtMin > l.DtMax:
		return fmt.Errorf("dt_min: expected step sizes 0 < dt_min ≤ dt_max, found %v and %v", l.DtMin, l.DtMax)
	}
	return nil
}

func (l *Layer) softmax() bool { return l.Version == "softmax" }

// scaled reports whether the input has the factor of the discretization.
func (l *Layer) scaled() bool { return !strings.HasSuffix(l.Version, "no-scale") }

// Causal reports whether the layer looks at no later step. The kernel of softmax depends on the length of the sequence.
func (l *Layer) Causal() bool { return !l.Bidirectional && !l.softmax() }

// Streams reports whether the layer looks at no later step.
func (l *Layer) Streams() bool { return l.Causal() }

// channels is the number of kernels for each feature: twice as many if a half of the outputs scales the other.
func (l *Layer) channels() int {
	if l.HyperAct != "" {
		return 2 * l.Channels
	}
	return l.Channels
}

// State returns the number of float32 of its state: each state's real and imaginary part, and the inputs of the window.
func (l *Layer) State(d int, _ models.Weights, _ string) int {
	return l.channels() * d * l.DState * (2 + l.MaxKernel)
}

// Specs lists the layer's tensors.
func (l *Layer) Specs(d int, w models.Weights, prefix string) []models.Spec {
	kernel, n, c := prefix+"kernel.", l.DState, l.channels()
	all := []models.Spec{{Name: prefix + "D", Shape: []int{c, d}}}
	switch {
	case strings.HasPrefix(l.Version, "exp"):
		imag := "Lambda_im"
		if l.Version == "exp-re-im" {
			imag = "Lambda_log_im"
		}
		all = append(all, models.Spec{Name: kernel + "Lambda_log_neg_re", Shape: []int{n}},
			models.Spec{Name: kernel + imag, Shape: []int{n}})
	default:
		all = append(all, models.Spec{Name: kernel + "Lambda", Shape: []int{n, 2}})
	}
	dt := []int{d}
	if l.SepDt {
		dt = []int{d, 2}
	}
	if l.Bidirectional {
		c *= 2
	}
	all = append(all, models.Spec{Name: kernel + "log_dt", Shape: dt},
		models.Spec{Name: kernel + "W", Shape: []int{c, d, n, 2}})
	return append(all, backbone.OlderLinearSpecs(w, l.linear(prefix), l.outputs(d), l.Channels*d)...)
}

// linear begins the names of the tensors of the linear layer.
func (l *Layer) linear(prefix string) string {
	if l.Postact == "" {
		return prefix + "output_linear"
	}
	return prefix + "output_linear.0"
}

// outputs is the number of outputs of the linear layer.
func (l *Layer) outputs(d int) int {
	if l.Postact == "glu" {
		return 2 * d
	}
	return d
}

// Init fills a tensor of the layer with initial values.
func (l *Layer) Init(x []float64, s models.Spec, name string, r *backbone.Random) bool {
	frequency := func(i int) float64 { // half of the eigenvalues of HiPPO-LegS of twice the size, the largest first
		lambda, _, err := spectral.HiPPO(2 * l.DState)
		if err != nil {
			return 0 // the table bounds the size
		}
		return -imag(lambda[i])
	}
	switch name {
	case "D", "kernel.W":
		r.Fill(x, 1)
	case "kernel.log_dt":
		lo, hi := math.Log(l.DtMin), math.Log(l.DtMax)
		for i := range x {
			x[i] = lo + float64(r.Float64()*(hi-lo))
		}
	case "kernel.Lambda":
		for i := range x {
			if x[i] = -0.5; i%2 == 1 {
				x[i] = frequency(i / 2)
			}
		}
	case "kernel.Lambda_log_neg_re":
		for i := range x {
			x[i] = math.Log(0.5)
		}
	case "kernel.Lambda_im":
		for i := range x {
			x[i] = frequency(i)
		}
	case "kernel.Lambda_log_im":
		for i := range x {
			x[i] = math.Log(frequency(i))
		}
	default:
		return false
	}
	return true
}

// lambda returns the eigenvalues.
func (l *Layer) lambda(n *backbone.Network, kernel string) backbone.Complex {
	stored := func(name string) *ir.Value { return n.Double(n.Weight(kernel + name)) }
	exp := func(v *ir.Value) *ir.Value { return n.Do("Exp", []*ir.Value{v}) }
	switch {
	case l.Version == "exp-re-im":
		return backbone.Complex{Re: n.Do("Neg", []*ir.Value{exp(stored("Lambda_log_neg_re"))}),
			Im: exp(stored("Lambda_log_im"))}
	case strings.HasPrefix(l.Version, "exp"):
		return backbone.Complex{Re: n.Do("Neg", []*ir.Value{exp(stored("Lambda_log_neg_re"))}), Im: stored("Lambda_im")}
	}
	lambda := n.Complex(stored("Lambda"))
	if strings.HasPrefix(l.Version, "clip") {
		lambda.Re = n.Do("Min", []*ir.Value{lambda.Re, n.Scalar("most", l.MaxReal)})
	}
	return lambda
}

// Build adds the layer to the graph.
func (l *Layer) Build(n *backbone.Network, x, _, state *ir.Value, prefix string) (y, next *ir.Value) {
	kernel, channels := prefix+"kernel.", l.channels()
	d := n.Shape(prefix + "D")[1]
	mul := func(a, b *ir.Value) *ir.Value { return n.Do("Mul", []*ir.Value{a, b}) }
	lambda := l.lambda(n, kernel)
	dt := mul(n.Do("Exp", []*ir.Value{n.Double(n.Weight(kernel + "log_dt"))}), n.Scalar("rate", n.Rate))
	step := func(i int64) *ir.Value { // as a column
		if !l.SepDt {
			return n.Do("Unsqueeze", []*ir.Value{dt, n.Ints("column", 1)})
		}
		return n.Do("Gather", []*ir.Value{dt, n.Ints("part", i)}, ir.A("axis", 1))
	}
	a := backbone.Complex{Re: mul(step(0), lambda.Re), Im: mul(step(1), lambda.Im)}
	half := func(i int) backbone.Complex {
		from, to := int64(i*channels), int64((i+1)*channels)
		w := n.Double(n.Weight(kernel + "W"))
		return n.Complex(n.Do("Slice", []*ir.Value{w, n.Ints("from", from), n.Ints("to", to), n.Ints("first", 0)}))
	}
	var later backbone.Complex
	if l.Bidirectional {
		later = half(1)
	}
	direct := n.Do("Unsqueeze", []*ir.Value{n.Weight(prefix + "D"), n.Ints("last", 2)})
	if l.softmax() {
		s := backbone.Softmax{Network: n, Features: d, Channels: channels, Window: l.MaxKernel, Epsilon: l.Epsilon}
		y = n.Do("Add", []*ir.Value{s.Apply(x, a, lambda, half(0), later),
			n.Op("essm", "HeadScale", []*ir.Value{x, direct})})
	} else {
		y, next = l.scan(n, x, state, a, lambda, half(0), later, direct, channels)
	}
	if l.HyperAct != "" {
		halves := n.Ops("", "Split", 2, []*ir.Value{y}, ir.A("axis", -1), ir.A("num_outputs", 2))
		y = mul(n.Activation(halves[1], l.HyperAct), halves[0])
	}
	y = n.OlderLinear(n.Activation(y, l.Activation), l.linear(prefix))
	return n.Activation(y, l.Postact), next
}

// scan applies systems with the eigenvalues exp(a), of all features, with the outputs' factors of both halves.
func (l *Layer) scan(n *backbone.Network, x, state *ir.Value, a, lambda, w, later backbone.Complex, direct *ir.Value,
	channels int) (y, next *ir.Value) {
	do := func(op string, v ...*ir.Value) *ir.Value { return n.Do(op, v) }
	one := n.Scalar("one", 1)
	b := backbone.Complex{Re: do("Add", do("Mul", a.Re, n.Scalar("zero", 0)), one),
		Im: do("Mul", a.Im, n.Scalar("zero", 0))}
	if l.scaled() { // (eˣ - 1)·λ̄/max(|λ|², ε)
		size := do("Exp", a.Re)
		grown := backbone.Complex{Re: do("Sub", do("Mul", size, do("Cos", a.Im)), one),
			Im: do("Mul", size, do("Sin", a.Im))}
		squares := do("Max", do("Add", do("Mul", lambda.Re, lambda.Re), do("Mul", lambda.Im, lambda.Im)),
			n.Scalar("epsilon", l.Epsilon))
		b = grown.Mul(n, backbone.Complex{Re: do("Div", lambda.Re, squares),
			Im: do("Div", do("Neg", lambda.Im), squares)})
	}
	each := func(v *ir.Value) *ir.Value {
		v = do("Unsqueeze", v, n.Ints("first", 0))
		if channels > 1 {
			v = do("Tile", v, n.Ints("channels", int64(channels), 1, 1))
		}
		return v
	}
	aRe, row := each(a.Re), n.Ints("row", 2)
	ones := do("Unsqueeze", do("Exp", do("Mul", aRe, n.Scalar("zero", 0))), n.Ints("column", 3))
	in := []*ir.Value{x, aRe, each(a.Im), each(b.Re), each(b.Im), ones, do("Unsqueeze", w.Re, row), nil,
		do("Unsqueeze", w.Im, row), direct, state}
	attrs := []ir.Attr{ir.A("window", l.MaxKernel)}
	if state != nil {
		both := n.Ops("essm", "SSM", 2, in, attrs...)
		return both[0], both[1]
	}
	y = n.Op("essm", "SSM", in, attrs...)
	if later.Re != nil {
		in = slices.Clone(in)
		in[6], in[8], in[9] = do("Unsqueeze", later.Re, row), do("Unsqueeze", later.Im, row), nil
		y = do("Add", y, n.Op("essm", "SSM", in, append(attrs, ir.A("direction", "backward"))...))
	}
	return y, nil
}
