package hostile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/internal/race"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ops"
)

// Graphs in which one node of an operator with any number of inputs or outputs has n of them.
func init() {
	again := func(n int, what string) string { return strings.TrimSuffix(strings.Repeat(what+", ", n), ", ") }
	for _, op := range []string{"Max", "Min", "Mean"} {
		wide[op] = func(n int) string { return graph("float[N, 4] y", "y = "+op+"("+again(n, "x")+")") }
	}
	wide["Concat"] = func(n int) string { return graph("y", "y = Concat <axis = 0> ("+again(n, "x")+")") }
	wide["SequenceConstruct"] = func(n int) string {
		return graph("y", "s = SequenceConstruct("+again(n, "x")+")", "y = ConcatFromSequence <axis = 0> (s)")
	}
	wide["SequenceMap"] = func(n int) string {
		return graph("y", "s = SequenceConstruct(x, x)", "m = SequenceMap <body = b (float[N, 4] e, "+list(n, "float[4] p%d")+
			") => (float[N, 4] q) { q = Add(e, p1) }> (s, "+again(n, "f")+")", "y = ConcatFromSequence <axis = 0> (m)")
	}
	wide["Einsum"] = func(n int) string {
		return graph("float[N, 4] y", "y = Einsum <equation = \""+strings.TrimSuffix(strings.Repeat("ij,", n), ",")+"->ij\"> ("+again(n, "x")+")")
	}
	wide["Scan"] = func(n int) string {
		return graph("float[4] y", list(n, "r%d")+", z = Scan <num_scan_inputs = 1, body = b ("+list(n, "float[4] p%d")+", float[4] e) => ("+
			list(n, "float[4] q%d")+", float[4] g) {"+lines(n, "q%d = Add(p%d, e)")+"g = Neg(e) }> ("+again(n, "f")+", x)", "y = Add(r1, r2)")
	}
	wide["FeatureVectorizer"] = func(n int) string {
		return withDomain("ai.onnx.ml", 5, graph("float[N, K] y", "y = ai.onnx.ml.FeatureVectorizer("+again(n, "x")+")"))
	}
	wide["QLinearConcat"] = func(n int) string {
		return withDomain("com.microsoft", 1, graph("y", "s = Constant <value = float {0.1}> ()", "z = Constant <value = uint8 {3}> ()",
			"b = QuantizeLinear(x, s, z)", "q = com.microsoft.QLinearConcat <axis = 0> (s, z, "+again(n/3, "b, s, z")+")", "y = DequantizeLinear(q, s, z)"))
	}
	wide["Momentum"] = func(n int) string {
		return withDomain("ai.onnx.preview.training", 1, graph("float[N, 4] y", "r = Constant <value = float {0.1}> ()", "t = Constant <value = int64 {1}> ()",
			list(n/3*2, "m%d")+" = ai.onnx.preview.training.Momentum <alpha = 0.9, beta = 0.1, norm_coefficient = 0.0, mode = \"standard\"> (r, t, "+
				again(n/3*3, "x")+")", "y = Add(m1, m2)"))
	}
	wide["Split of opset 11"] = func(n int) string {
		return strings.Replace(graph("y", fmt.Sprintf("e = Constant <value = int64[2] {%d, 4}> ()", n), "q = Expand(x, e)",
			list(n, "o%d")+" = Split <axis = 0> (q)", "y = Add(o1, o2)"), `"" : 22`, `"" : 11`, 1)
	}
	wide["inputs of the graph"] = func(n int) string {
		return "<ir_version: 10, opset_import: [\"\" : 22]> g (" + strings.TrimSuffix(strings.ReplaceAll(lines(n, "float[N%d, 4] x%d,"), "\n", " "), ", ") + ") => (float[K, 4] y) { y = Concat <axis = 0> (" +
			list(n, "x%d") + ") }\n"
	}
	wide["outputs of the graph"] = func(n int) string {
		return graph(list(n, "float[N, 4] o%d"), lines(n, "o%d = Neg(x)"))
	}
}

func withDomain(domain string, version int, text string) string {
	return strings.Replace(text, `"" : 22]`, fmt.Sprintf(`"" : 22, %q : %d]`, domain, version), 1)
}

// TestOperatorsWithPorts checks that each operator with any number of inputs or outputs has a graph in these tests.
func TestOperatorsWithPorts(t *testing.T) {
	var all strings.Builder
	for _, of := range wide {
		all.WriteString(of(3))
	}
	// The optimizers share their functions. No pass makes Blocks, and files can have them as attributes only.
	others := map[string]bool{"Adam": true, "Adagrad": true, "Block": true}
	count := 0
	for _, op := range ops.Default.All() {
		variadic := func(p ir.Param) bool { return p.Variadic }
		if !slices.ContainsFunc(op.In, variadic) && !slices.ContainsFunc(op.Out, variadic) || others[op.Name] {
			continue
		}
		count++
		if !strings.Contains(all.String(), op.Name+"(") && !strings.Contains(all.String(), op.Name+" <") {
			t.Errorf("no graph has a wide %s", op.FullName())
		}
	}
	if count < 15 {
		t.Errorf("%d operators", count)
	}
}

// TestHuge opens a graph of 100,000 nodes with a million edges. The collector runs between passes, for longer than mostGap.
func TestHuge(t *testing.T) {
	if os.Getenv("ESSMC_HUGE") == "" || race.Enabled {
		t.Skip("ESSMC_HUGE=1 runs it: it takes minutes")
	}
	path := filepath.Join(t.TempDir(), "huge.txt") // an ONNX file may not have as many values
	if err := os.WriteFile(path, []byte(random(100_000)), 0o666); err != nil {
		t.Fatal(err)
	}
	checkWithin(t, "opening", 5*mostGap, func(g *gaps) error {
		o := loose(g)
		o.Limits.Bytes, o.Run.MaxMemory = 1<<30, 8<<30
		m, err := open.Load(path, o)
		if err != nil {
			return err
		}
		return m.Close()
	})
}

// written writes a graph in text as an ONNX file.
func written(t *testing.T, dir, name, text string) string {
	t.Helper()
	g, err := irtext.Parse([]byte(text), name, ops.Default, irtext.Options{Budget: irtext.Budget{Ports: 1 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := onnx.Write(&b, g, onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	path := dir + "/" + name + ".onnx"
	if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// wideFiles are the graphs that hostile files had, and others as wide. Some are tried always, all in the long mode.
var wideFiles = map[string]struct {
	of     string // in wide
	n      int
	always bool
}{
	"sum60k":               {"sum", 60_000, true},
	"sum200k":              {"sum", 200_000, true},
	"split100k":            {"split", 100_000, true},
	"live45k":              {"live", 45_000, true},
	"fan30k":               {"fan", 30_000, false},
	"loop20k":              {"loop", 20_000, false},
	"if20k":                {"if", 20_000, false},
	"constants60k":         {"sum of constants", 60_000, false},
	"split60k of opset 11": {"Split of opset 11", 60_000, false},
	"inputs20k":            {"inputs of the graph", 20_000, false},
	"outputs20k":           {"outputs of the graph", 20_000, false},
}
