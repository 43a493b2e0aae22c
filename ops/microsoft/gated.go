package microsoft

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Gates of layers with linear attention and of experts that all tokens share, as ONNX Runtime GenAI writes them.
var (
	GatedAdd = composed(&ir.Op{Name: "GatedAdd", Doc: "X plus Y times a gate for each row. gate_weight is not " +
		"supported.",
		In:  ops.Sig("X:T[...,C]", "Y:T[...,C]", "gate:T[...,_]", "gate_weight:T[_,1]?"),
		Out: ops.Sig("output:T[...,C]"), Elems: types{"T": half16}, Tol: ir.Summing,
		Body: func(b *ir.Builder, _ *ir.Node, x []*ir.Value) []*ir.Value {
			if in(x, 3) != nil {
				return fail(b, "gate_weight: expected none (gates by a projection are not supported)")
			}
			if k, ok := x[2].Shape()[len(x[2].Shape())-1].Known(); ok && k != 1 {
				return fail(b, "gate: expected 1 number for each row, found %v", x[2].Type)
			}
			return vals(std(b, "Add", x[0], std(b, "Mul", x[1], x[2])))
		}})
	GatedRMSNorm = composed(&ir.Op{Name: "GatedRMSNorm",
		Doc: "RMSNormalization of each group of C elements of the last axis of X, times activation(gate), in float32.",
		In:  ops.Sig("X:T[...,F]", "scale:T[C]", "gate:T[...,F]"), Out: ops.Sig("Y:T[...,F]"),
		Elems: types{"T": half16}, Tol: ir.Summing,
		Attrs: []ir.AttrSpec{ops.FloatSpec("epsilon", 1e-5, "added to the mean"),
			ops.ChoiceSpec("activation", "activation of the gate; swish is silu", "silu", "swish", "sigmoid")},
		Body: gatedNorm})
	LinearAttentionGate = composed(&ir.Op{Name: "LinearAttentionGate",
		Doc: "decay = decay_scale*softplus(a+dt_bias) in float32, and beta = sigmoid(b).",
		In:  ops.Sig("a:T[B,L,H]", "dt_bias:float32[H]", "decay_scale:float32[H]", "b:T[B,L,H]?"),
		Out: ops.Sig("decay:T[B,L,H]", "beta:T[B,L,H]?"), Elems: types{"T": half16}, Tol: ir.Cancelling,
		Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
			f := std(b, "Add", cast(b, x[0], tensor.Float32), x[1])
			decay := cast(b, std(b, "Mul", std(b, "Softplus", f), x[2]), x[0].Elem())
			if !wants(n, 1) {
				return vals(decay)
			}
			rate := in(x, 3)
			if rate == nil {
				return fail(b, "b: expected if the output beta is present")
			}
			return vals(decay, cast(b, std(b, "Sigmoid", cast(b, rate, tensor.Float32)), x[0].Elem()))
		}})
)

func gatedNorm(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
	features, group, axes := dim(b, x[0], -1, "X"), dim(b, x[1], 0, "scale"), rank(b, x[0], "X")
	if b.Err() != nil {
		return nil
	}
	if group < 1 || features%group != 0 {
		return fail(b, "scale: expected 1 or more numbers, and features of X a multiple of them, found %v, %v",
			x[1].Type, x[0].Type)
	}
	rows := make([]int64, axes-1) // 0 keeps an axis
	y, gate := cast(b, x[0], tensor.Float32), cast(b, x[2], tensor.Float32)
	if features != group {
		y = std(b, "Reshape", y, b.Ints(append(rows, features/group, group)...))
	}
	y = with(b, "RMSNormalization", vals(y, cast(b, x[1], tensor.Float32)), ir.A("axis", -1),
		ir.A("epsilon", ops.Float(n, "epsilon")))
	if features != group {
		y = std(b, "Reshape", y, b.Ints(append(rows, features)...))
	}
	activation := "Swish"
	if ops.Str(n, "activation") == "sigmoid" {
		activation = "Sigmoid"
	}
	return vals(cast(b, std(b, "Mul", y, std(b, activation, gate)), x[0].Elem()))
}

// GatedRelativePositionBias is the term that WavLM adds to the products of queries and keys.
var GatedRelativePositionBias = composed(&ir.Op{Name: "GatedRelativePositionBias",
	Doc: "(u*(r*eco_a-1)+2)*rel_pos for each head and query. u and r are sigmoids of the sums of both halves of " +
		"q·weight+bias, q the part of query_layer+query_bias of a head. Packed tokens (token_offset) are not " +
		"supported.",
	In: ops.Sig("query_layer:T[B,L,F]", "query_bias:T[F]", "rel_pos:T[1,H,L,L]", "weight:T[_,D]", "bias:T[D]",
		"eco_a:T[1,H,1,1]", "token_offset:int32[B,L]?"),
	Out:   ops.Sig("output:T[B,H,L,L]"),
	Elems: types{"T": {tensor.Float32, tensor.Float16}}, Tol: ir.Summing,
	Attrs: []ir.AttrSpec{ops.Required(ops.IntSpec("num_heads", nil, "heads"))},
	Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
		if in(x, 6) != nil {
			return fail(b, "token_offset: expected none (packed tokens are not supported)")
		}
		width := dim(b, x[3], 1, "weight")
		if b.Err() == nil && (width < 2 || width%2 != 0) {
			return fail(b, "weight: expected an even number of columns, found %v", x[3].Type)
		}
		h := heads{b: b, n: n}
		y := add(b, std(b, "MatMul", h.split(add(b, x[0], x[1]), "query_layer"), x[3]), x[4])
		y = std(b, "Reshape", y, b.Ints(0, 0, 0, 2, width/2))
		y = std(b, "Sigmoid", with(b, "ReduceSum", vals(y, b.Ints(-1)), ir.A("keepdims", 0)))
		g := b.Ops("", "Split", 2, vals(y), ir.A("axis", -1), ir.A("num_outputs", 2))
		if b.Err() != nil {
			return nil
		}
		y = std(b, "Sub", std(b, "Mul", g[1], x[5]), constLike(b, x[5], 1))
		y = std(b, "Add", std(b, "Mul", g[0], y), constLike(b, x[5], 2))
		return vals(std(b, "Mul", y, x[2]))
	}})
