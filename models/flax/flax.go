// Package flax is the frame of sequence models that the released codes of S5 and LRU share, which are written in flax:
// a linear encoder, residual blocks of a layer and a gate, the mean over time or the last step, a linear decoder, and
// the logarithm of the softmax. Names of tensors are the paths of their trees, joined by dots. Kernels of linear layers
// are (inputs, outputs).
//
//	x = encoder(input)
//	block i, prenorm:   x = x + gate(layer(norm(x)))
//	block i, postnorm:  x = norm(x + gate(layer(x)))
//	output = log softmax(decoder(pool(x)))
//
// It imports ir, ir/tensor, models, models/config, and models/backbone, whose Network it uses.
package flax

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/backbone"
)

// Frame is the settings of a model around its layers.
type Frame struct {
	DInput, DOutput, DModel, NLayers int
	Prenorm                          bool
	BatchNorm                        bool   // or layer norm
	Norm                             string // name of the norm within a block
	Gate                             string // full_glu, half_glu1, half_glu2, gelu
	Pool                             string // pool, last; none: every step
	Lengths                          bool   // the mean is over the steps that count
	Retrieval                        bool   // documents are compared in pairs
	Groups                           int    // of d_output logits each; 0: no axis for them
	Layer                            Layer
}

// Layer is the layer of each block.
type Layer interface {
	// Specs lists its tensors, whose names begin with prefix.
	Specs(d int, prefix string) []models.Spec
	// State returns the number of float32 of its state; 0: it has none.
	State() int
	// Build returns its output and next state.
	Build(n *backbone.Network, x, state *ir.Value, prefix string) (y, next *ir.Value)
}

// Gates are the values of Frame.Gate.
var Gates = []string{"full_glu", "half_glu1", "half_glu2", "gelu"}

// layerName returns the name of block i.
func layerName(i int) string { return "encoder.layers_" + strconv.Itoa(i) }

// linearSpecs lists the tensors of a linear layer.
func linearSpecs(name string, inputs, outputs int) []models.Spec {
	return []models.Spec{{Name: "params." + name + ".kernel", Shape: []int{inputs, outputs}},
		{Name: "params." + name + ".bias", Shape: []int{outputs}}}
}

func linear(n *backbone.Network, x *ir.Value, name string) *ir.Value {
	w := n.Do("Transpose", []*ir.Value{n.Weight("params." + name + ".kernel")})
	return n.Op("essm", "Linear", []*ir.Value{x, w, n.Weight("params." + name + ".bias")})
}

// gelu is the form with tanh, which is flax's.
func gelu(n *backbone.Network, x *ir.Value) *ir.Value {
	return n.Do("Gelu", []*ir.Value{x}, ir.A("approximate", "tanh"))
}

// Common returns the settings that all families have.
func (f *Frame) Common() models.Common {
	norm := "post-norm"
	if f.Prenorm {
		norm = "pre-norm"
	}
	kind := "layer"
	if f.BatchNorm {
		kind = "batch"
	}
	c := models.Common{Input: models.Plural(f.DInput, "feature"), Layers: f.NLayers, Width: f.DModel,
		Outputs: f.DOutput,
		Causal:  f.Layer.State() > 0, Streams: f.Layer.State() > 0,
		Details: []string{fmt.Sprintf("%s (%s)", norm, kind)}}
	if f.Retrieval {
		c.BatchDim = "P"
	}
	return c
}

// Specs lists the tensors of a model, in the order of the computation.
func (f *Frame) Specs() []models.Spec {
	d := f.DModel
	all := linearSpecs("encoder.encoder", f.DInput, d)
	for i := range f.NLayers {
		name := layerName(i)
		all = append(all, f.Layer.Specs(d, "params."+name+".seq.")...)
		if f.Gate == "full_glu" {
			all = append(all, linearSpecs(name+".out1", d, d)...)
		}
		if f.Gate != "gelu" {
			all = append(all, linearSpecs(name+".out2", d, d)...)
		}
		norm := name + "." + f.Norm
		all = append(all, models.Spec{Name: "params." + norm + ".scale", Shape: []int{d}},
			models.Spec{Name: "params." + norm + ".bias", Shape: []int{d}})
		if f.BatchNorm {
			all = append(all, models.Spec{Name: "batch_stats." + norm + ".mean", Shape: []int{d}, Statistic: true},
				models.Spec{Name: "batch_stats." + norm + ".var", Shape: []int{d}, Statistic: true})
		}
	}
	if f.Retrieval {
		all = append(all, linearSpecs("decoder.layer1", 4*d, d)...)
		return append(all, linearSpecs("decoder.layer2", d, f.DOutput)...)
	}
	return append(all, linearSpecs("decoder", d, f.DOutput*max(1, f.Groups))...)
}

// Build adds the model to a builder, from weights that models.Check accepts. The batch is the symbol B, time L.
func (f *Frame) Build(b *ir.Builder, w models.Weights, o models.BuildOptions) error {
	batch := ir.Sym("B")
	if f.Retrieval {
		batch = ir.Sym("P").Mul(ir.Const(2))
	}
	n := backbone.NewNetwork(b, w, o.Rate, batch)
	n.Scope("encoder")
	in := n.Input(models.Input, ir.Tensor(tensor.Float32, batch, "L", f.DInput))
	x := linear(n, in, "encoder.encoder")
	var lengths *ir.Value
	if f.Lengths {
		n.Scope("")
		lengths = n.Input(models.Lengths, &ir.OptionalType{Elem: ir.Tensor(tensor.Int64, batch)})
	}
	sizes := make([]int, f.NLayers)
	for i := range sizes {
		sizes[i] = f.Layer.State()
	}
	states := n.States(in, sizes)
	for i := range f.NLayers {
		name := layerName(i)
		n.Scope("layers." + strconv.Itoa(i))
		y := x
		if f.Prenorm {
			y = f.norm(n, y, name)
		}
		y, states[i] = f.Layer.Build(n, y, states[i], "params."+name+".seq.")
		if x = n.Do("Add", []*ir.Value{x, f.gate(n, y, name)}); !f.Prenorm {
			x = f.norm(n, x, name)
		}
	}
	n.Scope("decoder")
	if f.Pool != "none" {
		x = n.Op("essm", "Pick", []*ir.Value{x, lengths}, ir.A("mode", f.Pool))
	}
	if f.Retrieval {
		x = n.Op("essm", "Pair", []*ir.Value{x}, ir.A("nli", true))
		x = linear(n, gelu(n, linear(n, x, "decoder.layer1")), "decoder.layer2")
	} else {
		x = linear(n, x, "decoder")
	}
	if f.Groups > 1 {
		shape := []int64{0, int64(f.DOutput), int64(f.Groups)}
		if f.Pool == "none" {
			shape = slices.Insert(shape, 0, 0)
		} else {
			shape = slices.Insert(shape, 1, 1)
		}
		x = n.Do("Reshape", []*ir.Value{x, n.Ints("groups", shape...)})
	}
	n.Output(models.Output, n.Do("LogSoftmax", []*ir.Value{x}, ir.A("axis", -1)))
	n.NextStates(states)
	return nil
}

func (f *Frame) norm(n *backbone.Network, x *ir.Value, name string) *ir.Value {
	name += "." + f.Norm
	scale, bias := n.Weight("params."+name+".scale"), n.Weight("params."+name+".bias")
	if f.BatchNorm {
		return n.Op("essm", "BatchNorm", []*ir.Value{x, scale, bias, n.Weight("batch_stats." + name + ".mean"),
			n.Weight("batch_stats." + name + ".var")}, ir.A("epsilon", 1e-5))
	}
	return n.Do("LayerNormalization", []*ir.Value{x, scale, bias}, ir.A("axis", -1), ir.A("epsilon", 1e-6))
}

func (f *Frame) gate(n *backbone.Network, y *ir.Value, name string) *ir.Value {
	g := gelu(n, y)
	if f.Gate == "gelu" {
		return g
	}
	s := n.Do("Sigmoid", []*ir.Value{linear(n, g, name+".out2")})
	switch f.Gate {
	case "full_glu":
		return n.Do("Mul", []*ir.Value{linear(n, g, name+".out1"), s})
	case "half_glu2":
		return n.Do("Mul", []*ir.Value{y, s})
	}
	return n.Do("Mul", []*ir.Value{g, s})
}

// Fill fills a tensor outside of the layers with initial values (flax's: variance 1/inputs for kernels).
func (f *Frame) Fill(x []float64, s models.Spec, name string, r *backbone.Random) {
	switch name {
	case "scale", "var":
		for i := range x {
			x[i] = 1
		}
	case "kernel":
		r.Fill(x, 1/math.Sqrt(float64(s.Shape[0])))
	}
}
