package grad_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

var update = flag.Bool("update", false, "write the table of docs/gradients.md")

// table has, for each operator, how its gradients come about, and why some have none.
type table map[string]*row

type row struct{ ways, reasons []string }

func (r table) add(op *ir.Op, way, reason string) {
	if !ops.Newest(op) { // earlier versions have the gradient of their body
		return
	}
	name := op.FullName()
	if r[name] == nil {
		r[name] = &row{}
	}
	note := func(list *[]string, s string) {
		if s != "" && !slices.Contains(*list, s) {
			*list = append(*list, s)
		}
	}
	note(&r[name].ways, way)
	note(&r[name].reasons, reason)
}

// The table is between these lines of the page.
const (
	tableBegin = "<!-- table of operators -->\n"
	tableEnd   = "<!-- end of the table -->\n"
)

func (r table) check(t *testing.T) {
	t.Helper()
	if t.Failed() {
		return
	}
	var b strings.Builder
	b.WriteString("| operator | gradient | none |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(r)) {
		slices.Sort(r[name].ways)
		slices.Sort(r[name].reasons)
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, strings.Join(r[name].ways, ", "), strings.Join(r[name].reasons, "; "))
	}
	page := filepath.Join("..", "..", "docs", "gradients.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), tableBegin)
	found, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatalf("%s: expected the lines %q and %q", page, tableBegin, tableEnd)
	}
	if found == b.String() {
		return
	}
	if !*update {
		t.Fatalf("%s: the table differs from what the operators state; renew it with -update", page)
	}
	if err := os.WriteFile(page, []byte(before+tableBegin+b.String()+tableEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
