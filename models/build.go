package models

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/essmc/essmc/internal/ends"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Names of a model's inputs and outputs.
const (
	Input    = "input"     // float[B,L,features], or int64[B,L] tokens
	Lengths  = "lengths"   // int64[B], optional: the steps of each sequence that count
	StateIn  = "state_in"  // float[B,K], optional: the layers' states before the first step
	Output   = "output"    // float[B,d_output], or float[B,L,d_output] if every step is kept
	StateOut = "state_out" // float[B,K]: the layers' states after the last step
)

// BuildOptions are settings for a graph besides the model.
type BuildOptions struct {
	// Rate multiplies every step size (docs/math.md, Resampling): the sampling rate of the training data over that of
	// the input, 2 for 16 kHz and 8 kHz. 0 stands for 1.
	Rate float64
	// Name is the graph's name; empty: the model_type.
	Name string
	// Parameters says which tensors of the checkpoint become parameters of the graph (ir.Graph.Parameters), by their
	// names, in the order of Specs; nil: none. The others are constants, and so are always those of int64, which the
	// graph's structure follows from, and those that repeat another one (ir.MetaSettings). What the graph computes with
	// parameters it computes in nodes, which passes leave where their content would matter.
	Parameters func(name string) bool
	// Context, if not nil, ends Build with its cause when it is done.
	Context context.Context
}

// Build makes the graph of a model, with the symbols B and L for batch and time. A causal model has the states of its
// layers as an input and an output.
func Build(c Config, w Weights, o BuildOptions) (_ *ir.Graph, err error) {
	defer ends.Catch("", &err)
	if o.Rate == 0 {
		o.Rate = 1
	}
	if math.IsNaN(o.Rate) || math.IsInf(o.Rate, 0) || o.Rate < 0 {
		return nil, fmt.Errorf("rate: expected a number above 0, found %v", o.Rate)
	}
	o.Name = cmp.Or(o.Name, c.Type())
	watch := ends.Of(o.Context)
	if err := check(watch, c, w); err != nil {
		return nil, err
	}
	b := ir.NewBuilder(o.Name, ops.Default, ops.Opsets())
	if g := b.Graph(); watch != nil {
		g.Interrupt(watch.Check)
		defer g.Interrupt(nil)
	}
	common := c.Common()
	meta := b.Graph().Meta
	meta[ir.MetaTime], meta[ir.MetaBatch] = "L", cmp.Or(common.BatchDim, "B")
	if o.Rate != 1 {
		meta[ir.MetaRate] = strconv.FormatFloat(o.Rate, 'g', -1, 64)
	}
	if common.SamplingRate > 0 {
		meta[ir.MetaSamplingRate] = strconv.Itoa(common.SamplingRate)
	}
	if len(common.Labels) > 0 {
		labels, err := json.Marshal(common.Labels)
		if err != nil {
			return nil, fmt.Errorf("id2label: %w", err)
		}
		meta[ir.MetaLabels] = string(labels)
	}
	if o.Parameters != nil {
		if err := parameters(b, c, w, o.Parameters); err != nil {
			return nil, err
		}
	}
	if err := c.Build(b, w, o); err != nil {
		return nil, err
	}
	return b.Build()
}

// Weight returns the value of a tensor of the checkpoint in a graph that Config.Build makes: a parameter, if Build has
// made it one, or else a new constant. It is nil if there is no such tensor.
func Weight(b *ir.Builder, w Weights, name string) *ir.Value {
	if w[name] == nil {
		return nil
	}
	if p := b.Graph().Parameter(name); p != nil {
		return p
	}
	return b.Const(name, w[name])
}

// Repeats is a Config that may have tensors which repeat others.
type Repeats interface {
	Config
	// Repeated returns the name of the tensor that the tensor of a name must equal, or "".
	Repeated(w Weights, name string) string
}

// parameters adds the parameters, and the settings that a checkpoint must share with this one.
func parameters(b *ir.Builder, c Config, w Weights, selected func(name string) bool) error {
	specs, err := c.Specs(w)
	if err != nil {
		return err
	}
	repeats, _ := c.(Repeats)
	settings := map[string]any{}
	for _, s := range specs {
		switch {
		case s.Int:
			settings[s.Name] = tensor.Data[int64](w[s.Name])
		case repeats != nil && repeats.Repeated(w, s.Name) != "":
			settings[s.Name] = repeats.Repeated(w, s.Name)
		case selected(s.Name):
			b.Parameter(s.Name, w[s.Name])
		}
	}
	if len(settings) > 0 {
		text, err := json.Marshal(settings)
		if err != nil {
			return fmt.Errorf("settings: %w", err)
		}
		b.Graph().Meta[ir.MetaSettings] = string(text)
	}
	return b.Err()
}
