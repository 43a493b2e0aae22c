package nodetest

import (
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/ir"
)

// FuzzModels changes the standard's own models, if they are available. Reading must return a verified graph or an
// error, and no operator's type inference may panic.
func FuzzModels(f *testing.F) {
	root := archive(f)
	dirs, err := Find(root)
	if err != nil {
		f.Fatal(err)
	}
	for _, dir := range dirs {
		b, err := fs.ReadFile(root, path.Join(dir, "model.onnx"))
		if err != nil {
			f.Fatal(err)
		}
		if len(b) < 4096 {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<14 {
			t.Skip("longer inputs find nothing new")
		}
		g, _, err := onnx.Parse(b, "m.onnx", onnx.Options{Budget: onnx.Budget{Nodes: 2000, Memory: 1 << 20}})
		if err != nil {
			if strings.Contains(err.Error(), "internal error") {
				t.Fatal(err)
			}
			return
		}
		if err := ir.Verify(g); err != nil {
			t.Fatal(err)
		}
	})
}
