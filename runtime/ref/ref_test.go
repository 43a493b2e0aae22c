package ref_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/ref"
)

type testOps map[string]*ir.Op

func (m testOps) Resolve(_, name string, _ int) *ir.Op { return m[name] }

type data = map[string]tensor.Datum

func signature(n *ir.Node) ([]ir.Type, error) {
	b, err := ops.Bind(n)
	if err != nil {
		return nil, err
	}
	return b.Outputs(n.Op)
}

// makeOps defines: Add, AddOpt (second term optional), Twice (only a Body, which captures nothing), Nest (a Body of Twice),
// Circle (a Body of itself), Lie, Thrice (runs its subgraph three times on its input), None (no meaning at all), Third
// (1/3, for precision).
func makeOps() testOps {
	m := testOps{}
	add := func(op *ir.Op) {
		op.Domain, op.Since = "test", 1
		if op.Infer == nil {
			op.Infer = signature
		}
		m[op.Name] = op
	}
	sum := func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, y := ops.F64(nil, in, 0), ops.F64(nil, in, 1)
		for i := range y {
			x[i] += y[i]
		}
		return ops.One(ops.Real(c, ops.Tensor(in, 0).DType(), x, ops.Tensor(in, 0).Shape()...))
	}
	add(&ir.Op{Name: "Add", In: ops.Sig("x:T[...]", "y:T[...]"), Out: ops.Sig("z:T[...]"), Eval: sum})
	add(&ir.Op{Name: "AddOpt", In: ops.Sig("x:T[...]", "y:T[...]?"), Out: ops.Sig("z:T[...]"), Eval: sum})
	add(&ir.Op{Name: "Twice", In: ops.Sig("x:T[...]"), Out: ops.Sig("z:T[...]"),
		Body: func(b *ir.Builder, _ *ir.Node, in []*ir.Value) []*ir.Value {
			return []*ir.Value{b.Apply(m["Add"], 1, []*ir.Value{in[0], in[0]}, nil)[0]}
		}})
	add(&ir.Op{Name: "Nest", In: ops.Sig("x:T[...]", "c:T[...]"), Out: ops.Sig("z:T[...]", "unused:T[...]"),
		Body: func(b *ir.Builder, _ *ir.Node, in []*ir.Value) []*ir.Value {
			t := b.Apply(m["Twice"], 1, in[:1], nil)[0]
			return []*ir.Value{b.Apply(m["Add"], 1, []*ir.Value{t, in[1]}, nil)[0], in[0]}
		}})
	add(&ir.Op{Name: "Circle", In: ops.Sig("x:T[...]"), Out: ops.Sig("z:T[...]"),
		Body: func(b *ir.Builder, _ *ir.Node, in []*ir.Value) []*ir.Value {
			return b.Apply(m["Circle"], 1, in, nil)
		}})
	add(&ir.Op{Name: "Lie", In: ops.Sig("x:T[...]"), Out: ops.Sig("z:T[...]"),
		Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			switch c.Node.Attrs.Str("about", "") {
			case "rank":
				return ops.One(ops.Real(c, tensor.Float32, []float64{1}))
			case "dimension":
				return ops.One(ops.Real(c, tensor.Float32, []float64{1}, 1))
			case "type":
				return []tensor.Datum{tensor.New(tensor.Int8, ops.Tensor(in, 0).Shape()...)}, nil
			case "number":
				return nil, nil
			}
			return []tensor.Datum{nil}, nil
		},
		Attrs: []ir.AttrSpec{{Name: "about", Kind: ir.AttrString}}})
	add(&ir.Op{Name: "Thrice", In: ops.Sig("x:T[...]"), Out: ops.Sig("z:T[...]"),
		Eval: func(c *ir.EvalCtx, in []tensor.Datum) (out []tensor.Datum, err error) {
			for range 3 {
				if in, err = c.Call(c.Node.Attrs.Graph("body"), in); err != nil {
					return nil, err
				}
			}
			return in, nil
		},
		Attrs: []ir.AttrSpec{{Name: "body", Kind: ir.AttrGraph, Required: true}}})
	add(&ir.Op{Name: "None", In: ops.Sig("x:T[...]"), Out: ops.Sig("z:T[...]")})
	add(&ir.Op{Name: "Third", In: ops.Sig("x:T[...]"), Out: ops.Sig("z:T[...]"),
		Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			x := ops.F64(nil, in, 0)
			for i := range x {
				x[i] /= 3
			}
			// Whoever forgets Wide is caught by the result's type.
			return ops.One(ops.Real(c, ops.Tensor(in, 0).DType(), x, ops.Tensor(in, 0).Shape()...))
		}})
	return m
}

// vector starts a graph with one input x: float[N].
func vector() (*ir.Builder, *ir.Value) {
	b := ir.NewBuilder("g", makeOps(), map[string]int{"test": 1})
	return b, b.Input("x", ir.Tensor(tensor.Float32, "N"))
}

func build(t *testing.T, b *ir.Builder) *ir.Graph {
	t.Helper()
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func run(t *testing.T, g *ir.Graph, o runtime.Options, in data) (data, error) {
	t.Helper()
	o.Backend = ref.With(makeOps())
	m, err := runtime.New(g, o)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return m.NewSession().Run(context.Background(), in)
}

func numbers(v ...float32) *tensor.Tensor { return tensor.FromSlice(v, len(v)) }

func expect(t *testing.T, d tensor.Datum, want ...float64) {
	t.Helper()
	x, ok := d.(*tensor.Tensor)
	if !ok {
		t.Fatalf("found %s", d)
	}
	v, err := x.Float64s()
	if err != nil || !slices.Equal(v, want) {
		t.Errorf("expected %v, found %v %v", want, v, err)
	}
}

func TestBody(t *testing.T) {
	b, x := vector()
	c := b.Const("input0", numbers(10, 20)) // a name that the body's own inputs would like to have
	b.Output("y", b.Op("test", "Nest", []*ir.Value{x, c}))
	out, err := run(t, build(t, b), runtime.Options{}, data{"x": numbers(1, 2)})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, out["y"], 12, 24)
}

func TestSubgraph(t *testing.T) {
	b, x := vector()
	y := b.Op("test", "Add", []*ir.Value{x, x}) // captured, and read by nobody else
	s := b.Sub("body")
	i := s.Input("i", ir.Tensor(tensor.Float32, "N"))
	j := s.Op("test", "Add", []*ir.Value{i, y})
	s.Output("", s.Op("test", "Add", []*ir.Value{j, s.Const("c", numbers(100, 200))}))
	body, err := s.Build()
	if err != nil {
		t.Fatal(err)
	}
	b.Output("z", b.Op("test", "Thrice", []*ir.Value{x}, ir.A("body", body)))
	var seen []string
	out, err := run(t, build(t, b), runtime.Options{Precision: tensor.Float64, Observe: func(v *ir.Value, d tensor.Datum) {
		seen = append(seen, v.Name+tensor.Describe(d))
	}}, data{"x": numbers(1, 2)})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, out["z"], 1+3*(100+2), 2+3*(200+4))
	const f = "float64[2]"
	want := []string{"Add" + f, "Add_1" + f, "Add_2" + f, "Add_1" + f, "Add_2" + f, "Add_1" + f, "Add_2" + f, "z" + f}
	if !slices.Equal(seen, want) {
		t.Errorf("observed %v\nexpected %v", seen, want)
	}
}

func TestUnsupported(t *testing.T) {
	for name, want := range map[string]string{
		"None":   "backend ref: node test.None -> y: operator test.None has neither Eval nor Body",
		"Circle": "backend ref: node test.Circle -> Circle: the bodies of operators are nested deeper than 32",
	} {
		b, x := vector()
		b.Output("y", b.Op("test", name, []*ir.Value{x}))
		_, err := run(t, build(t, b), runtime.Options{}, nil)
		if !errors.Is(err, runtime.ErrUnsupported) || err.Error() != want {
			t.Errorf("expected %s\n   found %v", want, err)
		}
	}
}

// An Eval that disagrees with what the graph states is reported with its node.
func TestWrongResults(t *testing.T) {
	for about, want := range map[string]string{
		"rank":      "expected float[N], the operator returned float32[]",
		"dimension": "expected float[N] with dimension 0 = 2, the operator returned float32[1]",
		"type":      "expected float[N], the operator returned int8[2]",
		"number":    "operator returned 0 results, but output 0 (y) is needed",
		"nothing":   "expected float[N], the operator returned nothing",
	} {
		b, x := vector()
		b.Output("y", b.Op("test", "Lie", []*ir.Value{x}, ir.A("about", about)))
		_, err := run(t, build(t, b), runtime.Options{}, data{"x": numbers(1, 2)})
		if err == nil || !strings.HasPrefix(err.Error(), "node test.Lie -> y: ") || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: found %v", about, err)
		}
	}
}

func TestWide(t *testing.T) {
	b, x := vector()
	b.Output("y", b.Op("test", "Add", []*ir.Value{b.Op("test", "Third", []*ir.Value{x}), b.Const("c", numbers(0.5))}))
	g := build(t, b)
	third32, third64 := float32(1)/3, float64(1) // in variables: constants would be exact
	third64 /= 3
	for p, want := range map[tensor.DType]float64{tensor.Float32: float64(third32 + 0.5), tensor.Float64: third64 + 0.5} {
		out, err := run(t, g, runtime.Options{Precision: p}, data{"x": numbers(1)})
		if err != nil {
			t.Fatal(err)
		}
		if d := out["y"].(*tensor.Tensor).DType(); d != p {
			t.Errorf("expected %v, found %v", p, d)
		}
		expect(t, out["y"], want)
	}
}

// An optional input reaches the operator as its value, or nil.
func TestOptional(t *testing.T) {
	b, x := vector()
	y := b.Input("y", &ir.OptionalType{Elem: ir.Tensor(tensor.Float32, "N")})
	b.Output("z", b.Op("test", "AddOpt", []*ir.Value{x, y}))
	g := build(t, b)
	for _, c := range []struct {
		y    tensor.Datum
		want float64
	}{{nil, 1}, {&tensor.Optional{}, 1}, {numbers(4), 5}, {&tensor.Optional{Value: numbers(4)}, 5}} {
		out, err := run(t, g, runtime.Options{}, data{"x": numbers(1), "y": c.y})
		if err != nil {
			t.Fatal(err)
		}
		expect(t, out["z"], c.want)
	}
}

// Values are freed after their last reader: a long chain needs room for two of them only.
func TestFreesDeadValues(t *testing.T) {
	b, v := vector()
	for range 50 {
		v = b.Op("test", "Twice", []*ir.Value{v})
	}
	b.Output("y", v)
	g := build(t, b)
	x := tensor.New(tensor.Float32, 1000)
	// Input and result of a node, and the same once more inside of its body.
	if _, err := run(t, g, runtime.Options{MaxMemory: 16000}, data{"x": x}); err != nil {
		t.Error(err)
	}
	if _, err := run(t, g, runtime.Options{MaxMemory: 4000}, data{"x": x}); !errors.Is(err, runtime.ErrMemory) {
		t.Errorf("found %v", err)
	}
}
