package std

import (
	"bufio"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// TestVersions compares the registry with the standard's own list: each version of each operator is registered, with
// the right inputs, attributes and defaults.
func TestVersions(t *testing.T) {
	f, err := os.Open("testdata/versions.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows := 0
	for s := bufio.NewScanner(f); s.Scan(); {
		w := strings.Fields(s.Text())
		if len(w) < 7 || w[0] == "#" {
			continue
		}
		rows++
		name, version := w[0], atoi(t, w[1])
		op := ops.Default.Resolve("", name, version)
		if op == nil {
			if slices.Contains(w, "deprecated") {
				continue
			}
			t.Errorf("%s %d is not in the registry", name, version)
			continue
		}
		complain := func(format string, args ...any) {
			t.Helper()
			t.Errorf("%s %d (here since %d): "+format, append([]any{name, version, op.Since}, args...)...)
		}
		least := 0
		for _, p := range op.In {
			if !p.Optional {
				least++
			}
		}
		if want := atoi(t, w[3]); least > want {
			complain("needs %d inputs, expected at most %d", least, want)
		}
		if most, any := atLeast(op.In); !any && (w[4] == "*" || most < atoi(t, w[4])) {
			complain("takes %d inputs, expected %s", most, w[4])
		}
		if most, any := atLeast(op.Out); !any && (w[6] == "*" || most < atoi(t, w[6])) {
			complain("gives %d outputs, expected %s", most, w[6])
		}
		for _, a := range w[7:] {
			if a == "deprecated" {
				continue
			}
			a, def, hasDef := strings.Cut(a, "=")
			a, required := strings.CutSuffix(a, "!")
			attr, kind, _ := strings.Cut(a, ":")
			i := slices.IndexFunc(op.Attrs, func(s ir.AttrSpec) bool { return s.Name == attr })
			if i < 0 {
				complain("has no attribute %s", attr)
				continue
			}
			spec := op.Attrs[i]
			if deviations[name+" "+w[1]+" "+attr] != "" {
				continue
			}
			if kind := strings.TrimSuffix(strings.TrimPrefix(kind, "sparse_"), "_proto"); string(spec.Kind) != kind {
				complain("attribute %s is of kind %s, expected %s", attr, spec.Kind, kind)
			}
			if spec.Required && !required {
				complain("attribute %s is required", attr)
			}
			if hasDef && !sameDefault(spec, def) {
				complain("attribute %s: default %v, expected %s", attr, spec.Default, def)
			}
		}
	}
	if rows < 600 {
		t.Errorf("only %d rows", rows)
	}
}

// deviations holds the differences from the list, with their reasons.
var deviations = map[string]string{
	"GRU 1 direction":       "the default is a misprint there: foward",
	"LpPool 1 kernel_shape": "without a kernel a pool means nothing",
}

func atoi(t *testing.T, s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// atLeast returns the number of parameters, and whether the last one is variadic.
func atLeast(p []ir.Param) (n int, any bool) {
	return len(p), len(p) > 0 && p[len(p)-1].Variadic
}

// sameDefault compares a default with its text. An absent default counts as zero.
func sameDefault(s ir.AttrSpec, want string) bool {
	switch s.Kind {
	case ir.AttrInt:
		k, err := strconv.ParseInt(want, 10, 64)
		d, _ := s.Default.(int64)
		return err == nil && d == k
	case ir.AttrFloat:
		x, err := strconv.ParseFloat(want, 64)
		d, _ := s.Default.(float64)
		return err == nil && math.Abs(d-x) <= 1e-6*math.Abs(x)
	case ir.AttrString:
		d, _ := s.Default.(string)
		return d == want
	}
	return true
}

// TestSame checks records that stand for several versions: each resolves, with the listed meaning.
func TestSame(t *testing.T) {
	for name, versions := range map[string][]int{"Cast": {6, 9, 13, 19, 21, 23, 24, 25}, "Relu": {1, 6, 13, 14, 24},
		"Squeeze": {13, 21, 24}} {
		newest := ops.Default.Resolve("", name, 26)
		for _, v := range versions {
			op := ops.Default.Resolve("", name, v)
			if op == nil || op.Since > v || ops.Current(op) != newest || !ops.Newest(op) {
				t.Errorf("%s %d: %v", name, v, op)
			}
		}
	}
	if op := ops.Default.Resolve("", "Squeeze", 11); ops.Newest(op) {
		t.Errorf("Squeeze 11 counts as the newest")
	}
}

// TestUpgrade upgrades samples of earlier versions. Answers must stay, and no earlier version may be left.
func TestUpgrade(t *testing.T) {
	upgraded := 0
	eachSample(t, func(t *testing.T, op *ir.Op, s sample) {
		if op.Body == nil || ops.Newest(op) || op.Random {
			return
		}
		upgraded++
		n := plainNode(t, op, s)
		g := &ir.Graph{Name: "old", Nodes: []*ir.Node{n}, Opsets: map[string]int{"": op.Since}}
		var in []tensor.Datum
		for i, v := range n.Inputs {
			if v != nil && v.Const == nil {
				g.Inputs, in = append(g.Inputs, v), append(in, s.In[i])
			}
		}
		g.Outputs = append(g.Outputs, n.Outputs...)
		c := &ir.EvalCtx{}
		want, err := interpret(c, g, in)
		if err != nil {
			t.Fatal(err)
		}
		if err := ops.Upgrade(g); err != nil {
			t.Fatal(err)
		}
		for _, n := range g.Nodes {
			if !ops.Newest(n.Op) {
				t.Errorf("%v is still of version %d", n, n.Op.Since)
			}
		}
		if err := ir.Verify(g); err != nil {
			t.Fatal(err)
		}
		got, err := interpret(c, g, in)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if err := near(got[i], want[i], 1e-6, 1e-6); err != nil {
				t.Errorf("output %d: %v", i, err)
			}
		}
	})
	if upgraded == 0 {
		t.Error("no sample is of an earlier version")
	}
}

// TestUpgradeGraph upgrades nodes in subgraphs, an operator that occurs twice, and one whose result is an output of the
// graph.
func TestUpgradeGraph(t *testing.T) {
	opsets := map[string]int{"": 11}
	b := ir.NewBuilder("old", ops.Default, opsets)
	x, yes := b.Input("x", ir.Tensor(tensor.Float32, 1, "N", 1)), b.Input("yes", ir.Tensor(tensor.Bool))
	squeeze := func(b *ir.Builder, v *ir.Value) *ir.Value {
		return b.Op("", "Squeeze", []*ir.Value{v}, ir.A("axes", []int64{0}))
	}
	branch := func(name string, out *ir.Value, build func(b *ir.Builder, v *ir.Value) *ir.Value) *ir.Graph {
		s := b.Sub(name)
		s.Output(name+".y", build(s, out))
		g, err := s.Build()
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	v := squeeze(b, x)
	twice := branch("then", v, func(b *ir.Builder, v *ir.Value) *ir.Value {
		return b.Op("", "Softmax", []*ir.Value{b.Op("", "ReduceSum", []*ir.Value{v}, ir.A("axes", []int64{0}))})
	})
	once := branch("else", v, func(b *ir.Builder, v *ir.Value) *ir.Value {
		return b.Op("", "ReduceMax", []*ir.Value{v}, ir.A("axes", []int64{0}))
	})
	b.Output("y", b.Op("", "If", []*ir.Value{yes}, ir.A("then_branch", twice), ir.A("else_branch", once)))
	b.Output("z", squeeze(b, x))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	run := func(yes bool) []tensor.Datum {
		out, err := interpret(&ir.EvalCtx{}, g, []tensor.Datum{f32s([]int{1, 3, 1}, 1, 5, 2), tensor.Scalar(yes)})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	before := [][]tensor.Datum{run(true), run(false)}
	if err := ops.Upgrade(g); err != nil {
		t.Fatal(err)
	}
	if err := ir.Verify(g); err != nil {
		t.Fatal(err)
	}
	if g.Opsets[""] != ops.Opsets()[""] {
		t.Errorf("opset %d", g.Opsets[""])
	}
	if err := g.Walk(func(_ *ir.Graph, n *ir.Node) error {
		if !ops.Newest(n.Op) {
			t.Errorf("%v is still of version %d", n, n.Op.Since)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for i, after := range [][]tensor.Datum{run(true), run(false)} {
		for j := range after {
			if err := near(after[j], before[i][j], 0, 0); err != nil {
				t.Errorf("output %d: %v", j, err)
			}
		}
	}
}
