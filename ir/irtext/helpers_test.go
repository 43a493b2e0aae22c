package irtext

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// resolver knows the operators of these tests, in every version of every domain.
type resolver map[string]*ir.Op

func (r resolver) Resolve(domain, name string, version int) *ir.Op {
	if op := r[domain+"/"+name]; op != nil && op.Since <= version {
		return op
	}
	return nil
}

// specs has an attribute of every kind, named after it.
func specs() []ir.AttrSpec {
	var out []ir.AttrSpec
	for _, k := range []ir.AttrKind{ir.AttrInt, ir.AttrFloat, ir.AttrString, ir.AttrTensor, ir.AttrGraph, ir.AttrType,
		ir.AttrInts, ir.AttrFloats, ir.AttrStrings, ir.AttrTensors, ir.AttrGraphs, ir.AttrTypes} {
		out = append(out, ir.AttrSpec{Name: string(k), Kind: k}, ir.AttrSpec{Name: string(k) + " 2", Kind: k})
	}
	return out
}

var anything = []ir.Param{{Name: "x", Elem: "T", Optional: true, Variadic: true}}

// testOps are: same (one input, output of its type), gen (anything in; outputs of the types in attribute "types"),
// vague (as gen, without inference), and the same under awkward names.
func testOps() resolver {
	gen := func(n *ir.Node) ([]ir.Type, error) {
		t, _ := n.Attrs.Get("types").([]ir.Type)
		if len(t) < len(n.Outputs) {
			return nil, fmt.Errorf("attribute types has %d types for %d outputs", len(t), len(n.Outputs))
		}
		return t, nil
	}
	same := func(n *ir.Node) ([]ir.Type, error) { return []ir.Type{n.Inputs[0].Type}, nil }
	one := []ir.Param{{Name: "x", Elem: "T"}}
	r := resolver{}
	for _, op := range []*ir.Op{
		{Name: "Same", Since: 1, In: one, Out: one, Attrs: specs(), Infer: same},
		{Name: "Pick", Since: 1, In: []ir.Param{{Name: "x", Elem: "T"}, {Name: "i", Elem: "int64", Optional: true},
			{Name: "j", Elem: "int64", Optional: true}}, Out: one, Infer: same},
		{Name: "Gen", Domain: "test", Since: 1, In: anything, Out: anything, Attrs: specs(), Infer: gen},
		{Name: "Vague", Domain: "com.test", Since: 3, In: anything, Out: anything, Attrs: specs()},
		{Name: "an op", Domain: "my-domain", Since: 1, In: anything, Out: anything, Attrs: specs(), Infer: gen},
	} {
		r[op.Domain+"/"+op.Name] = op
	}
	return r
}

var opsets = map[string]int{"": 24, "test": 1, "com.test": 4, "my-domain": 1}

// sample returns a graph with most of what the text can hold.
func sample() *ir.Graph {
	b := ir.NewBuilder("sample", testOps(), opsets)
	x := b.Input("x", ir.Tensor(tensor.Float32, "B", "2*L+1", 3))
	n := b.Input("lengths", &ir.OptionalType{Elem: ir.Tensor(tensor.Int64, "B")})
	w := b.Const("w", tensor.FromSlice([]float32{1, -0.5, 3e-9}, 3))
	b.Scope("layers.0")
	y := b.Op("", "Pick", []*ir.Value{x, nil, n})
	g := b.Sub("then")
	g.Output("then_out", g.Op("", "Same", []*ir.Value{y}, ir.A("float", 1.0)))
	inner, _ := g.Build()
	z := b.Op("test", "Gen", []*ir.Value{y, w}, ir.A("graph", inner),
		ir.A("types", []ir.Type{ir.Tensor(tensor.Float32, "B", 10)}),
		ir.A("string", "a \"quoted\" \\ line\nand more"), ir.A("floats", []float64{0.1, 1e300}), ir.A("ints", []int{1, -2}))
	b.Output("out", z)
	h := b.Graph()
	h.Doc = "what it is"
	h.Meta = map[string]string{ir.MetaTime: "L", ir.MetaBatch: "B"}
	h.History = []ir.Event{{Pass: "fold", Changes: 3, Notes: []string{"a note", "warning: b"}}, {Pass: "fuse"}}
	built, err := b.Build()
	if err != nil {
		panic(err)
	}
	return built
}
