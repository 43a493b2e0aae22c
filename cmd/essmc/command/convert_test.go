package command

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/checkpoint/safetensors"
	"github.com/essmc/essmc/frontend/checkpoint/torchfile/torchtest"
	"github.com/essmc/essmc/ir/tensor"
)

// TestConvertPrefix types what the error for a model behind a prefix says, and finds the model as it was.
func TestConvertPrefix(t *testing.T) {
	fixtures(t)
	must(t, "init", "mamba-130m", "-o", "plain", "--set", "hidden_size=16", "--set", "num_hidden_layers=2", "--set", "vocab_size=32")
	w, err := safetensors.ReadDir("plain")
	if err != nil {
		t.Fatal(err)
	}
	stored := map[string]*tensor.Tensor{"loss.weight": tensor.New(tensor.Float32, 3)}
	for name, x := range w {
		stored["net.inner."+name] = x
	}
	copyModel(t, "plain", "nested")
	if err := safetensors.WriteFile("nested/model.safetensors", stored, nil); err != nil {
		t.Fatal(err)
	}
	writeTorch(t, "nested.pt", stored)
	if err := os.WriteFile("nested/tokenizer.json", []byte(`{"of":"the model"}`), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"inspect nested", "convert nested.pt --config plain/config.json -o NEW"} {
		code, _, errs := essmc(strings.Fields(line)...)
		_, try, ok := strings.Cut(strings.TrimSpace(errs), "try essmc ")
		if code != 1 || !ok {
			t.Fatalf("%s: %d, %s", line, code, errs)
		}
		os.RemoveAll("OUT")
		out := must(t, strings.Fields(try)...)
		if want := "note: left out 1 tensor whose names do not begin with net.inner.\n"; !strings.HasPrefix(out, want) {
			t.Errorf("%s: %q, expected %q", try, out, want)
		}
		for _, name := range []string{"config.json", "model.safetensors"} {
			got, err := os.ReadFile("OUT/" + name)
			want, err2 := os.ReadFile("plain/" + name)
			if err != nil || err2 != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %s is another one (%v, %v)", try, name, err, err2)
			}
		}
		copied, err := os.ReadFile("OUT/tokenizer.json")
		if has := err == nil && string(copied) == `{"of":"the model"}`; has != strings.Contains(line, "inspect") {
			t.Errorf("%s: tokenizer.json is there: %v", try, has)
		}
		must(t, "inspect", "OUT")
	}
	must(t, "convert", "nested", "--prefix", "net.inner.", "-o", "OUT", "--force")
}

// writeTorch writes a state dict as torch.save does.
func writeTorch(t *testing.T, path string, tensors map[string]*tensor.Tensor) {
	t.Helper()
	b, err := torchtest.File(tensors)
	if err != nil {
		t.Fatal(err)
	}
	writeBytes(t, path, b)
}
