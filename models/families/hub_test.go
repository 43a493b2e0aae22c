package families_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/checkpoint"
	"github.com/essmc/essmc/frontend/checkpoint/safetensors"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/internal/shared"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/ref"
)

// TestHubDirectories runs directories of model hubs and of released code as they stand.
func TestHubDirectories(t *testing.T) {
	for _, name := range []string{"mamba-hf", "mamba-ssm"} {
		reference(t, filepath.Join(shared.Path(t, "reference-zoo-ckpt"), name))
	}
}

// TestTorchShards reads weights in torch's format that an index divides among files, and refuses wrong indices.
func TestTorchShards(t *testing.T) {
	from := filepath.Join(shared.Path(t, "reference-zoo-ckpt"), "mamba-ssm")
	c, w, err := checkpoint.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	place := func(shard string, leave string) string {
		var list []string
		for name := range w {
			if name != leave {
				list = append(list, fmt.Sprintf("%q: %q", name, shard))
			}
		}
		return `{"metadata": {"total_size": 1}, "weight_map": {` + strings.Join(list, ", ") + `}}`
	}
	for index, want := range map[string]string{
		place("pytorch_model-00001-of-00001.bin", ""):               "",
		place("pytorch_model-00001-of-00001.bin", "lm_head.weight"): `tensor "lm_head.weight" is not placed here`,
		place("../pytorch_model-00001-of-00001.bin", ""):            "expected the name of a file in this folder",
		place("pytorch_model-00002-of-00002.bin", ""):               "no such file",
		`{"weight_map": {}}`:                                        "no weight_map",
		`{"weight_map": {"x": "pytorch_model-00001-of-00001.bin"}}`: "is not placed here",
	} {
		dir := t.TempDir()
		for to, name := range map[string]string{"config.json": "config.json", "pytorch_model-00001-of-00001.bin": "pytorch_model.bin"} {
			data, err := os.ReadFile(filepath.Join(from, name))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, to), data, 0o666)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "pytorch_model.bin.index.json"), []byte(index), 0o666); err != nil {
			t.Fatal(err)
		}
		_, again, err := checkpoint.ReadDir(dir)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("found %v, expected %s", err, want)
			}
			continue
		}
		if err != nil || len(again) != len(w) {
			t.Errorf("%d tensors of %d: %v", len(again), len(w), err)
		}
	}
	if _, _, _, err := checkpoint.ReadDirWith(from, checkpoint.Options{Bytes: 1000}); err == nil || !strings.Contains(err.Error(), "expected at most 1000 bytes") {
		t.Errorf("a limit of 1000 bytes: %v", err)
	}
	// What is read can be written, and is the same model.
	dir := filepath.Join(t.TempDir(), "m")
	if err := checkpoint.WriteDir(dir, c, w); err != nil {
		t.Fatal(err)
	}
	again, _, err := checkpoint.ReadDir(dir)
	if err != nil || string(again.Settings().JSON()) != string(c.Settings().JSON()) {
		t.Errorf("written and read again: %v", err)
	}
}

// TestHalfWeights runs a directory whose weights are bfloat16 and float16: the answers are those of the rounded numbers.
func TestHalfWeights(t *testing.T) {
	from := filepath.Join(shared.Path(t, "reference-zoo-ckpt"), "mamba-hf")
	c, w, err := checkpoint.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	in := map[string]tensor.Datum{models.Input: array(t, from, "input")}
	for _, d := range []tensor.DType{tensor.BFloat16, tensor.Float16} {
		half, rounded := map[string]*tensor.Tensor{}, models.Weights{}
		for name, x := range w {
			if half[name], err = x.Convert(d, false); err == nil {
				rounded[name], err = half[name].Convert(tensor.Float32, false)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		dir := t.TempDir()
		if err := safetensors.WriteFile(filepath.Join(dir, safetensors.SingleName), half, nil); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "config.json"), c.Settings().JSON(), 0o666); err != nil {
			t.Fatal(err)
		}
		m, err := open.File(dir, open.Options{})
		if err != nil {
			t.Fatal(err)
		}
		g, err := models.Build(c, rounded, models.BuildOptions{})
		if err != nil {
			t.Fatal(err)
		}
		plain, err := open.Graph(g, "rounded", open.Options{})
		if err != nil {
			t.Fatal(err)
		}
		truth := run(t, plain.CompileSource, runtime.Options{Backend: ref.New(), Precision: tensor.Float64}, in)
		if d := far(run(t, m.Compile, runtime.Options{Backend: cpu.New()}, in), truth); d > 1e-5 {
			t.Errorf("%v: %.2g off", d, d)
		}
	}
}
