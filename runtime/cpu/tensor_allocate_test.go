package cpu

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/essmc/essmc/internal/race"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
)

// Kernels of imported graphs take no memory while they run.
func TestNodesAllocateNothing(t *testing.T) {
	r := newGen(51)
	x := r.bytes(tensor.Uint8, 1, 4, 9, 20)
	one := fixed(r.scales(0.01))
	zero := func() operand { return fixed(r.bytes(tensor.Uint8)) }
	for _, c := range []struct {
		op      string
		outputs int
		in      []operand
		attrs   []ir.Attr
	}{
		{"MatMulInteger", 1, []operand{given(x), given(r.bytes(tensor.Int8, 20, 17)), zero()}, nil},
		{"QLinearMatMul", 1, []operand{given(x), one, zero(), fixed(r.bytes(tensor.Uint8, 20, 17)), one, zero(), one,
			zero()}, nil},
		{"QLinearConv", 1, []operand{given(x), one, zero(), fixed(r.bytes(tensor.Uint8, 6, 4, 3, 3)), one, zero(), one,
			zero()}, []ir.Attr{ir.A("strides", []int64{2, 2})}},
		{"DynamicQuantizeLinear", 3, []operand{given(r.floats(1, 9, 70))}, nil},
		{"Attention", 1, []operand{given(r.floats(1, 1, 2, 9, 8)), given(r.floats(1, 1, 2, 30, 8)),
			given(r.floats(1, 1, 2, 30, 8))}, []ir.Attr{ir.A("is_causal", 1)}},
		{"Einsum", 1, []operand{given(r.floats(1, 2, 9, 8)), given(r.floats(1, 8, 2, 30))},
			[]ir.Attr{ir.A("equation", "abc,cde->aebd")}},
		{"Resize", 1, []operand{given(r.floats(1, 1, 2, 9, 8)), {},
			fixed(tensor.FromSlice([]float32{1, 1, 2, 1.5}, 4))}, []ir.Attr{ir.A("mode", "cubic")}},
		{"Conv", 1, []operand{given(r.floats(1, 1, 2, 5, 6, 7)), fixed(r.floats(1, 3, 2, 2, 2, 2))},
			[]ir.Attr{ir.A("auto_pad", "SAME_UPPER")}},
		{"ConvTranspose", 1, []operand{given(r.floats(1, 1, 2, 5, 6, 7)), fixed(r.floats(1, 2, 3, 2, 2, 2))}, nil},
		{"AveragePool", 1, []operand{given(r.floats(1, 1, 2, 5, 6, 7))}, []ir.Attr{ir.A("kernel_shape", []int64{2, 2, 2})}},
		{"TopK", 2, []operand{given(r.floats(1, 9, 50)), ints(5)}, nil},
		{"CumSum", 1, []operand{given(r.floats(1, 9, 50, 3)), fixed(tensor.Scalar(int64(1)))}, nil},
		{"GatherElements", 1, []operand{given(r.floats(1, 9, 5)), given(r.indices([]int{9}, 4, 5))}, nil},
		{"ScatterND", 1, []operand{given(r.floats(1, 9, 5)), given(r.indices([]int{9}, 4, 1)),
			given(r.floats(1, 4, 5))}, nil},
		{"ArgMax", 1, []operand{given(r.floats(1, 9, 5))}, nil},
		{"Not", 1, []operand{given(tensor.New(tensor.Bool, 9, 5))}, nil},
		{"Trilu", 1, []operand{given(r.floats(1, 9, 5))}, nil},
		{"Cast", 1, []operand{given(tensor.New(tensor.Bool, 9, 5))}, []ir.Attr{ir.A("to", int(tensor.Float32))}},
		{"Cast", 1, []operand{given(r.indices([]int{9}, 9, 5))}, []ir.Attr{ir.A("to", int(tensor.Float32))}},
		{"Add", 1, []operand{given(r.indices([]int{9}, 9, 5)), given(r.indices([]int{9}, 5))}, nil},
		{"Where", 1, []operand{given(tensor.New(tensor.Bool, 5)), given(r.indices([]int{9}, 5)), ints(1)}, nil},
		{"Less", 1, []operand{given(r.indices([]int{9}, 9, 5)), given(r.indices([]int{9}, 5))}, nil},
		{"Slice", 1, []operand{given(r.indices([]int{9}, 9, 5)), ints(1), ints(7), ints(0)}, nil},
		{"Pad", 1, []operand{given(tensor.New(tensor.Bool, 9, 5)), ints(1, 0, 0, 1)}, nil},
		{"Transpose", 1, []operand{given(tensor.New(tensor.Uint8, 9, 5))}, nil},
		{"Gather", 1, []operand{given(tensor.New(tensor.Uint8, 9, 5)), given(r.indices([]int{9}, 3))}, nil},
		{"OneHot", 1, []operand{given(r.indices([]int{9}, 3)), ints(9), given(r.floats(1, 2))}, nil},
		{"TopK", 2, []operand{given(r.indices([]int{9}, 9, 50)), ints(5)}, nil},
		{"QuantizeLinear", 1, []operand{given(r.floats(1, 9, 5)), one, fixed(r.bytes(tensor.Int8))}, nil},
		{"DequantizeLinear", 1, []operand{given(tensor.New(tensor.Int16, 9, 5)), one}, nil},
		{"ConvInteger", 1, []operand{given(x), fixed(r.bytes(tensor.Int8, 6, 4, 3, 3))}, nil},
	} {
		g, feed := nodeGraph(t, c.op, c.outputs, c.in, c.attrs...)
		m, err := runtime.New(g, runtime.Options{Backend: New(), Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		s, out := m.NewSession(), map[string]tensor.Datum{}
		if n := testing.AllocsPerRun(20, func() {
			if err := s.RunInto(context.Background(), feed, out); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", c.op, n)
		}
	}
}

// A kernel of any element type takes no memory while it runs: this is held for the random applications of operators
// that have another type than float32 among their inputs and outputs.
func TestTypedKernelsAllocateNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("under the race detector, pools drop a part of what is given back to them")
	}
	perOp, least := 24, 60
	if testing.Short() {
		perOp, least = 2, 30
	}
	ran := map[string]bool{}
	backendtest.Seeded(t, perOp, func(c backendtest.Case) bool {
		if c.Suite != "ops" {
			return true
		}
		other := false
		for _, v := range slices.Concat(c.Graph.Inputs, c.Graph.Outputs) {
			tt, ok := v.Type.(*ir.TensorType)
			if !ok {
				return true
			}
			other = other || tt.Elem != tensor.Float32
		}
		if !other {
			return true
		}
		m, err := runtime.New(c.Graph, runtime.Options{Backend: New(), Threads: 1, Profile: true})
		if err != nil {
			return false
		}
		defer m.Close()
		s, out := m.NewSession(), map[string]tensor.Datum{}
		run := func() error { return s.RunInto(context.Background(), c.In[0], out) }
		if run() != nil {
			return false
		}
		steps := s.Profile()
		byKernel := func(p runtime.StepTime) bool { return p.Form != "eval" && p.Form != WayProgram }
		if len(steps) == 0 || slices.ContainsFunc(steps, func(p runtime.StepTime) bool { return !byKernel(p) }) {
			return true
		}
		ran[c.Name] = true
		if n := testing.AllocsPerRun(2, func() {
			if err := run(); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations: %v", c.Name, n, c.Graph.Nodes[0])
		}
		return true
	})
	if len(ran) < least {
		t.Errorf("%d operators ran, expected at least %d", len(ran), least)
	}
	t.Logf("%v", slices.Sorted(maps.Keys(ran)))
}
