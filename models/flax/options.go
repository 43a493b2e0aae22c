package flax

import (
	"fmt"
	"strconv"

	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/config"
)

// FirstLayer begins the names of the first layer's tensors, by which families recognize their checkpoints.
const FirstLayer = "params.encoder.layers_0.seq."

// Options are the options of a released code's command line, with what a checkpoint's tensors say about them.
type Options struct {
	*config.Value
	// Outputs are the features that the decoder, of the given name, computes.
	Outputs int
	Decoder string
	// Retrieval says that the decoder compares pairs of documents.
	Retrieval bool
}

// Complete reads the sizes of a checkpoint's encoder and decoder, and sets d_input.
func Complete(v *config.Value, w models.Weights) (*Options, error) {
	size := func(name string, axis int) (int, error) {
		t := w[name]
		if t == nil || t.Rank() != 2 {
			return 0, fmt.Errorf("tensor %s: expected 2 axes, found %s", name, t)
		}
		return t.Dim(axis), nil
	}
	o := &Options{Value: v, Decoder: "params.decoder"}
	inputs, err := size("params.encoder.encoder.kernel", 0)
	if err != nil {
		return nil, err
	}
	o.SetInt("d_input", inputs)
	if o.Retrieval = w[o.Decoder+".kernel"] == nil && w[o.Decoder+".layer2.kernel"] != nil; o.Retrieval {
		o.Decoder += ".layer2"
	}
	o.Outputs, err = size(o.Decoder+".kernel", 1)
	return o, err
}

// SetInt sets a number, unless the option is there.
func (o *Options) SetInt(key string, n int) {
	o.Default(key, config.Value{Kind: config.Number, Text: strconv.Itoa(n)})
}

// SetBool sets a truth value, unless the option is there.
func (o *Options) SetBool(key string, b bool) {
	o.Default(key, config.Value{Kind: config.Bool, Text: strconv.FormatBool(b)})
}
