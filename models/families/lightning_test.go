package families_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/essmc/essmc/frontend/checkpoint"
	"github.com/essmc/essmc/internal/shared"
)

// TestLightning converts Lightning checkpoints of released code, and holds the models that come of them to its answers.
func TestLightning(t *testing.T) {
	for name, kind := range map[string]string{"s4-image.ckpt": "s4", "s4d-speech.ckpt": "s4d", "s4-v3.ckpt": "s4"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(shared.Path(t, "reference-zoo-ckpt"), name)
			c, w, _, err := checkpoint.ReadTorch(filepath.Join(dir, "model.ckpt"), checkpoint.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if c.Type() != kind {
				t.Errorf("is of the family %s, expected %s", c.Type(), kind)
			}
			to := t.TempDir()
			if err := checkpoint.WriteDir(to, c, w); err != nil {
				t.Fatal(err)
			}
			for _, file := range []string{"input.npy", "output.npy", "output64.npy"} {
				data, err := os.ReadFile(filepath.Join(dir, file))
				if err == nil {
					err = os.WriteFile(filepath.Join(to, file), data, 0o666)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			reference(t, to)
		})
	}
}
