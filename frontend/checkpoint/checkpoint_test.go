package checkpoint

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/checkpoint/safetensors"
	"github.com/essmc/essmc/internal/shared"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/essm"
)

func data(name string) string { return filepath.Join("testdata", name) }

// small reads the smallest model of testdata.
func small(t testing.TB) (*essm.Config, models.Weights) {
	t.Helper()
	c, w, err := ReadDir(data("layer-vanilla-complex"))
	if err != nil {
		t.Fatal(err)
	}
	return c.(*essm.Config), w
}

// reference lists the folders of the reference cases (docs/math.md, Reference cases).
func reference(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(shared.Path(t, "reference"), "*", "config.json"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no reference cases: %v", err)
	}
	for i, d := range dirs {
		dirs[i] = filepath.Dir(d)
	}
	return dirs
}

func sameWeights(t *testing.T, what string, got, want models.Weights) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d tensors, expected %d", what, len(got), len(want))
	}
	for name, w := range want {
		if !tensor.Equal(got[name], w) {
			t.Errorf("%s: tensor %s is %s, expected %s with its elements", what, name, got[name], w)
		}
	}
}

func TestWriteReadOfReferences(t *testing.T) {
	for _, ref := range reference(t) {
		c, w, err := ReadDir(ref)
		if err != nil {
			t.Error(err)
			continue
		}
		dir := filepath.Join(t.TempDir(), "a", "b")
		for range 2 { // the second time it replaces a model
			if err := WriteDir(dir, c, w); err != nil {
				t.Fatal(err)
			}
		}
		c2, w2, err := ReadDir(dir)
		if err != nil {
			t.Error(err)
			continue
		}
		if !reflect.DeepEqual(c, c2) {
			t.Errorf("%s: configuration %s, expected %s", ref, c2.Settings().JSON(), c.Settings().JSON())
		}
		sameWeights(t, ref, w2, w)
	}
}

// write makes a directory of a configuration and tensors, unchecked.
func write(t *testing.T, config []byte, tensors map[string]*tensor.Tensor) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ConfigName), config, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := safetensors.WriteFile(filepath.Join(dir, safetensors.SingleName), tensors, nil); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestHalfPrecisionIsWidened(t *testing.T) {
	c, w := small(t)
	for _, d := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
		half := map[string]*tensor.Tensor{"model.layers.0.norm.norm.num_batches_tracked": tensor.Scalar(int64(3))}
		want := models.Weights{}
		for name, x := range w {
			h, err := x.Convert(d, false)
			if err != nil {
				t.Fatal(err)
			}
			half[name] = h
			if want[name], err = h.Convert(tensor.Float32, false); err != nil {
				t.Fatal(err)
			}
		}
		_, got, err := ReadDir(write(t, c.Settings().JSON(), half))
		if err != nil {
			t.Fatal(err)
		}
		sameWeights(t, d.String(), got, want)
	}
}

func TestDirectoriesRefused(t *testing.T) {
	c, w := small(t)
	const name = "model.layers.0.layer.B"
	change := func(f func(w map[string]*tensor.Tensor)) map[string]*tensor.Tensor {
		out := map[string]*tensor.Tensor{}
		for name, x := range w {
			out[name] = x.Clone()
		}
		f(out)
		return out
	}
	for _, v := range []struct {
		want   string
		config string
		w      map[string]*tensor.Tensor
	}{
		{"tensor " + name + ": is missing, expected float32[1,2,6,4]", "",
			change(func(w map[string]*tensor.Tensor) { delete(w, name) })},
		{"tensor extra: is not part", "",
			change(func(w map[string]*tensor.Tensor) { w["extra"] = tensor.Scalar(float32(1)) })},
		{"tensor " + name + ": expected float32[1,2,6,4], found float32[1,2,5,4]", "",
			change(func(w map[string]*tensor.Tensor) { w[name] = tensor.New(tensor.Float32, 1, 2, 5, 4) })},
		{"tensor " + name + ": expected float32[1,2,6,4], found float64", "",
			change(func(w map[string]*tensor.Tensor) { w[name] = tensor.New(tensor.Float64, 1, 2, 6, 4) })},
		{"tensor " + name + "[0,0,0,1]: expected a finite number, found NaN", "",
			change(func(w map[string]*tensor.Tensor) { tensor.Data[float32](w[name])[1] = float32(math.NaN()) })},
		{"did you mean prenorm?", strings.Replace(string(c.Settings().JSON()), "prenorm", "pre_norm", 1),
			change(func(map[string]*tensor.Tensor) {})},
	} {
		if v.config == "" {
			v.config = string(c.Settings().JSON())
		}
		dir := write(t, []byte(v.config), v.w)
		if _, _, err := ReadDir(dir); err == nil || !strings.Contains(err.Error(), v.want) ||
			!strings.Contains(err.Error(), dir) {
			t.Errorf("error %v, expected one about %q that names the folder", err, v.want)
		}
	}
	if _, _, err := ReadDir(t.TempDir()); err == nil || !strings.Contains(err.Error(), ConfigName) {
		t.Errorf("empty folder: error %v", err)
	}
}

func TestWriteDirRefused(t *testing.T) {
	c, w := small(t)
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "thesis.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, ConfigName), []byte(`{"model_type":"bert"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	sharded := t.TempDir()
	if err := os.WriteFile(filepath.Join(sharded, safetensors.IndexName), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{other: "holds no model", foreign: "model_type", sharded: "sharded",
		data("make.py"): "make.py"} {
		if err := WriteDir(dir, c, w); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, expected one about %q", dir, err, want)
		}
	}
	dir := filepath.Join(t.TempDir(), "x")
	if err := WriteDir(dir, c, models.Weights{}); err == nil {
		t.Error("expected a refusal of a model without weights")
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a refused model left a folder behind")
	}
}

func TestReadSharded(t *testing.T) {
	c, w := small(t)
	dir := write(t, c.Settings().JSON(), nil)
	if err := os.Remove(filepath.Join(dir, safetensors.SingleName)); err != nil {
		t.Fatal(err)
	}
	index := ""
	i := 0
	for name, x := range w {
		i++
		shard := fmt.Sprintf("model-%05d-of-%05d.safetensors", i, len(w))
		if err := safetensors.WriteFile(filepath.Join(dir, shard), map[string]*tensor.Tensor{name: x}, nil); err != nil {
			t.Fatal(err)
		}
		index += fmt.Sprintf(",%q:%q", name, shard)
	}
	if err := os.WriteFile(filepath.Join(dir, safetensors.IndexName), []byte(`{"weight_map":{`+index[1:]+"}}"),
		0o644); err != nil {
		t.Fatal(err)
	}
	_, got, err := ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	sameWeights(t, "sharded", got, w)
}

func TestReadTorch(t *testing.T) {
	for _, v := range []struct{ name, file, config, note string }{
		{"image", "image.ckpt", "", "model.layer.dropout: irrelevant for inference, dropped"},
		{"options-full-glu", "options-full-glu.ckpt", "", "state_dict: loss.weight: is outside of net.*, left out"},
		{"options-concat-retrieval", "options-concat-retrieval.pt", "options-concat-retrieval.yaml",
			"optimizer: irrelevant for inference, dropped"},
		{"layer-vanilla-complex", "layer-vanilla-complex.ckpt", "", "train: irrelevant for inference, dropped"},
		{"options-concat-retrieval", "options-concat-retrieval.pt",
			filepath.Join("options-concat-retrieval", ConfigName), ""},
	} {
		config := ""
		if v.config != "" {
			config = data(v.config)
		}
		c, w, notes, err := ReadTorch(data(v.file), Options{Config: config})
		if err != nil {
			t.Error(err)
			continue
		}
		wantC, wantW, err := ReadDir(data(v.name))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(c, wantC) {
			t.Errorf("%s: configuration\n%s, expected\n%s", v.file, c.Settings().JSON(), wantC.Settings().JSON())
		}
		sameWeights(t, v.file, w, wantW)
		if v.note != "" && !slices.Contains(notes, v.note) {
			t.Errorf("%s: notes %q, expected %q among them", v.file, notes, v.note)
		}
		if !slices.IsSorted(notes) {
			t.Errorf("%s: notes are not sorted: %q", v.file, notes)
		}
		if slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, "default") }) {
			t.Errorf("%s: a default was taken of a complete configuration: %q", v.file, notes)
		}
	}
}

func TestReadTorchRefused(t *testing.T) {
	torch := filepath.Join("torchfile", "testdata")
	for _, v := range []struct{ file, config, want string }{
		{filepath.Join(torch, "malicious.pt"), "", "no tensor model.layers.0.layer.B"},
		{filepath.Join(torch, "state_dict.pt"), "", "no tensor model.layers.0.layer.B"},
		{filepath.Join(torch, "module.pt"), "",
			"found a call of torch.nn.modules.container.Sequential where a dict should be"},
		{filepath.Join(torch, "legacy.pt"), "", "re-save it"},
		{data("options-concat-retrieval.pt"), "", "--config"},
		{data("options-concat-retrieval.pt"), data("make.py"), "expected a .yaml or .json file"},
		{data("image.ckpt"), data("options-concat-retrieval.yaml"),
			"options-concat-retrieval.yaml: model.d_model: is 16, but the tensors have 32 features"},
	} {
		_, _, _, err := ReadTorch(v.file, Options{Config: v.config})
		if err == nil || !strings.Contains(err.Error(), v.want) {
			t.Errorf("%s: error %v, expected one about %q", v.file, err, v.want)
		}
	}
}
