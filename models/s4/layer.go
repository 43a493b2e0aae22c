package s4

import (
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/backbone"
	"github.com/essmc/essmc/models/config"
)

// Layer is the configuration of a layer.
type Layer struct {
	config.Keyed[Layer]
	Mode          string
	DState        int
	Channels      int
	Bidirectional bool
	Activation    string
	MultAct       string
	FinalAct      string
	Disc          string
	DtTie         bool
	DtFast        bool
	DtTransform   string
	RealTransform string
	ImagTransform string
	NSSM          int // systems, which features share in turn; 0: one for each
	LMax          int // lags of the kernel; 0: all
	IsReal        bool
	Bandlimit     float64 // 0: none
	SwapChannels  bool
	InitMethod    string
	DtMin, DtMax  float64
}

// Allowed values.
var (
	transforms = []string{"none", "exp", "relu", "sigmoid", "softplus"}
	inits      = []string{"diag-lin", "diag-inv", "diag-inv2", "diag-quad", "diag-real", "diag-rand", "diag-legs"}
)

// training are keys that only training reads.
var training = []string{"dropout", "tie_dropout", "dropout_fn", "lr", "wd", "lr_dt", "wd_dt", "initializer", "weight_norm",
	"verbose", "deterministic", "rank", "keops", "backend", "kernel_size", "transposed", "d_model", "drop_kernel", "layer"}

var table = &config.Table[Layer]{
	Ignored: training,
	Refused: map[string]string{
		"gate":       "the released code reads an attribute before it sets it, so no such model can run",
		"bottleneck": "the released code makes a tensor of a wrong shape, so no such model can run",
	},
	Fields: []config.Field[Layer]{
		{Key: "mode", Ref: func(l *Layer) any { return &l.Mode }, OneOf: []string{"diag", "s4d"}, Def: "diag"},
		{Key: "d_state", Ref: func(l *Layer) any { return &l.DState }, Lo: 1, Hi: backbone.MaxSize, Def: 64},
		{Key: "channels", Ref: func(l *Layer) any { return &l.Channels }, Lo: 1, Hi: 1 << 10, Def: 1},
		{Key: "bidirectional", Ref: func(l *Layer) any { return &l.Bidirectional }, Def: false},
		{Key: "activation", Ref: func(l *Layer) any { return &l.Activation }, OneOf: backbone.Activations, Null: true, Def: "gelu"},
		{Key: "mult_act", Ref: func(l *Layer) any { return &l.MultAct }, OneOf: backbone.Activations, Null: true, Omit: true},
		{Key: "final_act", Ref: func(l *Layer) any { return &l.FinalAct }, OneOf: append(slices.Clone(backbone.Activations),
			glus()...), Null: true, Def: "glu"},
		{Key: "disc", Ref: func(l *Layer) any { return &l.Disc }, OneOf: []string{"zoh", "bilinear", "dss"},
			Def: "zoh"},
		{Key: "dt_tie", Ref: func(l *Layer) any { return &l.DtTie }, Def: true},
		{Key: "dt_fast", Ref: func(l *Layer) any { return &l.DtFast }, Def: false},
		{Key: "dt_transform", Ref: func(l *Layer) any { return &l.DtTransform }, OneOf: transforms, Def: "exp"},
		{Key: "real_transform", Ref: func(l *Layer) any { return &l.RealTransform }, OneOf: transforms, Def: "exp"},
		{Key: "imag_transform", Ref: func(l *Layer) any { return &l.ImagTransform }, OneOf: transforms, Def: "none"},
		{Key: "n_ssm", Ref: func(l *Layer) any { return &l.NSSM }, Lo: 1, Hi: backbone.MaxSize, Null: true},
		{Key: "l_max", Ref: func(l *Layer) any { return &l.LMax }, Lo: 1, Hi: 1 << 30, Null: true},
		{Key: "is_real", Ref: func(l *Layer) any { return &l.IsReal }, Def: false},
		{Key: "bandlimit", Ref: func(l *Layer) any { return &l.Bandlimit }, Null: true, Omit: true},
		{Key: "swap_channels", Ref: func(l *Layer) any { return &l.SwapChannels }, Def: false},
		{Key: "init", Ref: func(l *Layer) any { return &l.InitMethod }, OneOf: inits, Def: "diag-lin"},
		{Key: "dt_min", Ref: func(l *Layer) any { return &l.DtMin }, Def: 1e-3},
		{Key: "dt_max", Ref: func(l *Layer) any { return &l.DtMax }, Def: 1e-1},
	},
}

// maxLegS bounds the size of a HiPPO matrix.
const maxLegS = 2048

// glus lists the gates that are written glu-f.
func glus() []string {
	all := []string{"glu"}
	for _, a := range backbone.Activations {
		all = append(all, "glu-"+a)
	}
	return all
}

func newLayer() *Layer {
	l := &Layer{}
	l.Keyed = config.Keyed[Layer]{Type: "s4", C: l, Table: table}
	table.Defaults(l)
	return l
}

// states is the number of stored states of a system.
func (l *Layer) states() int {
	if l.IsReal {
		return l.DState
	}
	return l.DState / 2
}

// systems is the number of systems.
func (l *Layer) systems(d int) int {
	if l.NSSM == 0 {
		return d
	}
	return l.NSSM
}

// gated reports whether the last activation halves the features.
func (l *Layer) gated() bool { return len(l.FinalAct) >= 3 && l.FinalAct[:3] == "glu" }

// Check checks the values against each other.
func (l *Layer) Check(d int) error {
	switch {
	case !l.IsReal && l.DState%2 != 0:
		return fmt.Errorf("d_state: expected an even number, since states come in conjugate pairs, found %d", l.DState)
	case d%l.systems(d) != 0:
		return fmt.Errorf("n_ssm: expected a divisor of d_model %d, found %d", d, l.NSSM)
	case l.FinalAct == "" && l.Channels > 1:
		return fmt.Errorf("final_act: null leaves %d channels of features, expected channels 1", l.Channels)
	case l.InitMethod == "diag-legs" && (l.IsReal || l.DState > maxLegS):
		return fmt.Errorf("init: diag-legs has complex states, 2 to %d of them", maxLegS)
	case l.Disc == "dss":
		return fmt.Errorf("disc: the kernel of dss depends on the length of the sequence, which is not supported; zoh and bilinear are")
	case l.DtMin <= 0 || l.DtMin > l.DtMax:
		return fmt.Errorf("dt_min: expected step sizes 0 < dt_min ≤ dt_max, found %v and %v", l.DtMin, l.DtMax)
	}
	return nil
}

// Causal reports whether the layer looks at no later step.
func (l *Layer) Causal() bool { return !l.Bidirectional }

// Streams reports whether the layer looks at no later step.
func (l *Layer) Streams() bool { return l.Causal() }

// State returns the number of float32 of its state: each state's real and imaginary part, and the inputs of the window.
func (l *Layer) State(d int, _ models.Weights, _ string) int {
	return l.Channels * d * l.states() * (2 + l.LMax)
}

// Specs lists the layer's tensors.
func (l *Layer) Specs(d int, _ models.Weights, prefix string) []models.Spec {
	s, n, kernel := l.systems(d), l.states(), prefix+"layer.kernel."
	directions := 1
	if l.Bidirectional {
		directions = 2
	}
	pair := func(shape ...int) []int {
		if l.IsReal {
			return shape
		}
		return append(shape, 2)
	}
	dt := []int{d, n}
	if l.DtTie {
		dt = []int{d, 1}
	}
	all := []models.Spec{{Name: prefix + "layer.D", Shape: []int{l.Channels, d}}, {Name: kernel + "inv_dt", Shape: dt},
		{Name: kernel + "A_real", Shape: []int{s, n}}}
	if !l.IsReal {
		all = append(all, models.Spec{Name: kernel + "A_imag", Shape: []int{s, n}})
	}
	all = append(all, models.Spec{Name: kernel + "B", Shape: pair(1, s, n)},
		models.Spec{Name: kernel + "C", Shape: pair(directions*l.Channels, d, n)})
	if l.FinalAct != "" {
		outputs := d
		if l.gated() {
			outputs = 2 * d
		}
		all = append(all, backbone.LinearSpecs(prefix+"output_linear.0", outputs, l.Channels*d)...)
	}
	return all
}

// transform applies the function that a stored parameter goes through.
func transform(n *backbone.Network, x *ir.Value, kind string) *ir.Value {
	switch kind {
	case "exp":
		return n.Do("Exp", []*ir.Value{x})
	case "relu":
		return n.Do("Add", []*ir.Value{n.Do("Relu", []*ir.Value{x}), n.Scalar("least", 1e-4)})
	case "sigmoid":
		return n.Do("Sigmoid", []*ir.Value{x})
	case "softplus":
		return n.Do("Softplus", []*ir.Value{x})
	}
	return x
}

// Build adds the layer to the graph.
func (l *Layer) Build(n *backbone.Network, x, lengths, state *ir.Value, prefix string) (y, next *ir.Value) {
	kernel := prefix + "layer.kernel."
	d := n.Shape(prefix + "layer.D")[1]
	if lengths != nil && !l.Causal() { // the released code hides later steps from each layer
		zero := n.Ints("before", 0)
		x = n.Op("essm", "StepMask", []*ir.Value{x, zero, lengths}, ir.A("axis", 1))
	}
	mul := func(a, b *ir.Value) *ir.Value { return n.Do("Mul", []*ir.Value{a, b}) }
	// each brings one tensor per system to one per channel and feature
	each := func(v *ir.Value, rows int64) *ir.Value {
		if r := int64(d) / rows; r > 1 {
			v = n.Do("Tile", []*ir.Value{v, n.Ints("repeats", r, 1)})
		}
		v = n.Do("Unsqueeze", []*ir.Value{v, n.Ints("axis", 0)})
		if l.Channels > 1 {
			v = n.Do("Tile", []*ir.Value{v, n.Ints("channels", int64(l.Channels), 1, 1)})
		}
		return v
	}
	s := int64(l.systems(d))
	stored := func(name string) *ir.Value { return n.Double(n.Weight(kernel + name)) }
	re := each(n.Do("Neg", []*ir.Value{transform(n, stored("A_real"), l.RealTransform)}), s)
	im := mul(re, n.Scalar("zero", 0))
	if !l.IsReal {
		im = each(n.Do("Neg", []*ir.Value{transform(n, stored("A_imag"), l.ImagTransform)}), s)
	}
	dt := stored("inv_dt")
	if l.DtFast {
		dt = n.Do("Sinh", []*ir.Value{dt})
	}
	dt = each(transform(n, dt, l.DtTransform), int64(d))
	system := n.Ops("essm", "Discretize", 4, []*ir.Value{re, im, n.Do("Log", []*ir.Value{dt})}, ir.A("method", l.Disc),
		ir.A("rate", n.Rate))
	first := n.Ints("first", 0)
	bRe, bIm := l.parts(n, n.Do("Squeeze", []*ir.Value{stored("B"), first}))
	bRe = each(bRe, s)
	if bIm != nil {
		bIm = each(bIm, s)
	}
	var slow *ir.Value // 1 for the states within the band
	if l.Bandlimit > 0 {
		limit := n.Scalar("limit", l.Bandlimit*math.Pi) // half of it, in radians per step
		slow = n.Double(n.Do("Less", []*ir.Value{mul(dt, n.Do("Abs", []*ir.Value{im})), limit}))
	}
	two := n.Scalar("two", 2) // for the conjugate states, and with real ones too
	column, row := n.Ints("column", 3), n.Ints("row", 2)
	half := func(number int, direction string, d, state *ir.Value, outs int) []*ir.Value {
		from, to := int64(number*l.Channels), int64((number+1)*l.Channels)
		cRe, cIm := l.parts(n, n.Do("Slice", []*ir.Value{stored("C"), n.Ints("from", from), n.Ints("to", to), first}))
		var outRe, outIm *ir.Value
		if outRe = mul(cRe, bRe); cIm != nil {
			outRe = n.Do("Sub", []*ir.Value{outRe, mul(cIm, bIm)})
			outIm = n.Do("Add", []*ir.Value{mul(cRe, bIm), mul(cIm, bRe)})
		}
		for _, out := range []**ir.Value{&outRe, &outIm} {
			if *out == nil {
				continue
			}
			if *out = mul(*out, two); slow != nil {
				*out = mul(*out, slow)
			}
			*out = n.Do("Unsqueeze", []*ir.Value{*out, row})
		}
		ones := n.Do("Unsqueeze", []*ir.Value{n.Do("Exp", []*ir.Value{mul(system[0], n.Scalar("zero", 0))}), column})
		attrs := []ir.Attr{ir.A("direction", direction)}
		if l.LMax > 0 {
			attrs = append(attrs, ir.A("window", l.LMax))
		}
		return n.Ops("essm", "SSM", outs, []*ir.Value{x, system[0], system[1], system[2], system[3], ones, outRe, nil, outIm,
			d, state}, attrs...)
	}
	direct := n.Do("Unsqueeze", []*ir.Value{n.Weight(prefix + "layer.D"), n.Ints("last", 2)})
	switch {
	case l.Bidirectional:
		forward, backward := half(0, "forward", direct, nil, 1), half(1, "backward", nil, nil, 1)
		y = n.Do("Add", []*ir.Value{forward[0], backward[0]})
	case state != nil:
		both := half(0, "forward", direct, state, 2)
		y, next = both[0], both[1]
	default:
		y = half(0, "forward", direct, nil, 1)[0]
	}
	if l.SwapChannels && l.Channels > 1 {
		y = n.Do("Reshape", []*ir.Value{y, n.Ints("apart", 0, 0, int64(l.Channels), int64(d))})
		y = n.Do("Transpose", []*ir.Value{y}, ir.A("perm", []int64{0, 1, 3, 2}))
		y = n.Do("Reshape", []*ir.Value{y, n.Ints("joined", 0, 0, int64(l.Channels*d))})
	}
	y = n.Activation(n.Activation(y, l.Activation), l.MultAct)
	if l.FinalAct != "" {
		y = n.Activation(n.Linear(y, prefix+"output_linear.0"), l.FinalAct)
	}
	return y, next
}

// parts returns the real and imaginary part of a complex tensor; the second is nil for a real one.
func (l *Layer) parts(n *backbone.Network, v *ir.Value) (re, im *ir.Value) {
	if l.IsReal {
		return v, nil
	}
	part := func(i int64) *ir.Value {
		return n.Do("Gather", []*ir.Value{v, n.Const("part", tensor.Scalar(i))}, ir.A("axis", -1))
	}
	return part(0), part(1)
}
