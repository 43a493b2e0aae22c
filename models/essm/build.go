package essm

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	_ "github.com/essmc/essmc/ops/essm" // the operators that Build uses
	_ "github.com/essmc/essmc/ops/std"  // the operators that Build uses
)

// epsilon is a constant in the released code's zero-order hold (docs/math.md, Discretization). Checkpoints are trained
// with it.
const epsilon = 1e-7

// Common returns the settings that all families have.
func (c *Config) Common() models.Common {
	common := models.Common{SamplingRate: c.SamplingRate, Labels: c.ID2Label, Resamples: c.Layer.MaxKernelLength == 0,
		Input: "tokens", Layers: c.NLayers, Width: c.DModel, Outputs: c.Decoder.DOutput, Causal: c.Causal(),
		Streams: c.Causal()}
	if c.Decoder.Type == "retrieval" {
		common.BatchDim = "P"
	}
	switch c.Encoder.Type {
	case "linear":
		common.Input = models.Plural(c.Encoder.DInput, "feature")
	case "identity":
		common.Input = models.Plural(c.DModel, "feature")
	}
	norm := "post-norm"
	if c.Prenorm {
		norm = "pre-norm"
	}
	common.Details = []string{fmt.Sprintf("%s (%s)", norm, c.Norm), models.Plural(c.Layer.Heads, "head")}
	return common
}

// Build makes the graph of a model (docs/math.md, Deep model). Batch and time are the symbols B and L. With a retrieval
// decoder the batch of the input is 2*P, and that of the output is P. A causal model has the states of its layers as an
// input and an output, concatenated along axis 1.
func (c *Config) Build(b *ir.Builder, w models.Weights, o models.BuildOptions) error {
	n := network{Builder: b, c: c, w: w, rate: o.Rate, batch: ir.Sym("B")}
	if c.Decoder.Type == "retrieval" {
		n.batch = ir.Sym("P").Mul(ir.Const(2))
	}
	return n.model()
}

// network is a model under construction.
type network struct {
	*ir.Builder
	c     *Config
	w     models.Weights
	rate  float64
	batch ir.Dim
}

func (n *network) model() error {
	c := n.c
	in, x := n.encoder()
	var lengths *ir.Value
	if c.Decoder.UseLengths {
		lengths = n.Input(models.Lengths, &ir.OptionalType{Elem: ir.Tensor(tensor.Int64, n.batch)})
	}
	states, err := n.states(in)
	if err != nil {
		return err
	}
	for i := range c.NLayers {
		n.Scope("layers." + strconv.Itoa(i))
		y := x
		if c.Prenorm {
			y = n.norm(y, layerName(i)+".norm.norm")
		}
		y, states[i] = n.layer(y, states[i], layerName(i)+".layer.")
		x = n.Op("", "Add", []*ir.Value{x, y})
		if !c.Prenorm {
			x = n.norm(x, layerName(i)+".norm.norm")
		}
	}
	if c.Prenorm {
		n.Scope("norm")
		x = n.norm(x, "model.norm.norm")
	}
	n.Output(models.Output, n.decoder(x, lengths))
	if c.Causal() {
		n.Scope("")
		out := states[0]
		if len(states) > 1 {
			out = n.Op("", "Concat", states, ir.A("axis", 1))
		}
		n.Output(models.StateOut, out)
	}
	return nil
}

// weight returns the constant or parameter for a tensor of the checkpoint.
func (n *network) weight(name string) *ir.Value { return models.Weight(n.Builder, n.w, name) }

func (n *network) ints(name string, v ...int64) *ir.Value {
	return n.Const(name, tensor.FromSlice(v, len(v)))
}

func (n *network) linear(x *ir.Value, name string) *ir.Value {
	return n.Op("essm", "Linear", []*ir.Value{x, n.weight(name + ".weight"), n.weight(name + ".bias")})
}

// encoder returns the graph's input and the sequence of d_model features.
func (n *network) encoder() (in, x *ir.Value) {
	n.Scope("encoder")
	switch n.c.Encoder.Type {
	case "embedding":
		in = n.Input(models.Input, ir.Tensor(tensor.Int64, n.batch, "L"))
		return in, n.Op("essm", "Embedding", []*ir.Value{in, n.weight("encoder.weight")})
	case "linear":
		in = n.Input(models.Input, ir.Tensor(tensor.Float32, n.batch, "L", n.c.Encoder.DInput))
		return in, n.linear(in, "encoder")
	}
	in = n.Input(models.Input, ir.Tensor(tensor.Float32, n.batch, "L", n.c.DModel))
	return in, in
}

// states returns each layer's state before the first step, or nil for each if the model is not causal.
func (n *network) states(in *ir.Value) ([]*ir.Value, error) {
	sizes, total := make([]int64, n.c.NLayers), int64(0)
	for i := range sizes {
		k, full, err := n.c.states(n.w, i)
		if err != nil {
			return nil, err
		}
		per := 2 // real and imaginary part
		if full {
			per = 1
		}
		sizes[i] = int64(n.c.Layer.Channels*n.c.Layer.Heads*k) * int64(per+n.c.Layer.MaxKernelLength)
		total += sizes[i]
	}
	if !n.c.Causal() {
		return make([]*ir.Value, len(sizes)), nil
	}
	n.Scope("")
	given := n.Input(models.StateIn, &ir.OptionalType{Elem: ir.Tensor(tensor.Float32, n.batch, total)})
	all := n.Op("essm", "StateOrZero", []*ir.Value{in, given}, ir.A("size", total))
	if len(sizes) == 1 {
		return []*ir.Value{all}, nil
	}
	parts := n.Ops("", "Split", len(sizes), []*ir.Value{all, n.ints("state_sizes", sizes...)}, ir.A("axis", 1))
	return slices.Clone(parts), nil // the node owns parts
}

// layer builds one layer (docs/math.md, Layer): the state-space system, activation, mixers, activation.
func (n *network) layer(x, state *ir.Value, prefix string) (y, next *ir.Value) {
	l := n.c.Layer
	var d, lambda, a *ir.Value
	attrs := []ir.Attr{ir.A("bidirectional", l.Bidirectional), ir.A("method", l.Discretization), ir.A("rate", n.rate)}
	if n.w[prefix+"Lambda"] != nil {
		lambda = n.weight(prefix + "Lambda")
		attrs = append(attrs, ir.A("conj_sym", l.ConjSym), ir.A("lambda_real", l.LambdaReal),
			ir.A("lambda_imag", l.LambdaImag),
			ir.A("max_real_lambda", l.MaxRealLambda), ir.A("epsilon", epsilon))
	} else {
		a = n.weight(prefix + "A")
	}
	if l.MaxKernelLength > 0 {
		attrs = append(attrs, ir.A("max_kernel_length", l.MaxKernelLength))
	}
	if l.D != "none" {
		d = n.weight(prefix + "D")
	}
	in := []*ir.Value{x, n.weight(prefix + "log_dt"), n.weight(prefix + "B"), n.weight(prefix + "C"), lambda, a, d,
		state}
	if state != nil {
		out := n.Ops("essm", "StateSpace", 2, in, attrs...)
		y, next = out[0], out[1]
	} else {
		y = n.Op("essm", "StateSpace", in, attrs...)
	}
	apart := l.Channels > 1 && (l.Heads > 1 || l.Activation != "") // channels are a separate axis
	if apart {
		y = n.Op("", "Reshape", []*ir.Value{y, n.ints("channels_apart", 0, 0, int64(l.Channels), int64(n.c.DModel))})
	}
	y = n.activation(y, l.Activation, prefix, "")
	if l.Heads > 1 {
		y = n.linear(y, prefix+"head_mixer")
	}
	if apart {
		y = n.Op("", "Reshape", []*ir.Value{y, n.ints("channels_joined", 0, 0, int64(l.Channels*n.c.DModel))})
	}
	if l.Channels > 1 {
		y = n.linear(y, prefix+"channel_mixer")
	}
	return n.activation(y, l.PostActivation, prefix, "_post"), next
}

// activation applies a nonlinearity. The gated ones have linear layers, whose names end in suffix.
func (n *network) activation(y *ir.Value, kind, prefix, suffix string) *ir.Value {
	op := func(name string, in ...*ir.Value) *ir.Value { return n.Op("", name, slices.Clone(in)) }
	switch kind {
	case "gelu":
		return op("Gelu", y)
	case "relu":
		return op("Relu", y)
	case "leakyrelu":
		return n.Op("", "LeakyRelu", []*ir.Value{y}, ir.A("alpha", 0.05))
	case "tanh":
		return op("Tanh", y)
	case "sigmoid":
		return op("Sigmoid", y)
	case "silu", "swish":
		return op("Mul", y, op("Sigmoid", y))
	case "full_glu":
		g := op("Gelu", y)
		a := n.linear(g, prefix+"out1"+suffix)
		return op("Mul", a, op("Sigmoid", n.linear(g, prefix+"out2"+suffix)))
	case "half_glu1":
		g := op("Gelu", y)
		return op("Mul", g, op("Sigmoid", n.linear(g, prefix+"out2"+suffix)))
	case "half_glu2":
		g := op("Gelu", y)
		return op("Mul", y, op("Sigmoid", n.linear(g, prefix+"out2"+suffix)))
	}
	return y
}

func (n *network) norm(x *ir.Value, name string) *ir.Value {
	switch n.c.Norm {
	case "batch":
		return n.Op("essm", "BatchNorm", []*ir.Value{x, n.weight(name + ".weight"), n.weight(name + ".bias"),
			n.weight(name + ".running_mean"), n.weight(name + ".running_var")}, ir.A("epsilon", 1e-5))
	case "layer":
		return n.Op("", "LayerNormalization", []*ir.Value{x, n.weight(name + ".weight"), n.weight(name + ".bias")},
			ir.A("axis", -1), ir.A("epsilon", 1e-5))
	case "layer_scalar":
		return n.Op("essm", "ScalarNorm", []*ir.Value{x, n.weight(name + ".m"), n.weight(name + ".s")})
	case "instance":
		return n.Op("essm", "InstanceNorm", []*ir.Value{x}, ir.A("epsilon", 1e-5))
	}
	return x
}

func (n *network) decoder(x, lengths *ir.Value) *ir.Value {
	n.Scope("decoder")
	d := n.c.Decoder
	if d.Mode != "none" {
		x = n.Op("essm", "Pick", []*ir.Value{x, lengths}, ir.A("mode", d.Mode))
	}
	if d.Type == "retrieval" {
		x = n.Op("essm", "Pair", []*ir.Value{x}, ir.A("nli", d.NLI))
	}
	for i, l := range n.c.decoderLayers() {
		if i > 0 {
			x = n.activation(x, d.Activation, "", "")
		}
		x = n.linear(x, l.name)
	}
	return x
}
