package families_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/checkpoint"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/ref"
)

// TestTransformers runs directories that the library transformers has written, of each class that essmc builds, and
// compares every output with that library's (testdata/transformers/make.py). The library computes parts of Mamba in
// float32.
func TestTransformers(t *testing.T) {
	dirs, err := filepath.Glob("testdata/transformers/*/config.json")
	if err != nil || len(dirs) < 11 {
		t.Fatalf("%d directories (%v)", len(dirs), err)
	}
	for _, file := range dirs {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			m, err := open.File(dir, open.Options{})
			if err != nil {
				t.Fatal(err)
			}
			in := map[string]tensor.Datum{models.Input: array(t, dir, "input")}
			for _, c := range []struct {
				o    runtime.Options
				near float64
			}{{runtime.Options{Backend: ref.New(), Precision: tensor.Float64}, 1e-6}, {runtime.Options{Backend: cpu.New()}, 1e-5}} {
				model, err := m.Compile(c.o)
				if err != nil {
					t.Fatal(err)
				}
				defer model.Close()
				out, err := model.Run(context.Background(), in)
				if err != nil {
					t.Fatal(err)
				}
				delete(out, models.StateOut)
				for name := range out {
					if d := far(out[name].(*tensor.Tensor), array(t, dir, name)); !(d <= c.near) {
						t.Errorf("%s, %s: %.2g off", c.o.Backend.Name(), name, d)
					}
				}
				want, err := filepath.Glob(filepath.Join(dir, "*.npy"))
				if err != nil || len(out) != len(want)-1 {
					t.Errorf("outputs %v, expected %d", slices.Sorted(maps.Keys(out)), len(want)-1)
				}
			}
			g, err := m.Graph()
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			labels := ""
			if strings.Contains(string(text), `"maybe"`) {
				labels = `["no","maybe","yes"]`
			}
			if g.Meta[ir.MetaLabels] != labels {
				t.Errorf("labels %q, expected %q", g.Meta[ir.MetaLabels], labels)
			}
			// What is read can be written, and is the same model.
			c, w, err := checkpoint.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			again := filepath.Join(t.TempDir(), "m")
			if err := checkpoint.WriteDir(again, c, w); err != nil {
				t.Fatal(err)
			}
			if c2, _, err := checkpoint.ReadDir(again); err != nil || string(c2.Settings().JSON()) != string(c.Settings().JSON()) {
				t.Errorf("written and read again: %v", err)
			}
		})
	}
}

// TestOtherHeads tests that a class that is not built is refused by name, and that a class whose tensors are missing is.
func TestOtherHeads(t *testing.T) {
	for _, c := range []struct{ dir, from, to, want string }{
		{"MambaForCausalLM", "MambaForCausalLM", "MambaForSequenceClassification",
			"architectures: expected a list with one of MambaForCausalLM, MambaModel, or null, found MambaForSequenceClassification"},
		{"Mamba2Model", "Mamba2Model", "MambaModel", "expected a list with one of Mamba2ForCausalLM, Mamba2Model, or null, found MambaModel"},
		{"FNetForMaskedLM", "FNetForMaskedLM", "FNetForSequenceClassification", "tensor classifier.weight: is missing, expected float32[2,6]"},
		{"FNetForMaskedLM", "FNetForMaskedLM", "FNetForTokenClassification", "tensor classifier.weight: is missing"},
		{"FNetForSequenceClassification", "FNetForSequenceClassification", "FNetForQuestionAnswering", "tensor qa_outputs.weight: is missing"},
		{"MambaModel", "MambaModel", "MambaForCausalLM", "tensor backbone.embeddings.weight: is missing"},
		{"FNetForMaskedLM", "FNetForMaskedLM", "FNetModel", ""}, // the encoder of a larger model
		{"MambaForCausalLM", "MambaForCausalLM", "MambaModel", ""},
	} {
		from, dir := filepath.Join("testdata/transformers", c.dir), t.TempDir()
		for _, name := range []string{"config.json", "model.safetensors"} {
			b, err := os.ReadFile(filepath.Join(from, name))
			if err != nil {
				t.Fatal(err)
			}
			if name == "config.json" {
				b = []byte(strings.Replace(string(b), `"`+c.from+`"`, `"`+c.to+`"`, 1))
			}
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		_, err := open.File(dir, open.Options{})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s as %s: found %v, expected %q", c.dir, c.to, err, c.want)
		}
	}
}
