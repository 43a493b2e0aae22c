package stepgraph_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes/passtest"
	"github.com/essmc/essmc/passes/stepgraph"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/ref"
)

// TestGolden makes the step graph of each case in testdata/step. Section "in" is the graph, "out" its step graph,
// "says" the description of outputs and states. In chunks of all sizes it must give the results of the graph for the
// whole sequence.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "step", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			golden(t, file)
		})
	}
}

func golden(t *testing.T, file string) {
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
	before := irtext.String(g)
	sg, err := stepgraph.Of(g)
	if err != nil {
		t.Fatal(err)
	}
	if irtext.String(g) != before {
		t.Error("the source was changed")
	}
	var says bytes.Buffer
	fmt.Fprintf(&says, "latency %d, flush %d, multiple %d, end %q\n", sg.Latency, sg.Flush, sg.Multiple, sg.End)
	for _, o := range sg.Outputs {
		fmt.Fprintf(&says, "output %s: %v, axis %d, rate %d, delay %d; %d steps of 100\n", o.Name, o.Kind, o.Axis,
			o.Rate, o.Delay, o.Steps(100))
	}
	for _, s := range sg.States {
		fmt.Fprintf(&says, "state %s -> %s: %v%v, of %s\n", s.Name, s.Next, s.DType, s.Shape, s.Node)
	}
	text := irtext.String(sg.Graph)
	if passtest.Updating() {
		section("out").Data = []byte(text)
		section("says").Data = says.Bytes()
		if err := os.WriteFile(file, txtar.Format(a), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for name, got := range map[string]string{"out": text, "says": says.String()} {
		if want := string(section(name).Data); got != want {
			t.Errorf("%s differs (renew with -update); got:\n%s\nwant:\n%s", name, got, want)
		}
	}
	back, err := irtext.Parse([]byte(text), "text", ops.Default, irtext.Options{})
	if err != nil {
		t.Fatalf("parse what was printed: %v", err)
	}
	if irtext.String(back) != text {
		t.Error("print, parse and print again differ")
	}
	for _, length := range []int{3, 8, 29, 90} {
		for _, b := range []struct {
			name string
			o    runtime.Options
			tol  float64
		}{{"ref", runtime.Options{Backend: ref.New(), Precision: tensor.Float64}, 1e-12},
			{"cpu", runtime.Options{Backend: cpu.New()}, 1e-5}} {
			r := rand.New(rand.NewPCG(uint64(length), 3))
			in := noise(t, g, map[string]int64{"B": 2, "L": int64(length)}, r, b.o.Precision == tensor.Float64)
			want := whole(t, g, b.o, in)
			for _, chunks := range chunkings(r) {
				f := newStream(t, sg, b.o, 2)
				same(t, fmt.Sprintf("%s, length %d, chunks %v", b.name, length, chunks[:min(3, len(chunks))]),
					f.feed(in, length, chunks, -1), want, b.tol)
			}
			if t.Failed() {
				return
			}
		}
	}
}
