package irtext

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

var update = flag.Bool("update", false, "rewrite golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (renew it with -update); got\n%s", name, got)
	}
}

func TestGolden(t *testing.T) {
	golden(t, "sample.txt", String(sample()))
	golden(t, "sample.view.txt", ViewString(sample()))
}

func TestPrintRefuses(t *testing.T) {
	one := func(v *ir.Value) *ir.Graph { return &ir.Graph{Name: "g", Inputs: []*ir.Value{v}} }
	for want, g := range map[string]*ir.Graph{
		"there is none":     one(&ir.Value{Name: "x"}),
		"no name":           one(&ir.Value{Type: ir.Tensor(tensor.Float32)}),
		"cannot be written": one(&ir.Value{Name: "x", Type: ir.Tensor(tensor.Float32, ir.Sym("a-b"))}),
		"element type":      one(&ir.Value{Name: "x", Type: ir.Tensor(tensor.Invalid)}),
		"has no value":      one(nil),
		"no operator":       {Name: "g", Nodes: []*ir.Node{{}}},
		"has a value of type": {Name: "g",
			Nodes: []*ir.Node{{Op: testOps()["/Same"], Attrs: ir.Attrs{{Name: "int", Value: 3}}}}},
		"has no graph": {Name: "g",
			Nodes: []*ir.Node{{Op: testOps()["/Same"], Attrs: ir.Attrs{{Name: "graph", Value: (*ir.Graph)(nil)}}}}},
		`"tensor" has no tens`: {Name: "g",
			Nodes: []*ir.Node{{Op: testOps()["/Same"], Attrs: ir.Attrs{{Name: "tensor", Value: (*tensor.Tensor)(nil)}}}}},
	} {
		err := Print(&bytes.Buffer{}, g, Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("expected an error with %q, found %v", want, err)
		}
		if !strings.HasPrefix(String(g), "# print graph g: ") {
			t.Errorf("String of a graph without text gives %q", String(g))
		}
		ViewString(g) // must do with it
	}
}

// A symbol that reads as a number would change its meaning.
func TestPrintSymbolLikeNumber(t *testing.T) {
	g := &ir.Graph{Name: "g", Inputs: []*ir.Value{{Name: "x", Type: ir.Tensor(tensor.Float32, ir.Sym("5"))}}}
	if err := Print(&bytes.Buffer{}, g, Options{}); err == nil {
		t.Error("a symbol named 5 was printed")
	}
}

// Constants are printed in the innermost graph around their readers.
func TestConstantsInInnermostGraph(t *testing.T) {
	shared, own := ir.NewConst("shared", tensor.Scalar(int64(1))), ir.NewConst("own", tensor.Scalar(int64(2)))
	op := testOps()["/Same"]
	sub := func(name string, in ...*ir.Value) *ir.Graph {
		g := &ir.Graph{Name: name}
		for _, v := range in {
			n := &ir.Node{Op: op, Inputs: []*ir.Value{v}}
			n.Outputs = []*ir.Value{{Name: name + "_" + v.Name, Type: v.Type, Def: n}}
			g.Nodes = append(g.Nodes, n)
		}
		return g
	}
	a, b := sub("a", shared, own), sub("b", shared)
	g := &ir.Graph{Name: "g", Nodes: []*ir.Node{{Op: op, Attrs: ir.NewAttrs(ir.A("graphs", []*ir.Graph{a, b}))}}}
	h := homes(g)
	if len(h[g]) != 1 || h[g][0] != shared || len(h[a]) != 1 || h[a][0] != own || len(h[b]) != 0 {
		t.Errorf("homes: %v", h)
	}
}
