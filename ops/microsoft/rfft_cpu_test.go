package microsoft_test

import (
	"context"
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	_ "github.com/essmc/essmc/ops/microsoft"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/ref"
)

// TestRfftOnCPU compares the CPU backend's kernels with the interpreter.
func TestRfftOnCPU(t *testing.T) {
	for _, c := range []struct {
		op    string
		ndim  int
		shape []any
	}{
		{"Rfft", 1, []any{3, 4, 90}},
		{"Rfft", 1, []any{11, 64}},
		{"Rfft", 2, []any{3, 4, 9}},
		{"Irfft", 1, []any{3, 4, 46, 2}},
		{"Irfft", 1, []any{9, 2, 2}},
		{"Irfft", 2, []any{3, 4, 6, 2}},
	} {
		opsets := ops.Opsets()
		opsets["com.microsoft"] = 1
		b := ir.NewBuilder("g", ops.Default, opsets)
		x := b.Input("x", ir.Tensor(tensor.Float32, c.shape...))
		b.Output("y", b.Op("com.microsoft", c.op, []*ir.Value{x}, ir.A("signal_ndim", c.ndim)))
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		shape := make([]int, len(c.shape))
		for i, n := range c.shape {
			shape[i] = n.(int)
		}
		in := tensor.New(tensor.Float32, shape...)
		for i := range tensor.Data[float32](in) {
			tensor.Data[float32](in)[i] = float32(math.Sin(float64(i * i)))
		}
		var answers [2][]float32
		for i, backend := range []runtime.Backend{ref.New(), cpu.New()} {
			m, err := runtime.New(g, runtime.Options{Backend: backend})
			if err != nil {
				t.Fatal(err)
			}
			out, err := m.NewSession().Run(context.Background(), map[string]tensor.Datum{"x": in})
			if err != nil {
				t.Fatal(err)
			}
			answers[i] = tensor.Data[float32](out["y"].(*tensor.Tensor))
		}
		for i, want := range answers[0] {
			if got := answers[1][i]; !(math.Abs(float64(got-want)) <= 1e-5) {
				t.Fatalf("%s %v: element %d is %g, expected %g", c.op, c.shape, i, got, want)
			}
		}
	}
}
