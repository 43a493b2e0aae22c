package raise

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/passtest"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/ref"
)

// parallelFiles are the files of testdata/exporters/parallel.py, with the operator that each is raised to.
var parallelFiles = map[string]string{
	"ema_exp": "essm.SSM", "ema_matrix": "essm.SSM", "ema_powers": "essm.SSM", "ema_powers_dynamo": "essm.SSM",
	"kernel_dss_dynamo": "essm.LongConv", "kernel_s4d_conv": "essm.SSM", "kernel_s4d_dynamo": "essm.LongConv",
	"kernel_s4d_matmul": "essm.SSM",
	"mamba_blelloch":    "essm.SelectiveScan", "mamba_blelloch_dynamo": "essm.SelectiveScan",
	"mamba_hillis": "essm.SelectiveScan", "mamba_hillis_dynamo": "essm.SelectiveScan",
	"mingru_blelloch": "essm.GatedScan", "mingru_blelloch_dynamo": "essm.GatedScan", "mingru_exp": "essm.GatedScan",
	"mingru_exp_dynamo": "essm.GatedScan", "mingru_hillis": "essm.GatedScan", "mingru_hillis_dynamo": "essm.GatedScan",
	"mingru_log_dynamo": "essm.GatedScan", "mingru_masked": "essm.GatedScan", "mingru_masked_dynamo": "essm.GatedScan",
	"mingru_in_place_dynamo": "essm.GatedScan",
	"mingru_operator":        "essm.GatedScan", "mingru_operator_dynamo": "essm.GatedScan",
	"mingru_padded_dynamo": "essm.GatedScan", "mingru_steps_dynamo": "essm.GatedScan",
	"real_hillis": "essm.SSM", "system_blelloch": "essm.SSM", "system_blelloch_dynamo": "essm.SSM",
	"step_complex_dynamo": "essm.SSM", "step_layers": "essm.SSM", "step_layers_dynamo": "essm.SSM", "step_s4d": "essm.SSM",
	"step_s4d_dynamo": "essm.SSM", "step_tanh": "Tanh", "step_tanh_dynamo": "Tanh",
	"system_hillis": "essm.SSM", "system_hillis_dynamo": "essm.SSM",
	"system_complex_dynamo": "essm.SSM", "system_pairs": "essm.SSM", "system_pairs_dynamo": "essm.SSM",
	"toeplitz_features": "essm.SSM", "toeplitz_features_dynamo": "essm.SSM", "toeplitz_shared": "essm.SSM",
	"toeplitz_shared_dynamo": "essm.SSM", "toeplitz_windows_dynamo": "essm.SSM",
}

// lengthOps are operators that a raised file must not have: those along the steps of a scan.
var lengthOps = []string{"Slice", "Pad", "Concat", "CumSum", "ReduceLogSumExp", "Einsum", "Reshape"}

// TestParallelExports raises the files of both exporters. Each becomes one operator, and gives the file's answers.
func TestParallelExports(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "exporters", "parallel_*.onnx"))
	if err != nil || len(files) != len(parallelFiles) {
		t.Errorf("%d files, expected %d (%v)", len(files), len(parallelFiles), err)
	}
	for _, name := range slices.Sorted(maps.Keys(parallelFiles)) {
		want := parallelFiles[name]
		t.Run(name, func(t *testing.T) {
			g, _, err := onnx.ReadFile(filepath.Join("testdata", "exporters", "parallel_"+name+".onnx"), onnx.Options{})
			if err != nil {
				t.Fatal(err)
			}
			r := g.Clone()
			if err := passes.Run(r, Pipeline(), passtest.Verified(t)); err != nil {
				t.Fatal(err)
			}
			tol := 1e-7 // rates of Mamba are folded
			if !strings.HasPrefix(name, "m") {
				tol = 1e-6 // the file computes parameters of the system in float32, or has its kernel in it
			}
			passtest.Same(t, g, r, tol, recurrenceDims...)
			if err := passes.Optimize(r); err != nil {
				t.Fatal(err)
			}
			passtest.Same(t, g, r, max(tol, 1e-7), recurrenceDims...)
			got := map[string]int{}
			_ = r.Walk(func(_ *ir.Graph, n *ir.Node) error { got[n.Op.FullName()]++; return nil })
			times := 1
			if strings.Contains(name, "layers") {
				times = 2
			}
			if got[want] != times || want == "Tanh" && got["essm.SSM"]+got["essm.Scan"] > 0 {
				t.Errorf("%d of %s, expected %d: %v", got[want], want, times, got)
			}
			for _, op := range lengthOps {
				if strings.HasPrefix(name, "m") && got[op] > 0 && !strings.Contains(name, "padded") {
					t.Errorf("%d of %s are left: %v", got[op], op, got)
				}
			}
			if t.Failed() {
				for _, e := range r.History {
					t.Logf("%s: %d changes, %v", e.Pass, e.Changes, e.Notes)
				}
			}
		})
	}
}

// finite reports whether all outputs are finite.
func finite(out map[string][]float64) bool {
	for _, x := range out {
		if slices.ContainsFunc(x, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }) {
			return false
		}
	}
	return true
}

// TestParallelChanged changes one edge or one constant of each file at a time. A raised graph must then give the
// answers of the changed file: a part that is no longer a recurrence stays.
func TestParallelChanged(t *testing.T) {
	left, changed := 0, 0
	for _, name := range slices.Sorted(maps.Keys(parallelFiles)) {
		g, _, err := onnx.ReadFile(filepath.Join("testdata", "exporters", "parallel_"+name+".onnx"), onnx.Options{})
		if err != nil {
			t.Fatal(err)
		}
		every := 9
		if os.Getenv("ESSMC_LONG") != "" {
			every = 1
		}
		for i := 0; i < len(g.Nodes); i += every {
			for kind := range 3 {
				m := g.Clone()
				if !change(m, m.Nodes[i], kind) || ir.Verify(m) != nil || m.Sort() != nil {
					continue
				}
				before, err := parallelAnswers(m)
				if err != nil || !finite(before) {
					continue
				}
				r := m.Clone()
				if err := passes.Run(r, Pipeline(), passtest.Verified(t)); err != nil {
					t.Fatalf("%s, node %v, change %d: %v", name, g.Nodes[i], kind, err)
				}
				changed++
				got := 0
				for _, n := range r.Nodes {
					if n.Op.FullName() == parallelFiles[name] || n.Op.FullName() == "essm.Scan" {
						got++
					}
				}
				if got == 0 {
					left++
				}
				after, err := parallelAnswers(r)
				if err != nil {
					t.Fatalf("%s, node %v, change %d: %v", name, g.Nodes[i], kind, err)
				}
				for out, want := range before {
					if far := passtest.Distance(after[out], want); !(far <= 1e-6) {
						t.Errorf("%s, node %v, change %d: %s differs by %.3g", name, g.Nodes[i], kind, out, far)
					}
				}
			}
		}
	}
	t.Logf("%d changes, of which %d are not raised", changed, left)
	if left < changed/4 {
		t.Errorf("%d of %d changed files are not raised, expected more", left, changed)
	}
}

// change swaps a node's inputs, exchanges one for another value of its type, or doubles a constant of it. It returns false if it
// cannot.
func change(g *ir.Graph, n *ir.Node, kind int) bool {
	switch kind {
	case 0: // swapped inputs
		if len(n.Inputs) != 2 || n.Inputs[0] == n.Inputs[1] || n.In(0) == nil || n.In(1) == nil ||
			!ir.EqualTypes(n.In(0).Type, n.In(1).Type) {
			return false
		}
		n.Inputs[0], n.Inputs[1] = n.Inputs[1], n.Inputs[0]
		return true
	case 1: // another value
		for _, m := range g.Nodes {
			if m == n {
				return false
			}
			for _, v := range m.Outputs {
				if v != nil && len(n.Inputs) > 0 && n.In(0) != nil && v != n.In(0) && n.In(0).Elem().IsFloat() &&
					len(v.Shape()) > 1 && ir.EqualTypes(v.Type, n.In(0).Type) {
					n.Inputs[0] = v
					return true
				}
			}
		}
	case 2: // another number
		for i, v := range n.Inputs {
			if v == nil || v.Const == nil || v.Const.Len() == 0 {
				continue
			}
			c := v.Const.Clone()
			switch c.DType() {
			case tensor.Float32:
				tensor.Data[float32](c)[c.Len()/2] = tensor.Data[float32](c)[c.Len()/2]*1.25 + 0.125
			case tensor.Int64:
				tensor.Data[int64](c)[c.Len()/2]++
			default:
				continue
			}
			n.Inputs[i] = ir.NewConst(v.Name+".changed", c)
			return true
		}
	}
	return false
}

func parallelAnswers(g *ir.Graph) (map[string][]float64, error) {
	return passtest.Answers(g, runtime.Options{Backend: ref.New(), Precision: tensor.Float64}, map[string]int64{"B": 2})
}
