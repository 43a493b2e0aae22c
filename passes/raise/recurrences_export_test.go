package raise

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/passtest"
)

// TestRecurrenceExports raises recurrences in files of torch's TorchScript exporter
// (testdata/exporters/recurrences.py and systems.py) and, for those with varying coefficients, of both (selective.py).
// The pipelines must leave fused systems and the named operators, and the answers of the file.
func TestRecurrenceExports(t *testing.T) {
	for _, c := range []struct {
		name string
		want map[string]int
	}{
		{"loop_diagonal", map[string]int{"essm.SSM": 1}},
		{"loop_projected", map[string]int{"essm.SSM": 1}},
		{"loop_s4d", map[string]int{"essm.SSM": 1}},
		{"loop_dense_state", map[string]int{"essm.DenseSSM": 1}},
		{"loop_reversed_sum", map[string]int{"essm.SSM": 2}},
		{"loop_reversed_concat", map[string]int{"essm.SSM": 2}},
		{"loop_block", map[string]int{"essm.SSM": 1}},
		{"unrolled_diagonal", map[string]int{"essm.SSM": 1}},
		{"unrolled_s4d", map[string]int{"essm.SSM": 1}},
		{"unrolled_dense_state", map[string]int{"essm.DenseSSM": 1}},
		{"unrolled_reversed_sum", map[string]int{"essm.SSM": 2}},
		{"unrolled_tanh", nil},
		{"loop_tanh", map[string]int{"Loop": 1}},
		{"loop_selective", map[string]int{"Loop": 1}},
		{"loop_s5", map[string]int{"essm.SSM": 1}},
		{"loop_lru", map[string]int{"essm.SSM": 1}},
		{"unrolled_s5", map[string]int{"essm.SSM": 1}},
		{"unrolled_lru", map[string]int{"essm.SSM": 1}},
		{"selective_loop", map[string]int{"essm.SelectiveScan": 1}},
		{"selective_unrolled", map[string]int{"essm.SelectiveScan": 1}},
		{"selective_dynamo", map[string]int{"essm.SelectiveScan": 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, _, err := onnx.ReadFile(filepath.Join("testdata", "exporters", c.name+".onnx"), onnx.Options{})
			if err != nil {
				t.Fatal(err)
			}
			r := g.Clone()
			if err := passes.Run(r, Pipeline(), passtest.Verified(t)); err != nil {
				t.Fatal(err)
			}
			tol := 1e-7
			if strings.HasSuffix(c.name, "_s5") || strings.HasSuffix(c.name, "_lru") {
				tol = 1e-6 // their systems are computed in float32 by the file, in float64 here
			}
			passtest.Same(t, g, r, tol, recurrenceDims...)
			if err := passes.Optimize(r); err != nil {
				t.Fatal(err)
			}
			passtest.Same(t, g, r, tol, recurrenceDims...)
			got := map[string]int{}
			_ = r.Walk(func(_ *ir.Graph, n *ir.Node) error { got[n.Op.FullName()]++; return nil })
			for _, op := range []string{"essm.SSM", "essm.DenseSSM", "essm.Scan", "essm.DenseScan",
				"essm.SelectiveScan", "essm.GatedScan", "Loop", "Scan"} {
				if got[op] != c.want[op] {
					t.Errorf("%d of %s, expected %d", got[op], op, c.want[op])
				}
			}
			if t.Failed() {
				t.Logf("%v", got)
			}
			for _, e := range r.History {
				t.Logf("%s: %d changes, %v", e.Pass, e.Changes, e.Notes)
			}
		})
	}
}
