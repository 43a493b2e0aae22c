package irview

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

var update = flag.Bool("update", false, "rewrite golden files")

type resolver map[string]*ir.Op

func (r resolver) Resolve(domain, name string, _ int) *ir.Op { return r[domain+"/"+name] }

func ops() resolver {
	any := []ir.Param{{Name: "x", Elem: "T", Optional: true, Variadic: true}}
	same := func(n *ir.Node) ([]ir.Type, error) { return []ir.Type{n.Inputs[0].Type}, nil }
	r := resolver{}
	for _, name := range []string{"/Mul", "/Add", "/Gelu", "essm/SSM", "/If", "/<b>&"} {
		domain, op, _ := strings.Cut(name, "/")
		r[name] = &ir.Op{Domain: domain, Name: op, Since: 1, In: any, Out: any, Infer: same,
			Attrs: []ir.AttrSpec{{Name: "bidirectional", Kind: ir.AttrInt}, {Name: "then_branch", Kind: ir.AttrGraph},
				{Name: "mode", Kind: ir.AttrString}}}
	}
	return r
}

// columns shows what passes would do: nothing, something, an error.
func columns(t *testing.T) []Column {
	t.Helper()
	weights := tensor.New(tensor.Float32, 64, 64)
	make := func(fused bool, layers int) *ir.Graph {
		b := ir.NewBuilder("essm", ops(), map[string]int{"": 24, "essm": 1})
		x := b.Input("x", ir.Tensor(tensor.Float32, "B", "L", 64))
		for i := range layers {
			b.Scope("layers." + string(rune('0'+i)))
			w := b.Const("w", weights)
			r := x
			x = b.Op("essm", "SSM", []*ir.Value{x, w}, ir.A("bidirectional", 1))
			if !fused {
				x = b.Op("", "Mul", []*ir.Value{x, b.Const("two", tensor.Scalar(float32(2)))})
			}
			x = b.Op("", "Add", []*ir.Value{
				b.Op("", "Gelu", []*ir.Value{x}, ir.A("mode", "<script>alert('\"&')</script>")), r})
		}
		s := b.Sub("then")
		s.Output("t", s.Op("", "<b>&", []*ir.Value{x}))
		sub, err := s.Build()
		if err != nil {
			t.Fatal(err)
		}
		b.Output("y", b.Op("", "If", []*ir.Value{x}, ir.A("then_branch", sub)))
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	broken := make(true, 2)
	broken.Nodes[1].Op, broken.Nodes[0].Outputs[0].Type = nil, nil
	read := make(false, 2)
	return []Column{
		{Name: "read", Graph: read, Notes: []string{"from model directory sc35"}},
		{Name: "fold", Graph: read.Clone()},
		{Name: "raise", Graph: read.Clone(), Notes: []string{"no state-space layer in primitive operators"}},
		{Name: "discretize", Graph: make(true, 2), Changes: 2,
			Notes: []string{"layers.0: zoh, 64 states", "warning: layers.1: |λ̄| > 1 at state 3, runs as a scan only"}},
		{Name: "fuse <b>", Graph: broken, Changes: 1,
			Err: "pass 3 fuse (after discretize): node 1 Mul: expected & <found>"},
	}
}

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

func TestDOT(t *testing.T) {
	for i, name := range map[int]string{0: "graph.dot", 4: "broken.dot"} {
		var b bytes.Buffer
		if err := DOT(&b, columns(t)[i].Graph); err != nil {
			t.Fatal(err)
		}
		golden(t, name, b.String())
		dot, err := exec.LookPath("dot")
		if err != nil {
			t.Logf("Graphviz is not installed: %s is not read by it", name)
			continue
		}
		cmd := exec.Command(dot, "-Tsvg", "-o", os.DevNull)
		cmd.Stdin = &b
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: dot: %v: %s", name, err, out)
		}
	}
}

// TestParameters: boxes name the parameters that they read, apart from constants, and outputs the parameters that they
// update. A parameter has no box of its own.
func TestParameters(t *testing.T) {
	b := ir.NewBuilder("g", ops(), map[string]int{"": 24})
	x := b.Input("x", ir.Tensor(tensor.Float32, 2))
	w := b.Parameter("w", tensor.FromSlice([]float32{1, 2}, 2))
	y := b.Op("", "Mul", []*ir.Value{x, w})
	b.Output("y", y)
	b.Update(w, y)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	var dot, page bytes.Buffer
	if err := DOT(&dot, g); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"Mul\nparameter w: float[2]"`, `"y\nupdates w"`} {
		if !strings.Contains(dot.String(), want) {
			t.Errorf("no %s in\n%s", want, dot.String())
		}
	}
	if err := HTML(&page, Page{Columns: []Column{{Name: "read", Graph: g}}}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(page.String(), "parameter w: float[2]") {
		t.Error("the page does not name the parameter")
	}
	if strings.Contains(dot.String(), "undefined") {
		t.Errorf("the parameter is undefined in\n%s", dot.String())
	}
}
