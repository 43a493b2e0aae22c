package std

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/opstest"
)

// TestONNXRuntime compares cases that the standard's node tests omit with answers of ONNX Runtime 1.31, in one folder
// of testdata each, in the layout of node tests. Resize with align_corners and a scale is not among them: the
// standard's tests, which this package passes, divide by the size before it is rounded, and ONNX Runtime by the size
// after.
func TestONNXRuntime(t *testing.T) {
	dirs, err := filepath.Glob("testdata/onnxruntime/*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join(dir, "model.onnx"))
			if err != nil {
				t.Fatal(err)
			}
			g, err := opstest.ReadModel(b, SubgraphInputs)
			if err != nil {
				t.Fatal(err)
			}
			load := func(kind string, v []*ir.Value) []tensor.Datum {
				var out []tensor.Datum
				for i := range v {
					b, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("%s_%d.pb", kind, i)))
					if err != nil {
						t.Fatal(err)
					}
					d, err := opstest.ReadDatum(b, v[i].Type)
					if err != nil {
						t.Fatal(err)
					}
					out = append(out, d)
				}
				return out
			}
			want := load("output", g.Outputs)
			got, err := opstest.Interpret(&ir.EvalCtx{}, g, load("input", g.Inputs))
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				if err := opstest.Near(got[i], want[i], 1e-4, 2e-6); err != nil {
					t.Errorf("output %d: %v", i, err)
				}
			}
		})
	}
}
