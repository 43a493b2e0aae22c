package ops

import (
	"context"
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// EvalNode computes a node without subgraphs from its inputs, by Eval or, where the operator has none, by its body.
func EvalNode(n *ir.Node, in []tensor.Datum) ([]tensor.Datum, error) {
	if n.Op.Eval != nil {
		return n.Op.Eval(&ir.EvalCtx{Node: n, Ctx: context.Background()}, in)
	}
	b := ir.NewBuilder(n.Op.Name, Default, Opsets())
	args := make([]*ir.Value, len(n.Inputs))
	for i, v := range n.Inputs {
		if v != nil {
			args[i] = b.Input(fmt.Sprintf("in%d", i), v.Type)
		}
	}
	outs := n.Op.Body(b, n, args)
	if err := b.Err(); err != nil {
		return nil, err
	}
	env := map[*ir.Value]tensor.Datum{}
	for i, v := range args {
		if v != nil {
			env[v] = in[i]
		}
	}
	read := func(v *ir.Value) tensor.Datum {
		switch {
		case v == nil:
			return nil
		case v.Const != nil:
			return v.Const
		}
		return env[v]
	}
	for _, m := range b.Graph().Nodes {
		args := make([]tensor.Datum, len(m.Inputs))
		for i, v := range m.Inputs {
			args[i] = read(v)
		}
		res, err := EvalNode(m, args)
		if err != nil {
			return nil, err
		}
		for i, v := range m.Outputs {
			if v != nil && i < len(res) {
				env[v] = res[i]
			}
		}
	}
	res := make([]tensor.Datum, len(outs))
	for i, v := range outs {
		res[i] = read(v)
	}
	return res, nil
}
