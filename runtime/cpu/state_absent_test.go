package cpu

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
)

// TestAbsentState checks that a state that is not given costs nothing: forms are chosen as for a system that takes none,
// and the answers are those for zeros.
func TestAbsentState(t *testing.T) {
	const n = 4
	b := ir.NewBuilder("state", ops.Default, ops.Opsets())
	b.Graph().Meta[ir.MetaTime], b.Graph().Meta[ir.MetaBatch] = "L", "B"
	x := b.Input("x", ir.Tensor(tensor.Float32, "B", "L", n))
	given := b.Input("given", &ir.OptionalType{Elem: ir.Tensor(tensor.Float32, "B", 4*n)})
	all := b.Op("essm", "StateOrZero", []*ir.Value{x, given}, ir.A("size", 4*n))
	states := b.Ops("", "Split", 2, []*ir.Value{all, b.Const("sizes", tensor.FromSlice([]int64{2 * n, 2 * n}, 2))}, ir.A("axis", 1))
	y := x
	for i, state := range states {
		coefficient := func(of ...float64) *ir.Value {
			return b.Const(fmt.Sprintf("c%d", i), tensor.FromSlice(of, 1, n, 1))
		}
		y = b.Op("essm", "Scan", []*ir.Value{y, coefficient(-0.1, -0.01, -0.2, -1), coefficient(0, 1, 2, 0.5),
			coefficient(1, 2, 3, -1), coefficient(0, 0.5, 0, 1), nil, state})
	}
	b.Output("y", y)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, length := range []int{1, 7, 300} {
		v := tensor.New(tensor.Float32, 2, length, n)
		for i := range tensor.Data[float32](v) {
			tensor.Data[float32](v)[i] = float32(i%11)/4 - 1
		}
		absent := map[string]tensor.Datum{"x": v}
		zeros := map[string]tensor.Datum{"x": v, "given": tensor.New(tensor.Float32, 2, 4*n)}
		want := Truth(t, g, zeros)
		for _, kernel := range runtime.Kernels() {
			o := runtime.Options{Backend: New(), Kernel: kernel}
			a, z := Run(t, g, o, absent), Run(t, g, o, zeros)
			CloseTo(t, fmt.Sprintf("%s, %d steps, without a state", kernel, length), a, want, 1e-5)
			if kernel != "auto" && !slices.Equal(tensor.Data[float32](a["y"].(*tensor.Tensor)), tensor.Data[float32](z["y"].(*tensor.Tensor))) {
				t.Errorf("%s, %d steps: no state and zeros differ", kernel, length)
			}
		}
	}
	m, err := runtime.New(g, runtime.Options{Backend: New()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	dims := map[string]int64{"B": 1, "L": 4096}
	cost := func(absent ...string) string {
		choices, err := m.Explain(dims, absent...)
		if err != nil || len(choices) != 2 {
			t.Fatalf("%+v, %v", choices, err)
		}
		var all []string
		for _, c := range choices {
			for _, a := range append(c.Others, runtime.Alternative{Form: c.Form, Cost: c.Cost}) {
				if a.Form == "fft" {
					all = append(all, a.Cost.Time.String())
				}
			}
		}
		return strings.Join(all, " ")
	}
	if with, without := cost(), cost("given"); with == without {
		t.Errorf("convolutions cost %s with a state and without", with)
	}
	if _, err := m.Explain(dims, "x"); err == nil || !strings.Contains(err.Error(), "no such optional input") {
		t.Errorf("found %v", err)
	}
}
