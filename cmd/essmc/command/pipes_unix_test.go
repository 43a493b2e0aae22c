//go:build unix

package command

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestPipes checks that commands refuse pipes and devices at once: as models, in model directories, as inputs, snapshots
// and checkpoints.
func TestPipes(t *testing.T) {
	dir := t.TempDir()
	model := filepath.Join(dir, "model")
	must(t, "init", "smnist", "-o", model, "--set", "layer.bidirectional=false", "--set", "n_layers=1")
	plan := filepath.Join(dir, "model.essm")
	must(t, "compile", model, "-o", plan)
	pipe := func(path string) string {
		os.Remove(path)
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	npy, onnx, ckpt := pipe(filepath.Join(dir, "x.npy")), pipe(filepath.Join(dir, "x.onnx")), pipe(filepath.Join(dir, "x.ckpt"))
	zero := filepath.Join(dir, "zero.npy")
	if err := os.Symlink("/dev/zero", zero); err != nil {
		t.Fatal(err)
	}
	damaged := func(name string) string {
		d := filepath.Join(dir, name)
		if err := os.CopyFS(d, os.DirFS(model)); err != nil {
			t.Fatal(err)
		}
		pipe(filepath.Join(d, name))
		return d
	}
	for _, args := range [][]string{
		{"run", plan, "--input", npy},
		{"run", plan, "--input", zero},
		{"run", onnx},
		{"inspect", "/dev/zero"},
		{"inspect", damaged("config.json")},
		{"inspect", damaged("model.safetensors")},
		{"convert", ckpt, "-o", filepath.Join(dir, "out")},
		{"stream", plan, "--restore", npy},
		{"stream", plan, "--restore", "/dev/zero"},
	} {
		result := make(chan string, 1)
		go func() {
			code, _, stderr := essmc(args...)
			if code == 0 {
				stderr = "exit 0"
			}
			result <- stderr
		}()
		select {
		case stderr := <-result:
			if !strings.Contains(stderr, "expected a regular file, found a ") && !strings.Contains(stderr, "neither file nor directory") {
				t.Errorf("%q: %q", args, stderr)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%q waits", args)
		}
	}
}
