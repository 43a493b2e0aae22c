package plan

import (
	"crypto/sha256"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// testOps is a resolver over operators of these tests alone: plans must not depend on the operators of any release.
type testOps []*ir.Op

func (ops testOps) Resolve(domain, name string, version int) *ir.Op {
	var best *ir.Op
	for _, op := range ops {
		if op.Domain == domain && op.Name == name && op.Since <= version && (best == nil || op.Since > best.Since) {
			best = op
		}
	}
	return best
}

// same is the type inference of the test operators: every output has the type of the first input.
func same(n *ir.Node) ([]ir.Type, error) {
	v := n.In(0)
	if v == nil {
		return nil, fmt.Errorf("first input is missing")
	}
	out := make([]ir.Type, max(1, len(n.Outputs)))
	for i := range out {
		out[i] = v.Type
	}
	return out, nil
}

func variadic(name string) []ir.Param {
	return []ir.Param{{Name: name, Elem: "T", Variadic: true, Optional: true}}
}

func op(domain, name string, since int, attrs ...ir.AttrSpec) *ir.Op {
	return &ir.Op{Domain: domain, Name: name, Since: since, In: variadic("x"), Out: variadic("y"), Attrs: attrs,
		Infer: same}
}

func spec(kinds ...ir.AttrKind) []ir.AttrSpec {
	var s []ir.AttrSpec
	for _, k := range kinds {
		s = append(s, ir.AttrSpec{Name: string(k), Kind: k})
	}
	return s
}

var ops = testOps{
	op("test", "Add", 1), op("test", "Add", 7),
	op("test", "All", 1, spec(attrKinds[:]...)...),
	op("test", "If", 2, ir.AttrSpec{Name: "else", Kind: ir.AttrGraph, Required: true},
		ir.AttrSpec{Name: "then", Kind: ir.AttrGraph, Required: true}),
	op("", "Identity", 13),
	op("test", "Linear", 1, ir.AttrSpec{Name: "bias", Kind: ir.AttrInt}),
}

var testOpsets = map[string]int{"": 20, "test": 7}

// build finishes a graph.
func build(t testing.TB, b *ir.Builder) *ir.Graph {
	t.Helper()
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func f32(v ...float32) *tensor.Tensor { return tensor.FromSlice(v, len(v)) }

// graphs are what the tests store; the corpus holds them as they were written when they were added.
var graphs = map[string]func(t testing.TB) *ir.Graph{
	"empty":      func(t testing.TB) *ir.Graph { return build(t, ir.NewBuilder("empty", ops, nil)) },
	"small":      smallGraph,
	"attributes": attributesGraph,
	"subgraphs":  subgraphsGraph,
	"tensors":    tensorsGraph,
	"types":      typesGraph,
	"parameters": parametersGraph,
}

func smallGraph(t testing.TB) *ir.Graph {
	b := ir.NewBuilder("small", ops, testOpsets)
	x := b.Input("x", ir.Tensor(tensor.Float32, "B", "L", 3))
	former := b.Scope("layers.0")
	y := b.Op("test", "Add", []*ir.Value{x, nil, b.Const("w", f32(1, 2, 3))})
	z := b.Ops("", "Identity", 2, []*ir.Value{y})
	b.Scope(former)
	b.Output("out", z[1])
	b.Output("", x)
	g := build(t, b)
	g.Nodes[0].Name = "add the weights"
	g.Nodes[1].Outputs[0] = nil
	g.Doc = "Two nodes; größer als nichts."
	g.Meta = map[string]string{ir.MetaTime: "L", ir.MetaBatch: "B", "empty": "", "z": "last"}
	g.History = []ir.Event{{Pass: "fold", Changes: 3, Notes: []string{"folded w", "warning: none"}}, {Pass: "fuse"}}
	return g
}

func attributesGraph(t testing.TB) *ir.Graph {
	b := ir.NewBuilder("attributes", ops, testOpsets)
	x := b.Input("x", ir.Tensor(tensor.Int64))
	sub := func(name string) *ir.Graph {
		s := b.Sub(name)
		s.Output("", s.Op("test", "Add", []*ir.Value{x}))
		return build(t, s)
	}
	w := f32(0.5)
	y := b.Op("test", "All", []*ir.Value{x},
		ir.A("int", int64(math.MinInt64)), ir.A("float", math.Copysign(0, -1)), ir.A("string", "text\x00with zero"),
		ir.A("tensor", w),
		ir.A("graph", sub("one")), ir.A("type", ir.Tensor(tensor.BFloat16, "N")),
		ir.A("ints", []int64{-1, 0, math.MaxInt64}),
		ir.A("floats", []float64{math.Inf(1), math.Float64frombits(0x7ff8000000000123), 1e-300}),
		ir.A("strings", []string{"", "a", "a"}),
		ir.A("tensors", []*tensor.Tensor{w, tensor.FromStrings([]string{"p", "q"}, 2)}),
		ir.A("graphs", []*ir.Graph{sub("two"), sub("three")}),
		ir.A("types", []ir.Type{&ir.SequenceType{Elem: ir.Tensor(tensor.String)}, ir.Tensor(tensor.BFloat16, "N")}))
	y = b.Op("test", "All", []*ir.Value{y}, ir.A("ints", []int64{}), ir.A("graphs", []*ir.Graph{}), ir.A("float", 0.1))
	b.Output("y", y)
	return build(t, b)
}

func subgraphsGraph(t testing.TB) *ir.Graph {
	b := ir.NewBuilder("subgraphs", ops, testOpsets)
	x := b.Input("x", ir.Tensor(tensor.Float32, "L"))
	shared := b.Const("shared", f32(4))
	h := b.Op("test", "Add", []*ir.Value{x, shared})
	branch := func(b *ir.Builder, name string) *ir.Graph {
		s := b.Sub(name)
		own := s.Input(name+".own", ir.Tensor(tensor.Float32, "L"))
		s.Output("", s.Op("test", "Add", []*ir.Value{own, h, shared, s.Const("mine", f32(5, 6))}))
		return build(t, s)
	}
	outer := b.Sub("then")
	inner := outer.Op("test", "If", []*ir.Value{h}, ir.A("then", branch(outer, "then.then")),
		ir.A("else", branch(outer, "then.else")))
	outer.Output("", outer.Op("test", "Add", []*ir.Value{inner, x}))
	outer.Output("", x)
	outer.Output("", shared)
	y := b.Op("test", "If", []*ir.Value{h}, ir.A("then", build(t, outer)), ir.A("else", branch(b, "else")))
	b.Output("y", y)
	g := build(t, b)
	g.Nodes[1].Attrs.Graph("then").Meta = map[string]string{"note": "metadata of a subgraph"}
	return g
}

// tensorsGraph has a constant of every element type, of several sizes, some with equal content.
func tensorsGraph(t testing.TB) *ir.Graph {
	b := ir.NewBuilder("tensors", ops, testOpsets)
	x := b.Input("x", ir.Tensor(tensor.Float32))
	in := []*ir.Value{x}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, d := range tensor.DTypes() {
		for i, shape := range [][]int{{}, {3}, {0, 2}, {5, 29}} {
			c := tensor.New(d, shape...)
			bytes := c.Bytes()
			for j := range bytes {
				bytes[j] = byte(rng.Uint32())
				if d == tensor.Bool {
					bytes[j] &= 1
				}
			}
			if used := c.Len() * d.Bits() % 8; d.Packed() && used != 0 {
				bytes[len(bytes)-1] &= 1<<used - 1
			}
			for j := range c.Strings() {
				c.Strings()[j] = strings.Repeat("é", j%3)
			}
			in = append(in, b.Const(fmt.Sprintf("%v.%d", d, i), c))
		}
	}
	in = append(in, b.Const("zeros", tensor.New(tensor.Float32, 8, 8)),
		b.Const("zeros.again", tensor.New(tensor.Float32, 8, 8)),
		b.Const("zeros.reshaped", tensor.New(tensor.Int64, 32)),
		b.Const("falses", tensor.New(tensor.Bool, 300)), b.Const("falses.again", tensor.New(tensor.Bool, 300)),
		b.Const("falses.reshaped", tensor.New(tensor.Bool, 3, 100)), in[5])
	b.Output("y", b.Op("test", "Add", in))
	return build(t, b)
}

func typesGraph(t testing.TB) *ir.Graph {
	b := ir.NewBuilder("types", ops, testOpsets)
	l := ir.Sym("L")
	types := []ir.Type{
		ir.Tensor(tensor.Float32), &ir.TensorType{Elem: tensor.Float16, NoRank: true},
		ir.Tensor(tensor.Float64, l.Mul(ir.Const(2)).Add(ir.Const(1)), l.Add(ir.Const(1)).FloorDiv(ir.Const(2)),
			l.Max(ir.Sym("B")), ir.Unknown),
		ir.Tensor(tensor.Int4, 0, 7, "time/steps"),
		&ir.OptionalType{Elem: ir.Tensor(tensor.Int64, "B")},
		&ir.SequenceType{Elem: &ir.OptionalType{Elem: &ir.SequenceType{Elem: ir.Tensor(tensor.Float32, "L")}}},
	}
	for i, typ := range types {
		v := b.Input(fmt.Sprintf("x%d", i), typ)
		b.Output(fmt.Sprintf("y%d", i), b.Op("", "Identity", []*ir.Value{v}))
	}
	return build(t, b)
}

// parametersGraph has parameters that nodes, a subgraph, an output or nothing read, two of equal content, and updates that
// swap two of them.
func parametersGraph(t testing.TB) *ir.Graph {
	b := ir.NewBuilder("parameters", ops, testOpsets)
	x := b.Input("x", ir.Tensor(tensor.Float32, "L"))
	weight := b.Parameter("weight", f32(1, 2, 3))
	bias := b.Parameter("bias", f32(1, 2, 3))
	b.Parameter("unread", tensor.FromSlice([]int64{7}, 1))
	shown := b.Parameter("shown", tensor.FromSlice([]float64{0.5}))
	y := b.Op("test", "Add", []*ir.Value{x, weight, b.Const("constant", f32(1, 2, 3)), bias})
	s := b.Sub("then")
	s.Output("", s.Op("test", "Add", []*ir.Value{bias, y}))
	z := b.Op("test", "If", []*ir.Value{y}, ir.A("then", build(t, s)), ir.A("else", func() *ir.Graph {
		s := b.Sub("else")
		s.Output("", s.Op("test", "Add", []*ir.Value{y}))
		return build(t, s)
	}()))
	b.Output("z", z)
	b.Output("", shown)
	one, two := b.Op("", "Identity", []*ir.Value{weight}), b.Op("", "Identity", []*ir.Value{bias})
	b.Output("new.bias", one)
	b.Output("new.weight", two)
	b.Update(bias, one)
	b.Update(weight, two)
	return build(t, b)
}

// deepGraph is the size of a trained model: six layers, 220 thousand parameters in about 200 tensors.
func deepGraph(t testing.TB) *ir.Graph {
	b := ir.NewBuilder("deep", ops, testOpsets)
	rng := rand.New(rand.NewPCG(3, 4))
	x := b.Input("input", ir.Tensor(tensor.Float32, "B", "L", 128))
	for l := range 6 {
		b.Scope(fmt.Sprintf("model.layers.%d.layer", l))
		weight := func(name string, shape ...int) *ir.Value {
			c := tensor.New(tensor.Float32, shape...)
			for i := range tensor.Data[float32](c) {
				tensor.Data[float32](c)[i] = float32(rng.NormFloat64())
			}
			return b.Const(fmt.Sprintf("model.layers.%d.layer.%s", l, name), c)
		}
		for i := range 2 {
			h := b.Op("test", "Linear",
				[]*ir.Value{x, weight(fmt.Sprintf("mixer.%d.weight", i), 128, 128),
					weight(fmt.Sprintf("mixer.%d.bias", i), 128)}, ir.A("bias", 1))
			x = b.Op("test", "Add", []*ir.Value{x, h})
		}
		for i := range 29 {
			h := b.Op("test", "Linear", []*ir.Value{x, weight(fmt.Sprintf("norm.%d.weight", i), 128)}, ir.A("bias", 0))
			x = b.Op("test", "Add", []*ir.Value{x, h})
		}
	}
	b.Output("output", x)
	g := build(t, b)
	g.Meta = map[string]string{ir.MetaTime: "L", ir.MetaBatch: "B"}
	return g
}

// dump writes everything that a graph says, one thing a line, independent of the project's own printer.
func dump(g *ir.Graph) string {
	var b strings.Builder
	d := dumper{b: &b}
	d.graph(g, "")
	return b.String()
}

type dumper struct{ b *strings.Builder }

func (d dumper) graph(g *ir.Graph, indent string) {
	p := func(format string, args ...any) { fmt.Fprintf(d.b, indent+format+"\n", args...) }
	p("graph %q doc %q", g.Name, g.Doc)
	for _, k := range sortedKeys(g.Opsets) {
		p("opset %q %d", k, g.Opsets[k])
	}
	for _, k := range sortedKeys(g.Meta) {
		p("meta %q %q", k, g.Meta[k])
	}
	for _, e := range g.History {
		p("event %q %d %q", e.Pass, e.Changes, slices.Concat([]string{}, e.Notes))
	}
	for _, v := range g.Inputs {
		p("input %s", d.value(v))
	}
	for _, v := range g.Parameters {
		p("parameter %s = %s", d.value(v), d.tensor(v.Init))
	}
	for _, n := range g.Nodes {
		p("node %q %s since %d scope %q", n.Name, n.Op.FullName(), n.Op.Since, n.Scope)
		for _, v := range n.Inputs {
			p("  in %s", d.value(v))
		}
		for _, v := range n.Outputs {
			p("  out %s", d.value(v))
		}
		for _, a := range n.Attrs {
			p("  attr %s %s %s", a.Name, a.Kind(), d.attr(a.Value))
			for _, s := range (&ir.Node{Attrs: ir.Attrs{a}}).Subgraphs() {
				d.graph(s, indent+"    ")
			}
		}
	}
	for _, v := range g.Outputs {
		p("output %s", d.value(v))
	}
	for _, u := range g.Updates {
		p("update %s = %s", u.Parameter.Name, u.Output.Name)
	}
}

func (d dumper) attr(v any) string {
	switch v := v.(type) {
	case float64:
		return fmt.Sprintf("%v %016x", v, math.Float64bits(v))
	case []float64:
		var s []string
		for _, x := range v {
			s = append(s, d.attr(x))
		}
		return "[" + strings.Join(s, ", ") + "]"
	case *tensor.Tensor:
		return d.tensor(v)
	case []*tensor.Tensor:
		var s []string
		for _, x := range v {
			s = append(s, d.tensor(x))
		}
		return strings.Join(s, ", ")
	case *ir.Graph:
		return ""
	case []*ir.Graph:
		return fmt.Sprint(len(v))
	}
	return fmt.Sprintf("%q", fmt.Sprint(v))
}

func (d dumper) value(v *ir.Value) string {
	switch {
	case v == nil:
		return "-"
	case v.Const != nil:
		return fmt.Sprintf("%s = %s", v.Name, d.tensor(v.Const))
	}
	return fmt.Sprintf("%s %v", v.Name, v.Type)
}

func (dumper) tensor(t *tensor.Tensor) string {
	if t.DType() == tensor.String {
		return fmt.Sprintf("%s %q", t, t.Strings())
	}
	return fmt.Sprintf("%s %x", t, sha256.Sum256(t.Bytes()))
}
