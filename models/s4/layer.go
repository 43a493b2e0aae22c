package s4

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/backbone"
	"github.com/essmc/essmc/models/config"
)

// Layer is the configuration of a layer.
type Layer struct {
	config.Keyed[Layer]
	Mode          string
	DState        int
	Rank          int // of the part of the matrix that is not diagonal; the mode diag has none
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
	diagInits  = []string{"diag-lin", "diag-inv", "diag-inv2", "diag-quad", "diag-real", "diag-rand", "diag-legs"}
	rankInits  = []string{"legs", "legt", "fout", "fourier", "hippo"}
)

// training are keys that only training reads.
var training = []string{"dropout", "tie_dropout", "dropout_fn", "lr", "wd", "lr_dt", "wd_dt", "initializer",
	"weight_norm",
	"verbose", "deterministic", "keops", "backend", "kernel_size", "transposed", "d_model", "drop_kernel", "layer"}

var table = &config.Table[Layer]{
	Ignored: training,
	Refused: map[string]string{
		"gate":       "the released code reads an attribute before it sets it, so no such model can run",
		"bottleneck": "the released code makes a tensor of a wrong shape, so no such model can run",
	},
	Fields: []config.Field[Layer]{
		{Key: "mode", Ref: func(l *Layer) any { return &l.Mode },
			OneOf: append([]string{"diag", "s4d"}, lowRankModes...), Def: "diag"},
		{Key: "d_state", Ref: func(l *Layer) any { return &l.DState }, Lo: 1, Hi: backbone.MaxSize, Def: 64},
		{Key: "rank", Ref: func(l *Layer) any { return &l.Rank }, Lo: 1, Hi: 1 << 10, Def: 1, OmitDefault: true},
		{Key: "channels", Ref: func(l *Layer) any { return &l.Channels }, Lo: 1, Hi: 1 << 10, Def: 1},
		{Key: "bidirectional", Ref: func(l *Layer) any { return &l.Bidirectional }, Def: false},
		{Key: "activation", Ref: func(l *Layer) any { return &l.Activation }, OneOf: backbone.Activations, Null: true,
			Def: "gelu"},
		{Key: "mult_act", Ref: func(l *Layer) any { return &l.MultAct }, OneOf: backbone.Activations, Null: true,
			Omit: true},
		{Key: "final_act", Ref: func(l *Layer) any { return &l.FinalAct },
			OneOf: append(slices.Clone(backbone.Activations),
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
		{Key: "init", Ref: func(l *Layer) any { return &l.InitMethod }, OneOf: slices.Concat(diagInits, rankInits),
			Def: "diag-lin"},
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

// isLowRank reports whether the systems' matrices are diagonal plus low rank, and not diagonal.
func (l *Layer) isLowRank() bool { return slices.Contains(lowRankModes, l.Mode) }

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
	case !l.isLowRank() && slices.Contains(rankInits, l.InitMethod):
		return fmt.Errorf("init: %s is of the modes %s, found mode %s", l.InitMethod, strings.Join(lowRankModes, ", "),
			l.Mode)
	case l.InitMethod == "diag-legs" && (l.IsReal || l.DState > maxLegS):
		return fmt.Errorf("init: diag-legs has complex states, 2 to %d of them", maxLegS)
	case l.DtMin <= 0 || l.DtMin > l.DtMax:
		return fmt.Errorf("dt_min: expected step sizes 0 < dt_min ≤ dt_max, found %v and %v", l.DtMin, l.DtMax)
	}
	if l.isLowRank() {
		return l.checkLowRank(d)
	}
	return nil
}

// Causal reports whether the layer looks at no later step. The kernel of disc "dss" depends on the length of the
// sequence.
func (l *Layer) Causal() bool { return !l.Bidirectional && (l.isLowRank() || l.Disc != "dss") }

// Streams reports whether the layer looks at no later step.
func (l *Layer) Streams() bool { return l.Causal() }

// State returns the number of float32 of its state: each state's real and imaginary part, and the inputs of the window.
func (l *Layer) State(d int, _ models.Weights, _ string) int {
	if l.isLowRank() {
		return l.Channels * d * (2*l.states() + l.LMax)
	}
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
	if l.isLowRank() {
		all = append(all, models.Spec{Name: kernel + "P", Shape: []int{l.Rank, s, n, 2}},
			models.Spec{Name: kernel + "l_kernel", Shape: []int{}, Statistic: true, Int: true})
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
	d := n.Shape(prefix + "layer.D")[1]
	if lengths != nil && !l.Causal() { // the released code hides later steps from each layer
		x = n.Op("essm", "StepMask", []*ir.Value{x, n.Ints("before", 0), lengths}, ir.A("axis", 1))
	}
	kernel := prefix + "layer.kernel."
	if l.isLowRank() {
		y, next = l.buildLowRank(n, x, state, kernel, d)
		direct := n.Do("Unsqueeze", []*ir.Value{n.Weight(prefix + "layer.D"), n.Ints("last", 2)})
		y = n.Do("Add", []*ir.Value{y, n.Op("essm", "HeadScale", []*ir.Value{x, direct})})
	} else {
		y, next = l.buildDiagonal(n, x, state, prefix, d)
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

// steps returns the step sizes.
func (l *Layer) steps(n *backbone.Network, dt *ir.Value) *ir.Value {
	if l.DtFast {
		dt = n.Do("Sinh", []*ir.Value{dt})
	}
	return transform(n, dt, l.DtTransform)
}

// buildDiagonal applies the layer's systems, whose tensors begin with prefix.
func (l *Layer) buildDiagonal(n *backbone.Network, x, state *ir.Value, prefix string, d int) (y, next *ir.Value) {
	kernel := prefix + "layer.kernel."
	stored := func(name string) *ir.Value { return n.Double(n.Weight(kernel + name)) }
	s := system{n: n, features: d, channels: l.Channels, method: l.Disc, window: l.LMax}
	s.re = s.each(n.Do("Neg", []*ir.Value{transform(n, stored("A_real"), l.RealTransform)}), l.systems(d))
	if !l.IsReal {
		s.im = s.each(n.Do("Neg", []*ir.Value{transform(n, stored("A_imag"), l.ImagTransform)}), l.systems(d))
	}
	s.dt = s.each(l.steps(n, stored("inv_dt")), d)
	b := l.parts(n, n.Do("Squeeze", []*ir.Value{stored("B"), n.Ints("first", 0)}))
	if b.Re = s.each(b.Re, l.systems(d)); b.Im != nil {
		b.Im = s.each(b.Im, l.systems(d))
	}
	if l.Bandlimit > 0 { // half of it is the highest frequency, in cycles per step
		frequency := n.Do("Mul", []*ir.Value{s.dt, n.Do("Abs", []*ir.Value{s.imag()})})
		slow := n.Double(n.Do("Less", []*ir.Value{frequency, n.Scalar("limit", l.Bandlimit*math.Pi)}))
		if b.Re = n.Do("Mul", []*ir.Value{b.Re, slow}); b.Im != nil {
			b.Im = n.Do("Mul", []*ir.Value{b.Im, slow})
		}
	}
	c := func(half int) backbone.Complex {
		from, to := int64(half*l.Channels), int64((half+1)*l.Channels)
		c := l.parts(n, n.Do("Slice", []*ir.Value{stored("C"), n.Ints("from", from), n.Ints("to", to),
			n.Ints("first", 0)}))
		if c.Im == nil {
			return backbone.Complex{Re: n.Do("Mul", []*ir.Value{c.Re, b.Re})}
		}
		return c.Mul(n, b)
	}
	direct := n.Do("Unsqueeze", []*ir.Value{n.Weight(prefix + "layer.D"), n.Ints("last", 2)})
	if l.Disc == "dss" {
		var later backbone.Complex
		if l.Bidirectional {
			later = c(1)
		}
		y = s.softmax(x, c(0), later)
		return n.Do("Add", []*ir.Value{y, n.Op("essm", "HeadScale", []*ir.Value{x, direct})}), nil
	}
	y, next = s.apply(x, c(0), direct, state, "forward")
	if l.Bidirectional {
		later, _ := s.apply(x, c(1), nil, nil, "backward")
		y = n.Do("Add", []*ir.Value{y, later})
	}
	return y, next
}

// parts returns the real and imaginary part of a tensor; a real one has no imaginary part.
func (l *Layer) parts(n *backbone.Network, v *ir.Value) backbone.Complex {
	if l.IsReal {
		return backbone.Complex{Re: v}
	}
	return n.Complex(v)
}
