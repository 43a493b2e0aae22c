package mamba

import (
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/backbone"
)

// network is a model under construction.
type network struct {
	*backbone.Network
	c *Config
}

// Build adds the model to a builder, from weights that models.Check accepts.
func (c *Config) Build(b *ir.Builder, w models.Weights, o models.BuildOptions) error {
	if o.Rate != 1 {
		return fmt.Errorf("rate: the step sizes of a %s follow from its input; expected 1, found %v", c.ModelType,
			o.Rate)
	}
	root := c.root(w)
	if c.Tied && !c.bare() && w[head] != nil && !tensor.Equal(w[head], w[c.embedding(root)]) {
		return fmt.Errorf("tensor %s: expected the numbers of %s, which the configuration ties it to, found others",
			head, c.embedding(root))
	}
	n := network{backbone.NewNetwork(b, w, o.Rate, ir.Sym("B")), c}
	n.Scope("embedding")
	tokens := n.Input(models.Input, ir.Tensor(tensor.Int64, ir.Sym("B"), "L"))
	table := n.Weight(c.embedding(root))
	x := n.Op("essm", "Embedding", []*ir.Value{tokens, table})
	for i := range c.Layers {
		n.Scope(fmt.Sprintf("layers.%d", i))
		y := n.norm(x, blockName(root, i)+"norm")
		if c.ModelType == Type2 {
			y = n.heads(y, blockName(root, i)+"mixer.")
		} else {
			y = n.mixer(y, blockName(root, i)+"mixer.")
		}
		x = n.Do("Add", []*ir.Value{x, y})
	}
	n.Scope("head")
	x = n.norm(x, root+"norm_f")
	if c.bare() {
		n.Output(models.Output, x)
		return nil
	}
	if !c.Tied {
		table = n.Weight(head)
	}
	n.Output(models.Output, n.Op("essm", "Linear", []*ir.Value{x, table}))
	return nil
}

// norm applies the norm whose tensors begin with name.
func (n network) norm(x *ir.Value, name string) *ir.Value {
	if !n.c.RMSNorm {
		return n.Do("LayerNormalization", []*ir.Value{x, n.Weight(name + ".weight"), n.Weight(name + ".bias")},
			ir.A("axis", -1), ir.A("epsilon", n.c.Epsilon))
	}
	return n.Do("RMSNormalization", []*ir.Value{x, n.Weight(name + ".weight")}, ir.A("axis", -1),
		ir.A("epsilon", n.c.Epsilon))
}

// parts divides a value along an axis.
func (n network) parts(x *ir.Value, axis int, sizes ...int64) []*ir.Value {
	return slices.Clone(n.Ops("", "Split", len(sizes), []*ir.Value{x, n.Ints("sizes", sizes...)}, ir.A("axis", axis)))
}

// convolve applies the layer's causal convolution of each feature, and silu.
func (n network) convolve(x *ir.Value, prefix string) *ir.Value {
	turned := func(x *ir.Value) *ir.Value { return n.Do("Transpose", []*ir.Value{x}, ir.A("perm", []int64{0, 2, 1})) }
	in := []*ir.Value{turned(x), n.Weight(prefix + "conv1d.weight")}
	if n.c.UseConvBias {
		in = append(in, n.Weight(prefix+"conv1d.bias"))
	}
	y := n.Do("Conv", in, ir.A("group", n.c.convolved()), ir.A("pads", []int64{int64(n.c.ConvKernel - 1), 0}))
	return n.Activation(turned(y), n.c.Activation)
}

// rates returns -exp(A_log) in float64.
func (n network) rates(prefix string) *ir.Value {
	return n.Do("Neg", []*ir.Value{n.Do("Exp", []*ir.Value{n.Double(n.Weight(prefix + "A_log"))})})
}

// mixer is the layer of Mamba.
func (n network) mixer(h *ir.Value, prefix string) *ir.Value {
	c := n.c
	e, states := int64(c.inner()), int64(c.StateSize)
	weights, biases := n.parts(n.Weight(prefix+"in_proj.weight"), 0, e, e), []*ir.Value{nil, nil}
	if c.UseBias {
		biases = n.parts(n.Weight(prefix+"in_proj.bias"), 0, e, e)
	}
	linear := func(i int) *ir.Value { return n.Op("essm", "Linear", []*ir.Value{h, weights[i], biases[i]}) }
	x := n.convolve(linear(0), prefix)
	p := n.parts(n.Linear(x, prefix+"x_proj"), 2, int64(c.rank()), states, states)
	step := n.Do("Softplus", []*ir.Value{n.Linear(p[0], prefix+"dt_proj")})
	y := n.Op("essm", "SelectiveScan", []*ir.Value{x, step, n.rates(prefix), p[1], p[2], n.Weight(prefix + "D")})
	y = n.Do("Mul", []*ir.Value{y, n.Activation(linear(1), c.Activation)})
	return n.Linear(y, prefix+"out_proj")
}

// heads is the layer of Mamba-2.
func (n network) heads(h *ir.Value, prefix string) *ir.Value {
	c := n.c
	e, k, shared, heads := int64(c.inner()), int64(c.convolved()), int64(c.Groups*c.StateSize), int64(c.NumHeads)
	weights, biases := n.parts(n.Weight(prefix+"in_proj.weight"), 0, e, k, heads), []*ir.Value{nil, nil, nil}
	if c.UseBias {
		biases = n.parts(n.Weight(prefix+"in_proj.bias"), 0, e, k, heads)
		biases[2] = n.Do("Add", []*ir.Value{biases[2], n.Weight(prefix + "dt_bias")})
	} else {
		biases[2] = n.Weight(prefix + "dt_bias")
	}
	linear := func(i int) *ir.Value { return n.Op("essm", "Linear", []*ir.Value{h, weights[i], biases[i]}) }
	p := n.parts(n.convolve(linear(1), prefix), 2, e, shared, shared)
	step := n.Do("Softplus", []*ir.Value{linear(2)})
	if l := c.TimeStepLimit; len(l) == 2 && (l[0] > 0 || !math.IsInf(l[1], 1)) {
		limit := func(name string, v float64) *ir.Value { return n.Const(name, tensor.Scalar(float32(v))) }
		step = n.Do("Clip", []*ir.Value{step, limit("least", l[0]), limit("most", l[1])})
	}
	rates := n.Do("Unsqueeze", []*ir.Value{n.rates(prefix), n.Ints("column", 1)})
	y := n.Op("essm", "SelectiveScan", []*ir.Value{p[0], step, rates, p[1], p[2], n.Weight(prefix + "D")},
		ir.A("groups", c.Groups))
	y = n.Do("Mul", []*ir.Value{y, n.Activation(linear(0), c.Activation)})
	return n.Linear(n.gateNorm(y, prefix+"norm.weight"), prefix+"out_proj")
}

// gateNorm is the norm behind the gate, over the features of a group. Versions of the library transformers before 5
// took all features, other than the released code by which such models are trained.
func (n network) gateNorm(y *ir.Value, name string) *ir.Value {
	c, attrs := n.c, []ir.Attr{ir.A("axis", -1), ir.A("epsilon", n.c.Epsilon)}
	if c.Groups == 1 {
		return n.Do("RMSNormalization", []*ir.Value{y, n.Weight(name)}, attrs...)
	}
	per := c.inner() / c.Groups
	ones := tensor.New(tensor.Float32, per)
	for i := range per {
		tensor.Data[float32](ones)[i] = 1
	}
	y = n.Do("Reshape", []*ir.Value{y, n.Ints("groups", 0, 0, int64(c.Groups), int64(per))})
	y = n.Do("RMSNormalization", []*ir.Value{y, n.Const("ones", ones)}, attrs...)
	y = n.Do("Reshape", []*ir.Value{y, n.Ints("features", 0, 0, int64(c.inner()))})
	return n.Do("Mul", []*ir.Value{y, n.Weight(name)})
}
