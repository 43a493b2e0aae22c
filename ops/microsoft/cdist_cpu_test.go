package microsoft_test

import (
	"context"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	_ "github.com/essmc/essmc/ops/microsoft"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/ref"
)

// TestCDistOnCPU compares the CPU backend's kernel with the interpreter, at odd sizes.
func TestCDistOnCPU(t *testing.T) {
	for _, size := range [][3]int{{1, 1, 1}, {3, 5, 7}, {17, 300, 33}, {2, 9, 0}, {0, 3, 2}} {
		for _, metric := range []string{"euclidean", "sqeuclidean"} {
			opsets := ops.Opsets()
			opsets["com.microsoft"] = 1
			g := ir.NewBuilder("g", ops.Default, opsets)
			in, values := map[string]tensor.Datum{}, []*ir.Value{}
			for i, rows := range size[:2] {
				x := tensor.New(tensor.Float32, rows, size[2])
				for k := range tensor.Data[float32](x) {
					tensor.Data[float32](x)[k] = float32(k*k%(97+i))/16 - 3
				}
				name := []string{"a", "b"}[i]
				values, in[name] = append(values, g.Input(name, ir.Tensor(tensor.Float32, rows, size[2]))), x
			}
			g.Output("y", g.Op("com.microsoft", "CDist", values, ir.A("metric", metric)))
			graph, err := g.Build()
			if err != nil {
				t.Fatal(err)
			}
			var answers [2]tensor.Datum
			for i, backend := range []runtime.Backend{ref.New(), cpu.New()} {
				m, err := runtime.New(graph, runtime.Options{Backend: backend, Profile: true})
				if err != nil {
					t.Fatal(err)
				}
				s := m.NewSession()
				out, err := s.Run(context.Background(), in)
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range s.Profile() {
					if i == 1 && p.Form == "eval" {
						t.Errorf("%v: evaluated, expected a kernel", size)
					}
				}
				answers[i] = out["y"]
			}
			if d := backendtest.Diff(answers[1], answers[0], ir.Tolerance{Ulps: 32}); d != "" {
				t.Errorf("%s %v: %s", metric, size, d)
			}
		}
	}
}
