package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/frontend/checkpoint"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	_ "github.com/essmc/essmc/models/families" // all of them
)

// What the models of the families have in common.
const (
	familyLayers  = 4
	familyTokens  = 64 // vocabulary of those that take tokens
	familyInputs  = 8  // features of a step of the others
	familyClasses = 10
	familyStates  = 64 // of a system, conjugates included, where a family counts by systems
)

// familySize is what differs between the models of one family.
type familySize struct {
	width int
	// length is the longest sequence, for those whose tables or kernels have one.
	length int
}

// family is a family as it is compared: causal where it can be, the answer one vector for the sequence where it can be.
type family struct {
	name   string
	config func(s familySize) object
	system bool // a state-space model
	// most is the longest sequence that is measured; 0: any.
	most int
}

// object is an object of JSON.
type object = map[string]any

var comparedFamilies = []family{
	{name: "essm", system: true, config: func(s familySize) object {
		return essmConfig(s, min(16, s.width), true)
	}},
	{name: "s4", system: true, config: func(s familySize) object {
		return stacked("s4", s, object{"_name_": "s4", "mode": "nplr", "init": "legs", "d_state": familyStates})
	}},
	{name: "s4d", system: true, config: func(s familySize) object {
		return stacked("s4d", s, object{"_name_": "s4", "mode": "diag", "init": "diag-lin", "d_state": familyStates})
	}},
	{name: "s4d-minimal", system: true, config: func(s familySize) object {
		return object{"model_type": "s4d-minimal", "d_input": familyInputs, "d_output": familyClasses, "d_model": s.width,
			"n_layers": familyLayers, "prenorm": true}
	}},
	{name: "dss", system: true, config: func(s familySize) object {
		return stacked("dss", s, object{"_name_": "dss", "version": "exp", "d_state": familyStates, "postact": "glu"})
	}},
	{name: "liquid-s4", system: true, config: func(s familySize) object {
		return stacked("liquid-s4", s, object{"_name_": "liquid-s4", "mode": "nplr", "measure": "legs", "d_state": familyStates,
			"liquid_kernel": "polyb", "liquid_degree": 2, "allcombs": false, "postact": "glu", "l_max": s.length})
	}},
	{name: "s5", system: true, config: func(s familySize) object {
		return object{"model_type": "s5", "d_input": familyInputs, "d_output": familyClasses, "d_model": s.width,
			"n_layers": familyLayers, "ssm_size_base": s.width, "blocks": 1, "activation_fn": "half_glu1", "mode": "pool",
			"prenorm": true, "conj_sym": true, "C_init": "lecun_normal"}
	}},
	{name: "lru", system: true, config: func(s familySize) object {
		return object{"model_type": "lru", "d_input": familyInputs, "d_output": familyClasses, "d_model": s.width,
			"d_hidden": s.width, "n_layers": familyLayers, "pooling": "mean", "norm": "layer", "prenorm": true}
	}},
	{name: "mamba", system: true, config: func(s familySize) object {
		return object{"model_type": "mamba", "vocab_size": familyTokens, "hidden_size": s.width, "num_hidden_layers": familyLayers,
			"state_size": 16, "conv_kernel": 4, "expand": 2, "time_step_rank": "auto"}
	}},
	{name: "mamba2", system: true, config: func(s familySize) object {
		return object{"model_type": "mamba2", "vocab_size": familyTokens, "hidden_size": s.width,
			"num_hidden_layers": familyLayers, "state_size": 64, "conv_kernel": 4, "expand": 2, "head_dim": 32,
			"num_heads": 2 * s.width / 32, "n_groups": 1}
	}},
	{name: "mingru", config: func(s familySize) object { return object{"model_type": "mingru", "dim": s.width} }},
	{name: "minlstm", config: func(s familySize) object { return object{"model_type": "minlstm", "dim": s.width} }},
	{name: "lstm", config: func(s familySize) object {
		return stacked("lstm", s, object{"_name_": "lstm", "d_hidden": s.width})
	}},
	{name: "transformer", most: 4096, config: func(s familySize) object {
		c := stacked("transformer", s, []any{object{"_name_": "mha", "n_heads": 4, "causal": true},
			object{"_name_": "ffn", "expand": 4, "activation": "gelu"}})
		c["encoder"] = []any{c["encoder"], object{"_name_": "position", "max_len": s.length}}
		return c
	}},
	{name: "lra-transformer", most: 4096, config: func(s familySize) object {
		return object{"model_type": "lra-transformer", "vocab_size": familyTokens, "emb_dim": s.width, "num_heads": 4,
			"num_layers": familyLayers, "qkv_dim": s.width, "mlp_dim": 4 * s.width, "max_len": s.length, "classifier": true,
			"classifier_pool": "MEAN", "num_classes": familyClasses}
	}},
	{name: "fnet", config: func(s familySize) object {
		return object{"model_type": "fnet", "architectures": []any{"FNetForSequenceClassification"}, "vocab_size": familyTokens,
			"hidden_size": s.width, "num_hidden_layers": familyLayers, "intermediate_size": 4 * s.width,
			"max_position_embeddings": s.length}
	}},
	{name: "cdil-cnn", config: func(s familySize) object {
		channels := make([]int, familyLayers)
		for i := range channels {
			channels[i] = s.width
		}
		return object{"model_type": "cdil-cnn", "task": "lra", "model": "CDIL", "input_size": familyInputs,
			"output_size": familyClasses, "num_channels": channels, "kernel_size": 3, "use_embed": false, "fix_length": true}
	}},
	{name: "ckconv", config: func(s familySize) object {
		return object{"model_type": "ckconv", "task": "classification", "in_channels": familyInputs,
			"out_channels": familyClasses, "hidden_channels": s.width / 4, "num_blocks": familyLayers / 2,
			"kernelnet_hidden_channels": 32, "kernelnet_activation_function": "Sine", "kernelnet_norm_type": "",
			"dim_linear": 1, "bias": true, "omega_0": 21.5}
	}},
}

// stacked is a configuration in the frame of state-spaces/s4.
func stacked(kind string, s familySize, layer any) object {
	return object{
		"model_type": kind,
		"encoder":    object{"_name_": "linear", "d_input": familyInputs},
		"model": object{"_name_": "model", "d_model": s.width, "n_layers": familyLayers, "prenorm": true, "residual": "R",
			"norm": "layer", "layer": layer},
		"decoder": object{"_name_": "sequence", "mode": "pool", "l_output": 0, "d_output": familyClasses},
	}
}

// essmConfig is a deep eSSM with as many states as features.
func essmConfig(s familySize, heads int, causal bool) object {
	return object{
		"model_type": "essm", "d_model": s.width, "n_layers": familyLayers, "prenorm": true, "norm": "layer",
		"encoder": object{"type": "linear", "d_input": familyInputs},
		"layer": object{"heads": heads, "d_state": s.width, "channels": 1, "bidirectional": !causal, "conj_sym": false,
			"discretization": "zoh", "lambda_real": "clip", "max_real_lambda": 1e-4, "lambda_imag": "same", "dt": "per_state",
			"d": "diagonal", "activation": nil, "post_activation": "half_glu1", "max_kernel_length": nil},
		"decoder": object{"type": "sequence", "mode": "pool", "d_output": familyClasses, "use_lengths": false},
	}
}

// familyModel is an untrained model of a family.
type familyModel struct {
	name, dir  string
	config     models.Config
	opened     *open.Model
	graph      *ir.Graph // after the passes
	parameters int
}

// newFamilyModel makes a model directory with initial weights of its family, and opens it.
func (e *env) newFamilyModel(name string, c object) (*familyModel, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	m := &familyModel{name: name, dir: filepath.Join(e.work, "models", name)}
	if m.config, err = models.ParseConfig(text, name); err != nil {
		return nil, err
	}
	w, err := initial(m.config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if m.parameters, err = models.Parameters(m.config, w); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := os.MkdirAll(m.dir, 0o777); err != nil {
		return nil, err
	}
	if err := checkpoint.WriteDir(m.dir, m.config, w); err != nil {
		return nil, err
	}
	if m.opened, err = open.File(m.dir, open.Options{}); err != nil {
		return nil, err
	}
	m.graph, err = m.opened.Graph()
	return m, err
}

// initial makes the initial weights of a configuration, as the presets of its family do.
func initial(c models.Config) (models.Weights, error) {
	for _, f := range models.Families() {
		if f.Type != c.Type() || f.Presets == nil {
			continue
		}
		for _, p := range f.Presets() {
			if p.Init != nil {
				return p.Init(c, 1)
			}
		}
	}
	return nil, fmt.Errorf("the family %s has no preset, so no initial weights", c.Type())
}

// input makes sequences, and writes them to a file for the peers.
func (m *familyModel) input(batch, steps int) (in map[string]tensor.Datum, file string, err error) {
	v := m.graph.Inputs[0]
	t, ok := v.Type.(*ir.TensorType)
	if !ok {
		return nil, "", fmt.Errorf("%s: expected the input %s to be a tensor, found %v", m.name, v.Name, v.Type)
	}
	r := noise(1)
	var x *tensor.Tensor
	if t.Elem == tensor.Int64 {
		x = tensor.New(tensor.Int64, batch, steps)
		for i := range tensor.Data[int64](x) {
			tensor.Data[int64](x)[i] = 1 + int64(r()>>4)%(familyTokens-1) // 0 may stand for padding
		}
	} else {
		width, err := t.Shape[2].Eval(nil)
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", m.name, err)
		}
		x = random(r, batch, steps, int(width))
	}
	file = fmt.Sprintf("%s-%dx%d.npy", m.dir, batch, steps)
	return map[string]tensor.Datum{v.Name: x}, file, arrays.Write(file, x)
}

// registered returns the compared families that the project has, and an error if one of the project's is not compared.
func registered() ([]family, error) {
	var all []family
	var have []string
	for _, f := range models.Families() {
		have = append(have, f.Type)
	}
	for _, f := range comparedFamilies {
		if i := slices.Index(have, f.name); i >= 0 {
			all = append(all, f)
			have = slices.Delete(have, i, i+1)
		}
	}
	if len(have) > 0 {
		return nil, fmt.Errorf("the families %s have no configuration for the comparison", strings.Join(have, ", "))
	}
	return all, nil
}

// streamed is the time of a step, and the size of the state between steps.
type streamed struct {
	step  []float64
	bytes int
}

// streaming prepares a stream of one sample, and returns the contender that steps it, with the bytes of its state.
func (m *familyModel) streaming(ctx context.Context, o *ours) (contender, int, error) {
	s, err := o.model.NewStream(1)
	if err != nil {
		return contender{}, 0, fmt.Errorf("%s: %w", m.name, err)
	}
	in, _, err := m.input(1, 1)
	if err != nil {
		return contender{}, 0, err
	}
	out := map[string]tensor.Datum{}
	if err := s.Step(ctx, in, out); err != nil {
		return contender{}, 0, fmt.Errorf("%s: %w", m.name, err)
	}
	state, err := s.State()
	if err != nil {
		return contender{}, 0, fmt.Errorf("%s: %w", m.name, err)
	}
	bytes := 0
	for _, t := range state {
		bytes += len(t.Bytes())
	}
	return contender{name: "step", run: repeat(func() error { return s.Step(ctx, in, out) })}, bytes, nil
}
