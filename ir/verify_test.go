package ir

import (
	"errors"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
)

// Each fault is put into a correct graph; the error names what is wrong.
func TestVerifyFinds(t *testing.T) {
	for name, c := range map[string]struct {
		break_ func(*Graph)
		want   string
	}{
		"no name": {func(g *Graph) { g.Inputs[0].Name = "" }, "graph g: value : has no name"},
		"name twice": {func(g *Graph) { g.Nodes[0].Outputs[0].Name = "x" },
			"graph g: node Identity -> x: value x: another value has the same name"},
		"no type": {func(g *Graph) { g.Inputs[1].Type = nil }, "graph g: value c: has no type"},
		"wrong type": {func(g *Graph) { g.Nodes[0].Outputs[0].Type = Tensor(tensor.Int8) },
			"node Identity -> Identity: value Identity: has type int8, operator gives float[B,2]"},
		"wrong constant": {func(g *Graph) { g.Constants()[0].Type = Tensor(tensor.Int8) },
			"graph then: node Add -> t: value w: has type int8, its tensor is float[1,2]"},
		"constant with node": {func(g *Graph) { g.Constants()[0].Def = g.Nodes[0] },
			"is a constant and has a defining node"},
		"input with node": {func(g *Graph) { g.Inputs[0].Def = g.Nodes[0] },
			"value x: is a graph input and has a definition"},
		"input constant": {func(g *Graph) { g.Inputs[0].Const = tensor.New(tensor.Float32) },
			"is a graph input and has a definition"},
		"input twice": {func(g *Graph) { g.Inputs = append(g.Inputs, g.Inputs[0]) }, "value x: is defined twice"},
		"order": {func(g *Graph) { g.Nodes[0], g.Nodes[1] = g.Nodes[1], g.Nodes[0] },
			"value Identity: is read before it is defined"},
		"missing node": {func(g *Graph) { g.Nodes = g.Nodes[1:] }, "value Identity: is read before it is defined"},
		"node twice": {func(g *Graph) { g.Nodes = append(g.Nodes, g.Nodes[0]) },
			"value Identity: is defined twice"},
		"not its node": {func(g *Graph) { g.Nodes[0].Outputs[0].Def = g.Nodes[1] },
			"does not know that this node defines it"},
		"inner value outside": {func(g *Graph) { g.Outputs[0] = g.Nodes[2].Attrs.Graph("then_branch").Outputs[0] },
			"graph g: value t: is read before it is defined"},
		"nil output":     {func(g *Graph) { g.Outputs[0] = nil }, "an output has no value"},
		"nil input":      {func(g *Graph) { g.Inputs[0] = nil }, "an input has no value"},
		"nil node":       {func(g *Graph) { g.Nodes[0] = nil }, "a node is nil"},
		"no operator":    {func(g *Graph) { g.Nodes[0].Op = nil }, "has no operator"},
		"too few inputs": {func(g *Graph) { g.Nodes[0].Inputs = nil }, "input 0 (x) is missing"},
		"absent input":   {func(g *Graph) { g.Nodes[0].Inputs[0] = nil }, "input 0 (x) is missing"},
		"too many inputs": {func(g *Graph) { g.Nodes[0].Inputs = []*Value{g.Inputs[0], g.Inputs[0]} },
			"expected at most 1 inputs, found 2"},
		"too many outputs": {func(g *Graph) { g.Nodes[0].Outputs = append(g.Nodes[0].Outputs, nil) },
			"expected at most 1 outputs, found 2"},
		"unknown attribute": {func(g *Graph) { g.Nodes[0].Attrs = NewAttrs(A("k", 1)) },
			`operator Identity has no attribute "k"`},
		"kind": {func(g *Graph) { g.Nodes[2].Attrs = g.Nodes[2].Attrs.With("mode", 1) },
			`attribute "mode": expected string, found int`},
		"choice": {func(g *Graph) { g.Nodes[2].Attrs = g.Nodes[2].Attrs.With("mode", "z") },
			`attribute "mode": expected one of ["a" "b"], found "z"`},
		"missing attribute": {func(g *Graph) { g.Nodes[2].Attrs = g.Nodes[2].Attrs.Without("then_branch") },
			`attribute "then_branch" is missing`},
		"nil graph": {func(g *Graph) {
			g.Nodes[2].Attrs = g.Nodes[2].Attrs.With("else_branch", (*Graph)(nil))
		},
			`attribute "else_branch" has no value`},
		"order of attributes": {func(g *Graph) { a := g.Nodes[2].Attrs; a[0], a[1] = a[1], a[0] },
			"attributes are not sorted"},
		"domain": {func(g *Graph) { g.Opsets = map[string]int{"other": 1} },
			`domain "" is not among the graph's opsets`},
		"version": {func(g *Graph) { g.Nodes[0].Op = testOps()["/New"] },
			`operator is from version 30 of domain "", the graph has 24`},
		"inference": {func(g *Graph) {
			g.Nodes[2].Attrs.Graph("then_branch").Nodes[0].Inputs[1] = g.Inputs[1]
		},
			"graph then: node Add -> t: input 1: expected float[B,2], found bool"},
	} {
		g := must(t)
		seen := new(Verifier)
		for range 2 {
			if err := seen.Verify(g); err != nil {
				t.Fatalf("%s: %v before the fault is there", name, err)
			}
		}
		c.break_(g)
		for how, err := range map[string]error{"anew": Verify(g), "again": seen.Verify(g)} {
			var v *VerifyError
			if !errors.As(err, &v) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s, %s: %v, expected %s", name, how, err, c.want)
			}
		}
	}
}

// TestVerifierAsksOnce checks that a Verifier asks operators about nodes that have changed, and no others.
func TestVerifierAsksOnce(t *testing.T) {
	asked := 0
	op := &Op{Name: "Ask", In: []Param{{Name: "x", Elem: "T"}}, Out: []Param{{Name: "y", Elem: "T"}},
		Infer: func(n *Node) ([]Type, error) {
			asked++
			return []Type{n.Inputs[0].Type}, nil
		}}
	b := NewBuilder("g", testOps(), versions)
	x, y := b.Input("x", Tensor(tensor.Float32, "B")), b.Input("y", Tensor(tensor.Float32, "B"))
	u := b.Apply(op, 1, []*Value{x}, nil)
	v := b.Apply(op, 1, u, nil)
	b.Output("", v[0])
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	seen := new(Verifier)
	for _, step := range []struct {
		change string
		do     func()
		want   int
	}{
		{"nothing before", func() {}, 2},
		{"none", func() {}, 0},
		{"another input", func() { u[0].Def.Inputs[0] = y }, 1},
		{"another type", func() { u[0].Type = Tensor(tensor.Float32, 3) }, 2},
		{"another operator", func() { copied := *op; v[0].Def.Op = &copied }, 1},
	} {
		step.do()
		asked = 0
		if err := seen.Verify(g); err != nil || asked != step.want {
			t.Errorf("change: %s: asked %d times (%v), expected %d", step.change, asked, err, step.want)
		}
	}
}
