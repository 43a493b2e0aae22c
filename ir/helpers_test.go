package ir

import (
	"fmt"

	"github.com/essmc/essmc/ir/tensor"
)

type ops map[string]*Op

func (o ops) Resolve(domain, name string, version int) *Op {
	if op := o[domain+"/"+name]; op != nil && op.Since <= version {
		return op
	}
	return nil
}

var versions = map[string]int{"": 24}

// testOps are small operators: Identity and Add with inference, If with two branches, Split with two outputs, New (since
// version 30).
func testOps() ops {
	same := func(n *Node) ([]Type, error) { return []Type{n.Inputs[0].Type}, nil }
	x, y := Param{Name: "x", Elem: "T"}, Param{Name: "y", Elem: "T"}
	o := ops{}
	for _, op := range []*Op{
		{Name: "Identity", Since: 1, In: []Param{x}, Out: []Param{x}, Infer: same},
		{Name: "New", Since: 30, In: []Param{x}, Out: []Param{x}, Infer: same},
		{Name: "Add", Since: 1, In: []Param{x, y}, Out: []Param{x}, Infer: func(n *Node) ([]Type, error) {
			if !Compatible(n.Inputs[0].Type, n.Inputs[1].Type) {
				return nil, fmt.Errorf("input 1: expected %v, found %v", n.Inputs[0].Type, n.Inputs[1].Type)
			}
			return same(n)
		}},
		{Name: "Split", Since: 1, In: []Param{x, {Name: "at", Elem: "int64", Optional: true}}, Out: []Param{x, y},
			Infer: func(n *Node) ([]Type, error) {
				return []Type{n.Inputs[0].Type, n.Inputs[0].Type}, nil
			}},
		{Name: "If", Since: 1, In: []Param{{Name: "cond", Elem: "bool"}},
			Out: []Param{{Name: "out", Elem: "T", Variadic: true, Optional: true}},
			Attrs: []AttrSpec{{Name: "then_branch", Kind: AttrGraph, Required: true},
				{Name: "else_branch", Kind: AttrGraph}, {Name: "mode", Kind: AttrString, OneOf: []string{"a", "b"}}},
			Infer: func(n *Node) ([]Type, error) {
				var t []Type
				for _, v := range n.Attrs.Graph("then_branch").Outputs {
					t = append(t, v.Type)
				}
				return t, nil
			}},
	} {
		o[op.Domain+"/"+op.Name] = op
	}
	return o
}

// sample is c ? x+w : x, with x+w computed in a branch that captures x, and a dead node.
func sample() (*Graph, error) {
	b := NewBuilder("g", testOps(), versions)
	x := b.Input("x", Tensor(tensor.Float32, "B", 2))
	c := b.Input("c", Tensor(tensor.Bool))
	w := b.Const("w", tensor.New(tensor.Float32, 1, 2))
	d := b.Op("", "Identity", []*Value{x})
	b.Op("", "Identity", []*Value{d}) // dead
	th := b.Sub("then")
	th.Output("t", th.Op("", "Add", []*Value{d, w}))
	then, err := th.Build()
	if err != nil {
		return nil, err
	}
	el := b.Sub("else")
	el.Output("e", x)
	els, err := el.Build()
	if err != nil {
		return nil, err
	}
	y := b.Op("", "If", []*Value{c}, A("then_branch", then), A("else_branch", els))
	b.Output("y", y)
	return b.Build()
}
