package recurrence_test

import (
	"fmt"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/cpu"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

// TestChunkedWindow tests chunks that are longer than the window. The window is summed by itself, and not as the
// difference of longer sums, which are many times as large for slow systems.
func TestChunkedWindow(t *testing.T) {
	r := NewGen(81)
	x := r.Floats(0.3, 2, 300, 3)
	v := tensor.Data[float32](x)
	for i := range v {
		v[i]++ // nothing cancels in the sum
	}
	for _, direction := range Directions {
		for _, window := range []int{1, 2, 5, 31, 64, 200} {
			b := ir.NewBuilder("windowed", ops.Default, ops.Opsets())
			in := []*ir.Value{b.Input("x", ir.Of(x))}
			for i, c := range [][]float64{{-0.001, -0.003, -0.2}, {0, 0.01, 1}, {1, 0.5, 2}, {0, 1, -1}} { // λΔ and b
				in = append(in, b.Const(fmt.Sprintf("c%d", i), tensor.FromSlice(c, 1, 3, 1)))
			}
			b.Output("y", b.Op("essm", "Scan", in, ir.A("direction", direction), ir.A("window", window)))
			g, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			want := Truth(t, g, map[string]tensor.Datum{"x": x})
			for _, threads := range []int{1, 3} {
				got := Run(t, g, runtime.Options{Backend: cpu.New(), Kernel: "chunked", Threads: threads},
					map[string]tensor.Datum{"x": x})
				if d := backendtest.Diff(got["y"], want["y"], ir.Tolerance{Ulps: 6}); d != "" {
					t.Errorf("%s, window %d: %s", direction, window, d)
				}
			}
		}
	}
}
