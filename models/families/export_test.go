package families_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/internal/shared"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/passes/lower"
	"github.com/essmc/essmc/passes/stepgraph"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// exported writes a model as `essmc export` does. It returns the inputs that the file takes, all of which are required:
// in, and for others full lengths and states of zeros.
func exported(t *testing.T, m *open.Model, file string, o lower.Options, in map[string]tensor.Datum) map[string]tensor.Datum {
	t.Helper()
	g, err := m.Graph()
	if err != nil {
		t.Fatal(err)
	}
	out, functions, err := lower.Lower(g, o)
	if err != nil {
		t.Fatal(err)
	}
	if out.Input(models.StateIn) != nil {
		out.Meta[ir.MetaState] = stepgraph.PairsText(map[string]string{models.StateIn: models.StateOut})
	}
	var w onnx.WriteOptions
	for _, f := range functions {
		w.Functions = append(w.Functions, onnx.Function(f))
	}
	if err := onnx.WriteFile(file, out, w); err != nil {
		t.Fatal(err)
	}
	in = maps.Clone(in)
	x := in[models.Input].(*tensor.Tensor)
	sizes := map[string]int64{"B": int64(x.Dim(0)), "P": int64(x.Dim(0) / 2), "L": int64(x.Dim(1))}
	for _, v := range out.Inputs {
		if in[v.Name] != nil {
			continue
		}
		tt, _ := ir.AsTensor(v.Type)
		var shape []int
		for _, d := range tt.Shape {
			n, err := d.Eval(sizes)
			if err != nil {
				t.Fatal(err)
			}
			shape = append(shape, int(n))
		}
		filled := tensor.New(tt.Elem, shape...)
		if v.Name == models.Lengths {
			for i := range filled.Len() {
				tensor.Data[int64](filled)[i] = sizes["L"]
			}
		} else if v.Name != models.StateIn {
			t.Fatalf("input %s: expected %s or %s", v.Name, models.Lengths, models.StateIn)
		}
		in[v.Name] = filled
	}
	return in
}

// written are operators that are written in few standard ones with the same meaning, which stay these or become others that
// are as good.
var written = []string{"essm.Embedding", "essm.Pair", "essm.StateOrZero", "essm.Linear", "essm.Affine", "essm.HeadScale",
	"essm.ScalarNorm"}

// layers counts the operators of a graph that layers are made of: those of essmc that are not written so, and standard
// ones that carry a state or look at many steps.
func layers(g *ir.Graph) map[string]int {
	all := map[string]int{}
	_ = g.Walk(func(_ *ir.Graph, n *ir.Node) error {
		switch name := n.Op.FullName(); {
		case name == "essm.Pick" && n.In(1) == nil || name == "essm.Block" || slices.Contains(written, name):
		case name == "Conv" && oneTap(n): // a linear layer
		case n.Op.Domain == "essm", slices.Contains([]string{"LSTM", "GRU", "RNN", "Attention", "LinearAttention", "Conv", "DFT",
			"CausalConvWithState", "Scan", "Loop"}, name):
			all[name]++
		}
		return nil
	})
	return all
}

// oneTap reports whether a Conv looks at one step alone.
func oneTap(n *ir.Node) bool {
	for _, d := range n.In(1).Shape()[2:] {
		if k, ok := d.Known(); !ok || k != 1 {
			return false
		}
	}
	return true
}

// TestExports exports the models of the reference cases, and reads the files: they must have the operators of the model
// again, give its answers, and run as a stream if the model does.
func TestExports(t *testing.T) {
	references(t, func(t *testing.T, dir string) {
		m, err := open.File(dir, open.Options{})
		if err != nil {
			t.Fatal(err)
		}
		g, err := m.Graph()
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range []lower.Options{{}, {Functions: true}} {
			file := filepath.Join(t.TempDir(), "model.onnx")
			in := exported(t, m, file, o, inputs(t, dir))
			e, err := open.File(file, open.Options{})
			if err != nil {
				t.Fatal(err)
			}
			again, err := e.Graph()
			if err != nil {
				t.Fatal(err)
			}
			if got, want := layers(again), layers(g); !maps.Equal(got, want) {
				t.Errorf("functions %v: the file has %v, expected %v", o.Functions, got, want)
			}
			truth, bound := truth(t, dir)
			if got := run(t, e.Compile, runtime.Options{Backend: cpu.New()}, in); far(got, truth) > bound {
				t.Errorf("functions %v: the file is %.2g off", o.Functions, far(got, truth))
			}
			if !m.Config.Common().Streams {
				continue
			}
			delete(in, models.StateIn)
			if err := stream(t, e, in, truth, 7, bound); err != nil {
				t.Errorf("functions %v: the file as a stream: %v", o.Functions, err)
			}
		}
	})
}

// TestExportsONNXRuntime runs the files of TestExports with ONNX Runtime. ESSMC_PYTHON names a Python with onnxruntime and
// numpy; the default is the Python in the path.
func TestExportsONNXRuntime(t *testing.T) {
	python := shared.Python(t, "onnxruntime", "numpy")
	root := t.TempDir()
	var folders []string
	want := map[string]string{} // from folder to case
	references(t, func(t *testing.T, dir string) {
		m, err := open.File(dir, open.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range []lower.Options{{}, {Functions: true}} {
			folder := filepath.Join(root, fmt.Sprint(filepath.Base(dir), i))
			one := filepath.Join(folder, "case")
			if err := os.MkdirAll(one, 0o777); err != nil {
				t.Fatal(err)
			}
			for name, x := range exported(t, m, filepath.Join(folder, "model.onnx"), o, inputs(t, dir)) {
				if err := arrays.Write(filepath.Join(one, "in-"+name+".npy"), x.(*tensor.Tensor)); err != nil {
					t.Fatal(err)
				}
			}
			folders, want[folder] = append(folders, folder), dir
		}
	})
	script := filepath.Join("..", "..", "frontend", "onnx", "testdata", "ort.py")
	if out, err := exec.Command(python, append([]string{script}, folders...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	worst := 0.0
	for _, folder := range folders {
		truth, _ := truth(t, want[folder])
		d := far(array(t, filepath.Join(folder, "case"), "out-"+models.Output), truth)
		if !(d < 1e-4) {
			t.Errorf("%s: ONNX Runtime's answer is %.2g off", strings.TrimPrefix(folder, root), d)
		}
		worst = max(worst, d)
	}
	t.Logf("%d files, at most %.2g off", len(folders), worst)
}
