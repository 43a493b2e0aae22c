// Package lstm is the family of long short-term memories (Hochreiter, Schmidhuber, 1997) as layers in the frame of
// models/backbone, with the tensors of torch.nn.LSTM:
//
//	i, f, o = σ(W x + b + R h + b′), g = tanh(…);  c = f c + i g,  h = o tanh(c)
//
// It imports ir, models, models/backbone and models/config.
package lstm

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/backbone"
	"github.com/essmc/essmc/models/config"
)

// Type is the model_type of the family.
const Type = "lstm"

var layers = map[string]func() backbone.Layer{"lstm": func() backbone.Layer { return newLayer() }}

func init() {
	models.Register(models.Family{Type: Type, Doc: "LSTM layers",
		New:     func() models.Config { return backbone.New(Type, layers) },
		Presets: presets})
}

// presets has a small model for the task of the preset smnist.
func presets() []models.Preset {
	return []models.Preset{backbone.Preset("lstm-smnist", "MNIST digits, pixel by pixel, with LSTM layers", 784,
		backbone.New(Type, layers), `{
			"encoder": {"_name_": "linear", "d_input": 1},
			"model": {"d_model": 128, "n_layers": 2, "prenorm": true, "residual": "R", "norm": "layer",
				"layer": {"_name_": "lstm", "d_hidden": 128}},
			"decoder": {"mode": "last", "d_output": 10}}`)}
}

// Layer is the configuration of a layer.
type Layer struct {
	config.Keyed[Layer]
	DModel  int // features of the input, where the layer is the whole model
	DHidden int
	Layers  int // of LSTMs, one after the other
}

var table = &config.Table[Layer]{
	Ignored: []string{"dropout", "learn_h0", "return_output"},
	Refused: map[string]string{
		"bidirectional": "the released code gives twice the features that follow, so no such model can run",
		"proj_size": "the released code expects d_hidden features after the layer, which a projection does not " +
			"give",
	},
	Fields: []config.Field[Layer]{
		{Key: "d_model", Ref: func(l *Layer) any { return &l.DModel }, Lo: 1, Hi: backbone.MaxSize, Null: true,
			Omit: true},
		{Key: "d_hidden", Ref: func(l *Layer) any { return &l.DHidden }, Lo: 1, Hi: backbone.MaxSize},
		{Key: "n_layers", Ref: func(l *Layer) any { return &l.Layers }, Lo: 1, Hi: 64, Def: 1, OmitDefault: true},
	},
}

func newLayer() *Layer {
	l := &Layer{}
	l.Keyed = config.Keyed[Layer]{Type: "lstm", C: l, Table: table}
	table.Defaults(l)
	return l
}

// Check checks the values against each other.
func (l *Layer) Check(d int) error {
	if l.DHidden != d {
		return fmt.Errorf("d_hidden: expected d_model %d, for the residual sum, found %d", d, l.DHidden)
	}
	return nil
}

// Widths returns the number of features before the layer and after it.
func (l *Layer) Widths() (in, out int) { return l.DModel, l.DHidden }

// Causal returns true.
func (l *Layer) Causal() bool { return true }

// Streams returns true.
func (l *Layer) Streams() bool { return true }

// State returns the number of float32 of its state: h and c of each layer.
func (l *Layer) State(int, models.Weights, string) int { return 2 * l.Layers * l.DHidden }

// Specs lists the layer's tensors.
func (l *Layer) Specs(d int, _ models.Weights, prefix string) []models.Spec {
	var all []models.Spec
	for i := range l.Layers {
		in, h := l.DHidden, l.DHidden
		if i == 0 {
			in = d
		}
		name := func(s string) string { return fmt.Sprintf("%s%s_l%d", prefix, s, i) }
		all = append(all, models.Spec{Name: name("weight_ih"), Shape: []int{4 * h, in}},
			models.Spec{Name: name("weight_hh"), Shape: []int{4 * h, h}},
			models.Spec{Name: name("bias_ih"), Shape: []int{4 * h}},
			models.Spec{Name: name("bias_hh"), Shape: []int{4 * h}})
	}
	return all
}

// Init fills a tensor with uniform numbers.
func (l *Layer) Init(x []float64, _ models.Spec, _ string, r *backbone.Random) bool {
	bound := 1 / math.Sqrt(float64(l.DHidden))
	for i := range x {
		x[i] = float64(2*r.Float64()-1) * bound
	}
	return true
}

// Build adds the layer to the graph.
func (l *Layer) Build(n *backbone.Network, x, _, state *ir.Value, prefix string) (y, next *ir.Value) {
	h := int64(l.DHidden)
	var before []*ir.Value
	if state != nil {
		before = n.Ops("", "Split", 2*l.Layers, []*ir.Value{state}, ir.A("axis", 1), ir.A("num_outputs", 2*l.Layers))
	}
	// torch has the gates in the order i, f, g, o, ONNX in the order i, o, f, g
	gates := func(v *ir.Value) *ir.Value {
		q := n.Ops("", "Split", 4, []*ir.Value{v}, ir.A("axis", 0), ir.A("num_outputs", 4))
		return n.Do("Concat", []*ir.Value{q[0], q[3], q[1], q[2]}, ir.A("axis", 0))
	}
	first := n.Ints("first", 0)
	y = n.Do("Transpose", []*ir.Value{x}, ir.A("perm", []int64{1, 0, 2}))
	var after []*ir.Value
	for i := range l.Layers {
		stored := func(s string) *ir.Value { return gates(n.Weight(fmt.Sprintf("%s%s_l%d", prefix, s, i))) }
		one := func(v *ir.Value) *ir.Value { return n.Do("Unsqueeze", []*ir.Value{v, first}) }
		bias := n.Do("Concat", []*ir.Value{stored("bias_ih"), stored("bias_hh")}, ir.A("axis", 0))
		in := []*ir.Value{y, one(stored("weight_ih")), one(stored("weight_hh")), one(bias)}
		outs := 1
		if state != nil {
			in = append(in, nil, one(before[2*i]), one(before[2*i+1]))
			outs = 3
		}
		out := n.Ops("", "LSTM", outs, in, ir.A("hidden_size", h))
		y = n.Do("Squeeze", []*ir.Value{out[0], n.Ints("directions", 1)})
		if state != nil {
			after = append(after, n.Do("Squeeze", []*ir.Value{out[1], first}),
				n.Do("Squeeze", []*ir.Value{out[2], first}))
		}
	}
	y = n.Do("Transpose", []*ir.Value{y}, ir.A("perm", []int64{1, 0, 2}))
	if state != nil {
		next = n.Do("Concat", after, ir.A("axis", 1))
	}
	return y, next
}
