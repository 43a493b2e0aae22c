package feed

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// TestMaxBytes checks that a file, and all inputs together, are bounded.
func TestMaxBytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.npy")
	if err := arrays.Write(path, tensor.New(tensor.Float32, 1000)); err != nil {
		t.Fatal(err)
	}
	vector := ir.Tensor(tensor.Float32, ir.Sym("N"))
	ports := []runtime.Port{{Name: "a", Type: vector}, {Name: "b", Type: vector}}
	for limit, large := range map[int64]bool{0: false, 8000: false, 7999: true, 4128: true, 4127: true} {
		in, err := Read(t.Context(), []string{"a=" + path, "b=" + path}, ports, Options{MaxBytes: limit})
		var over *files.LimitError
		if errors.As(err, &over) != large || !large && (err != nil || len(in.Data) != 2) {
			t.Errorf("with at most %d bytes: %v", limit, err)
		}
	}
	if _, err := Read(t.Context(), []string{"a=" + path}, ports[:1], Options{MaxBytes: 4127}); err == nil {
		t.Error("a file of 4128 bytes was read")
	}
}
