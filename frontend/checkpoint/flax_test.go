package checkpoint

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
)

// flaxState writes a state as flax does: params and batch_stats, and an optimizer's.
func flaxState(w models.Weights) []byte {
	root := map[string]any{"step": int64(3), "opt_state": map[string]any{"0": map[string]any{}}}
	for name, t := range w {
		at, path := root, strings.Split(name, ".")
		for _, p := range path[:len(path)-1] {
			if at[p] == nil {
				at[p] = map[string]any{}
			}
			at = at[p].(map[string]any)
		}
		at[path[len(path)-1]] = t
	}
	return appendFlax(nil, root)
}

func appendFlax(b []byte, v any) []byte {
	text := func(b []byte, s string) []byte { return append(append(b, 0xd9, byte(len(s))), s...) }
	switch v := v.(type) {
	case int64:
		return append(b, byte(v))
	case map[string]any:
		b = append(b, 0xde, byte(len(v)>>8), byte(len(v)))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			b = appendFlax(text(b, k), v[k])
		}
		return b
	}
	t := v.(*tensor.Tensor)
	a := []byte{0x93, 0x90 | byte(t.Rank())}
	for _, n := range t.Shape() {
		a = append(a, 0xcd, byte(n>>8), byte(n))
	}
	a = append(text(a, t.DType().String()), 0xc6)
	a = append(binary.BigEndian.AppendUint32(a, uint32(len(t.Bytes()))), t.Bytes()...)
	b = append(b, 0xc9)
	return append(append(binary.BigEndian.AppendUint32(b, uint32(len(a))), 1), a...)
}

// flaxCase is a model of a preset with changes, and the options that do not follow from its tensors.
func flaxCase(t *testing.T, preset, changes string) (models.Config, models.Weights, map[string]any) {
	t.Helper()
	for _, p := range models.Presets() {
		if p.ID != preset {
			continue
		}
		for _, s := range strings.Fields(changes) {
			key, value, _ := strings.Cut(s, "=")
			if err := p.Config.Settings().Set(key, value); err != nil {
				t.Fatal(err)
			}
		}
		w, err := p.Init(p.Config, 1)
		if err != nil {
			t.Fatal(err)
		}
		options := map[string]any{}
		if err := json.Unmarshal(p.Config.Settings().JSON(), &options); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"model_type", "d_input", "d_output", "retrieval", "padded", "step_rescale"} {
			delete(options, key)
		}
		options["lr_factor"], options["weight_decay"] = 1.0, 0.05
		return p.Config, w, options
	}
	t.Fatalf("no preset %s", preset)
	return nil, nil, nil
}

func writeFlax(t *testing.T, dir, name string, state []byte, options map[string]any) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), state, 0o666); err != nil {
		t.Fatal(err)
	}
	if options == nil {
		return
	}
	text, err := json.Marshal(options)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ArgsName), text, 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestFlaxCheckpoints checks that a state and the options give the configuration and tensors that they were made of.
func TestFlaxCheckpoints(t *testing.T) {
	for _, c := range []struct{ preset, changes, dataset string }{
		{"s5-smnist", "d_model=6 n_layers=2 ssm_size_base=8", "mnist-classification"},
		{"s5-smnist", "d_model=6 n_layers=1 ssm_size_base=8 padded=true bidirectional=true batchnorm=false", "imdb-classification"},
		{"s5-smnist", "d_model=6 n_layers=1 ssm_size_base=8 padded=true retrieval=true activation_fn=full_glu", "aan-classification"},
		{"lru-smnist", "d_model=6 n_layers=2 d_hidden=8", ""},
		{"lru-smnist", "d_model=6 n_layers=2 d_hidden=8 d_output=4 multidim=3 norm=layer", ""},
	} {
		want, w, options := flaxCase(t, c.preset, c.changes)
		if c.dataset != "" {
			options["dataset"] = c.dataset
		}
		dir := t.TempDir()
		writeFlax(t, dir, "checkpoint_9", flaxState(nil), nil)
		writeFlax(t, dir, "checkpoint_10", flaxState(w), options)
		for _, path := range []string{dir, filepath.Join(dir, "checkpoint_10")} {
			got, tensors, _, err := Convert(path, Options{})
			if err != nil {
				t.Errorf("%s %s: %v", c.preset, c.changes, err)
				continue
			}
			if string(got.Settings().JSON()) != string(want.Settings().JSON()) {
				t.Errorf("%s %s: found\n%s\nexpected\n%s", c.preset, c.changes, got.Settings().JSON(), want.Settings().JSON())
			}
			sameWeights(t, c.preset, tensors, w)
		}
	}
}

func TestFlaxRefused(t *testing.T) {
	_, w, options := flaxCase(t, "s5-smnist", "d_model=6 n_layers=2 ssm_size_base=8")
	dir := t.TempDir()
	reset := func(state []byte, change map[string]any) {
		all := maps.Clone(options)
		maps.Copy(all, change)
		writeFlax(t, dir, "checkpoint_1", state, all)
	}
	without := func(name string) []byte {
		less := maps.Clone(w)
		delete(less, name)
		return flaxState(less)
	}
	for _, c := range []struct {
		state  []byte
		change map[string]any
		want   string
	}{
		{flaxState(w), map[string]any{"activation_fm": "gelu"}, "args.json: activation_fm: unknown key, did you mean activation_fn?"},
		{flaxState(w), map[string]any{"ssm_size_base": 16}, "checkpoint_1: tensor params.encoder.layers_0.seq.Lambda_re: expected " +
			"float32[8], found float32[4]"},
		{flaxState(w), map[string]any{"n_layers": 1}, "is not part of the model"},
		{flaxState(w), map[string]any{"bidirectional": true}, "seq.C1: is missing"},
		{without("params.encoder.layers_1.seq.D"), nil, "tensor params.encoder.layers_1.seq.D: is missing"},
		{without("params.encoder.layers_0.seq.Lambda_re"), nil, "expected tensor params.encoder.layers_0.seq.Lambda_re (S5) or .nu_log (LRU)"},
		{without("params.encoder.encoder.kernel"), nil, "tensor params.encoder.encoder.kernel: expected 2 axes"},
		{appendFlax(nil, map[string]any{"model": int64(1)}), nil, "expected a map with params, found the keys model"},
		{appendFlax(nil, map[string]any{"params": map[string]any{"x": int64(1)}}), nil, "tensor params.x: expected an array, found int64"},
		{flaxState(w)[:100], nil, "the file ends too early"},
	} {
		reset(c.state, c.change)
		if _, _, _, err := Convert(dir, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("found %v\nwant  %s", err, c.want)
		}
	}
	reset(flaxState(w), nil)
	if err := os.Remove(filepath.Join(dir, ArgsName)); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := Convert(dir, Options{}); err == nil || !strings.Contains(err.Error(), "has no args.json beside it; give the options") {
		t.Errorf("found %v", err)
	}
	if _, _, _, err := Convert(t.TempDir(), Options{}); err == nil || !strings.Contains(err.Error(), "holds no checkpoint") {
		t.Errorf("found %v", err)
	}
	// A folder of orbax, as checkpoint of its own or below checkpoint_N.
	orbax := filepath.Join(dir, "checkpoint_2")
	if err := os.Mkdir(orbax, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(orbax, "manifest.ocdbt"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, orbax} {
		if _, _, _, err := Convert(path, Options{}); err == nil || !strings.Contains(err.Error(), "is a folder of orbax, which is not read; write its "+
			"tree as one file in Python: open(FILE, \"wb\")") {
			t.Errorf("found %v", err)
		}
	}
}
