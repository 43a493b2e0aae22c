package toy_test

import (
	"context"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/opstest"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/lowering/internal/toy"
	"github.com/essmc/essmc/runtime/ref"
)

// Sequences become rows in each way that there is, and the answers are the interpreter's. The suite for backends
// holds random networks against it in the same way.
func TestRows(t *testing.T) {
	g, err := backendtest.ParseGraph(`g (float[B,3,L] x) => (y, middle, rows)
		<int64[6] pads = {0, 0, 2, 0, 0, 0}, int64[6] rowpads = {0, 1, 0, 0, 0, 0}, int64[1] zero = {0},
		int64[1] one = {1}, int64[1] less = {-1}, int64 at = {2}, int64[1] at1 = {2},
		float[4,3,3] w = {` + numbers(36) + `}, float[4,2,3] w2 = {` + numbers(24) + `},
		float[4] b = {0.5, -1, 2, 0.25}, float[4,1] gain = {1, -2, 0.5, 3}> {
			p = Pad (x, pads)
			c = Conv (p, w, b)
			middle = Mul (c, gain)
			a, d = Split <axis: int = 1, num_outputs: int = 2> (middle)
			j = Concat <axis: int = 1> (d, a)
			sum = CumSum <exclusive: int = 1> (j, at)
			h = Conv <group: int = 2, dilations: ints = [2], pads: ints = [4, 1]> (sum, w2, b)
			f = Slice (h, zero, less, at1)
			y = Tanh (f)
			t = Transpose <perm: ints = [0, 2, 1]> (y)
			s = Slice (t, zero, less, one)
			rows = Pad (s, rowpads)
		}`)
	if err != nil {
		t.Fatal(err)
	}
	g.Meta[ir.MetaTime], g.Meta[ir.MetaBatch] = "L", "B"
	m, err := runtime.New(g, runtime.Options{Backend: toy.New()})
	if err != nil {
		t.Fatal(err)
	}
	text, err := m.Lowered(map[string]int64{"B": 2, "L": 40})
	if err != nil {
		t.Fatal(err)
	}
	hold(t, "testdata/rows.txt", text)
	ways := []string{"to rows", "from rows", "features from 2", "rows moved by -1", "on rows, moved by -2", "CumSum",
		"Concat"}
	for _, way := range ways {
		if !strings.Contains(text, way) {
			t.Errorf("no step is %s", way)
		}
	}
	want, err := runtime.New(g, runtime.Options{Backend: ref.New()})
	if err != nil {
		t.Fatal(err)
	}
	for _, length := range []int{1, 2, 3, 17} {
		in := map[string]tensor.Datum{"x": opstest.Normal(2, 3, length)}
		a, err := m.NewSession().Run(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		b, err := want.NewSession().Run(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		for name := range b {
			if d := backendtest.Diff(a[name], b[name], ir.Summing); d != "" {
				t.Errorf("%d steps: %s: %s", length, name, d)
			}
		}
	}
}

// numbers writes some different numbers.
func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString([]string{"0.5", "-0.25", "1", "-0.75", "0.125"}[i*i%7%5])
	}
	return b.String()
}
