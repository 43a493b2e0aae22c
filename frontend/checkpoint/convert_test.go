package checkpoint

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/checkpoint/torchfile"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/essm"
)

// authors writes a configuration with the authors' names (docs/math.md, Checkpoints of the released code).
func authors(c *essm.Config) map[string]any {
	null := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	l := c.Layer
	var ell any
	if l.MaxKernelLength > 0 {
		ell = int64(l.MaxKernelLength)
	}
	norm := c.Norm
	if norm == "layer_scalar" {
		norm = "layer"
	}
	decoder := map[string]any{"_name_": c.Decoder.Type, "mode": c.Decoder.Mode, "use_lengths": c.Decoder.UseLengths}
	if c.Decoder.Type == "retrieval" {
		decoder["nli"], decoder["activation"] = c.Decoder.NLI, c.Decoder.Activation
	}
	return map[string]any{
		"model": map[string]any{
			"d_model": int64(c.DModel), "n_layers": int64(c.NLayers), "prenorm": c.Prenorm, "norm": norm,
			"layer": map[string]any{
				"head": int64(l.Heads), "d_s": int64(l.DState), "channel": int64(l.Channels),
				"bidirectional": l.Bidirectional,
				"conj_sym":      l.ConjSym, "discrete_method": l.Discretization, "version_A_neg": l.LambdaReal,
				"version_A_imag":  l.LambdaImag,
				"max_real_Lambda": l.MaxRealLambda, "D_value": map[string]int64{"none": 0, "diagonal": 1, "full": 2}[l.D],
				"d_dt_is_n": l.Dt == "per_state", "activation": null(l.Activation),
				"acttivation_post":  null(l.PostActivation),
				"max_kernel_length": ell,
			},
		},
		"decoder": decoder,
	}
}

func TestConvertReferences(t *testing.T) {
	for _, dir := range reference(t) {
		read, w, err := ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		want := read.(*essm.Config)
		got, notes, err := convert(authors(want), w)
		if err != nil {
			t.Errorf("%s: %v", dir, err)
			continue
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: configuration\n%s, expected\n%s", dir, got.Settings().JSON(), want.Settings().JSON())
		}
		if len(notes) > 0 {
			t.Errorf("%s: notes %q about a configuration that says just what is needed", dir, notes)
		}
	}
}

// at gives the mapping at a path of keys.
func at(m map[string]any, path string) (parent map[string]any, key string) {
	keys := strings.Split(path, ".")
	for _, k := range keys[:len(keys)-1] {
		m = m[k].(map[string]any)
	}
	return m, keys[len(keys)-1]
}

type absent struct{}

// TestConvertKeys changes one key at a time of a model with two heads of six states, a full A, no conj_sym and a
// diagonal D.
func TestConvertKeys(t *testing.T) {
	base, w := small(t)
	same := func(*essm.Config) {}
	for _, v := range []struct {
		key   string
		value any
		want  string             // an error, or
		to    func(*essm.Config) // what changes
		note  string             // and a note
	}{
		{"model.layer.bidirectional", true, "", func(c *essm.Config) { c.Layer.Bidirectional = true }, ""},
		{"model.layer.bidirectional", absent{}, "", same, "released code's default false"},
		{"model.layer.conj_sym", absent{}, "", func(c *essm.Config) { c.Layer.ConjSym = true },
			"released code's default true"},
		{"model.layer.bidirectional", "yes", `model.layer.bidirectional: expected true or false, found "yes"`, nil, ""},
		{"model.layer.max_real_Lambda", "1e-3", "", func(c *essm.Config) { c.Layer.MaxRealLambda = 1e-3 }, ""},
		{"model.layer.max_real_Lambda", int64(1), "", func(c *essm.Config) { c.Layer.MaxRealLambda = 1 }, ""},
		{"model.layer.max_real_Lambda", "much", "expected a number", nil, ""},
		{"model.layer.version_A_imag", nil, "", same, ""},
		{"model.layer.version_A_imag", "identity", "", same, ""},
		{"model.layer.version_A_neg", "exp",
			`model.layer.version_A_neg: expected one of clip, softplus, sigmoid, Gaussian, found "exp"`, nil, ""},
		{"model.layer.activation", absent{}, "", func(c *essm.Config) { c.Layer.Activation = "gelu" },
			"model.layer.activation: is absent, the released code's default gelu"},
		{"model.layer.activation", "id", "", same, ""},
		{"model.layer.activation", "glu", "expected one of gelu", nil, ""},
		{"model.layer.acttivation_post", "relu", "", func(c *essm.Config) { c.Layer.PostActivation = "relu" }, ""},
		{"model.layer.acttivation_post", absent{}, "", same, ""},
		{"model.layer.max_kernel_length", 17.0, "", func(c *essm.Config) { c.Layer.MaxKernelLength = 17 }, ""},
		{"model.layer.max_kernel_length", 17.5, "expected an integer, found 17.5", nil, ""},
		{"model.layer.max_kernel_length", int64(-1), "found -1", nil, ""},
		{"model.layer.head", int64(3), "model.layer.head: is 3, but the tensors have 2 heads", nil, ""},
		{"model.layer.head", absent{}, "", same, ""},
		{"model.layer.d_s", absent{}, "", same, ""},
		{"model.layer.d_s", int64(14), "is 14, 7 for each of 2 heads, but the tensors have 6", nil, ""},
		{"model.layer.D_value", int64(0), "D should be none, but the tensors have it diagonal", nil, ""},
		{"model.layer.D_value", absent{}, "", same, ""},
		{"model.layer.D_value", map[string]any{}, "D should be full", nil, ""},
		{"model.layer.d_dt_is_n", true, "log_dt has the shape of shared steps", nil, ""},
		{"model.layer.d_dt_is_n", absent{}, "", same, ""},
		{"model.layer.hyper_act", nil, "", same, ""},
		{"model.layer.hyper_act", "glu", `expected null, found "glu"`, nil, ""},
		{"model.layer.lr", map[string]any{"B": 0.1}, "", same, "model.layer.lr: irrelevant for inference"},
		{"model.layer.dropout", "${..dropout}", "", same, "model.layer.dropout"},
		{"model.layer.discrete_method", "${x}", "a reference that was never resolved", nil, ""},
		{"model.layer.discrete_method", "???", "a reference that was never resolved", nil, ""},
		{"model.layer.bidirectonal", true,
			"model.layer.bidirectonal: unknown key, which may matter; did you mean bidirectional?", nil, ""},
		{"model.layer.discrete_method", &torchfile.Placeholder{Module: "posix", Name: "system", Called: true},
			"model.layer.discrete_method: expected a string, found a call of posix.system", nil, ""},
		{"model.layer", nil, "model.layer: is missing", nil, ""},
		{"model.layer", "s4", `model.layer._name_: expected a layer of the released code (ldnn_…), found "s4"`, nil, ""},
		{"model.n_layers", int64(2), "is 2, but the tensors have 1 layers", nil, ""},
		{"model.norm", nil, "", same, ""},
		{"model.norm", absent{}, "", same, "default null"},
		{"model.norm", map[string]any{"_name_": "none"}, "", same, ""},
		{"model.norm", "group", `model.norm: expected one of layer, batch, instance, none, found "group"`, nil, ""},
		{"model.norm", map[string]any{"_name_": "batch", "momentum": 0.5}, "model.norm.momentum: unknown key", nil, ""},
		{"model.residual", "R", "", same, ""},
		{"model.residual", "highway", "expected R", nil, ""},
		{"model.residual", map[string]any{"_name_": "R", "alpha": 0.5}, "model.residual.alpha: unknown key", nil, ""},
		{"model.pool", map[string]any{"_name_": "sample", "pool": int64(2)},
			"model.pool.pool: is 2, expected 1 or null", nil, ""},
		{"model.encoder", "linear", "expected null", nil, ""},
		{"model.layer_scale", 0.1, "unknown key", nil, ""},
		{"encoder", "id", "", same, ""},
		{"encoder", []any{"id"}, "", same, ""},
		{"encoder", "position", `encoder: is "position", but the tensors are those of identity`, nil, ""},
		{"decoder", absent{}, "", func(c *essm.Config) { c.Decoder.Mode = "last" }, "default last"},
		{"decoder", "retrieval", "the tensors are those of sequence", nil, ""},
		{"decoder", []any{"sequence", "sequence"}, "decoder: expected a mapping, found a list", nil, ""},
		{"decoder.mode", "ragged", "expected one of pool, last, first, sum, none", nil, ""},
		{"decoder.l_output", int64(0), "", same, ""},
		{"decoder.l_output", int64(1), "decoder.l_output: is 1, expected 0 or null", nil, ""},
		{"decoder.d_output", int64(6), "is 6, but the tensors have 5 outputs", nil, ""},
		{"decoder.nli", nil, "", same, "decoder.nli"},
		{"wandb", nil, "", same, "wandb: irrelevant for inference"},
		{"model", int64(1), "expected a section model", nil, ""},
	} {
		tree := authors(base)
		parent, key := at(tree, v.key)
		if _, ok := v.value.(absent); ok {
			delete(parent, key)
		} else {
			parent[key] = v.value
		}
		c, notes, err := convert(tree, w)
		what := fmt.Sprintf("%s = %v", v.key, v.value)
		if v.want != "" {
			if err == nil || !strings.Contains(err.Error(), v.want) {
				t.Errorf("%s: error %v, expected one about %q", what, err, v.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		want := base.Clone()
		v.to(want)
		if !reflect.DeepEqual(c, want) {
			t.Errorf("%s: configuration\n%s, expected\n%s", what, c.Settings().JSON(), want.Settings().JSON())
		}
		if all := strings.Join(notes, "\n"); !strings.Contains(all, v.note) || v.note == "" && all != "" {
			t.Errorf("%s: notes %q, expected %q", what, notes, v.note)
		}
	}
}

func TestFindModel(t *testing.T) {
	base, w := small(t)
	tree := authors(base)
	for _, key := range []string{"config", "cfg", "hparams"} {
		if _, _, err := convert(map[string]any{key: tree, "seed": int64(1)}, w); err != nil {
			t.Errorf("under %s: %v", key, err)
		}
	}
	if _, _, err := convert(map[string]any{"a": tree, "b": tree}, w); err == nil ||
		!strings.Contains(err.Error(), `under both "a" and "b"`) {
		t.Errorf("error %v, expected one that names both", err)
	}
	if _, _, err := convert(map[string]any{"lr": 0.1}, w); err == nil ||
		!strings.Contains(err.Error(), `found the keys ["lr"]`) {
		t.Errorf("error %v, expected one that names the keys", err)
	}
}

func TestKeepDState(t *testing.T) {
	c, w, err := ReadDir(data("image")) // conj_sym, 8 heads of 8 states
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct {
		keep, n any
		want    int
	}{{true, int64(64), 64}, {false, int64(128), 128}, {absent{}, int64(128), 128}, {true, nil, 64}, {false, nil, 128},
		{nil, nil, 64}} {
		tree := authors(c.(*essm.Config))
		layer, _ := at(tree, "model.layer.d_s")
		layer["keep_d_state"], layer["d_s"] = v.keep, v.n
		if v.keep == (absent{}) {
			delete(layer, "keep_d_state")
		}
		got, _, err := convert(tree, w)
		if err != nil || got.Layer.DState != v.want {
			t.Errorf("keep_d_state %v, d_s %v: %v, %v, expected d_state %d", v.keep, v.n, got, err, v.want)
		}
	}
}

func TestStateDictPrefixes(t *testing.T) {
	for _, v := range []struct {
		names []string
		want  string
	}{
		{[]string{anchor}, ""},
		{[]string{"net." + anchor}, "net."},
		{[]string{"module.net." + anchor, "loss.weight"}, "module.net."},
		{[]string{anchor, "ema." + anchor}, ""},
		{[]string{"a." + anchor, "b." + anchor}, `several models, under ["a." "b."]`},
		{[]string{"sub" + anchor}, "no tensor"},
		{nil, "no tensor"},
	} {
		all, _, err := stateDict(dictOf(t, v.names))
		if err != nil {
			t.Fatal(err)
		}
		got, err := sharedPrefix(all)
		if err != nil {
			got = err.Error()
		}
		if got != v.want && (err == nil || !strings.Contains(got, v.want)) {
			t.Errorf("%q: %q, expected %q", v.names, got, v.want)
		}
	}
}

// text is a string in a pickle.
func text(s string) string { return "X" + string([]byte{byte(len(s)), 0, 0, 0}) + s }

// save writes a file of torch.save that holds a pickle and no storages.
func save(t *testing.T, pickle string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.pt")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	w, err := z.Create("a/data.pkl")
	if err == nil {
		_, err = w.Write([]byte("\x80\x02" + pickle + "."))
	}
	if err := errors.Join(err, z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// dictOf makes a dict with these keys.
func dictOf(t *testing.T, names []string) *torchfile.Dict {
	t.Helper()
	pickle := "}("
	for _, n := range names {
		pickle += text(n) + "N"
	}
	v, err := torchfile.ReadFile(save(t, pickle+"u"))
	if err != nil {
		t.Fatal(err)
	}
	return v.(*torchfile.Dict)
}

// TestHostileCheckpoints puts calls where tensors and settings should be.
func TestHostileCheckpoints(t *testing.T) {
	evil := "cposix\nsystem\n(" + text("touch executed") + "tR"
	tensors := "}" + text(anchor) + evil + "s"
	for pickle, want := range map[string]string{
		"}" + text("state_dict") + tensors + "s": "state_dict: " + anchor +
			": found a call of posix.system where a tensor should be",
		tensors: anchor +
			": found a call of posix.system where a tensor should be",
		"}" + text("state_dict") + evil +
			"s": "state_dict: found a call of posix.system where a dict should be",
		"}" + text("state_dict") + "}" + evil + "Ns" + "s": "state_dict: found a call of posix.system where the name of a tensor should be",
		evil: "found a call of posix.system where a dict should be",
	} {
		path := save(t, pickle)
		if _, _, _, err := ReadTorch(path, Options{}); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("error %v, expected one about %q", err, want)
		}
	}
}

func TestConfigFiles(t *testing.T) {
	dir := t.TempDir()
	for _, v := range []struct{ name, text, want string }{
		{"a.yaml", "model:\n  d_model: 8\n  x:\n  y: 0.0001\n  z: [1, -2, 0.5, true, null]\n", ""},
		{"a.json", `{"model": {"d_model": 8, "x": null, "y": 0.0001, "z": [1, -2, 0.5, true, null]}}`, ""},
		{"b.yaml", "a: &x [1]\nb: 1\n", "YAML anchors are not read"},
		{"b2.yaml", "a: &x [1]\nb: *x\n", "YAML aliases are not read"},
		{"c.yaml", "a: !!python/object/apply:os.system [x]\n", "tags are not read"},
		{"d.yaml", "a: 1\na: 2\n", "YAML:"},
		{"e.yaml", "a: [\n", "YAML:"},
		{"f.yaml", "a: 1\n---\nb: 2\n", "one YAML document, found 2"},
		{"g.yaml", "", "YAML document"},
		{"h.yaml", strings.Repeat("[", 3000), "more than 256 brackets"},
		{"i.yaml", strings.Repeat("[", 200) + strings.Repeat("]", 200), "nested more than 64"},
		{"j.yaml", strings.Repeat("- ", 30000) + "a", "more than 64 levels on one line"},
		{"k.yaml", strings.Repeat("#", maxConfigFile+1), "more than 65536 bytes"},
		{"l.json", `{"a": 1} {}`, "data after"},
		{"m.json", `{"a": `, "unexpected EOF"},
		{"n.json", strings.Repeat("[", 100) + strings.Repeat("]", 100), "nested more than 64"},
		{"o.json", `{"model_type": "essm"}`, "encoder"},
		{"p.toml", "", "expected a .yaml or .json file"},
	} {
		path := filepath.Join(dir, v.name)
		if err := os.WriteFile(path, []byte(v.text), 0o644); err != nil {
			t.Fatal(err)
		}
		got, _, err := configFile(path)
		if v.want != "" {
			if err == nil || !strings.Contains(err.Error(), v.want) || !strings.Contains(err.Error(), v.name) ||
				strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: error %v, expected one line about %q", v.name, err, v.want)
			}
			continue
		}
		want := map[string]any{"model": map[string]any{"d_model": int64(8), "x": nil, "y": 1e-4,
			"z": []any{int64(1), int64(-2), 0.5, true, nil}}}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, %v, expected %#v", v.name, got, err, want)
		}
	}
}

// FuzzConvert checks that no configuration panics, and that an accepted one builds a valid configuration.
func FuzzConvert(f *testing.F) {
	c, w := small(f)
	seed, err := json.Marshal(authors(c))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte(`{"hparams":{"model":{"d_model":8,"layer":[{}],"norm":"none","residual":{"_name_":"R"}},"encoder":null,"decoder":["sequence"]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		tree, err := parseJSON(b)
		if err != nil {
			return
		}
		c, _, err := convert(tree, w)
		if err != nil {
			return
		}
		if err := models.Check(c, models.Weights(w)); err != nil && !strings.Contains(err.Error(), "tensor") {
			t.Fatal(err)
		}
	})
}

// FuzzYAML checks that the parser neither panics nor runs away.
func FuzzYAML(f *testing.F) {
	b, err := os.ReadFile(data("options-concat-retrieval.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte("a: &x [1]\nb: *x\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > maxConfigFile {
			return
		}
		v, err := parseYAML(b)
		if err != nil {
			return
		}
		if _, err := normal(v, 0); err != nil {
			t.Fatal(err)
		}
	})
}

// TestZeroSizes feeds tensors without elements where sizes are read from.
func TestZeroSizes(t *testing.T) {
	base, _ := small(t)
	for _, shape := range [][]int{{0, 0, 0, 0}, {1, 0, 1, 1}, {1, 1, 0, 1}} {
		w := map[string]*tensor.Tensor{anchor: tensor.New(tensor.Float32, shape...),
			"model.layers.0.layer.log_dt": tensor.New(tensor.Float32, 1, 1, 1)}
		if _, _, err := convert(authors(base), w); err == nil {
			t.Errorf("shape %v was taken", shape)
		}
	}
}
