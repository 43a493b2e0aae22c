package raise_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/lower"
	"github.com/essmc/essmc/passes/passtest"
	"github.com/essmc/essmc/passes/raise"
)

// tinySystem returns a system of two states as package lower writes it.
func tinySystem(t testing.TB, window int) *ir.Graph {
	t.Helper()
	l := newLayer()
	double := func(name string, x ...float64) *ir.Value { return l.Const(name, tensor.FromSlice(x, 1, 1, 2)) }
	in := []*ir.Value{l.Input("u", ir.Tensor(tensor.Float32, "B", "L", 1)), double("re", -0.5, -0.1),
		double("im", 1, 2), double("b", 1, 0.5), double("bi", 0, 0.1),
		l.floats("B", []float64{1, 2}, 1, 1, 2, 1), l.floats("C", []float64{1, -1}, 1, 1, 1, 2), nil, nil, nil, nil}
	in[10] = l.Input("h", ir.Tensor(tensor.Float32, "B", 2*(2+window))) // real and imaginary parts, and the delay line
	out := l.Ops("essm", "SSM", 2, in, ir.A("window", window))
	l.Output("y", out[0])
	l.Output("h_out", out[1])
	g, _, err := lower.Lower(l.graph(t), lower.Options{Opset: 17})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// FuzzRaise runs all passes on any graph. They must leave a graph that verifies, and notes of one line.
func FuzzRaise(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "*", "*.txtar"))
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, s := range txtar.Parse(data).Files {
			if s.Name == "in" {
				f.Add(s.Data)
			}
		}
	}
	for _, window := range []int{0, 3} {
		f.Add([]byte(irtext.String(tinySystem(f, window))))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1<<15 {
			t.Skip("longer inputs find nothing new")
		}
		g, err := irtext.Parse(text, "text", ops.Default, irtext.Options{})
		if err != nil {
			t.Skip()
		}
		if err := passes.Run(g, raise.Pipeline(), passtest.Verified(t)); err != nil {
			if strings.Contains(err.Error(), "internal error") || strings.Contains(err.Error(), "\n") {
				t.Error(err)
			}
			return
		}
		if err := ir.Verify(g); err != nil {
			t.Error(err)
		}
		for _, note := range passtest.Notes(g) {
			if strings.Contains(note, "\n") {
				t.Errorf("note of several lines: %q", note)
			}
		}
	})
}
