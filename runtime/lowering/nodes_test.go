package lowering_test

import (
	"context"
	"testing"

	_ "golang.org/x/image/bmp" // pictures of the standard's tests
	_ "golang.org/x/image/tiff"
	_ "golang.org/x/image/webp"

	"github.com/essmc/essmc/frontend/onnx/nodetest"
	"github.com/essmc/essmc/internal/shared"
	_ "github.com/essmc/essmc/ops/microsoft" // operators of the standard's tests
	_ "github.com/essmc/essmc/ops/ml"
	_ "github.com/essmc/essmc/ops/training"
	"github.com/essmc/essmc/runtime/lowering/internal/toy"
)

// The standard's node tests, as they stand, on the toy backend.
func TestNodeTests(t *testing.T) {
	skip, err := nodetest.Skips()
	if err != nil {
		t.Fatal(err)
	}
	root, err := nodetest.Open(shared.NodeTests(t))
	if err != nil {
		t.Fatal(err)
	}
	results, err := nodetest.Run(context.Background(), root, nodetest.Options{Backend: toy.New(), Skip: skip, Jobs: 2})
	if err != nil {
		t.Fatal(err)
	}
	passed := 0
	for _, r := range results {
		switch r.Status {
		case nodetest.Passed:
			passed++
		case nodetest.Failed:
			t.Errorf("%s: %s", r.Name, r.Reason)
		}
	}
	t.Logf("%d of %d pass", passed, len(results))
}
