package layers_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	_ "github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/cuda"
	"github.com/essmc/essmc/runtime/cuda/emu"
	"github.com/essmc/essmc/runtime/ref"
)

// TestLayers checks the records against the interpreter on an emulated card, which refuses operators without a record.
func TestLayers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	numbers := func(shape ...int) *tensor.Tensor {
		n, _ := tensor.Size(shape)
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		return tensor.FromSlice(x, shape...)
	}
	const affine = `{ a = Constant <value = double[3] {0.3, -1.7, 2}> ()
		b = Constant <value = double[3] {0.1, 0.7, -0.3}> () y = essm.Affine (x, a, b) }`
	for _, c := range []struct {
		name, text string
		in         map[string]tensor.Datum
		failure    string
	}{
		{"affine", `g (float[B,L,3] x) => (float[B,L,3] y) ` + affine, map[string]tensor.Datum{"x": numbers(2, 7, 3)}, ""},
		{"affine of nothing", `g (float[B,L,3] x) => (float[B,L,3] y) ` + affine, map[string]tensor.Datum{"x": numbers(2, 0, 3)}, ""},
		{"tokens", `g (int64[B,L] k, float[5,7] w) => (float[B,L,7] y) { y = essm.Embedding (k, w) }`,
			map[string]tensor.Datum{"k": tensor.FromSlice([]int64{4, 0, 3}, 1, 3), "w": numbers(5, 7)}, ""},
		{"narrow tokens", `g (int32[B,L] k, float[5,7] w) => (float[B,L,7] y) { y = essm.Embedding (k, w) }`,
			map[string]tensor.Datum{"k": tensor.FromSlice([]int32{1, 2}, 2, 1), "w": numbers(5, 7)}, ""},
		{"token beyond", `g (int64[B,L] k, float[5,7] w) => (float[B,L,7] y) { y = essm.Embedding (k, w) }`,
			map[string]tensor.Datum{"k": tensor.FromSlice([]int64{4, 5}, 1, 2), "w": numbers(5, 7)}, "vocabulary, 0 to 4"},
		{"no state", `g (float[B,3] x) => (float[B,4] y) { y = essm.StateOrZero <size = 4> (x) }`,
			map[string]tensor.Datum{"x": numbers(3, 3)}, ""},
		{"state", `g (float[B,3] x, float[B,4] s) => (float[B,4] y) { y = essm.StateOrZero <size = 4> (x, s) }`,
			map[string]tensor.Datum{"x": numbers(3, 3), "s": numbers(3, 4)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := irtext.Parse([]byte(`<ir_version: 10, opset_import: ["" : 24, "essm" : 1]>`+c.text), "text", ops.Default,
				irtext.Options{})
			if err != nil {
				t.Fatal(err)
			}
			drv := emu.New(emu.Options{})
			backend, err := cuda.New(drv, cuda.Options{})
			if err != nil {
				t.Fatal(err)
			}
			want, err := run(t, g, ref.New(), c.in)
			if (err != nil) != (c.failure != "") {
				t.Fatal(err)
			}
			got, err := run(t, g, backend, c.in)
			if c.failure != "" {
				if err == nil || !strings.Contains(err.Error(), c.failure) {
					t.Errorf("expected an error with %q, found %v", c.failure, err)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			for name := range want {
				if diff := backendtest.Diff(got[name], want[name], ir.Rounding); diff != "" {
					t.Errorf("%s: %s", name, diff)
				}
			}
			for _, f := range drv.Findings() {
				t.Error(f)
			}
		})
	}
}

func run(t *testing.T, g *ir.Graph, b runtime.Backend, in map[string]tensor.Datum) (map[string]tensor.Datum, error) {
	t.Helper()
	m, err := runtime.New(g, runtime.Options{Backend: b})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	return m.NewSession().Run(context.Background(), in)
}
