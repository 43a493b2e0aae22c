package ops

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// ByBody completes the record of an operator that is defined by its body. Its types, facts and costs follow from the
// operators in the body.
func ByBody(op *ir.Op) *ir.Op {
	if op.Infer == nil {
		op.Infer = func(n *ir.Node) ([]ir.Type, error) {
			if _, err := Bind(n); err != nil {
				return nil, err
			}
			_, outs, err := bodyOf(n)
			if err != nil {
				return nil, err
			}
			types := make([]ir.Type, len(outs))
			for i, v := range outs {
				if v != nil {
					types[i] = v.Type
				}
			}
			return types, nil
		}
	}
	if op.Along == nil {
		op.Along = alongBody
	}
	if op.Cost == nil {
		op.Cost = func(n *ir.Node, bind map[string]int64) ir.Work {
			w := ir.Work{Bytes: BytesOf(n, bind)}
			nodes, _, err := bodyOf(n)
			if err != nil {
				return w
			}
			for _, m := range nodes {
				w.Flops += WorkOf(m, bind).Flops
			}
			return w
		}
	}
	return op
}

// bodyOf builds the body of a node over the node's own inputs.
func bodyOf(n *ir.Node) (nodes []*ir.Node, outs []*ir.Value, err error) {
	b := ir.NewBuilder(n.Op.Name, Default, Opsets())
	b.PaceLike(n)
	outs = n.Op.Body(b, n, n.Inputs)
	if err := b.Err(); err != nil {
		return nil, nil, fmt.Errorf("body: %w", err)
	}
	return b.Graph().Nodes, outs, nil
}

// WideBody reports whether the body of a node computes in float64 throughout: none of its values is a narrower float.
// If a body cannot be built, it is not.
func WideBody(n *ir.Node) bool {
	if n.Op.Body == nil {
		return false
	}
	nodes, outs, err := builtBody(n)
	if err != nil {
		return false
	}
	wide := func(v *ir.Value) bool {
		t, ok := v.TensorType()
		return !ok || !t.Elem.IsFloat() || t.Elem == tensor.Float64
	}
	for _, m := range nodes {
		for _, v := range slices.Concat(m.Inputs, m.Outputs) {
			if v != nil && !wide(v) {
				return false
			}
		}
	}
	return !slices.ContainsFunc(outs, func(v *ir.Value) bool { return v != nil && !wide(v) })
}

// builtBody is bodyOf with an error for bodies that panic, since attributes and types of files may not fit.
func builtBody(n *ir.Node) (nodes []*ir.Node, outs []*ir.Value, err error) {
	defer func() {
		if v := recover(); v != nil {
			ir.PassOn(v)
			err = fmt.Errorf("body of %s: %v", n.Op.FullName(), v)
		}
	}()
	return bodyOf(n)
}

// alongBody propagates facts through the body. The states of its nodes add up to the node's.
func alongBody(n *ir.Node, in []ir.Fact) []ir.Fact {
	nodes, outs, err := bodyOf(n)
	if err != nil {
		return globals(n, in)
	}
	seed := map[*ir.Value]ir.Fact{}
	for i, v := range n.Inputs {
		if n.Step(1); v != nil {
			f := in[i]
			f.State = 0
			seed[v] = f
		}
	}
	facts := Propagate(&ir.Graph{Nodes: nodes}, seed)
	inner, state := map[*ir.Node]bool{}, int64(0)
	for _, m := range nodes {
		inner[m] = true
		for _, v := range m.Outputs {
			if v != nil {
				state += facts[v].State
			}
		}
	}
	out := make([]ir.Fact, len(n.Outputs))
	for i := range out {
		if n.Step(1); i >= len(outs) || outs[i] == nil {
			continue
		}
		if out[i] = facts[outs[i]]; inner[out[i].Cause] {
			out[i].Cause = n
		}
		if out[i].State = 0; i == 0 && !out[i].Constant() {
			out[i].State = state
		}
	}
	return out
}
