package raise

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/ref"
)

var renew = flag.Bool("update", false, "write the results that the tests got into testdata")

// TestForms runs each pass on the graphs in testdata/<pass>/*.txtar: section "in" is the graph, "out" what the pass makes
// of it, "notes" what it says. Both graphs give the same answers.
func TestForms(t *testing.T) {
	for _, p := range slices.Concat(recurrences, layers) {
		if !strings.HasPrefix(p.Name, "raise-") {
			continue // tested where it is defined
		}
		files, err := filepath.Glob(filepath.Join("testdata", p.Name, "*.txtar"))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) == 0 {
			t.Errorf("pass %s has no cases in testdata/%s", p.Name, p.Name)
		}
		for _, file := range files {
			t.Run(p.Name+"/"+strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { goldenForm(t, p, file) })
		}
	}
}

func goldenForm(t *testing.T, p *passes.Pass, file string) {
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
	var notes bytes.Buffer
	for _, e := range g.History {
		for _, n := range e.Notes {
			fmt.Fprintln(&notes, n)
		}
	}
	g.History = nil
	var out bytes.Buffer
	if err := irtext.Print(&out, g, irtext.Options{}); err != nil {
		t.Fatal(err)
	}
	tol := 1e-9
	if slices.Contains(layers, p) {
		tol = 1e-7 // what these make has exact numbers where exporters write rounded ones
	}
	sameAnswers(t, before, g, tol)
	if *renew {
		section("out").Data = out.Bytes()
		section("notes").Data = notes.Bytes()
		if err := os.WriteFile(file, txtar.Format(a), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	for name, got := range map[string][]byte{"out": out.Bytes(), "notes": notes.Bytes()} {
		if want := section(name).Data; !bytes.Equal(got, want) {
			t.Errorf("%s differs (renew with -update); got:\n%s\nwant:\n%s", name, got, want)
		}
	}
}

// sameAnswers checks that two graphs give the same in float64, relative to the largest value, for inputs of several shapes.
func sameAnswers(t *testing.T, a, b *ir.Graph, tol float64) {
	t.Helper()
	for _, dims := range []map[string]int64{{"B": 1, "L": 2}, {"B": 2, "L": 7}, {"B": 3, "L": 40}} {
		x, y := answers(t, a, dims), answers(t, b, dims)
		for name, want := range x {
			got, ok := y[name]
			if !ok {
				t.Errorf("output %s is gone", name)
				continue
			}
			if d := apart(got, want); !(d <= tol) {
				t.Errorf("output %s at %v: differs by %.3g of its largest value", name, dims, d)
			}
		}
	}
}

// answers runs a graph on the interpreter in float64, with inputs that depend on their names alone.
func answers(t *testing.T, g *ir.Graph, dims map[string]int64) map[string][]float64 {
	t.Helper()
	m, err := runtime.New(g, runtime.Options{Backend: ref.New(), Precision: tensor.Float64})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	in := map[string]tensor.Datum{}
	for _, p := range m.Inputs() {
		tt := p.Type.(*ir.TensorType)
		shape := make([]int, len(tt.Shape))
		for i, d := range tt.Shape {
			n, err := d.Eval(dims)
			if err != nil {
				t.Fatal(err)
			}
			shape[i] = int(n)
		}
		h := fnv.New64()
		h.Write([]byte(p.Name))
		r := rand.New(rand.NewPCG(h.Sum64(), 1))
		x := tensor.New(tensor.Float64, shape...)
		for i := range x.Len() {
			tensor.Data[float64](x)[i] = r.NormFloat64()
			if p.Name == "lengths" { // every sequence in full
				tensor.Data[float64](x)[i] = float64(dims["L"])
			}
		}
		if tt.Elem != tensor.Float32 {
			if x, err = x.Convert(tt.Elem, false); err != nil {
				t.Fatal(err)
			}
		}
		in[p.Name] = x
	}
	res, err := m.NewSession().Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]float64{}
	for name, d := range res {
		v, err := d.(*tensor.Tensor).Float64s()
		if err != nil {
			t.Fatal(err)
		}
		out[name] = v
	}
	return out
}

// apart is the largest difference, relative to the largest absolute value of want.
func apart(got, want []float64) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	diff, scale := 0.0, 1e-300
	for i := range want {
		diff, scale = max(diff, math.Abs(got[i]-want[i])), max(scale, math.Abs(want[i]))
	}
	return diff / scale
}
