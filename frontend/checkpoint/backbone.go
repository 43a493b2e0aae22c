package checkpoint

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
)

// layout is a way in which code around state-spaces/s4 names the tensors of a layer.
type layout int

const (
	released layout = iota // the eSSM of the paper
	current                // state-spaces/s4, version 4
	older                  // its versions before, and Liquid-S4
	common                 // DSS
)

// anchors are tensors that every state dict of a layout has, below a prefix that all its names share.
var anchors = []struct {
	name string
	layout
}{{anchor, released}, {"model.layers.0.layer.layer.kernel.C", current}, {"model.layers.0.layer.kernel.kernel.C", older},
	{"model.layers.0.layer.kernel.W", common}}

// layoutOf returns the layout of tensors without their shared prefix.
func layoutOf(tensors map[string]*tensor.Tensor) layout {
	for _, a := range anchors {
		if tensors[a.name] != nil {
			return a.layout
		}
	}
	return released
}

// convertBackbone converts a configuration of state-spaces/s4 or of code that is like it, and its tensors to those of
// the newest version. Sizes that the code takes from a data set follow from the tensors.
func convertBackbone(root any, tensors map[string]*tensor.Tensor) (models.Config, map[string]*tensor.Tensor, []string,
	error) {
	top, path, err := findModel(root)
	if err != nil {
		return nil, nil, nil, err
	}
	l := &log{}
	s := &section{path: path, m: top, log: l}
	of := layoutOf(tensors)
	kind, model := "s4", tidy(s, "model", nil)
	layer, ok := model["layer"].(map[string]any)
	if !ok {
		return nil, nil, nil, fmt.Errorf("%s: expected one layer, found %s", s.key("model.layer"), show(model["layer"]))
	}
	in := &section{path: s.key("model.layer"), m: layer, log: l}
	layer = tidy(in, "", []string{"gate", "gate_act", "bottleneck", "measure", "postact", "hyper_act"})
	switch of {
	case current:
		if layer["mode"] == "diag" || layer["mode"] == "s4d" {
			kind = "s4d"
		}
	case older:
		var kept bool
		if kind, kept, err = olderLayer(in, layer, tensors); err != nil {
			return nil, nil, nil, err
		}
		if !kept {
			if tensors, err = olderTensors(tensors); err != nil {
				return nil, nil, nil, err
			}
		}
	case common:
		kind, layer["_name_"] = "dss", "dss"
		for _, key := range []string{"postact", "hyper_act"} { // no default of the table
			if v, ok := in.m[key]; ok {
				layer[key] = v
			}
		}
	}
	model["layer"] = layer
	if pool := s.sub("model"); pool != nil {
		if p := pool.sub("pool"); p != nil {
			p.only("stride", 1, "pooling between layers is not supported")
			p.only("expand", 1, "pooling between layers is not supported")
		}
	}
	delete(model, "pool")
	out := map[string]any{"model_type": kind, "model": model, "encoder": encoderOf(s, tensors),
		"decoder": decoderOf(s, tensors)}
	for _, key := range slices.Sorted(maps.Keys(top)) {
		if key != "model" && key != "encoder" && key != "decoder" {
			s.ignore(key)
		}
	}
	if l.err != nil {
		return nil, nil, nil, l.err
	}
	text, err := json.Marshal(out)
	if err != nil {
		return nil, nil, nil, err
	}
	c, err := models.ParseConfig(text, "converted")
	if err != nil {
		return nil, nil, nil, err
	}
	return c, tensors, l.notes, nil
}

// tidy copies the mapping under a key, or s itself for an empty key, without those of the given keys whose value is
// null, and gate_act, which only a gate reads.
func tidy(s *section, key string, unset []string) map[string]any {
	m := s.m
	if key != "" {
		if sub := s.sub(key); sub != nil {
			m = sub.m
		}
	}
	out := maps.Clone(m)
	for _, k := range unset {
		if v, ok := out[k]; ok && (v == nil || k == "gate_act") {
			delete(out, k)
		}
	}
	if out == nil {
		out = map[string]any{}
	}
	return out
}

// named returns a mapping with _name_ of a section that may be a string.
func named(s *section, key, def string) map[string]any {
	sub := s.sub(key)
	if sub == nil {
		return map[string]any{"_name_": def}
	}
	out := maps.Clone(sub.m)
	if out == nil {
		out = map[string]any{"_name_": def}
	}
	return out
}

// encoderOf derives the encoder from its tensors. The configuration may name it.
func encoderOf(s *section, tensors map[string]*tensor.Tensor) any {
	prefix := "encoder.0"
	if tensors["encoder.weight"] != nil {
		prefix = "encoder"
	}
	w, bias := tensors[prefix+".weight"], tensors[prefix+".bias"]
	want, first := "id", map[string]any{"_name_": "id"}
	switch {
	case w == nil:
	case w.Rank() != 2:
		s.log.fail("tensor %s.weight: expected a matrix, found %s", prefix, w)
	case bias != nil:
		want, first = "linear", map[string]any{"_name_": "linear", "d_input": w.Dim(1)}
	default:
		want, first = "embedding", map[string]any{"_name_": "embedding", "n_tokens": w.Dim(0)}
	}
	if v, ok := s.set("encoder"); ok {
		if list, isList := v.([]any); !isList || len(list) == 1 {
			if name, _ := named(s, "encoder", want)["_name_"].(string); name != want {
				s.log.fail("%s: is %.60q, but the tensors are those of %s", s.key("encoder"), name, want)
			}
		}
	}
	if pe := tensors["encoder.1.pe"]; pe != nil && pe.Rank() == 2 {
		return []any{first, map[string]any{"_name_": "position", "max_len": pe.Dim(0)}}
	}
	return first
}

// decoderOf completes the decoder by its tensors.
func decoderOf(s *section, tensors map[string]*tensor.Tensor) any {
	d := named(s, "decoder", "sequence")
	for _, name := range []string{"decoder.0.output_transform.weight", "decoder.output_transform.weight"} {
		if w := tensors[name]; w != nil && w.Rank() == 2 {
			d["d_output"] = w.Dim(0)
		}
	}
	if d["d_output"] == nil {
		s.log.fail("the tensors have no decoder.0.output_transform.weight")
	}
	if d["l_output"] == nil {
		d["l_output"] = 0
	}
	delete(d, "d_model")
	return d
}

// liquidReason says why most checkpoints of Liquid-S4 cannot be converted.
const liquidReason = "the released code computes the liquid term from copies of the step sizes, B, C and λ that its " +
	"constructor drew, which are not in its checkpoints, so the checkpoint does not determine the model; tensors " +
	"layer.liquid.log_dt, B, C and w would"

// olderLayer brings the keys of a layer of older versions to those of the newest one. kept says that the model has a
// liquid term: its family has the older keys and tensors.
func olderLayer(s *section, layer map[string]any, tensors map[string]*tensor.Tensor) (kind string, kept bool,
	err error) {
	kernel, _ := s.text("liquid_kernel")
	if kernel != "" {
		if tensors["model.layers.0.layer.liquid.C"] == nil {
			return "", false, fmt.Errorf("%s: is %s: %s", s.key("liquid_kernel"), kernel, liquidReason)
		}
		layer["_name_"] = "liquid-s4"
		for _, key := range []string{"postact", "measure", "hyper_act"} {
			if v, ok := s.m[key]; ok {
				layer[key] = v
			}
		}
		return "liquid-s4", true, nil
	}
	for _, key := range []string{"liquid_kernel", "liquid_degree", "allcombs", "lcontract"} {
		delete(layer, key)
	}
	layer["_name_"] = "s4"
	for from, to := range map[string]string{"postact": "final_act", "measure": "init", "real_type": "real_transform"} {
		if v, ok := s.m[from]; ok {
			delete(layer, from)
			layer[to] = v
		}
	}
	if layer["hyper_act"] != nil {
		return "", false, fmt.Errorf("%s: expected null, found %s", s.key("hyper_act"), show(layer["hyper_act"]))
	}
	delete(layer, "hyper_act")
	layer["dt_transform"], layer["imag_transform"] = "exp", "none"
	kind = "s4"
	if tensors["model.layers.0.layer.kernel.kernel.inv_A_real"] != nil {
		kind = "s4d"
		if layer["mode"] == nil || !slices.Contains([]any{"diag", "s4d"}, layer["mode"]) {
			return "", false, fmt.Errorf("%s: is %s, but the tensors are those of diag", s.key("mode"),
				show(layer["mode"]))
		}
		if init, _ := layer["init"].(string); init != "" && !strings.HasPrefix(init, "diag-") {
			layer["init"] = "diag-" + init
		}
	} else if layer["mode"] == nil {
		layer["mode"] = "nplr"
	}
	for _, name := range []string{"inv_A_real", "inv_w_real"} {
		if t := tensors["model.layers.0.layer.kernel.kernel."+name]; t != nil && t.Rank() == 2 {
			layer["n_ssm"] = t.Dim(0)
		}
	}
	return kind, false, nil
}

// olderTensors brings tensors of older versions to the names and signs of the newest one: λ had a positive imaginary
// part, and step sizes were a vector. In diagonal systems B was part of C.
func olderTensors(tensors map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	out := map[string]*tensor.Tensor{}
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		t := tensors[name]
		prefix, rest, found := cutLayer(name)
		if !found {
			out[name] = t
			continue
		}
		to := prefix + "layer." + rest
		switch {
		case strings.HasPrefix(rest, "output_linear.") || strings.HasPrefix(rest, "norm."):
			to = name
			if strings.HasSuffix(rest, ".bias") && t.Rank() == 2 && t.Dim(1) == 1 {
				t = reshaped(t, t.Dim(0))
			}
		case strings.HasPrefix(rest, "kernel.kernel."):
			param := strings.TrimPrefix(rest, "kernel.kernel.")
			if now, ok := map[string]string{"log_dt": "inv_dt", "inv_w_real": "A_real", "w_imag": "A_imag",
				"inv_A_real": "A_real", "L": "l_kernel"}[param]; ok {
				param = now
			}
			to = prefix + "layer.kernel." + param
			switch {
			case param == "inv_dt" && t.Rank() == 1:
				t = reshaped(t, t.Dim(0), 1)
			case param == "A_imag":
				if t.DType() != tensor.Float32 {
					return nil, fmt.Errorf("tensor %s: expected float32, found %s", name, t)
				}
				t = t.Clone()
				for i, v := range tensor.Data[float32](t) {
					tensor.Data[float32](t)[i] = -v
				}
			}
			if strings.HasSuffix(name, ".inv_A_real") && t.Rank() == 2 {
				b := tensor.New(tensor.Float32, 1, t.Dim(0), t.Dim(1), 2)
				for i := 0; i < b.Len(); i += 2 {
					tensor.Data[float32](b)[i] = 1
				}
				out[prefix+"layer.kernel.B"] = b
			}
		}
		out[to] = t
	}
	return out, nil
}

// reshaped returns a tensor in a shape of as many elements.
func reshaped(t *tensor.Tensor, shape ...int) *tensor.Tensor {
	if r, err := t.Reshape(shape...); err == nil {
		return r
	}
	return t // not possible
}

// cutLayer cuts the name of a layer's tensor behind "model.layers.i.layer.".
func cutLayer(name string) (prefix, rest string, found bool) {
	after, ok := strings.CutPrefix(name, "model.layers.")
	number, rest, ok2 := strings.Cut(after, ".layer.")
	if _, err := strconv.Atoi(number); !ok || !ok2 || err != nil {
		return "", "", false
	}
	return "model.layers." + number + ".layer.", rest, true
}
