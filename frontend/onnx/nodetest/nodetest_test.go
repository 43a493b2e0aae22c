package nodetest

import (
	"context"
	"io/fs"
	"os"
	"regexp"
	"testing"

	_ "golang.org/x/image/bmp" // formats of ImageDecoder
	_ "golang.org/x/image/tiff"
	_ "golang.org/x/image/webp"

	"github.com/essmc/essmc/internal/shared"
	_ "github.com/essmc/essmc/ops/essm"
	_ "github.com/essmc/essmc/ops/ml"
	_ "github.com/essmc/essmc/ops/std"
	_ "github.com/essmc/essmc/ops/training"
	"github.com/essmc/essmc/runtime/ref"
)

// TestNodes runs the standard's node tests on the reference backend. None may fail, so an operator that is not
// registered does not go unnoticed. ESSMC_ONNX_MATCH selects tests by name.
func TestNodes(t *testing.T) {
	skip, err := Skips()
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Backend: ref.New(), Skip: skip, Jobs: 2}
	if m := os.Getenv("ESSMC_ONNX_MATCH"); m != "" {
		o.Match = regexp.MustCompile(m)
	}
	results, err := Run(context.Background(), archive(t), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Status == Failed {
			t.Errorf("%s %v: %s", r.Name, r.Ops, r.Reason)
		}
	}
	t.Log(Count(results))
	for _, m := range Missing(results) {
		t.Errorf("not in the registry: %s (%d tests)", m.Op, m.Failed)
	}
	if Count(results).Passed == 0 {
		t.Error("no test passed")
	}
}

// archive returns the folder of node tests, or skips the test. An archive is unpacked into memory.
func archive(t testing.TB) fs.FS {
	t.Helper()
	files, err := Open(shared.NodeTests(t))
	if err != nil {
		t.Fatal(err)
	}
	return files
}
