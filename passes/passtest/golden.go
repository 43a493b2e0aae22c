// Package passtest helps to test passes: by golden cases of graphs before and after a pass, and by comparing the
// answers of two graphs.
//
// It imports ir, passes, and the runtime with its reference interpreter. Inputs depend on their names and shapes only,
// so failures are reproducible.
package passtest

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

// Updating reports whether golden files are to be written (-update).
func Updating() bool { return *update }

// Case holds the options of the golden cases of a pass.
type Case struct {
	// Tol is the maximum difference between the answers before and after, relative to the largest value. 0 means
	// 1e-9.
	Tol float64
	// Dims are the sizes at which answers are compared. Nil means the variable Dims.
	Dims []map[string]int64
	// Show returns the text of the graph after the pass. If it is nil, the text has all constants.
	Show func(g *ir.Graph) string
}

// Golden runs a pass on the graphs in testdata/<pass>/*.txtar. Section "in" is the graph, "out" the graph after the
// pass, "notes" its notes. Both graphs must give the same answers. So must the graph whose weights are parameters;
// testdata/<pass>/parameters.txt lists which operators that leaves on values that vary.
func Golden(t *testing.T, p *passes.Pass, c Case) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", p.Name, "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Errorf("pass %s has no cases in testdata/%s", p.Name, p.Name)
	}
	var lines []string
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		whole := false
		t.Run(p.Name+"/"+name, func(t *testing.T) {
			if line := c.run(t, p, file); line != "" {
				lines = append(lines, name+": "+line)
			}
			whole = true
		})
		if !whole {
			return // -run selects some, or one failed
		}
	}
	settledCases(t, p, lines)
}

// run runs a case, and returns the line of withParameters.
func (c Case) run(t *testing.T, p *passes.Pass, file string) string {
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
	for _, n := range Notes(g) {
		fmt.Fprintln(&notes, n)
	}
	g.History = nil
	tol := c.Tol
	if tol == 0 {
		tol = 1e-9
	}
	Same(t, before, g, tol, c.Dims...)
	line := c.withParameters(t, p, before, g, tol)
	show := c.Show
	if show == nil {
		show = func(g *ir.Graph) string {
			var b bytes.Buffer
			if err := irtext.Print(&b, g, irtext.Options{}); err != nil {
				t.Fatal(err)
			}
			return b.String()
		}
	}
	out := show(g)
	if *update {
		section("out").Data = []byte(out)
		section("notes").Data = notes.Bytes()
		if err := os.WriteFile(file, txtar.Format(a), 0o666); err != nil {
			t.Fatal(err)
		}
		return line
	}
	for name, got := range map[string]string{"out": out, "notes": notes.String()} {
		if want := string(section(name).Data); got != want {
			t.Errorf("%s differs (renew with -update); got:\n%s\nwant:\n%s", name, got, want)
		}
	}
	return line
}

// Orders checks the conditions of passes on their order in a pipeline: each must name a pass of it, and must hold.
func Orders(t *testing.T, all []*passes.Pass) {
	t.Helper()
	named := func(name string) *passes.Pass {
		i := slices.IndexFunc(all, func(p *passes.Pass) bool { return p.Name == name })
		if i < 0 {
			return nil
		}
		return all[i]
	}
	check := func(before, after *passes.Pass, r passes.Reason) {
		if before == nil || after == nil || r.Why == "" {
			t.Errorf("%v names no pass, or no reason", r)
			return
		}
		err := passes.Run(&ir.Graph{Name: "g"}, []*passes.Pass{after, before}, passes.Options{})
		if err == nil || !strings.Contains(err.Error(), r.Why) {
			t.Errorf("%s before %s: got error %v, want one with the reason", after.Name, before.Name, err)
		}
	}
	for _, p := range all {
		for _, r := range p.After {
			check(named(r.Pass), p, r)
		}
		for _, r := range p.Before {
			check(p, named(r.Pass), r)
		}
	}
}

// Verified returns options that verify the whole graph after each pass, not only its changes.
func Verified(t testing.TB) passes.Options {
	return passes.Options{Observe: func(s passes.Snapshot) {
		if err := ir.Verify(s.Graph); s.Failure == nil && err != nil {
			t.Errorf("after pass %s: %v", s.Pass.Name, err)
		}
	}}
}

// Notes returns the notes of passes in the history of a graph.
func Notes(g *ir.Graph) []string {
	var out []string
	for _, e := range g.History {
		out = append(out, e.Notes...)
	}
	return out
}
