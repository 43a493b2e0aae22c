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
	if err := c.Build(b, w, o); err != nil {
		return nil, err
	}
	return b.Build()
}
