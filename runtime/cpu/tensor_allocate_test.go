package cpu

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/essmc/essmc/ops"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"

	"github.com/essmc/essmc/internal/race"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
)

// Kernels of imported graphs take no memory while they run.
func TestNodesAllocateNothing(t *testing.T) {
	r := NewGen(51)
	x := r.Bytes(tensor.Uint8, 1, 4, 9, 20)
	one := Fixed(r.Scales(0.01))
	zero := func() Operand { return Fixed(r.Bytes(tensor.Uint8)) }
	for _, c := range []struct {
		op      string
		outputs int
		in      []Operand
		attrs   []ir.Attr
	}{
		{"MatMulInteger", 1, []Operand{Given(x), Given(r.Bytes(tensor.Int8, 20, 17)), zero()}, nil},
		{"QLinearMatMul", 1, []Operand{Given(x), one, zero(), Fixed(r.Bytes(tensor.Uint8, 20, 17)), one, zero(), one,
			zero()}, nil},
		{"QLinearConv", 1, []Operand{Given(x), one, zero(), Fixed(r.Bytes(tensor.Uint8, 6, 4, 3, 3)), one, zero(), one,
			zero()}, []ir.Attr{ir.A("strides", []int64{2, 2})}},
		{"DynamicQuantizeLinear", 3, []Operand{Given(r.Floats(1, 9, 70))}, nil},
		{"Attention", 1, []Operand{Given(r.Floats(1, 1, 2, 9, 8)), Given(r.Floats(1, 1, 2, 30, 8)),
			Given(r.Floats(1, 1, 2, 30, 8))}, []ir.Attr{ir.A("is_causal", 1)}},
		{"Einsum", 1, []Operand{Given(r.Floats(1, 2, 9, 8)), Given(r.Floats(1, 8, 2, 30))},
			[]ir.Attr{ir.A("equation", "abc,cde->aebd")}},
		{"Resize", 1, []Operand{Given(r.Floats(1, 1, 2, 9, 8)), {},
			Fixed(tensor.FromSlice([]float32{1, 1, 2, 1.5}, 4))}, []ir.Attr{ir.A("mode", "cubic")}},
		{"Conv", 1, []Operand{Given(r.Floats(1, 1, 2, 5, 6, 7)), Fixed(r.Floats(1, 3, 2, 2, 2, 2))},
			[]ir.Attr{ir.A("auto_pad", "SAME_UPPER")}},
		{"ConvTranspose", 1, []Operand{Given(r.Floats(1, 1, 2, 5, 6, 7)), Fixed(r.Floats(1, 2, 3, 2, 2, 2))}, nil},
		{"AveragePool", 1, []Operand{Given(r.Floats(1, 1, 2, 5, 6, 7))}, []ir.Attr{ir.A("kernel_shape", []int64{2, 2, 2})}},
		{"TopK", 2, []Operand{Given(r.Floats(1, 9, 50)), Ints(5)}, nil},
		{"CumSum", 1, []Operand{Given(r.Floats(1, 9, 50, 3)), Fixed(tensor.Scalar(int64(1)))}, nil},
		{"GatherElements", 1, []Operand{Given(r.Floats(1, 9, 5)), Given(r.Indices([]int{9}, 4, 5))}, nil},
		{"ScatterND", 1, []Operand{Given(r.Floats(1, 9, 5)), Given(r.Indices([]int{9}, 4, 1)),
			Given(r.Floats(1, 4, 5))}, nil},
		{"ArgMax", 1, []Operand{Given(r.Floats(1, 9, 5))}, nil},
		{"Not", 1, []Operand{Given(tensor.New(tensor.Bool, 9, 5))}, nil},
		{"Trilu", 1, []Operand{Given(r.Floats(1, 9, 5))}, nil},
		{"Cast", 1, []Operand{Given(tensor.New(tensor.Bool, 9, 5))}, []ir.Attr{ir.A("to", int(tensor.Float32))}},
		{"Cast", 1, []Operand{Given(r.Indices([]int{9}, 9, 5))}, []ir.Attr{ir.A("to", int(tensor.Float32))}},
		{"Add", 1, []Operand{Given(r.Indices([]int{9}, 9, 5)), Given(r.Indices([]int{9}, 5))}, nil},
		{"Where", 1, []Operand{Given(tensor.New(tensor.Bool, 5)), Given(r.Indices([]int{9}, 5)), Ints(1)}, nil},
		{"Less", 1, []Operand{Given(r.Indices([]int{9}, 9, 5)), Given(r.Indices([]int{9}, 5))}, nil},
		{"Slice", 1, []Operand{Given(r.Indices([]int{9}, 9, 5)), Ints(1), Ints(7), Ints(0)}, nil},
		{"Pad", 1, []Operand{Given(tensor.New(tensor.Bool, 9, 5)), Ints(1, 0, 0, 1)}, nil},
		{"Transpose", 1, []Operand{Given(tensor.New(tensor.Uint8, 9, 5))}, nil},
		{"Gather", 1, []Operand{Given(tensor.New(tensor.Uint8, 9, 5)), Given(r.Indices([]int{9}, 3))}, nil},
		{"OneHot", 1, []Operand{Given(r.Indices([]int{9}, 3)), Ints(9), Given(r.Floats(1, 2))}, nil},
		{"TopK", 2, []Operand{Given(r.Indices([]int{9}, 9, 50)), Ints(5)}, nil},
		{"QuantizeLinear", 1, []Operand{Given(r.Floats(1, 9, 5)), one, Fixed(r.Bytes(tensor.Int8))}, nil},
		{"DequantizeLinear", 1, []Operand{Given(tensor.New(tensor.Int16, 9, 5)), one}, nil},
		{"ConvInteger", 1, []Operand{Given(x), Fixed(r.Bytes(tensor.Int8, 6, 4, 3, 3))}, nil},
	} {
		g, feed := NodeGraph(t, c.op, c.outputs, c.in, c.attrs...)
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

// TestBranchesAllocateNothing checks that a model with branches, whose sizes follow from the shapes of inputs, does not
// allocate in a run.
func TestBranchesAllocateNothing(t *testing.T) {
	b := ir.NewBuilder("branches", ops.Default, ops.Opsets())
	r := NewGen(12)
	x := b.Input("x", ir.Tensor(tensor.Float32, "a", 4, "c"))
	rate := b.Input("rate", ir.Tensor(tensor.Int64))
	branch := func(taps int) *ir.Graph {
		sub := b.Sub("branch")
		y := sub.Op("", "Conv", []*ir.Value{x, sub.Const("w", r.Floats(1, 6, 4, taps))}, ir.A("auto_pad", "SAME_UPPER"))
		shape := sub.Op("", "Concat", []*ir.Value{sub.Op("", "Shape", []*ir.Value{y}, ir.A("end", 1)), sub.Ints(-1)},
			ir.A("axis", 0))
		sub.Output("", sub.Op("", "Reshape", []*ir.Value{y, shape}))
		g, err := sub.Build()
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	cond := b.Op("", "Equal", []*ir.Value{rate, b.Const("k", tensor.Scalar(int64(16)))})
	y := b.Op("", "If", []*ir.Value{cond}, ir.A("then_branch", branch(3)), ir.A("else_branch", branch(5)))
	b.Output("y", b.Op("", "Relu", []*ir.Value{y}))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	m, err := runtime.New(g, runtime.Options{Backend: New(), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	s, out := m.NewSession(), map[string]tensor.Datum{}
	for _, k := range []int64{16, 8} {
		in := map[string]tensor.Datum{"x": r.Floats(1, 2, 4, 9), "rate": tensor.Scalar(k)}
		if err := s.RunInto(context.Background(), in, out); err != nil {
			t.Fatal(err)
		}
		want := Truth(t, g, in)
		CompareDatum(t, "If", out["y"], want["y"])
		if n := testing.AllocsPerRun(20, func() {
			if err := s.RunInto(context.Background(), in, out); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("rate %d: %v allocations", k, n)
		}
	}
}
