package ir

import (
	"strings"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
)

func TestBuilderNames(t *testing.T) {
	b := NewBuilder("g", testOps(), versions)
	x := b.Input("x", Tensor(tensor.Float32, 2))
	if got := b.Const("x", tensor.New(tensor.Float32, 2)).Name; got != "x_1" {
		t.Errorf("a second x is called %s", got)
	}
	if former := b.Scope("layers.0"); former != "" {
		t.Errorf("former scope %q", former)
	}
	y := b.Op("", "Identity", []*Value{x})
	z := b.Op("", "Identity", []*Value{y})
	if y.Name != "layers.0.Identity" || z.Name != "layers.0.Identity_1" || y.Def.Scope != "layers.0" {
		t.Errorf("named %s and %s", y.Name, z.Name)
	}
	if b.Unique("") != "v" || b.Unique("") != "v_1" {
		t.Error("names without a hint")
	}
	if e := Edit(b.Graph(), testOps(), versions); e.Unique("x") != "x_1" ||
		e.Unique("layers.0.Identity") != "layers.0.Identity_2" {
		t.Error("Edit gives names that are taken")
	}
}

// The same value under two names, an input, a constant: each output has the name that was asked for, and nothing else
// loses its own.
func TestBuilderOutputs(t *testing.T) {
	b := NewBuilder("g", testOps(), versions)
	x := b.Input("x", Tensor(tensor.Float32, 2))
	y := b.Op("", "Identity", []*Value{x})
	b.Output("a", y)
	b.Output("b", y)
	b.Output("c", x)
	b.Output("d", b.Const("k", tensor.New(tensor.Int8)))
	b.Output("", x)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if got := names(g.Outputs); got != "a b c d x" {
		t.Errorf("outputs %s", got)
	}
	if g.Inputs[0].Name != "x" {
		t.Errorf("the input is called %s", g.Inputs[0].Name)
	}
}

func TestEditKnowsConstantOutputs(t *testing.T) {
	b := NewBuilder("g", testOps(), versions)
	b.Output("", b.Const("k", tensor.New(tensor.Int8)))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if got := Edit(g, testOps(), versions).Unique("k"); got == "k" {
		t.Error("the name of a constant that is an output is given again")
	}
}

// The first error stays, later calls do no harm, an error in a subgraph reaches the outside.
func TestBuilderErrors(t *testing.T) {
	x := Tensor(tensor.Float32, 2)
	for want, f := range map[string]func(*Builder){
		`no operator Nope in version 24 of domain ""`: func(
			b *Builder) {
			b.Output("y", b.Op("", "Nope", []*Value{b.Input("x", x)}))
		},
		"no operator New in version 24": func(b *Builder) { b.Op("", "New", []*Value{b.Input("x", x)}) },
		"input 1 (y) is missing":        func(b *Builder) { b.Op("", "Add", []*Value{b.Input("x", x)}) },
		"expected float[2], found int8": func(
			b *Builder) {
			b.Op("", "Add", []*Value{b.Input("x", x), b.Const("k", tensor.New(tensor.Int8))})
		},
		`two values are named "x"`: func(b *Builder) { b.Input("x", x); b.Input("x", x) },
		`two values are named "z"`: func(
			b *Builder) {
			v := b.Input("z", x)
			b.Output("z", b.Op("", "Identity", []*Value{v}))
		},
		`output "y" has no value`: func(b *Builder) { b.Output("y", nil) },
		"no operator Inner":       func(b *Builder) { b.Sub("s").Op("", "Inner", nil) },
		"has 2 outputs, operator gives 1": func(b *Builder) {
			b.Apply(&Op{Name: "Odd", Out: []Param{{}, {}},
				Infer: func(*Node) ([]Type, error) { return []Type{x}, nil }}, 2, nil, nil)
		},
		"has no type inference": func(b *Builder) { b.Apply(&Op{Name: "Odd"}, 0, nil, nil) },
	} {
		b := NewBuilder("g", testOps(), versions)
		f(b)
		if vs := b.Ops("", "Split", 2, []*Value{nil}); len(vs) != 2 || vs[0] != nil {
			t.Errorf("%s: after the error Ops gives %v", want, vs)
		}
		_, err := b.Build()
		if err == nil || !strings.Contains(err.Error(), want) || b.Err() == nil {
			t.Errorf("found %v, expected %s", err, want)
		}
	}
}

func TestInferLeavesNode(t *testing.T) {
	g := must(t)
	n := g.Nodes[0]
	n.Outputs[0].Type = nil
	types, err := Infer(n)
	if err != nil || len(types) != 1 || n.Outputs[0].Type != nil {
		t.Errorf("%v, %v; the node's type became %v", types, err, n.Outputs[0].Type)
	}
	if err := InferNode(n); err != nil || n.Outputs[0].Type == nil {
		t.Errorf("%v", err)
	}
}

func TestOp(t *testing.T) {
	if (&Op{Name: "Gemm"}).FullName() != "Gemm" || (&Op{Domain: "essm", Name: "Scan"}).FullName() != "essm.Scan" {
		t.Error("FullName")
	}
	for want, f := range map[string]Fact{
		"constant":                    {},
		"global":                      {Symbol: "L", Global: true},
		"each step by itself, axis 1": {Symbol: "L", Axis: 1, Stride: 1},
		"back all, axis 1, state 64":  {Symbol: "L", Axis: 1, Back: Unbounded, State: 64},
		"back 2, ahead 3, summed up, every 2 steps": {Symbol: "L", Axis: -1, Back: 2, Ahead: 3, Stride: 2},
		"ahead 3, axis 0": {Symbol: "L", Ahead: 3},
	} {
		if got := f.String(); got != want {
			t.Errorf("%q, expected %q", got, want)
		}
	}
}

// TestImport checks that operators of a domain are found once the builder imports it, in subgraphs too, and that a domain keeps
// the version that the graph names.
func TestImport(t *testing.T) {
	own := map[string]int{"": 1}
	for _, opsets := range []map[string]int{nil, {"": 1}} {
		g := &Graph{Name: "g", Opsets: opsets}
		b := Edit(g, nil, own)
		b.Sub("inner").Import("acme", 2)
		b.Import("acme", 3)
		if own["acme"] != 2 || opsets != nil && g.Opsets["acme"] != 2 {
			t.Errorf("found versions %v and %v, expected 2 of acme", own, g.Opsets)
		}
		delete(own, "acme")
	}
}
