package essm

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Block holds a part of a graph that a backend may execute tile by tile along time.
var Block = ops.Register(&ir.Op{
	Domain: "essm", Name: "Block",
	Doc: `The graph in body, applied to the inputs. The body holds its constants. Plans of earlier versions hold a state-space
operator, and the operators around it that treat steps separately, as a Block. No pass makes Blocks today.`,
	In:    []ir.Param{{Name: "inputs", Elem: "T", Optional: true, Variadic: true}},
	Out:   []ir.Param{{Name: "outputs", Elem: "T", Optional: true, Variadic: true}},
	Elems: map[string][]tensor.DType{"T": ops.Any},
	Attrs: []ir.AttrSpec{{Name: "body", Kind: ir.AttrGraph, Required: true, Doc: "the graph"}},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		body := n.Attrs.Graph("body")
		if len(body.Inputs) != len(n.Inputs) || len(body.Outputs) != len(n.Outputs) {
			return nil, fmt.Errorf("body has %d inputs and %d outputs, the node %d and %d", len(body.Inputs),
				len(body.Outputs), len(n.Inputs), len(n.Outputs))
		}
		for i, v := range n.Inputs {
			if n.Step(2); v == nil || !ir.Compatible(v.Type, body.Inputs[i].Type) {
				return nil, fmt.Errorf("input %d: body takes %s %v", i, body.Inputs[i].Name, body.Inputs[i].Type)
			}
		}
		if c := body.CapturesPaced(n.Pace()); len(c) > 0 {
			return nil, fmt.Errorf("body reads %s from outside", c[0].Name)
		}
		types, sizes := make([]ir.Type, len(body.Outputs)), bodySizes(n, body)
		for i, v := range body.Outputs {
			n.Step(4)
			types[i] = outside(v.Type, sizes)
		}
		return types, nil
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		return c.Call(c.Node.Attrs.Graph("body"), in)
	},
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		body := n.Attrs.Graph("body")
		seed := map[*ir.Value]ir.Fact{}
		for i, v := range body.Inputs {
			seed[v] = in[i]
		}
		facts := ops.Propagate(body, seed)
		out := make([]ir.Fact, len(body.Outputs))
		var state int64
		for _, m := range body.Nodes {
			state += facts[m.Outputs[0]].State
		}
		for i, v := range body.Outputs {
			out[i] = facts[v]
			out[i].State = 0
		}
		if len(out) > 0 {
			out[0].State = state
		}
		return out
	},
	NoGradient: "is made by a pass, after gradients are taken",
	Tol:        ir.Long,
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		var sum ir.Work
		for _, m := range n.Attrs.Graph("body").Nodes {
			sum.Flops += ops.WorkOf(m, bind).Flops
		}
		sum.Bytes = ops.BytesOf(n, bind)
		return sum
	},
})

// bodySizes returns the dimensions that the symbols of a body represent, given the inputs of its node. Since the
// body reads nothing else, its symbols may differ from those of the graph around it.
func bodySizes(n *ir.Node, body *ir.Graph) map[string]ir.Dim {
	sizes := map[string]ir.Dim{}
	for i, v := range body.Inputs {
		n.Step(4)
		t, ok := v.TensorType()
		given, ok2 := n.Inputs[i].TensorType()
		if !ok || !ok2 || t.NoRank || given.NoRank || len(t.Shape) != len(given.Shape) {
			continue
		}
		for a, d := range t.Shape {
			s, plain := d.Symbol()
			if was, twice := sizes[s]; plain && twice && !was.Equal(given.Shape[a]) {
				sizes[s] = ir.Unknown
			} else if plain {
				sizes[s] = given.Shape[a]
			}
		}
	}
	return sizes
}

// outside converts a type of a body to the symbols of the graph around it. Symbols that no input determines are
// unknown there.
func outside(t ir.Type, sizes map[string]ir.Dim) ir.Type {
	switch t := t.(type) {
	case *ir.SequenceType:
		return &ir.SequenceType{Elem: outside(t.Elem, sizes)}
	case *ir.OptionalType:
		return &ir.OptionalType{Elem: outside(t.Elem, sizes)}
	case *ir.TensorType:
		c := *t
		c.Shape = slices.Clone(t.Shape)
		for i, d := range c.Shape {
			for _, s := range d.Symbols() {
				if _, ok := sizes[s]; !ok {
					c.Shape[i] = ir.Unknown
				}
			}
			c.Shape[i] = c.Shape[i].Subst(sizes)
		}
		return &c
	}
	return t
}
