package irview

import (
	"bytes"
	"encoding/xml"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	make := func(fused bool, layers int) *ir.Graph {
		b := ir.NewBuilder("essm", ops(), map[string]int{"": 24, "essm": 1})
		x := b.Input("x", ir.Tensor(tensor.Float32, "B", "L", 64))
		for i := range layers {
			b.Scope("layers." + string(rune('0'+i)))
			w := b.Const("w", tensor.New(tensor.Float32, 64, 64))
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
	return []Column{
		{Name: "read", Graph: make(false, 2), Notes: []string{"from model directory sc35"}},
		{Name: "fold", Graph: make(false, 2)},
		{Name: "raise", Graph: make(false, 2), Notes: []string{"no state-space layer in primitive operators"}},
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

func TestHTML(t *testing.T) {
	var b bytes.Buffer
	if err := HTML(&b, "sc35 </title><script>x</script>", columns(t)); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	golden(t, "page.html", page)
	if n := strings.Count(page, "<script"); n != 1 {
		t.Errorf("%d scripts, expected the page's own", n)
	}
	if n := strings.Count(page, "<section>"); n != 3 {
		t.Errorf("%d columns, expected 3: fold and raise left the graph as it was", n)
	}
	if m := regexp.MustCompile(`(?i)(https?:)?//[a-z]|@import|url\(|\bsrc=|\bhref=`).FindString(page); m != "" {
		t.Errorf("the page refers to the outside: %q", m)
	}
	wellFormed(t, page)
}

// wellFormed reads the body's markup as strictly as XML, in which nothing unescaped survives.
func wellFormed(t *testing.T, page string) {
	t.Helper()
	i, j := strings.Index(page, "<body>"), strings.Index(page, "<script>")
	d := xml.NewDecoder(strings.NewReader(page[i:j] + "</body>"))
	d.Entity = xml.HTMLEntity
	known := regexp.MustCompile(`^(body|header|main|section|h1|h2|p|button|small|div|ul|li|pre|s|ins|i|b)$`)
	for {
		tok, err := d.Token()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatalf("markup: %v", err)
		}
		if e, ok := tok.(xml.StartElement); ok && !known.MatchString(e.Name.Local) {
			t.Errorf("element %s is not the page's own", e.Name.Local)
		}
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("x", "</pre><script>", "\x00\xff\u0085")
	f.Add(`" onmouseover="x`, "<!--", "'&#39;")
	f.Fuzz(func(t *testing.T, value, note, doc string) {
		v := &ir.Value{Name: value, Type: ir.Tensor(tensor.Float32, ir.Sym(doc))}
		n := &ir.Node{Op: &ir.Op{Name: note, Domain: doc}, Name: value, Scope: note, Inputs: []*ir.Value{v},
			Attrs: ir.Attrs{{Name: doc, Value: note}}}
		n.Outputs = []*ir.Value{{Name: note, Def: n}}
		g := &ir.Graph{Name: doc, Inputs: []*ir.Value{v}, Nodes: []*ir.Node{n}, Outputs: n.Outputs}
		var b bytes.Buffer
		if err := HTML(&b, doc, []Column{{Name: note, Graph: g, Notes: []string{value}, Err: doc}}); err != nil {
			t.Fatal(err)
		}
		wellFormed(t, b.String())
		if err := DOT(&b, g); err != nil {
			t.Fatal(err)
		}
	})
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
