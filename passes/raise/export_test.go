package raise_test

import (
	"path/filepath"
	"testing"

	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/passtest"
)

// TestConvExports raises files of torch's TorchScript exporter (testdata/exporters/convolutions.py).
func TestConvExports(t *testing.T) {
	for name, want := range map[string]struct {
		systems int
		gone    []string
	}{
		"s4d": {1, []string{"Conv", "Pad"}}, "s4d_bidirectional": {2, []string{"Conv", "Pad", "Slice"}},
		"dss": {1, []string{"Conv", "Pad"}}, "essm": {1, []string{"Conv", "Pad"}},
		"essm_bidirectional": {1, []string{"Conv", "Pad"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := load(t, "conv_"+name)
			r := raised(t, g)
			t.Log(passtest.Notes(r))
			if got := count(r, "essm.SSM"); got != want.systems || count(r, want.gone...) != 0 {
				t.Errorf("got %d essm.SSM, expected %d; %d nodes of %v are left", got, want.systems,
					count(r, want.gone...), want.gone)
			}
			binds := []map[string]int64{{"B": 2, "L": 256}, {"B": 1, "L": 77}}
			agree(t, g, r, 2e-6, binds...)
			if err := passes.Optimize(r); err != nil {
				t.Fatal(err)
			}
			agree(t, g, r, 2e-6, binds...)
		})
	}
}

func load(t testing.TB, name string) *ir.Graph {
	t.Helper()
	g, _, err := onnx.ReadFile(filepath.Join("testdata", "exporters", name+".onnx"), onnx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestDynamoExports raises files of torch's dynamo exporter (testdata/exporters/dynamo.py).
func TestDynamoExports(t *testing.T) {
	needOp(t, "", "DFT")
	for name, systems := range map[string]int{"s4d": 1, "s4d_kernel": 1, "s4d_any_length": 1, "s4d_bidirectional": 2} {
		t.Run(name, func(t *testing.T) {
			g := load(t, "dynamo_"+name)
			r := raised(t, g)
			t.Log(passtest.Notes(r))
			if got, left := count(r, "essm.SSM"), count(r, "DFT", "Pad", "Concat"); got != systems || left != 0 {
				t.Errorf("got %d essm.SSM, expected %d; %d nodes of the transforms are left", got, systems, left)
			}
			binds := []map[string]int64{{"B": 2, "L": 256}, {"B": 1, "L": 77}}
			agree(t, g, r, 2e-6, binds...)
			if err := passes.Optimize(r); err != nil {
				t.Fatal(err)
			}
			agree(t, g, r, 2e-6, binds...)
		})
	}
}
