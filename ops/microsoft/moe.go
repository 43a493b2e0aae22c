package microsoft

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// moeAttrs returns the attributes that mixtures of experts share.
func moeAttrs(more ...ir.AttrSpec) []ir.AttrSpec {
	return append([]ir.AttrSpec{ops.IntSpec("k", 1, "experts for each row"),
		ops.ChoiceSpec("activation_type", "activation between the layers of an expert; gelu is by tanh", "relu", "gelu",
			"silu", "swiglu", "identity"),
		ops.IntSpec("normalize_routing_weights", 0, "whether the weights of the chosen experts sum to 1"),
		ops.IntSpec("swiglu_fusion", 0, "places of gates and linear parts: 0 fc1 and fc3, 1 alternating rows of fc1, "+
			"2 the halves of fc1"),
		ops.FloatSpec("activation_alpha", 1, "factor inside the sigmoid of swiglu"),
		ops.FloatSpec("activation_beta", 0, "added to the linear part of swiglu"),
		ops.Spec("swiglu_limit", ir.AttrFloat, "bound of the gate from above, and of the linear part on both sides"),
		ops.IntSpec("swiglu_limit_after_activation", 0, "must be 0"),
		ops.IntSpec("use_sparse_mixer", 0, "must be 0")}, more...)
}

// MoE is a mixture of experts.
var MoE = composed(&ir.Op{Name: "MoE",
	Doc: "Each row of the input goes through the k experts with the largest of its router_probs (of equal ones the " +
		"first), and their answers are summed, weighted by the softmax of router_probs. An expert is " +
		"fc2(activation(fc1(x))), or with fc3 fc2(activation(fc1(x))*fc3(x)). swiglu is " +
		"G*sigmoid(alpha*G)*(L+beta) of a gate G and a linear part L.",
	In: ops.Sig("input:T", "router_probs:T", "fc1_experts_weights:T", "fc1_experts_bias:T?", "fc2_experts_weights:T",
		"fc2_experts_bias:T?", "fc3_experts_weights:T?", "fc3_experts_bias:T?"),
	Out: ops.Sig("output:T"), Elems: types{"T": half16}, Attrs: moeAttrs(), Tol: ir.Summing,
	Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
		return experts(b, n, x[0], x[1], ofAll, [3]expertLayer{{x[2], in(x, 3)}, {x[4], in(x, 5)},
			{in(x, 6), in(x, 7)}})
	}})

// knownDim returns the size of an axis of a value, if it is known.
func knownDim(b *ir.Builder, v *ir.Value, axis int) (int64, bool) {
	if b.Err() != nil {
		return 0, false
	}
	t, ok := ir.AsTensor(v.Type)
	if !ok || t.NoRank || axis >= len(t.Shape) {
		return 0, false
	}
	return t.Shape[axis].Known()
}

// expertLayer is a linear layer of each expert: weights (experts, outputs, inputs), and a bias (experts, outputs) or
// nil.
type expertLayer struct{ w, bias *ir.Value }

// apply returns the answers (experts, rows, outputs) to x, which has rows for each expert or for all.
func (l expertLayer) apply(b *ir.Builder, x *ir.Value) *ir.Value {
	y := std(b, "MatMul", x, swapLast(b, l.w, "weights of experts"))
	if l.bias != nil {
		y = std(b, "Add", y, std(b, "Unsqueeze", l.bias, b.Ints(1)))
	}
	return y
}

// experts is the body of a mixture. All experts compute all rows, as products of matrices, and each row gathers the
// answers of its own. weigh returns the weights of the chosen experts.
func experts(b *ir.Builder, n *ir.Node, x, probs *ir.Value, weigh weighing, fc [3]expertLayer) []*ir.Value {
	r := rank(b, x, "input")
	count, sized := knownDim(b, fc[0].w, 0)
	choices, both := knownDim(b, probs, 1)
	k := ops.Int(n, "k")
	switch {
	case b.Err() != nil:
		return nil
	case r != 2 && r != 3:
		return fail(b, "input: expected 2 or 3 axes, found %v", x.Type)
	case rank(b, probs, "router_probs") != 2 || sized && both && choices != count:
		return fail(b, "router_probs: expected two axes, the last of %d experts, found %v", count, probs.Type)
	case k < 1 || sized && k > count:
		return fail(b, "k: expected 1 to the number of experts, %v, found %d", fc[0].w.Type, k)
	case ops.Int(n, "use_sparse_mixer") != 0:
		return fail(b, "use_sparse_mixer: expected 0, found %d", ops.Int(n, "use_sparse_mixer"))
	case ops.Int(n, "swiglu_limit_after_activation") != 0:
		return fail(b, "swiglu_limit_after_activation: expected 0, found %d",
			ops.Int(n, "swiglu_limit_after_activation"))
	case fc[2].w == nil && fc[2].bias != nil:
		return fail(b, "fc3_experts_bias: expected fc3_experts_weights with it")
	}
	rows := x
	if r == 3 {
		width := with(b, "Shape", vals(x), ir.A("start", 2))
		rows = std(b, "Reshape", x, with(b, "Concat", vals(b.Ints(-1), width), ir.A("axis", 0)))
	}
	hidden, err := activated(b, n, rows, fc)
	if err != nil {
		return fail(b, "%v", err)
	}
	answers := with(b, "Transpose", vals(fc[1].apply(b, hidden)), ir.A("perm", []int64{1, 0, 2}))
	best := b.Ops("", "TopK", 2, vals(probs, b.Ints(k)), ir.A("axis", -1))
	if b.Err() != nil {
		return nil
	}
	weights := weigh(b, probs, best[0], best[1])
	if ops.Int(n, "normalize_routing_weights") != 0 {
		weights = std(b, "Div", weights, std(b, "ReduceSum", weights, b.Ints(1)))
	}
	last := b.Ints(2)
	width := with(b, "Shape", vals(answers), ir.A("start", 2))
	shape := with(b, "Concat", vals(b.Ints(1, 1), width), ir.A("axis", 0))
	at := std(b, "Expand", std(b, "Unsqueeze", best[1], last), shape)
	chosen := with(b, "GatherElements", vals(answers, at), ir.A("axis", 1))
	y := with(b, "ReduceSum", vals(std(b, "Mul", chosen, std(b, "Unsqueeze", weights, last)), b.Ints(1)),
		ir.A("keepdims", 0))
	if r == 3 {
		y = std(b, "Reshape", y, std(b, "Shape", x))
	}
	return vals(y)
}

// weighing returns weights (rows, k) from probs, the best of these and their indices.
type weighing = func(b *ir.Builder, probs, best, at *ir.Value) *ir.Value

// ofAll weighs by the softmax over all experts.
func ofAll(b *ir.Builder, probs, _, at *ir.Value) *ir.Value {
	return with(b, "GatherElements", vals(with(b, "Softmax", vals(probs), ir.A("axis", -1)), at), ir.A("axis", 1))
}

// activated returns what goes into the second layer of each expert.
func activated(b *ir.Builder, n *ir.Node, x *ir.Value, fc [3]expertLayer) (*ir.Value, error) {
	y := fc[0].apply(b, x)
	kind, fusion := ops.Str(n, "activation_type"), ops.Int(n, "swiglu_fusion")
	var other *ir.Value
	if fc[2].w != nil {
		other = fc[2].apply(b, x)
	}
	if kind == "swiglu" {
		wide, sized := knownDim(b, fc[0].w, 1)
		alternate := func(from int64) *ir.Value {
			return std(b, "Slice", y, b.Ints(from), b.Ints(math.MaxInt64), b.Ints(2), b.Ints(2))
		}
		gate, linear := y, other
		switch {
		case b.Err() != nil:
			return nil, nil
		case fusion < 0 || fusion > 2:
			return nil, fmt.Errorf("swiglu_fusion: expected 0, 1 or 2, found %d", fusion)
		case fusion == 0 && other == nil:
			return nil, fmt.Errorf("swiglu_fusion 0: expected fc3_experts_weights")
		case fusion != 0 && (other != nil || sized && wide%2 != 0):
			return nil, fmt.Errorf("swiglu_fusion %d: expected an even number of rows of fc1_experts_weights, without "+
				"fc3_experts_weights", fusion)
		case fusion == 1:
			gate, linear = alternate(0), alternate(1)
		case fusion == 2:
			if parts := b.Ops("", "Split", 2, vals(y), ir.A("axis", 2), ir.A("num_outputs", 2)); b.Err() == nil {
				gate, linear = parts[0], parts[1]
			}
		}
		if n.Attrs.Has("swiglu_limit") {
			limit := n.Attrs.Float("swiglu_limit", 0)
			high := constLike(b, y, limit)
			gate = std(b, "Min", gate, high)
			linear = std(b, "Clip", linear, constLike(b, y, -limit), high)
		}
		sigmoid := std(b, "Sigmoid", std(b, "Mul", gate, constLike(b, y, ops.Float(n, "activation_alpha"))))
		linear = std(b, "Add", linear, constLike(b, y, ops.Float(n, "activation_beta")))
		return std(b, "Mul", std(b, "Mul", gate, sigmoid), linear), nil
	}
	if fusion != 0 {
		return nil, fmt.Errorf("swiglu_fusion: expected 0 for activation_type %q, found %d", kind, fusion)
	}
	switch kind {
	case "relu":
		y = std(b, "Relu", y)
	case "gelu":
		y = with(b, "Gelu", vals(y), ir.A("approximate", "tanh"))
	case "silu":
		y = std(b, "Mul", y, std(b, "Sigmoid", y))
	}
	if other != nil {
		y = std(b, "Mul", y, other)
	}
	return y, nil
}
