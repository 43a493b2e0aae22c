package families_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/essmc/essmc/frontend/checkpoint"
	"github.com/essmc/essmc/internal/shared"
)

// TestFlaxCheckpoint converts a checkpoint that flax wrote, and holds the model to the answers beside it.
func TestFlaxCheckpoint(t *testing.T) {
	from, dir := filepath.Join(shared.Path(t, "reference-zoo-ckpt"), "s5-lra-cifar-classification"), t.TempDir()
	c, w, _, err := checkpoint.Convert(from, checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.WriteDir(dir, c, w); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"input.npy", "output64.npy"} {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	reference(t, dir)
}
