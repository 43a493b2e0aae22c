package checkpoint

import (
	"maps"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
)

// lightning is the configuration and the tensors of a small checkpoint of each layout.
func lightning(of layout) (text string, w map[string]*tensor.Tensor) {
	f := func(shape ...int) *tensor.Tensor { return tensor.New(tensor.Float32, shape...) }
	w = map[string]*tensor.Tensor{"encoder.0.weight": f(4, 2), "encoder.0.bias": f(4), "decoder.0.output_transform.weight": f(3, 4),
		"decoder.0.output_transform.bias": f(3)}
	put := func(prefix string, all map[string]*tensor.Tensor) {
		for name, t := range all {
			w["model.layers.0.layer."+prefix+name] = t
		}
	}
	layer := ""
	switch of {
	case current:
		layer = `"_name_": "s4", "mode": "nplr", "d_state": 4, "n_ssm": 2, "final_act": "glu", "gate": null, "gate_act": "id", "postact": null`
		put("layer.", map[string]*tensor.Tensor{"D": f(1, 4), "kernel.inv_dt": f(4, 1), "kernel.A_real": f(2, 2),
			"kernel.A_imag": f(2, 2), "kernel.P": f(1, 2, 2, 2), "kernel.B": f(1, 2, 2, 2), "kernel.C": f(1, 4, 2, 2),
			"kernel.l_kernel": tensor.Scalar(int64(5))})
		put("", map[string]*tensor.Tensor{"output_linear.0.weight": f(8, 4), "output_linear.0.bias": f(8)})
	case older:
		layer = `"_name_": "s4", "mode": "diag", "measure": "lin", "d_state": 4, "n_ssm": null, "postact": "glu", "hyper_act": null`
		put("", map[string]*tensor.Tensor{"D": f(1, 4), "kernel.kernel.log_dt": f(4), "kernel.kernel.inv_A_real": f(4, 2),
			"kernel.kernel.A_imag": f(4, 2), "kernel.kernel.C": f(1, 4, 2, 2), "output_linear.0.weight": f(8, 4),
			"output_linear.0.bias": f(8, 1)})
	case common:
		layer = `"_name_": "dss", "version": "exp", "d_state": 2, "postact": "glu", "sep_dt_re_im": false`
		put("", map[string]*tensor.Tensor{"D": f(1, 4), "kernel.log_dt": f(4), "kernel.Lambda_log_neg_re": f(2),
			"kernel.Lambda_im": f(2), "kernel.W": f(1, 4, 2, 2), "output_linear.0.weight": f(8, 4), "output_linear.0.bias": f(8, 1)})
		for _, name := range []string{"encoder.0.", "decoder.0."} {
			for k, t := range maps.Clone(w) {
				if rest, ok := strings.CutPrefix(k, name); ok {
					delete(w, k)
					w[strings.TrimSuffix(name, "0.")+rest] = t
				}
			}
		}
	}
	return `{"train": {"seed": 1}, "encoder": "linear", "decoder": {"_name_": "sequence", "mode": "pool"}, "model": {"_name_": "model",
		"d_model": 4, "n_layers": 1, "prenorm": false, "norm": "none", "residual": "R", "pool": {"_name_": "pool", "stride": 1,
		"expand": null}, "layer": {` + layer + `}}}`, w
}

// convertText converts a configuration in JSON, and checks the tensors against it.
func convertText(t *testing.T, text string, w map[string]*tensor.Tensor) (models.Config, error) {
	t.Helper()
	tree, err := parseJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	c, tensors, _, err := convertBackbone(tree, w)
	if err != nil {
		return nil, err
	}
	_, err = weights(nil, c, tensors)
	return c, err
}

func TestConvertBackbone(t *testing.T) {
	for of, kind := range map[layout]string{current: "s4", older: "s4d", common: "dss"} {
		text, w := lightning(of)
		c, err := convertText(t, text, w)
		if err != nil || c.Type() != kind {
			t.Errorf("layout %d: %v, %v, expected %s", of, c, err, kind)
		}
	}
}

// TestConvertBackboneRefused changes a configuration, or adds a tensor.
func TestConvertBackboneRefused(t *testing.T) {
	for _, v := range []struct {
		of               layout
		from, to, tensor string
		want             string
	}{
		{current, `"gate": null`, `"gate": 2`, "", "model.layer.gate: "},
		{current, `"d_state": 4`, `"d_stat": 4`, "", "model.layer.d_stat: unknown key, did you mean d_state?"},
		{current, `"d_state": 4`, `"d_state": 6`, "", "tensor model.layers.0.layer.layer.kernel.A_real: expected float32[2,3]"},
		{current, `"stride": 1`, `"stride": 2`, "", "model.pool.stride: is 2, expected 1"},
		{current, `"encoder": "linear"`, `"encoder": "embedding"`, "", `encoder: is "embedding", but the tensors are those of linear`},
		{current, "", "", "model.layers.0.layer.layer.kernel.Q", "tensor model.layers.0.layer.layer.kernel.Q: is not part of the model"},
		{older, `"mode": "diag"`, `"mode": "nplr"`, "", `model.layer.mode: is "nplr", but the tensors are those of diag`},
		{older, `"hyper_act": null`, `"hyper_act": "tanh"`, "", "model.layer.hyper_act: expected null"},
		{older, `"hyper_act": null`, `"liquid_kernel": "polyb"`, "", "model.layer.liquid_kernel: is polyb: the released code computes"},
		{common, `"version": "exp"`, `"version": "exq"`, "", "model.layer.version: expected one of softmax, exp,"},
		{common, "", "", "extra", "tensor extra: is not part of the model"},
	} {
		text, w := lightning(v.of)
		if v.tensor != "" {
			w[v.tensor] = tensor.New(tensor.Float32, 1)
		}
		_, err := convertText(t, strings.Replace(text, v.from, v.to, 1), w)
		if err == nil || !strings.Contains(err.Error(), v.want) {
			t.Errorf("%s → %s: found %v, expected %s", v.from, v.to, err, v.want)
		}
	}
}

// FuzzConvertBackbone checks that no configuration panics, and that an accepted one builds a valid configuration.
func FuzzConvertBackbone(f *testing.F) {
	for _, of := range []layout{current, older, common} {
		text, _ := lightning(of)
		f.Add(byte(of), []byte(text))
	}
	f.Fuzz(func(t *testing.T, of byte, b []byte) {
		tree, err := parseJSON(b)
		if err != nil {
			return
		}
		_, w := lightning(layout(of % 4))
		c, tensors, _, err := convertBackbone(tree, w)
		if err != nil {
			return
		}
		if _, err := weights(nil, c, tensors); err != nil && !strings.Contains(err.Error(), "tensor") {
			t.Fatal(err)
		}
	})
}
