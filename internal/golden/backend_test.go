package golden

import (
	"context"
	goruntime "runtime"
	"testing"

	"github.com/essmc/essmc/frontend/onnx/nodetest"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/internal/shared"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
)

const countsComment = `How the nodes of the cases run: operator, types other than float32, the way, and how many. The words are those of
cpu.Implementation. Written by go test ./internal/golden -update.

`

// The seeded cases of the suite for backends: how their nodes run, and their answers.
func TestSeeded(t *testing.T) {
	r := newRecorder()
	suites := []string{"cases", "ops", "networks", "sequences"}
	ways := map[string]counts{}
	for _, s := range suites {
		ways[s] = counts{}
	}
	var a answers
	backendtest.Seeded(t, 12, func(c backendtest.Case) bool {
		r.take()
		outs, err := answer(c.Graph, runtime.Options{Backend: r, Kernel: c.Kernel, Threads: 2}, c.In...)
		if err != nil {
			if c.Suite != "ops" {
				t.Errorf("%s %s: %v", c.Suite, c.Name, err)
			}
			return false
		}
		ways[c.Suite].add(r.take())
		a.add(c.Suite+" "+c.Name, outs...)
		return true
	})
	var s sections
	for _, name := range suites {
		s.add(name, ways[name].String())
	}
	hold(t, "ways-backendtest.txt", countsComment, s, whole)
	if goruntime.GOARCH == "amd64" {
		holdAnswers(t, "answers-backendtest.txt", &a)
	}
}

// onnxPipeline is what the command runs on ONNX files.
func onnxPipeline(g *ir.Graph) error {
	return passes.Run(g, open.Pipeline(), passes.Options{})
}

// The standard's node tests: how their nodes run behind all passes.
func TestNodeTests(t *testing.T) {
	skip, err := nodetest.Skips()
	if err != nil {
		t.Fatal(err)
	}
	var s sections
	root, err := nodetest.Open(shared.Path(t, "onnx", shared.NodeArchiveName))
	if err != nil {
		t.Fatal(err)
	}
	r := newRecorder()
	results, err := nodetest.Run(context.Background(), root,
		nodetest.Options{Backend: r, Prepare: onnxPipeline, Skip: skip, Jobs: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range results {
		if x.Status == nodetest.Failed {
			t.Errorf("%s: %s", x.Name, x.Reason)
		}
	}
	c := counts{}
	c.add(r.take())
	s.add("node tests", c.String())
	hold(t, "ways-nodetests.txt", countsComment, s, whole)
}
