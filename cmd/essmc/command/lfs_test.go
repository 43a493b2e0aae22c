package command

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/internal/lfs"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// A repository that was cloned without its large files holds pointers to them, and whoever opens one is told.
func TestLFS(t *testing.T) {
	fixtures(t)
	const pointer = "version https://git-lfs.github.com/spec/v1\n" +
		"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
	put := func(path string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(pointer), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	must(t, "init", "image", "-o", "wide", "--set", "n_layers=1")
	must(t, "export", "wide", "-o", "wide.onnx", "--external", "wide.bin")
	must(t, "import", "wide.onnx", "-o", "wide.txt")
	for _, pattern := range []string{"wide-*.bin", "wide-*.weights"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		put(found[0])
	}
	if err := os.MkdirAll("sharded", 0o777); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile("waves/config.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("sharded/config.json", config, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"pairs/model.safetensors", "voice/config.json", "sharded/model.safetensors.index.json",
		"p.essm", "p.onnx", "p.txt", "p.ckpt", "p.npy", "p.npz", "p.wav", "p.csv",
	} {
		put(path)
	}
	for path, args := range map[string][]string{
		"model.safetensors":            {"inspect", "pairs"},
		"config.json":                  {"inspect", "voice"},
		"model.safetensors.index.json": {"inspect", "sharded"},
		"p.essm":                       {"inspect", "p.essm"},
		"p.onnx":                       {"import", "p.onnx"},
		"p.txt":                        {"inspect", "p.txt"},
		"wide-":                        {"inspect", "wide.onnx"},
		"wide.txt":                     {"inspect", "wide.txt"},
		"p.ckpt":                       {"convert", "p.ckpt", "-o", "new"},
		"p.npy":                        {"run", "waves", "-i", "p.npy"},
		"p.npz":                        {"run", "waves", "-i", "p.npz"},
		"p.wav":                        {"run", "waves", "-i", "p.wav"},
		"p.csv":                        {"run", "waves", "-i", "p.csv"},
	} {
		refused(t, 1, args, path, "git lfs pull")
	}
	_, plan := runtime.Load("p.essm", runtime.Options{Backend: cpu.New()})
	_, _, model := onnx.ReadFile("p.onnx", onnx.Options{})
	_, text := irtext.ReadFile("p.txt", ops.Default, irtext.Options{})
	for _, err := range []error{plan, model, text} {
		if !errors.Is(err, lfs.ErrPointer) {
			t.Error(err)
		}
	}
}
