package opstest

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/internal/shared"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Nodes selects tests among the ONNX standard's own for single operators.
type Nodes struct {
	// Match selects tests by their names; nil: all.
	Match func(name string) bool
	// SubgraphInputs returns the types of the inputs of a node's subgraphs if files omit them. It is nil if they never
	// do.
	SubgraphInputs func(*ir.Node) []ir.Type
	// Drawn selects the tests whose answers are random numbers. Only their types and shapes are compared. Nil: none.
	Drawn func(name string) bool
	// Skip maps the names of tests that are not run to the reason.
	Skip map[string]string
}

// Run runs the tests whose operators are registered, and logs those of other domains. It skips the test if there is no
// archive of node tests.
func (c Nodes) Run(t *testing.T) {
	files := nodeTests(t)
	names := map[string]bool{}
	for f := range files {
		if name := path.Base(path.Dir(f)); strings.HasSuffix(f, "/model.onnx") && (c.Match == nil || c.Match(name)) {
			names[name] = true
		}
	}
	ran, skipped, missing := 0, 0, map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		dir := "onnx/backend/test/data/node/" + name
		m, err := ReadModel(files[dir+"/model.onnx"], c.SubgraphInputs)
		var none *noOperator
		if errors.As(err, &none) {
			missing[none.name]++
			continue
		}
		ran++
		t.Run(name, func(t *testing.T) {
			if why := c.Skip[name]; why != "" {
				skipped++
				t.Skip(why)
			}
			if err != nil {
				t.Fatal(err)
			}
			for set := 0; files[fmt.Sprintf("%s/test_data_set_%d/output_0.pb", dir, set)] != nil; set++ {
				compare := Near
				if c.Drawn != nil && c.Drawn(name) {
					compare = sameType
				}
				runSet(t, m, files, fmt.Sprintf("%s/test_data_set_%d/", dir, set), compare)
			}
		})
	}
	t.Logf("%d of %d node tests ran, %d of them skipped", ran, len(names), skipped)
	own := map[string]bool{}
	for _, op := range ops.Default.All() {
		own[op.Domain] = true
	}
	for _, op := range slices.Sorted(maps.Keys(missing)) {
		domain := ""
		if i := strings.LastIndexByte(op, '.'); i >= 0 {
			domain = op[:i]
		}
		if own[domain] {
			t.Errorf("not in the registry, which has others of its domain: %s (%d tests)", op, missing[op])
		} else {
			t.Logf("not in the registry: %s (%d tests)", op, missing[op])
		}
	}
	if ran == 0 {
		t.Error("no node test ran")
	}
}

func runSet(t *testing.T, m *ir.Graph, files map[string][]byte, data string,
	compare func(got, want tensor.Datum, rtol, atol float64) error) {
	var in, want []tensor.Datum
	for i, v := range m.Inputs {
		d, err := ReadDatum(files[fmt.Sprintf("%sinput_%d.pb", data, i)], v.Type)
		if err != nil {
			t.Fatalf("input %d: %v", i, err)
		}
		in = append(in, d)
	}
	for i, v := range m.Outputs {
		d, err := ReadDatum(files[fmt.Sprintf("%soutput_%d.pb", data, i)], v.Type)
		if err != nil {
			t.Fatalf("output %d: %v", i, err)
		}
		want = append(want, d)
	}
	got, err := Interpret(&ir.EvalCtx{}, m, in)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if err := compare(got[i], want[i], 1e-3, 1e-7); err != nil {
			t.Errorf("output %d: %v", i, err)
		}
		if err := Fits(got[i], m.Outputs[i].Type); err != nil {
			t.Errorf("output %d: inferred %v: %v", i, m.Outputs[i].Type, err)
		}
	}
}

func sameType(got, want tensor.Datum, _, _ float64) error {
	g, ok := got.(*tensor.Tensor)
	if w, isTensor := want.(*tensor.Tensor); !ok || !isTensor || g.DType() != w.DType() ||
		!slices.Equal(g.Shape(), w.Shape()) {
		return fmt.Errorf("expected %v, found %v", want, got)
	}
	return nil
}

// nodeTests reads the archive of node tests, or skips.
func nodeTests(t *testing.T) map[string][]byte {
	f, err := os.Open(shared.NodeArchive(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if files[path.Clean(h.Name)], err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
		}
	}
}
