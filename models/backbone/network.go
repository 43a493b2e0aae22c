package backbone

import (
	"math"
	"slices"
	"strconv"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	_ "github.com/essmc/essmc/ops/essm" // the operators that Build uses
	_ "github.com/essmc/essmc/ops/std"  // the operators that Build uses
)

// Value is a value of the graph.
type Value = ir.Value

// Network is a model under construction.
type Network struct {
	*ir.Builder
	// Rate multiplies step sizes.
	Rate float64

	w     models.Weights
	batch ir.Dim
}

// NewNetwork begins a model with the given weights, whose inputs have the given batch.
func NewNetwork(b *ir.Builder, w models.Weights, rate float64, batch ir.Dim) *Network {
	return &Network{Builder: b, Rate: rate, w: w, batch: batch}
}

// Weight returns the constant or parameter for a tensor of the checkpoint; nil: there is none.
func (n *Network) Weight(name string) *Value { return models.Weight(n.Builder, n.w, name) }

// Shape returns the shape of a tensor of the checkpoint.
func (n *Network) Shape(name string) []int { return n.w[name].Shape() }

// Ints returns a constant.
func (n *Network) Ints(name string, v ...int64) *Value {
	return n.Const(name, tensor.FromSlice(v, len(v)))
}

// Scalar returns a constant.
func (n *Network) Scalar(name string, v float64) *Value { return n.Const(name, tensor.Scalar(v)) }

// Double returns the value in float64.
func (n *Network) Double(x *Value) *Value { return n.Do("Cast", []*Value{x}, ir.A("to", 11)) }

// Do applies an operator of ONNX.
func (n *Network) Do(op string, in []*Value, attrs ...ir.Attr) *Value {
	return n.Op("", op, in, attrs...)
}

// Linear applies the linear layer whose tensors begin with name.
func (n *Network) Linear(x *Value, name string) *Value {
	return n.Op("essm", "Linear", []*Value{x, n.Weight(name + ".weight"), n.Weight(name + ".bias")})
}

// LinearSpecs lists the tensors of a linear layer.
func LinearSpecs(name string, outputs, inputs int) []models.Spec {
	return []models.Spec{{Name: name + ".weight", Shape: []int{outputs, inputs}},
		{Name: name + ".bias", Shape: []int{outputs}}}
}

// Build adds the model to a builder, from weights that models.Check accepts. The batch is the symbol B, time L.
func (c *Config) Build(b *ir.Builder, w models.Weights, o models.BuildOptions) error {
	n := NewNetwork(b, w, o.Rate, ir.Sym("B"))
	n.Scope("encoder")
	x := c.Encoder[0].input(n, c.DModel)
	in := x
	for i, e := range c.Encoder {
		x = e.build(n, x, c.encoderName(i))
	}
	var lengths *Value
	if c.Decoder.UseLengths {
		n.Scope("")
		lengths = n.Input(models.Lengths, &ir.OptionalType{Elem: ir.Tensor(tensor.Int64, n.batch)})
	}
	states := c.states(n, in)
	for i := range c.blocks() {
		n.Scope("layers." + strconv.Itoa(i))
		y := x
		norm := layerName(i) + ".norm.norm"
		if c.Prenorm {
			y = c.norm(n, y, norm)
		}
		in := y
		y, states[i] = c.layer(i).Build(n, in, lengths, states[i], c.prefix(i))
		if c.Twice {
			z, _ := c.layer(i).Build(n, in, lengths, nil, secondPrefix(i))
			y = n.Linear(n.Do("Concat", []*Value{y, z}, ir.A("axis", -1)), layerName(i)+".bidirectional_linear")
		}
		if c.Residual == "R" {
			y = n.Do("Add", []*Value{x, y})
		}
		if x = y; !c.Prenorm {
			x = c.norm(n, x, norm)
		}
	}
	if c.Prenorm {
		n.Scope("norm")
		x = c.norm(n, x, "model.norm.norm")
	}
	n.Output(models.Output, c.decode(n, x, lengths))
	n.NextStates(states)
	return nil
}

func layerName(i int) string { return "model.layers." + strconv.Itoa(i) }

// prefix begins the names of the tensors of block i's layer.
func (c *Config) prefix(i int) string {
	if c.whole {
		return "model."
	}
	return layerName(i) + ".layer."
}

// secondPrefix begins the names of the tensors of block i's second layer.
func secondPrefix(i int) string { return layerName(i) + ".reverse_layer." }

// blocks is the number of blocks.
func (c *Config) blocks() int { return c.NLayers * len(c.Layers) }

// layer returns the layer of block i.
func (c *Config) layer(i int) Layer { return c.Layers[i%len(c.Layers)] }

// states returns each block's state before the first step, or nil where it has none.
func (c *Config) states(n *Network, in *Value) []*Value {
	sizes := make([]int, c.blocks())
	if c.streams() {
		for i := range sizes {
			sizes[i] = c.layer(i).State(c.DModel, n.w, c.prefix(i))
		}
	}
	return n.States(in, sizes)
}

// States adds an input for the states of layers, in as many float32 for a sample, and returns each one's state before
// the first step: nil where the number is 0. in is another input, of the same batch.
func (n *Network) States(in *Value, sizes []int) []*Value {
	states := make([]*Value, len(sizes))
	var present []int64
	total := int64(0)
	for _, k := range sizes {
		if k > 0 {
			present = append(present, int64(k))
			total += int64(k)
		}
	}
	if total == 0 {
		return states
	}
	n.Scope("")
	given := n.Input(models.StateIn, &ir.OptionalType{Elem: ir.Tensor(tensor.Float32, n.batch, total)})
	parts := []*Value{n.Op("essm", "StateOrZero", []*Value{in, given}, ir.A("size", total))}
	if len(present) > 1 {
		parts = slices.Clone(n.Ops("", "Split", len(present), []*Value{parts[0], n.Ints("state_sizes", present...)},
			ir.A("axis", 1)))
	}
	for i, k := range sizes {
		if k > 0 {
			states[i], parts = parts[0], parts[1:]
		}
	}
	return states
}

// NextStates adds the output for the states of layers after the last step, nil for those that have none.
func (n *Network) NextStates(states []*Value) {
	states = slices.DeleteFunc(states, func(v *Value) bool { return v == nil })
	if len(states) == 0 {
		return
	}
	n.Scope("")
	out := states[0]
	if len(states) > 1 {
		out = n.Do("Concat", states, ir.A("axis", 1))
	}
	n.Output(models.StateOut, out)
}

// norm applies the norm whose tensors begin with name.
func (c *Config) norm(n *Network, x *Value, name string) *Value {
	weight, bias := name+".weight", name+".bias"
	switch c.Norm {
	case "batch":
		return n.Op("essm", "BatchNorm", []*Value{x, n.Weight(weight), n.Weight(bias), n.Weight(name + ".running_mean"),
			n.Weight(name + ".running_var")}, ir.A("epsilon", 1e-5))
	case "layer":
		if c.Transposed {
			return n.Op("essm", "ScalarNorm", []*Value{x, n.Weight(name + ".m"), n.Weight(name + ".s")})
		}
		return n.Do("LayerNormalization", []*Value{x, n.Weight(weight), n.Weight(bias)}, ir.A("axis", -1),
			ir.A("epsilon", 1e-5))
	case "instance":
		return n.Op("essm", "InstanceNorm", []*Value{x}, ir.A("epsilon", 1e-5))
	case "group": // over all steps and features of a sample
		return n.GroupNorm(x, n.Weight(weight), n.Weight(bias), 1e-5)
	}
	return x
}

// GroupNorm normalises each sample over all its steps and features, and scales and shifts each feature.
func (n *Network) GroupNorm(x, weight, bias *Value, epsilon float32) *Value {
	mean := n.Do("ReduceMean", []*Value{x, n.Ints("axes", 1, 2)})
	centred := n.Do("Sub", []*Value{x, mean})
	variance := n.Do("ReduceMean", []*Value{n.Do("Mul", []*Value{centred, centred}), n.Ints("axes", 1, 2)})
	scale := n.Do("Sqrt", []*Value{n.Do("Add", []*Value{variance, n.Const("epsilon", tensor.Scalar(epsilon))})})
	y := n.Do("Div", []*Value{centred, scale})
	return n.Do("Add", []*Value{n.Do("Mul", []*Value{y, weight}), bias})
}

// normSpecs lists the tensors of a norm.
func (c *Config) normSpecs(name string) []models.Spec {
	d := []int{c.DModel}
	both := []models.Spec{{Name: name + ".weight", Shape: d}, {Name: name + ".bias", Shape: d}}
	switch {
	case c.Norm == "batch":
		return append(both, models.Spec{Name: name + ".running_mean", Shape: d, Statistic: true},
			models.Spec{Name: name + ".running_var", Shape: d, Statistic: true})
	case c.Norm == "layer" && c.Transposed:
		return []models.Spec{{Name: name + ".m", Shape: []int{1}}, {Name: name + ".s", Shape: []int{1}}}
	case c.Norm == "layer" || c.Norm == "group":
		return both
	}
	return nil
}

// decode applies the decoder.
func (c *Config) decode(n *Network, x, lengths *Value) *Value {
	n.Scope("decoder")
	d := c.Decoder
	last := func(x *Value) *Value {
		return n.Do("Slice", []*Value{x, n.Ints("first", -int64(d.LOutput)), n.Ints("end", math.MaxInt64),
			n.Ints("axis", 1)})
	}
	switch {
	case d.LOutput == 0:
		x = n.Op("essm", "Pick", []*Value{x, lengths}, ir.A("mode", d.Mode))
	case d.Mode == "sum":
		if x = n.Do("CumSum", []*Value{x, n.Const("axis", tensor.Scalar(int64(1)))}); d.LOutput != every {
			x = last(x)
		}
	case d.LOutput == every:
	case d.Mode == "first":
		x = n.Do("Slice", []*Value{x, n.Ints("first", 0), n.Ints("end", int64(d.LOutput)), n.Ints("axis", 1)})
	default:
		x = last(x)
	}
	return n.Linear(x, c.decoderName())
}

// Specs lists the tensors of a model with this configuration, in the order of the computation.
func (c *Config) Specs(w models.Weights) ([]models.Spec, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	var all []models.Spec
	for i, e := range c.Encoder {
		all = append(all, e.specs(c.DModel, c.encoderName(i))...)
	}
	for i := range c.blocks() {
		if c.Prenorm {
			all = append(all, c.normSpecs(layerName(i)+".norm.norm")...)
		}
		all = append(all, c.layer(i).Specs(c.DModel, w, c.prefix(i))...)
		if c.Twice {
			all = append(all, c.layer(i).Specs(c.DModel, w, secondPrefix(i))...)
			all = append(all, LinearSpecs(layerName(i)+".bidirectional_linear", c.DModel, 2*c.DModel)...)
		}
		if !c.Prenorm {
			all = append(all, c.normSpecs(layerName(i)+".norm.norm")...)
		}
	}
	if c.Prenorm {
		all = append(all, c.normSpecs("model.norm.norm")...)
	}
	return append(all, LinearSpecs(c.decoderName(), c.Decoder.DOutput, c.outputs)...), nil
}
