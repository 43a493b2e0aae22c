package raise_test

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

	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise"
)

// TestConvForms runs the passes for convolutions on the graphs in testdata/<pass>/*.txtar: section "in" is the graph, "out"
// the operators that the pass leaves, in order, with the types of what they give (numbers that were fitted are not the same
// to the last digit everywhere), "notes" what it says. Both graphs give the same answers.
func TestConvForms(t *testing.T) {
	for _, p := range []*passes.Pass{raise.Shapes, raise.Conv, raise.DFT, raise.Toeplitz} {
		files, err := filepath.Glob(filepath.Join("testdata", p.Name, "*.txtar"))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) == 0 {
			t.Errorf("pass %s has no cases in testdata/%s", p.Name, p.Name)
		}
		for _, file := range files {
			t.Run(p.Name+"/"+strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { convForm(t, p, file) })
		}
	}
}

func convForm(t *testing.T, p *passes.Pass, file string) {
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
	agree(t, before, g, 2e-6, map[string]int64{"B": 2, "L": 50})
	var out, said bytes.Buffer
	for _, n := range g.Nodes {
		fmt.Fprintf(&out, "%s %v\n", n.Op.FullName(), n.Outputs[0].Type)
	}
	for _, n := range notes(g) {
		fmt.Fprintln(&said, n)
	}
	if flag.Lookup("update").Value.String() == "true" {
		section("out").Data = out.Bytes()
		section("notes").Data = said.Bytes()
		if err := os.WriteFile(file, txtar.Format(a), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	for name, got := range map[string][]byte{"out": out.Bytes(), "notes": said.Bytes()} {
		if want := section(name).Data; !bytes.Equal(got, want) {
			t.Errorf("%s differs (renew with -update); got:\n%s\nwant:\n%s", name, got, want)
		}
	}
}
