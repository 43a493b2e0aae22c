package passtest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/passes"
)

// Promote makes the constants of g that are weights into parameters: floating point numbers, more than one of them. It
// returns their number.
func Promote(g *ir.Graph) int {
	for _, v := range g.Constants() {
		if v.Elem().IsFloat() && v.Const.Len() > 1 && !slices.Contains(g.Outputs, v) {
			v.Init, v.Const = v.Const, nil
			g.Parameters = append(g.Parameters, v)
		}
	}
	return len(g.Parameters)
}

// Varying counts the operators of a graph, except those that compute constant or settled values.
func Varying(g *ir.Graph) map[string]int {
	settled, count := passes.SettledOf(nil, g), map[string]int{}
	constant := map[*ir.Value]bool{nil: true} // if there are no parameters
	for _, n := range g.Nodes {
		if !slices.ContainsFunc(n.Inputs, func(v *ir.Value) bool { return !constant[v] && v.Const == nil }) {
			for _, v := range n.Outputs {
				constant[v] = true
			}
			continue
		}
		if !slices.ContainsFunc(n.Outputs, func(v *ir.Value) bool { return v != nil && settled[v] }) {
			count[n.Op.FullName()]++
		}
	}
	return count
}

// Differences lists the operators of which two graphs have different numbers: "Add 2 in place of 1".
func Differences(got, want map[string]int) string {
	var list []string
	for _, op := range slices.Sorted(maps.Keys(union(got, want))) {
		if got[op] != want[op] {
			list = append(list, fmt.Sprintf("%s %d in place of %d", op, got[op], want[op]))
		}
	}
	return strings.Join(list, ", ")
}

func union(a, b map[string]int) map[string]int {
	u := maps.Clone(a)
	maps.Copy(u, b)
	return u
}

// withParameters runs a pass on a graph whose weights are parameters. The answers must be those of the graph before. It
// returns what remains on values that vary, compared with the pass's result for constants; "" if there are no weights.
func (c Case) withParameters(t *testing.T, p *passes.Pass, before, after *ir.Graph, tol float64) string {
	g := before.Clone()
	if Promote(g) == 0 {
		return ""
	}
	if err := passes.Run(g, []*passes.Pass{p}, passes.Options{}); err != nil {
		t.Errorf("with parameters: %v", err)
		return ""
	}
	Same(t, before, g, tol, c.Dims...)
	if d := Differences(Varying(g), Varying(after)); d != "" {
		return d
	}
	return "the same"
}

// settledCases compares what the cases of a pass leave with weights as parameters, one line for each, with a golden
// file.
func settledCases(t *testing.T, p *passes.Pass, lines []string) {
	t.Helper()
	file := filepath.Join("testdata", p.Name, "parameters.txt")
	got := strings.Join(lines, "\n") + "\n"
	if *update && len(lines) > 0 {
		if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if len(lines) == 0 && os.IsNotExist(err) {
		return
	}
	if string(want) != got {
		t.Errorf("%s differs (renew with -update); got:\n%swant:\n%s", file, got, want)
	}
}
