package hostile

import (
	"context"
	"fmt"
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
	"github.com/essmc/essmc/models/essm"
	"github.com/essmc/essmc/ops"
)

// TestReadingChecks checks that the reading of large files checks the context often: weights in a graph as text, in ONNX
// files with raw data and with numbers in fields, in plans and in model directories; and texts that hold almost nothing.
func TestReadingChecks(t *testing.T) {
	n := 1 << 22
	if os.Getenv("ESSMC_LONG") != "" {
		n = 1 << 25
	}
	weights := graphWith(t, tensor.New(tensor.Float32, n))
	bools := graphWith(t, tensor.New(tensor.Bool, n))
	files := map[string][]byte{
		"numbers as text": []byte("g () => (y) <float[" + fmt.Sprint(n/8) + "] w = {" + strings.Repeat("1,", n/8-1) + "1}> { y = Neg(w) }"),
		"spaces":          []byte("g () => (y) <float[1] w = {1}>" + strings.Repeat(" ", 4*n) + "{ y = Neg(w) }"),
		"a comment":       []byte("g () => (y) <float[1] w = {1}>\n#" + strings.Repeat("x", 4*n) + "\n{ y = Neg(w) }"),
		"a long string":   []byte("<doc_string: \"" + strings.Repeat("x", n) + "\"> g () => (y) <float[1] w = {1}> { y = Neg(w) }"),
	}
	for form, b := range stored(t, weights) {
		files["floats as "+form] = b
	}
	for form, b := range stored(t, bools) {
		files["bools as "+form] = b
	}
	long := graphWith(t, tensor.New(tensor.Float32, 1))
	long.Doc = strings.Repeat("é", 2*n) // the limit of a plan is twice that of the long mode
	for form, b := range stored(t, long) {
		files["a long text as "+form] = b
	}
	dir := t.TempDir()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, "file")
		if err := os.WriteFile(path, files[name], 0o666); err != nil {
			t.Fatal(err)
		}
		checkRead(t, name, path)
	}
	large := filepath.Join(dir, "model")
	c := essm.Presets()[0].Config
	w, err := essm.Init(c, essm.InitOptions{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.WriteDir(large, c, w); err != nil {
		t.Fatal(err)
	}
	checkRead(t, "directory", large)
}

// graphWith returns a graph whose output is a constant with one more operation.
func graphWith(t *testing.T, w *tensor.Tensor) *ir.Graph {
	t.Helper()
	b := ir.NewBuilder("g", ops.Default, ops.Opsets())
	x := b.Input("x", ir.Tensor(w.DType(), w.Dim(0)))
	b.Output("y", b.Op("", "Concat", []*ir.Value{x, b.Const("w", w)}, ir.A("axis", int64(0))))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// checkRead reads a model with a context that measures the time between checks, and with one that ends amid the reading.
func checkRead(t *testing.T, what, path string) {
	t.Helper()
	checks := 0
	checkGap(t, what, func(g *gaps) error {
		o := loose(g)
		o.Limits.Bytes = 1 << 30
		m, err := open.File(path, o)
		if err == nil {
			_, err = m.Source() // reads a plan
		}
		checks = g.checks
		return err
	})
	if checks < 8 {
		t.Errorf("%s: %d checks", what, checks)
	}
	o := loose(&enough{Context: context.Background(), left: checks / 2})
	o.Limits.Bytes = 1 << 30
	m, err := open.File(path, o)
	if err == nil {
		_, err = m.Source()
	}
	if err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("%s: ended after half of %d checks: %v", what, checks, err)
	}
}
