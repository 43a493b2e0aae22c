package raise

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// BenchmarkRecurrences runs loops that torch exported, an ONNX Scan, and unrolled steps, as written and as raised, on
// the CPU backend: one sequence of 4096 steps.
func BenchmarkRecurrences(b *testing.B) {
	const length = 4096
	graphs := map[string]*ir.Graph{"unrolled": writtenOut(b, length)}
	for _, name := range []string{"loop_diagonal", "loop_projected", "loop_s4d", "loop_dense_state",
		"loop_reversed_sum", "loop_block"} {
		g, _, err := onnx.ReadFile(filepath.Join("testdata", "exporters", name+".onnx"), onnx.Options{})
		if err != nil {
			b.Fatal(err)
		}
		graphs[name] = g
	}
	scan, err := irtext.Parse([]byte(scanText), "scan", ops.Default, irtext.Options{})
	if err != nil {
		b.Fatal(err)
	}
	graphs["scan"] = scan
	for _, name := range []string{"loop_diagonal", "loop_projected", "loop_s4d", "loop_dense_state",
		"loop_reversed_sum", "loop_block", "scan", "unrolled"} {
		for _, form := range []string{"written", "raised"} {
			g := graphs[name].Clone()
			if form == "raised" {
				if err := passes.Run(g, Pipeline(), passes.Options{}); err != nil {
					b.Fatal(err)
				}
			}
			if err := passes.Optimize(g); err != nil {
				b.Fatal(err)
			}
			m, err := runtime.New(g, runtime.Options{Backend: cpu.New()})
			if err != nil {
				b.Fatal(err)
			}
			in := map[string]tensor.Datum{}
			for _, p := range m.Inputs() {
				tt := p.Type.(*ir.TensorType)
				shape := make([]int, len(tt.Shape))
				for i, d := range tt.Shape {
					n, err := d.Eval(map[string]int64{"B": 1, "L": length})
					if err != nil {
						b.Fatal(err)
					}
					shape[i] = int(n)
				}
				x := tensor.New(tensor.Float32, shape...)
				for i := range x.Len() {
					tensor.Data[float32](x)[i] = float32(i%17) / 17
				}
				in[p.Name] = x
			}
			b.Run(name+"/"+form, func(b *testing.B) {
				s := m.NewSession()
				for b.Loop() {
					if _, err := s.Run(context.Background(), in); err != nil {
						b.Fatal(err)
					}
				}
			})
			m.Close()
		}
	}
}

const scanText = `<ir_version: 10, opset_import: ["" : 24, "essm" : 1]>
g (float[B,L,4] u, float[B,4] h0) => (float[B,L,4] y)
<float[4,4] a = {0.5, 0.3, -0.1, 0.4, 0.1, 0.2, 0.3, 0.1, -0.4, 0.2, 0.5, 0, 0, 0.1, 0.2, 0.3}>
{
  h1, y = Scan <num_scan_inputs: int = 1, scan_input_axes: ints = [1], scan_output_axes: ints = [1], body: graph = step (float[B,4] h, float[B,4] x) => (float[B,4] k, float[B,4] z) {
    ah = MatMul (h, a)
    k = Add (ah, x)
    z = Identity (k)
  }> (h0, u)
}`

// writtenOut returns a diagonal recurrence unrolled over the given number of steps.
func writtenOut(t testing.TB, steps int) *ir.Graph {
	b := ir.NewBuilder("g", ops.Default, ops.Opsets())
	u := b.Input("u", ir.Tensor(tensor.Float32, "B", steps, 4))
	a := b.Const("a", tensor.FromSlice([]float32{0.9, 0.8, -0.5, 0.25}, 4))
	var h *ir.Value
	joined := make([]*ir.Value, steps)
	for k := range steps {
		at := b.Const("at", tensor.Scalar(int64(k)))
		x := b.Op("", "Gather", []*ir.Value{u, at}, ir.A("axis", 1))
		if h != nil {
			x = b.Op("", "Add", []*ir.Value{b.Op("", "Mul", []*ir.Value{a, h}), x})
		}
		h = x
		joined[k] = b.Op("", "Unsqueeze", []*ir.Value{h, b.Ints(1)})
	}
	b.Output("y", b.Op("", "Concat", joined, ir.A("axis", 1)))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}
