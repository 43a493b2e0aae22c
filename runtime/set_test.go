package runtime_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// descent builds a step of w ← w - η xᵀ(x w). Package backendtest compares its answers.
func descent(t *testing.T) *ir.Graph {
	t.Helper()
	b := ir.NewBuilder("descent", ops.Default, ops.Opsets())
	x := b.Input("x", &ir.TensorType{Elem: tensor.Float32, Shape: ir.Shape{ir.Sym("B"), ir.Const(3)}})
	w := b.Parameter("w", tensor.FromSlice(make([]float32, 96), 3, 32))
	y := b.Op("", "MatMul", []*ir.Value{x, w})
	g := b.Op("", "Gemm", []*ir.Value{x, y}, ir.A("transA", 1))
	step := b.Op("", "Mul", []*ir.Value{g, b.Const("eta", tensor.Scalar(float32(0.001)))})
	b.Output("y", y)
	b.Output("w.next", b.Op("", "Sub", []*ir.Value{w, step}))
	b.Update(w, b.Graph().Outputs[1])
	graph, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return graph
}

// TestUpdateAllocations: runs that update parameters, and Replace in memory that is there, allocate little or nothing.
func TestUpdateAllocations(t *testing.T) {
	ctx := context.Background()
	m, err := runtime.New(descent(t), runtime.Options{Backend: cpu.New(), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := m.NewSession()
	if err := s.Use(m.NewSet()); err != nil {
		t.Fatal(err)
	}
	in, out := data{"x": tensor.FromSlice([]float32{1, 2, 3}, 1, 3)}, data{}
	run := func() {
		if err := s.RunInto(ctx, in, out); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(100, run); n > 0 {
		t.Errorf("a run that updates allocates %v times", n)
	}
}

func TestUntrustedRefusesUpdates(t *testing.T) {
	_, err := runtime.New(descent(t), runtime.Untrusted(cpu.New()))
	if !errors.Is(err, runtime.ErrOption) || !strings.Contains(err.Error(), `parameter "w"`) {
		t.Errorf("error %v", err)
	}
}
