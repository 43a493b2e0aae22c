package cpu

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
)

// Operators that this package knows only through package ops.
var (
	_ = ops.Register(&ir.Op{Domain: "cpu.test", Name: "Lifted", Doc: "Lifted is tanh(x)·x + max(x, a).",
		In: []ir.Param{{Name: "X", Elem: "T"}, {Name: "A", Elem: "T"}}, Out: []ir.Param{{Name: "Y", Elem: "T"}},
		Tol: ir.Cancelling,
		Element: func(_ *ir.Node, x []scalar.Expr) scalar.Expr {
			return scalar.Add(scalar.Mul(scalar.Tanh(x[0]), x[0]), scalar.Max(x[0], x[1]))
		}})
	_ = ops.Register(&ir.Op{Domain: "cpu.test", Name: "Squash", Doc: "Squash is 1/(1 + |x|^2)·a.",
		In: []ir.Param{{Name: "X", Elem: "T"}, {Name: "A", Elem: "T"}}, Out: []ir.Param{{Name: "Y", Elem: "T"}},
		Tol: ir.Cancelling,
		Element: func(_ *ir.Node, x []scalar.Expr) scalar.Expr {
			y := scalar.Add(scalar.Const(1), scalar.Pow(scalar.Abs(x[0]), scalar.Const(2)))
			return scalar.Mul(x[1], scalar.Reciprocal(y))
		}})
	_ = ops.Register(&ir.Op{Domain: "cpu.test", Name: "Wave", Doc: "Wave is x·log(gelu(x) + 1) − clip(x, −1, 1)/2.",
		In: []ir.Param{{Name: "X", Elem: "T"}}, Out: []ir.Param{{Name: "Y", Elem: "T"}}, Tol: ir.Cancelling,
		Element: func(_ *ir.Node, x []scalar.Expr) scalar.Expr {
			l := scalar.Mul(x[0], scalar.Log(scalar.Add(scalar.Gelu(x[0]), scalar.Const(1))))
			return scalar.Sub(l, scalar.Div(scalar.Clip(x[0], scalar.Const(-1), scalar.Const(1)), scalar.Const(2)))
		}})
	_ = ops.Register(&ir.Op{Domain: "cpu.test", Name: "Masked", Doc: "Masked is |x|·c.",
		In: []ir.Param{{Name: "X", Elem: "T"}, {Name: "C", Elem: "bool"}}, Out: []ir.Param{{Name: "Y", Elem: "T"}},
		Tol:     ir.Cancelling,
		Element: func(_ *ir.Node, x []scalar.Expr) scalar.Expr { return scalar.Mul(scalar.Abs(x[0]), x[1]) }})
	_ = ops.Register(&ir.Op{Domain: "cpu.test", Name: "Ripple", Doc: "Ripple is x + sin(x), which has no form in vectors.",
		In: []ir.Param{{Name: "X", Elem: "T"}}, Out: []ir.Param{{Name: "Y", Elem: "T"}}, Tol: ir.Cancelling,
		Element: func(_ *ir.Node, x []scalar.Expr) scalar.Expr { return scalar.Add(x[0], scalar.Sin(x[0])) }})
)

// An operator that says no more than its expression is computed by kernels, in the region of its neighbours and, where
// it is a chain, in one kernel with them.
func TestExpression(t *testing.T) {
	opsets := ops.Opsets()
	opsets["cpu.test"] = 1
	r := NewGen(41)
	for _, c := range []struct {
		name  string
		op    string
		way   string // of the operator
		calls int    // kernels of the region: of one with 33 features, and 230 rows
		build func(b *ir.Builder, x, y, one *ir.Value, per func() *ir.Value) *ir.Value
	}{
		{"rows", "cpu.test.Lifted", WayElement, 3, func(b *ir.Builder, x, y, _ *ir.Value, per func() *ir.Value) *ir.Value {
			v := b.Op("", "Exp", []*ir.Value{b.Op("", "Mul", []*ir.Value{x, y})})
			v = b.Op("cpu.test", "Lifted", []*ir.Value{v, y})
			return b.Op("", "Sigmoid", []*ir.Value{b.Op("", "Sub", []*ir.Value{v, x})})
		}},
		{"per feature", "cpu.test.Lifted", WayElement, 2,
			func(b *ir.Builder, x, y, _ *ir.Value, per func() *ir.Value) *ir.Value {
				v := b.Op("cpu.test", "Lifted", []*ir.Value{x, per()})
				return b.Op("", "Sigmoid", []*ir.Value{b.Op("", "Sub", []*ir.Value{v, y})})
			}},
		{"per row", "cpu.test.Lifted", WayElement, 2,
			func(b *ir.Builder, x, y, one *ir.Value, per func() *ir.Value) *ir.Value {
				v := b.Op("cpu.test", "Lifted", []*ir.Value{x, one})
				return b.Op("", "Sigmoid", []*ir.Value{b.Op("", "Sub", []*ir.Value{v, y})})
			}},
		{"number", "cpu.test.Lifted", WayElement, 2,
			func(b *ir.Builder, x, y, _ *ir.Value, per func() *ir.Value) *ir.Value {
				v := b.Op("cpu.test", "Lifted", []*ir.Value{x, b.Const("k", tensor.Scalar(float32(0.25)))})
				return b.Op("", "Sigmoid", []*ir.Value{b.Op("", "Sub", []*ir.Value{v, y})})
			}},
		{"one operand", "cpu.test.Wave", WayElement, 2,
			func(b *ir.Builder, x, y, _ *ir.Value, per func() *ir.Value) *ir.Value {
				v := b.Op("cpu.test", "Wave", []*ir.Value{x})
				return b.Op("", "Sigmoid", []*ir.Value{b.Op("", "Sub", []*ir.Value{v, y})})
			}},
		{"chain", "cpu.test.Squash", WayFused, 1, func(b *ir.Builder, x, y, _ *ir.Value, per func() *ir.Value) *ir.Value {
			v := b.Op("", "Exp", []*ir.Value{b.Op("", "Mul", []*ir.Value{x, y})})
			v = b.Op("cpu.test", "Squash", []*ir.Value{v, y})
			return b.Op("", "Sigmoid", []*ir.Value{b.Op("", "Sub", []*ir.Value{per(), v})})
		}},
		{"chain of constants", "cpu.test.Squash", WayFused, 1,
			func(b *ir.Builder, x, y, _ *ir.Value, per func() *ir.Value) *ir.Value {
				v := b.Op("cpu.test", "Squash", []*ir.Value{x, per()})
				return b.Op("cpu.test", "Squash", []*ir.Value{b.Op("", "Sub", []*ir.Value{y, v}), x})
			}},
		{"chain alone", "cpu.test.Squash", WayElement, 1,
			func(b *ir.Builder, x, y, _ *ir.Value, per func() *ir.Value) *ir.Value {
				return b.Op("cpu.test", "Squash", []*ir.Value{x, y})
			}},
		{"truth values", "cpu.test.Masked", WayFused, 1,
			func(b *ir.Builder, x, y, _ *ir.Value, per func() *ir.Value) *ir.Value {
				mask := tensor.New(tensor.Bool, per().Const.Shape()...)
				for i := range tensor.Data[bool](mask) {
					tensor.Data[bool](mask)[i] = i%3 != 0
				}
				return b.Op("", "Sub", []*ir.Value{b.Op("cpu.test", "Masked", []*ir.Value{x, b.Const("c", mask)}), y})
			}},
		{"sine", "cpu.test.Ripple", WayElement, 2, func(b *ir.Builder, x, y, _ *ir.Value, per func() *ir.Value) *ir.Value {
			v := b.Op("cpu.test", "Ripple", []*ir.Value{x})
			return b.Op("", "Sigmoid", []*ir.Value{b.Op("", "Sub", []*ir.Value{v, y})})
		}},
	} {
		for _, f := range []int{1, 3, 33, 128, 300, 515} {
			for _, rows := range []int{1, 5, 230} {
				b := ir.NewBuilder("expression", ops.Default, opsets)
				x, y := b.Input("x", ir.Tensor(tensor.Float32, "B", "L", f)),
					b.Input("y", ir.Tensor(tensor.Float32, "B", "L", f))
				one := b.Input("one", ir.Tensor(tensor.Float32, "B", "L", 1))
				per := func() *ir.Value { return b.Const("per", r.Floats(1, f)) }
				b.Output("out", c.build(b, x, y, one, per))
				g, err := b.Build()
				if err != nil {
					t.Fatal(err)
				}
				name := fmt.Sprintf("%s, %d rows of %d", c.name, rows, f)
				in := map[string]tensor.Datum{"x": r.Floats(1, 2, rows, f), "y": r.Floats(1, 2, rows, f),
					"one": r.Floats(1, 2, rows, 1)}
				want := Truth(t, g, in)
				var first []float32
				for _, threads := range []int{1, 3} {
					m, err := runtime.New(g, runtime.Options{Backend: New(), Threads: threads})
					if err != nil {
						t.Fatal(err)
					}
					got, err := m.NewSession().Run(context.Background(), in)
					if err != nil {
						t.Fatal(err)
					}
					CloseTo(t, name, got, want, 4e-6)
					y := tensor.Data[float32](got["out"].(*tensor.Tensor))
					if first == nil {
						first = slices.Clone(y)
					} else if !slices.EqualFunc(y, first,
						func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
						t.Errorf("%s: answers differ between threads", name)
					}
					m.Close()
				}
				if f != 33 || rows != 230 {
					continue
				}
				if way := wayOf(t, g, c.op, map[string]int64{"B": 2, "L": int64(rows)}); way != c.way {
					t.Errorf("%s: %s is computed %s, expected %s", name, c.op, way, c.way)
				}
				if n := rowCalls(t, g, map[string]int64{"B": 2, "L": int64(rows)}); n != c.calls {
					t.Errorf("%s: %d row kernels, expected %d", name, n, c.calls)
				}
			}
		}
	}
}

// wayOf is how the first node of an operator runs.
func wayOf(t *testing.T, g *ir.Graph, op string, dims map[string]int64) string {
	t.Helper()
	p, err := New().(backend).compile(g, runtime.Config{Constants: &runtime.Constants{}})
	if err != nil {
		t.Fatal(err)
	}
	b := runtime.Binding{Dims: dims}
	for _, v := range g.Inputs {
		b.Inputs = append(b.Inputs, v.Type)
	}
	for _, u := range p.lookup(b).units() {
		for j, s := range u.steps {
			if s.Node.Op.FullName() == op {
				return u.way(s, j)
			}
		}
	}
	return "not"
}

// TestExpressionAllocates nothing while rows are computed.
func TestExpressionAllocates(t *testing.T) {
	const rows, f = 37, 33
	opsets := ops.Opsets()
	opsets["cpu.test"] = 1
	b := ir.NewBuilder("expression", ops.Default, opsets)
	x, a := b.Input("x", ir.Tensor(tensor.Float32, rows, f)), b.Input("a", ir.Tensor(tensor.Float32, rows, 1))
	b.Output("out", b.Op("cpu.test", "Lifted", []*ir.Value{x, a}))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	p, err := New().(backend).compile(g, runtime.Config{Constants: &runtime.Constants{}})
	if err != nil {
		t.Fatal(err)
	}
	op := record.Of(p.Steps[0]).Row([][]int{{rows, f}, {rows, 1}}, []int{rows, f})
	in := [][]float32{make([]float32, rows*f), make([]float32, rows)}
	if n := testing.AllocsPerRun(10, func() { op.Run(nil, in[0], in, rows) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A constant with as many truth values as there are numbers is not an operand of rows.
func TestExpressionOfTruthValues(t *testing.T) {
	opsets := ops.Opsets()
	opsets["cpu.test"] = 1
	r := NewGen(43)
	b := ir.NewBuilder("expression", ops.Default, opsets)
	x := b.Input("x", ir.Tensor(tensor.Float32, 1, 33))
	mask := tensor.New(tensor.Bool, 33)
	for i := range tensor.Data[bool](mask) {
		tensor.Data[bool](mask)[i] = i%3 != 0
	}
	v := b.Op("cpu.test", "Masked", []*ir.Value{b.Op("", "Exp", []*ir.Value{x}), b.Const("c", mask)})
	b.Output("out", b.Op("", "Sub", []*ir.Value{v, x}))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	in := map[string]tensor.Datum{"x": r.Floats(1, 1, 33)}
	m, err := runtime.New(g, runtime.Options{Backend: New(), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	got, err := m.NewSession().Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	CloseTo(t, "truth values", got, Truth(t, g, in), 4e-6)
}

// TestElements finds every operator that has an expression computed by it on float32 numbers, unless there is a reason.
func TestElements(t *testing.T) {
	const gives, takes = "gives truth values", "takes truth values"
	others := map[string]string{
		"Equal": gives, "Greater": gives, "GreaterOrEqual": gives, "Less": gives, "LessOrEqual": gives, "IsInf": gives,
		"IsNaN": gives,
		"And":   gives, "Or": gives, "Xor": gives, "Not": gives, "Where": takes, "cpu.test.Masked": takes,
		"essm.Affine":    "has a row kernel, for constants in float64",
		"essm.BatchNorm": "has a row kernel, for constants in float64",
	}
	opsets := ops.Opsets()
	opsets["cpu.test"] = 1
	found := 0
	for _, op := range ops.Default.All() {
		name := op.FullName()
		if op.Element == nil || !ops.Newest(op) {
			continue
		}
		if others[name] != "" {
			delete(others, name)
			continue
		}
		found++
		opsets[op.Domain] = max(opsets[op.Domain], op.Since)
		b := ir.NewBuilder("element", ops.Default, opsets)
		var in []*ir.Value
		for i, p := range op.In {
			if !p.Optional {
				in = append(in, b.Input(fmt.Sprint("x", i), ir.Tensor(tensor.Float32, "L", 8)))
			}
			if p.Variadic {
				in = append(in, b.Input("more", ir.Tensor(tensor.Float32, "L", 8)),
					b.Input("and", ir.Tensor(tensor.Float32, "L", 8)))
			}
		}
		var attrs []ir.Attr
		if name == "essm.Map" {
			attrs = append(attrs, ir.A("f", "exp(x0) - x1"))
		}
		b.Output("out", b.Op(op.Domain, op.Name, in, attrs...))
		g, err := b.Build()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if way := wayOf(t, g, name, map[string]int64{"L": 4}); way != WayElement && way != WayFused {
			t.Errorf("%s is computed %s", name, way)
		}
	}
	if found < 60 || len(others) > 0 {
		t.Errorf("%d operators; not found: %v", found, others)
	}
}

// Operators of which only the expression is known read the halves of a wide product in place, like others.
func TestExpressionColumns(t *testing.T) {
	opsets := ops.Opsets()
	opsets["cpu.test"] = 1
	b := ir.NewBuilder("gate", ops.Default, opsets)
	x := b.Input("x", ir.Tensor(tensor.Float32, "B", "L", 64))
	h := b.Ops("", "Split", 2, []*ir.Value{b.Op("", "Exp", []*ir.Value{x})}, ir.A("axis", -1), ir.A("num_outputs", 2))
	b.Output("out", b.Op("", "Sub",
		[]*ir.Value{b.Op("cpu.test", "Squash", []*ir.Value{h[0], h[1]}),
			b.Op("cpu.test", "Squash", []*ir.Value{h[1], h[0]})}))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if way := wayOf(t, g, "essmc.cpu.Columns", map[string]int64{"B": 2, "L": 30}); way != WayColumns {
		t.Errorf("halves are copied %s", way)
	}
	r := NewGen(47)
	in := map[string]tensor.Datum{"x": r.Floats(1, 2, 30, 64)}
	m, err := runtime.New(g, runtime.Options{Backend: New(), Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	got, err := m.NewSession().Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	CloseTo(t, "halves", got, Truth(t, g, in), 4e-6)
}
