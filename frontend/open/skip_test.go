package open_test

import (
	"context"
	"slices"
	"testing"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
)

// TestSkip checks that a model gives the same answer without any one of the passes, and that the pass has not run.
func TestSkip(t *testing.T) {
	paths, _ := stored(t)
	for _, kind := range []open.Kind{open.Directory, open.ONNX} {
		m := file(t, paths[kind], open.Options{})
		model, err := m.Compile(runtime.Options{})
		must(t, err)
		want := run(t, model)
		skipped := 0
		for _, p := range open.Pipeline() {
			m := file(t, paths[kind], open.Options{Skip: []string{p.Name}})
			model, err := m.Compile(runtime.Options{})
			if err != nil {
				t.Errorf("%v without %s: %v", kind, p.Name, err)
				continue
			}
			if y := run(t, model); !near(y, want, 1e-4) {
				t.Errorf("%v without %s: found %v, expected %v", kind, p.Name, y, want)
			}
			if slices.ContainsFunc(graph(t, m).History, func(e ir.Event) bool { return e.Pass == p.Name }) {
				t.Errorf("%v: pass %s has run", kind, p.Name)
			}
			if slices.ContainsFunc(graph(t, file(t, paths[kind], open.Options{})).History, func(e ir.Event) bool {
				return e.Pass == p.Name
			}) {
				skipped++
			}
		}
		if skipped == 0 {
			t.Errorf("%v: no pass changes it", kind)
		}
	}
}

// TestSkipIntegers checks that quantized operators are computed on float32 without the pass integers, to one quantum.
func TestSkipIntegers(t *testing.T) {
	b := ir.NewBuilder("quantized", ops.Default, ops.Opsets())
	x := b.Input("x", ir.Tensor(tensor.Float32, 1, 8))
	scale, zero := tensor.Scalar(float32(0.05)), tensor.Scalar(uint8(128))
	dequantized := func(q *ir.Value) *ir.Value {
		return b.Op("", "DequantizeLinear", []*ir.Value{q, b.Const("", scale), b.Const("", zero)})
	}
	weights := make([]uint8, 8*4)
	for i := range weights {
		weights[i] = uint8(37 * i)
	}
	q := b.Op("", "QuantizeLinear", []*ir.Value{x, b.Const("", scale), b.Const("", zero)})
	y := b.Op("", "MatMul", []*ir.Value{dequantized(q), dequantized(b.Const("", tensor.FromSlice(weights, 8, 4)))})
	wide := b.Const("", tensor.Scalar(float32(0.5)))
	b.Output("y", b.Op("", "QuantizeLinear", []*ir.Value{y, wide, b.Const("", zero)}))
	g, err := b.Build()
	must(t, err)
	var answers [2][]uint8
	for i, skip := range [][]string{nil, {"integers"}} {
		m, err := open.Graph(g, "quantized", open.Options{Skip: skip})
		must(t, err)
		integers := slices.ContainsFunc(graph(t, m).Nodes, func(n *ir.Node) bool { return n.Op.Name == "QLinearMatMul" })
		if integers != (skip == nil) {
			t.Errorf("skipping %v: on integers: %v", skip, integers)
		}
		model, err := m.Compile(runtime.Options{})
		must(t, err)
		defer model.Close()
		in := tensor.FromSlice([]float32{1, -2, 3, 0.5, -0.25, 6, -6, 2}, 1, 8)
		out, err := model.NewSession().Run(context.Background(), data{"x": in})
		must(t, err)
		answers[i] = tensor.Data[uint8](out["y"].(*tensor.Tensor))
	}
	for i, a := range answers[0] {
		if d := int(a) - int(answers[1][i]); d < -1 || d > 1 {
			t.Errorf("on integers %v, on float32 %v", answers[0], answers[1])
		}
	}
}
