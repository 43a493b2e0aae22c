package passes_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
)

var update = flag.Bool("update", false, "write the results that the tests got into testdata")

// TestGolden runs each pass on the graphs in testdata/<pass>/*.txtar: section "in" is the graph, "out" what the pass makes
// of it, "notes" what it says.
func TestGolden(t *testing.T) {
	for _, p := range passes.Pipeline() {
		files, err := filepath.Glob(filepath.Join("testdata", p.Name, "*.txtar"))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) == 0 {
			t.Errorf("pass %s has no cases in testdata/%s", p.Name, p.Name)
		}
		for _, file := range files {
			t.Run(p.Name+"/"+strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { golden(t, p, file) })
		}
	}
}

func golden(t *testing.T, p *passes.Pass, file string) {
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	section := func(name string) *txtar.File {
		i := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == name })
		if i < 0 {
			a.Files = append(a.Files, txtar.File{Name: name})
			i = len(a.Files) - 1
		}
		return &a.Files[i]
	}
	g, err := irtext.Parse(section("in").Data, file, ops.Default, irtext.Options{})
	if err != nil {
		t.Fatal(err)
	}
	before := g.Clone()
	if err := passes.Run(g, []*passes.Pass{p}, passes.Options{}); err != nil {
		t.Fatal(err)
	}
	var notes bytes.Buffer
	for _, e := range g.History {
		for _, n := range e.Notes {
			fmt.Fprintln(&notes, n)
		}
	}
	g.History = nil
	var out bytes.Buffer
	if err := irtext.Print(&out, g, irtext.Options{}); err != nil {
		t.Fatal(err)
	}
	same(t, before, g)
	if *update {
		section("out").Data = out.Bytes()
		section("notes").Data = notes.Bytes()
		if err := os.WriteFile(file, txtar.Format(a), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	for name, got := range map[string][]byte{"out": out.Bytes(), "notes": notes.Bytes()} {
		if want := section(name).Data; !bytes.Equal(got, want) {
			t.Errorf("%s differs (renew with -update); got:\n%s\nwant:\n%s", name, got, want)
		}
	}
}

func TestOrder(t *testing.T) {
	all := passes.Pipeline()
	byName := map[string]*passes.Pass{}
	for _, p := range all {
		if byName[p.Name] != nil {
			t.Errorf("two passes are named %s", p.Name)
		}
		byName[p.Name] = p
	}
	for _, o := range passes.Orders() {
		before, after := byName[o.Before], byName[o.After]
		if before == nil || after == nil || o.Why == "" {
			t.Errorf("order %v names no pass, or no reason", o)
			continue
		}
		err := passes.Run(&ir.Graph{Name: "g"}, []*passes.Pass{after, before}, passes.Options{})
		if err == nil || !strings.Contains(err.Error(), o.Why) {
			t.Errorf("%s before %s: got error %v, want one with the reason", o.After, o.Before, err)
		}
	}
	if err := passes.Run(&ir.Graph{Name: "g"}, all, passes.Options{}); err != nil {
		t.Errorf("the pipeline breaks its own order: %v", err)
	}
	if err := passes.Run(&ir.Graph{Name: "g"}, all, passes.Options{StopAfter: "fuze"}); err == nil || !strings.Contains(err.Error(), "fold") {
		t.Errorf("unknown pass: got %v, want an error that lists the passes", err)
	}
}

// TestObserve checks that observers see every pass, and one that fails.
func TestObserve(t *testing.T) {
	var seen []string
	bad := &passes.Pass{Name: "bad", Run: func(_ *passes.Context, g *ir.Graph) (int, error) {
		g.Outputs = append(g.Outputs, nil)
		return 1, nil
	}}
	err := passes.Run(&ir.Graph{Name: "g"}, []*passes.Pass{passes.Fold, bad, passes.DCE}, passes.Options{Observe: func(s passes.Snapshot) {
		name := "start"
		if s.Pass != nil {
			name = s.Pass.Name
		}
		if s.Failure != nil {
			name += "!"
		}
		seen = append(seen, name)
	}})
	if err == nil || !strings.Contains(err.Error(), "pass 2 bad (after fold)") {
		t.Errorf("got error %v, want one that names the pass and its place", err)
	}
	if want := []string{"start", "fold", "bad!"}; !slices.Equal(seen, want) {
		t.Errorf("observer saw %v, want %v", seen, want)
	}
}
