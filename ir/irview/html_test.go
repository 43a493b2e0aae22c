package irview

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// page writes a page and reads its data back.
func page(t *testing.T, p Page) (text string, c content) {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, p); err != nil {
		t.Fatal(err)
	}
	text = b.String()
	data := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindStringSubmatch(text)
	if data == nil {
		t.Fatal("the page has no data")
	}
	if err := json.Unmarshal([]byte(data[1]), &c); err != nil {
		t.Fatal(err)
	}
	return text, c
}

// selfContained checks that a page has only its own two scripts, and refers to nothing outside.
func selfContained(t *testing.T, text string) {
	t.Helper()
	if n := strings.Count(text, "<script"); n != 2 {
		t.Errorf("%d scripts, expected the data and the page's own", n)
	}
	rest := strings.ReplaceAll(text, "http://www.w3.org/2000/svg", "")
	rest = strings.ReplaceAll(rest, "url(#tip)", "")
	if m := regexp.MustCompile(`(?i)https?:|@import|url\(|\bsrc=|\bhref=|fetch\(|import\(`).FindString(rest); m != "" {
		t.Errorf("the page refers to the outside: %q", m)
	}
	if !strings.Contains(text, `content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"`) {
		t.Error("the page may load files")
	}
}

// checkDrawing checks that a drawing has every node, input and output of a graph, and an edge for each value that one box
// reads from another, and that no boxes of one graph lie on each other.
func checkDrawing(t *testing.T, c content, d *drawing, g *ir.Graph) {
	t.Helper()
	names := func(out []int) (all []string) {
		for i := 0; i < len(out); i += 2 {
			if out[i] >= 0 {
				all = append(all, c.Strings[out[i]])
			}
		}
		return all
	}
	type box struct {
		record
		x, y, w, h int
	}
	var boxes []box
	from := map[string]int{}
	count := map[int]int{}
	for i := 0; i < len(d.Boxes); i += 5 {
		b := box{c.Records[d.Boxes[i]], d.Boxes[i+1], d.Boxes[i+2], d.Boxes[i+3], d.Boxes[i+4]}
		if b.x < 0 || b.y < 0 || b.x+b.w > d.W+1 || b.y+b.h > d.H+1 {
			t.Errorf("box %d is outside of the drawing: %+v in %d × %d", i/5, b, d.W, d.H)
		}
		count[b.Role]++
		if b.Role == roleNode || b.Role == roleInput {
			for _, v := range names(b.Out) {
				from[v] = len(boxes)
			}
		}
		boxes = append(boxes, b)
	}
	for i, a := range boxes {
		for _, b := range boxes[:i] {
			inside := a.Role == roleGraph || b.Role == roleGraph || a.h > boxHeight || b.h > boxHeight // subgraphs
			if !inside && a.x < b.x+b.w && b.x < a.x+a.w && a.y < b.y+b.h && b.y < a.y+a.h {
				t.Errorf("boxes lie on each other: %+v, %+v", a, b)
			}
		}
	}
	nodes, outputs, inputs := 0, len(g.Outputs), len(g.Inputs)
	drawn := map[[2]int]bool{}
	for _, e := range d.Edges {
		drawn[[2]int{e[0], e[1]}] = true
	}
	missing := 0
	_ = g.Walk(func(_ *ir.Graph, n *ir.Node) error {
		nodes++
		for _, s := range n.Subgraphs() {
			inputs, outputs = inputs+len(s.Inputs), outputs+len(s.Outputs)
		}
		if n.Out(0) == nil {
			return nil
		}
		to := from[n.Out(0).Name]
		for _, v := range n.Inputs {
			if v == nil || v.Const != nil {
				continue
			}
			if i, ok := from[v.Name]; !ok || !drawn[[2]int{i, to}] {
				missing++
			}
		}
		return nil
	})
	if nodes != d.Nodes || count[roleNode] != nodes || count[roleInput] != inputs || count[roleOutput] != outputs {
		t.Errorf("drawn: %v by role, expected %d nodes, %d inputs, %d outputs", count, nodes, inputs, outputs)
	}
	if missing > 0 && count[roleOuter]+count[roleUndefined] == 0 {
		t.Errorf("%d edges are missing", missing)
	}
}

func TestHTML(t *testing.T) {
	p := Page{Title: "sc35 </title><script>x</script>", Columns: columns(t), Setting: "1x8",
		Regions: []Region{{Name: "r", Op: "SSM", Form: "scan", Time: 1500 * time.Nanosecond, Values: []string{"SSM"}}}}
	text, c := page(t, p)
	selfContained(t, text)
	if again, _ := page(t, p); again != text {
		t.Error("two pages of the same graphs differ")
	}
	if len(c.Columns) != 5 || len(c.Drawings) != 3 {
		t.Fatalf("%d columns, %d drawings, expected 5 and 3: fold and raise left the graph as it was", len(c.Columns), len(c.Drawings))
	}
	for i, want := range []string{"9 nodes", "no changes", "no changes", "2 changes; nodes: 2 removed, 2 changed",
		"1 change; nodes: 2 changed"} {
		if got := c.Columns[i].Work; got != want {
			t.Errorf("column %d: %q, expected %q", i, got, want)
		}
	}
	for i, d := range []int{0, 0, 0, 1, 2} {
		if c.Columns[i].Drawing != d {
			t.Errorf("column %d has drawing %d, expected %d", i, c.Columns[i].Drawing, d)
		}
		if i < 4 {
			checkDrawing(t, c, c.Drawings[d], p.Columns[i].Graph)
		}
	}
	if c.Columns[4].Err == "" || len(c.Regions) != 1 || c.Regions[0].MS != 0.0015 || c.Strings[c.Regions[0].Out[0]] != "SSM" {
		t.Errorf("error %q, regions %+v", c.Columns[4].Err, c.Regions)
	}
}

// TestUnseen checks the statement about a pass that counts changes and left the graph as it was.
func TestUnseen(t *testing.T) {
	for _, c := range []struct {
		changes int
		d       difference
		want    string
	}{{0, difference{}, "no changes"}, {99, difference{}, "99 changes that the graph does not show"},
		{0, difference{added: 1}, "nodes: 1 added"}, {1, difference{1, 2, 3}, "1 change; nodes: 1 added, 2 removed, 3 changed"}} {
		if got := statement(c.changes, c.d); got != c.want {
			t.Errorf("%d %v: %q, expected %q", c.changes, c.d, got, c.want)
		}
	}
}

// network is blocks of attention with residual connections, a mask that all of them read, and 20 nodes each.
func network(t testing.TB, blocks int) *ir.Graph {
	t.Helper()
	b := ir.NewBuilder("bert", ops(), map[string]int{"": 24, "essm": 1})
	x := b.Input("x", ir.Tensor(tensor.Float32, "B", "L", 64))
	mask := b.Op("", "Gelu", []*ir.Value{b.Input("mask", ir.Tensor(tensor.Float32, "B", "L", 64))})
	one := func(op string, in ...*ir.Value) *ir.Value { return b.Op("", op, in) }
	for i := range blocks {
		b.Scope(fmt.Sprint("layers.", i))
		w := b.Const("w", tensor.New(tensor.Float32, 64, 64))
		var heads []*ir.Value
		for range 3 {
			heads = append(heads, one("Gelu", one("Add", one("Mul", x, w), w)))
		}
		y := one("Mul", one("Gelu", one("Add", one("Mul", heads[0], heads[1]), mask)), heads[2])
		x = one("Gelu", one("Add", one("Add", one("Mul", y, w), w), x))
		y = one("Add", one("Mul", one("Gelu", one("Add", one("Mul", x, w), w)), w), w)
		x = one("Gelu", one("Add", y, x))
	}
	b.Output("y", x)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestLarge checks the page of a network with 100 blocks: complete, within a second, and of a size that grows with the graph.
func TestLarge(t *testing.T) {
	g := network(t, 100)
	start := time.Now()
	text, c := page(t, Page{Title: "x", Columns: []Column{{Name: "as written", Graph: g}}})
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("%d nodes took %v", len(g.Nodes), d)
	}
	checkDrawing(t, c, c.Drawings[0], g)
	if per := len(text) / len(g.Nodes); len(g.Nodes) < 2000 || per > 250 {
		t.Errorf("%d bytes for each of %d nodes", per, len(g.Nodes))
	}
	if len(c.Drawings[0].Scopes) < 5*99 { // the mask is beside the first one
		t.Errorf("%d frames of layers, expected 99", len(c.Drawings[0].Scopes)/5)
	}
	// The trunk is straight: blocks do not move aside.
	var x []int
	for i := 0; i < len(c.Drawings[0].Boxes); i += 5 {
		if b := c.Drawings[0].Boxes[i:]; c.Strings[c.Records[b[0]].Op] == "Gelu" {
			x = append(x, b[1])
		}
	}
	if width := slices.Max(x) - slices.Min(x); width > 2500 {
		t.Errorf("the trunk is %d wide", width)
	}
}

// TestTooLarge checks that a graph that cannot be drawn is said to be so.
func TestTooLarge(t *testing.T) {
	g := network(t, 1)
	n := g.Nodes[0]
	for range maxDrawn {
		g.Nodes = append(g.Nodes, n)
	}
	_, c := page(t, Page{Columns: []Column{{Name: "x", Graph: g}}})
	if c.Columns[0].Drawing >= 0 || len(c.Columns[0].Notes) != 1 {
		t.Errorf("found %+v", c.Columns[0])
	}
}

func FuzzHTML(f *testing.F) {
	f.Add("x", "</pre><script>", "\x00\xff\u0085")
	f.Add(`" onmouseover="x`, "<!--", "'&#39;")
	f.Fuzz(func(t *testing.T, value, note, doc string) {
		v := &ir.Value{Name: value, Type: ir.Tensor(tensor.Float32, ir.Sym(doc))}
		n := &ir.Node{Op: &ir.Op{Name: note, Domain: doc}, Name: value, Scope: note, Inputs: []*ir.Value{v},
			Attrs: ir.Attrs{{Name: doc, Value: note}}}
		n.Outputs = []*ir.Value{{Name: note, Def: n}}
		n.Inputs = append(n.Inputs, n.Outputs...) // it depends on itself
		g := &ir.Graph{Name: doc, Inputs: []*ir.Value{v}, Nodes: []*ir.Node{n}, Outputs: n.Outputs}
		text, _ := page(t, Page{Title: doc, Columns: []Column{{Name: note, Graph: g, Notes: []string{value}, Err: doc}}})
		if n := strings.Count(strings.ToLower(text), "<script"); n != 2 {
			t.Errorf("%d scripts", n)
		}
		var b bytes.Buffer
		if err := DOT(&b, g); err != nil {
			t.Fatal(err)
		}
	})
}
