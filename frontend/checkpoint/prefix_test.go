package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/essmc/essmc/frontend/checkpoint/safetensors"
	"github.com/essmc/essmc/frontend/checkpoint/torchfile/torchtest"
	"github.com/essmc/essmc/internal/worktime"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
)

// behindPrefix returns the tensors under names with a prefix.
func behindPrefix(w map[string]*tensor.Tensor, prefix string) map[string]*tensor.Tensor {
	out := map[string]*tensor.Tensor{}
	for name, t := range w {
		out[prefix+name] = t
	}
	return out
}

// initial returns a small untrained model of a family, and its preset's name.
func initial(t testing.TB, id string, set ...string) (models.Config, models.Weights) {
	t.Helper()
	for _, p := range models.Presets() {
		if p.ID != id {
			continue
		}
		for _, s := range set {
			key, value, _ := strings.Cut(s, "=")
			if err := p.Config.Settings().Set(key, value); err != nil {
				t.Fatal(err)
			}
		}
		w, err := p.Init(p.Config, 1)
		if err != nil {
			t.Fatal(err)
		}
		return p.Config, w
	}
	t.Fatalf("no preset %s", id)
	return nil, nil
}

func mamba(t testing.TB) (models.Config, models.Weights) {
	return initial(t, "mamba-130m", "hidden_size=16", "num_hidden_layers=2", "vocab_size=32")
}

// writeConfig writes a configuration beside nothing else, and returns its path.
func writeConfig(t testing.TB, c models.Config) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), ConfigName)
	if err := os.WriteFile(path, c.Settings().JSON(), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// writeTorch writes a state dict as torch.save does.
func writeTorch(path string, tensors map[string]*tensor.Tensor, keys ...string) error {
	b, err := torchtest.File(tensors, keys...)
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o666)
}

func TestUnwrapped(t *testing.T) {
	for _, v := range []struct{ names, want string }{
		{"a b.c", "a b.c"},
		{"module.a module.b.c", "a b.c"},
		{"module.a b", "b module.a"}, // not all: part of the model
		{"_orig_mod.a _orig_mod.b.c", "a b.c"},
		{"module._orig_mod.a module._orig_mod.b", "a b"},
		{"_orig_mod.module.a _orig_mod.module.b", "a b"},
		{"module.module.a", "a"},
		{"net._orig_mod.a head.b", "head.b net.a"}, // a part of the model was compiled
		{"a._orig_mod._orig_mod.b", "a.b"},
		{"net._orig_mod.a net.a", "net._orig_mod.a net.a"}, // both cannot be a
		{"my_orig_mod.a", "my_orig_mod.a"},
		{"module.", "module."},
	} {
		all := map[string]bool{}
		for _, n := range strings.Fields(v.names) {
			all[n] = true
		}
		if got := strings.Join(slices.Sorted(maps.Keys(unwrapped(all))), " "); got != v.want {
			t.Errorf("%s: %s, expected %s", v.names, got, v.want)
		}
	}
	// Long names take time in proportion to their length.
	long := map[string]bool{}
	for i := range 200 {
		long[strings.Repeat(parallel, 1<<13)+fmt.Sprint(i)] = true
		long[strings.Repeat(parallel+compiled, 1<<12)+fmt.Sprint("a", i)] = true
	}
	began := worktime.Now()
	unwrapped(long)
	if d := worktime.Now() - began; d > time.Second {
		t.Errorf("names of 64 KiB took %v of processor time", d)
	}
}

// TestPrefix reads a model directory, a state dict and a .safetensors file whose names begin with a prefix: with the
// option, and otherwise with an error that names it.
func TestPrefix(t *testing.T) {
	c, want := mamba(t)
	config := writeConfig(t, c)
	extra := map[string]*tensor.Tensor{"loss.weight": tensor.New(tensor.Float32, 2), "ema.decay": tensor.New(tensor.Float32, 1)}
	dir := filepath.Dir(config)
	for _, v := range []struct{ stored, prefix, hint, note string }{
		{"", "", "", ""},
		{"module.", "", "", ""},
		{"_orig_mod.", "", "", ""},
		{"module._orig_mod.", "", "", ""},
		{"net.", "net", "net", "left out 2 tensors whose names do not begin with net."},
		{"net.", "net.", "net", "left out 2 tensors whose names do not begin with net."},
		{"a.b.", "a.b", "a.b", "left out 2 tensors whose names do not begin with a.b."},
		{"a._orig_mod.b.", "a.b", "a.b", "left out 2 tensors whose names do not begin with a.b."},
		{"a._orig_mod.b.", "a._orig_mod.b", "a.b", "left out 2 tensors whose names do not begin with a._orig_mod.b."},
		{"module.a.b.", "a.b", "a.b", "left out 2 tensors whose names do not begin with a.b."},
	} {
		stored := behindPrefix(want, v.stored)
		if v.prefix != "" {
			wrapper := ""
			if strings.HasPrefix(v.stored, parallel) {
				wrapper = parallel
			}
			maps.Copy(stored, behindPrefix(extra, wrapper))
		}
		pt := filepath.Join(t.TempDir(), "w.pt")
		st := filepath.Join(t.TempDir(), "w.safetensors")
		if err := errors.Join(writeTorch(pt, stored), safetensors.WriteFile(st, stored, nil),
			safetensors.WriteFile(filepath.Join(dir, safetensors.SingleName), stored, nil)); err != nil {
			t.Fatal(err)
		}
		for _, from := range []struct{ path, config string }{{dir, ""}, {pt, config}, {st, config},
			{filepath.Join(dir, safetensors.SingleName), ""}} {
			read := Convert
			if from.path == dir {
				read = ReadDirWith
			}
			what := fmt.Sprintf("%s with %s", filepath.Base(from.path), v.stored)
			if v.prefix != "" {
				try := fmt.Sprintf("backbone.embeddings.weight: is missing, but all tensors of the model (%d) are there with the prefix %s.; "+
					"try essmc convert %s", len(want), v.hint, from.path)
				if from.path != dir && from.config == "" {
					try = "try essmc inspect " + dir
				} else if from.config != "" {
					try += " --config " + from.config + " --prefix " + v.hint + " -o OUT"
				} else {
					try += " --prefix " + v.hint + " -o OUT"
				}
				_, _, _, err := read(from.path, Options{Config: from.config})
				if err == nil || !strings.Contains(err.Error(), try) {
					t.Errorf("%s: error %v, expected one about %s", what, err, try)
				}
			} else if from.path != dir && from.config == "" {
				continue // needs no conversion
			}
			_, w, notes, err := read(from.path, Options{Config: from.config, Prefix: v.prefix})
			if err != nil {
				t.Errorf("%s: %v", what, err)
				continue
			}
			sameWeights(t, what, w, want)
			if got := strings.Join(notes, "\n"); got != v.note {
				t.Errorf("%s: notes %q, expected %q", what, got, v.note)
			}
		}
	}
	if _, _, _, err := ReadDirWith(dir, Options{Prefix: "nte"}); err == nil ||
		!strings.Contains(err.Error(), "expected tensors whose names begin with the prefix nte., found a.*, ema.*, loss.*") {
		t.Errorf("a prefix that no name has: %v", err)
	}
	if _, _, _, err := ReadDirWith(dir, Options{Prefix: "."}); !errors.Is(err, errPrefix) {
		t.Errorf("a dot: %v", err)
	}
	// The prefix of a prefix.
	stored := behindPrefix(want, "a.b.")
	if err := safetensors.WriteFile(filepath.Join(dir, safetensors.SingleName), stored, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := ReadDirWith(dir, Options{Prefix: "a"}); err == nil || !strings.Contains(err.Error(), "--prefix a.b -o OUT") {
		t.Errorf("a part of the prefix: %v", err)
	}
	// One tensor is missing: there is nothing to type.
	delete(stored, "a.b.backbone.norm_f.weight")
	if err := safetensors.WriteFile(filepath.Join(dir, safetensors.SingleName), stored, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ReadDir(dir); err == nil || strings.Contains(err.Error(), "--prefix") {
		t.Errorf("an incomplete model: %v", err)
	}
}

// TestStateDictOfFamilies reads state dicts of several families with a config.json.
func TestStateDictOfFamilies(t *testing.T) {
	for _, id := range []string{"mamba-130m", "mamba2-130m", "s5-smnist", "image"} {
		var set []string
		switch id {
		case "mamba-130m":
			set = []string{"hidden_size=16", "num_hidden_layers=2", "vocab_size=32"}
		case "mamba2-130m":
			set = []string{"hidden_size=16", "num_hidden_layers=2", "vocab_size=32", "num_heads=4", "head_dim=8", "state_size=8"}
		}
		c, want := initial(t, id, set...)
		config := writeConfig(t, c)
		for _, keys := range [][]string{nil, {"state_dict"}, {"model_state_dict"}, {"model"}} {
			path := filepath.Join(t.TempDir(), "w.pt")
			if err := writeTorch(path, want, keys...); err != nil {
				t.Fatal(err)
			}
			got, w, _, err := Convert(path, Options{Config: config})
			if err != nil {
				t.Errorf("%s %v: %v", id, keys, err)
				continue
			}
			if string(got.Settings().JSON()) != string(c.Settings().JSON()) {
				t.Errorf("%s: configuration %s, expected %s", id, got.Settings().JSON(), c.Settings().JSON())
			}
			sameWeights(t, id, w, want)
		}
	}
	c, want := mamba(t)
	config := writeConfig(t, c)
	path := filepath.Join(t.TempDir(), "w.pt")
	wrong := maps.Clone(map[string]*tensor.Tensor(want))
	wrong["backbone.norm_f.weight"] = tensor.New(tensor.Float32, 17)
	if err := writeTorch(path, wrong); err != nil {
		t.Fatal(err)
	}
	for o, want := range map[Options]string{
		{Config: config}:             "w.pt: tensor backbone.norm_f.weight: expected float32[16], found float32[17]",
		{}:                           "give its config.json with model_type: --config config.json",
		{Config: config, Bytes: 100}: "expected at most 100 bytes",
	} {
		if _, _, _, err := Convert(path, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, expected %s", o, err, want)
		}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("why")
	cancel(why)
	if _, _, _, err := Convert(path, Options{Config: config, Context: ctx}); !errors.Is(err, why) {
		t.Errorf("with a context that is done: %v", err)
	}
}
