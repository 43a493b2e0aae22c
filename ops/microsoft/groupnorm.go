package microsoft

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

var groupAttrs = []ir.AttrSpec{ops.Required(ops.IntSpec("activation", nil, "0: none, 1: x*sigmoid(x)")),
	ops.IntSpec("channels_last", 1, "whether channels are the last axis of X, or axis 1"),
	ops.FloatSpec("epsilon", 1e-5, "added to the variance"),
	ops.Required(ops.IntSpec("groups", nil, "number of groups of channels"))}

// Group normalizations.
var (
	GroupNorm = composed(&ir.Op{Name: "GroupNorm",
		Doc: "X normalized over each group of channels and all positions, times gamma plus beta per channel, in " +
			"float32 or wider; then an activation.",
		In: ops.Sig("X:T[...]", "gamma:M[C]", "beta:M[C]"), Out: ops.Sig("Y:T[...]"), Attrs: groupAttrs,
		Tol: ir.Summing,
		Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
			return vals(groupNorm(b, n, x[0], x[1], x[2]))
		}})
	SkipGroupNorm = composed(&ir.Op{Name: "SkipGroupNorm",
		Doc: "GroupNorm of the sum of X, skip (of the same shape, or one value per sample and channel) and bias; " +
			"with the sum. Channels come last.",
		In: ops.Sig("X:T", "gamma:M[C]", "beta:M[C]", "skip:T", "bias:T[C]?"), Out: ops.Sig("Y:T", "S:T?"),
		Attrs: groupAttrs, Tol: ir.Summing,
		Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
			if ops.Int(n, "channels_last") == 0 {
				return fail(b, "channels_last: expected 1, found 0")
			}
			skip := x[3]
			if rank(b, skip, "skip") == 2 && rank(b, x[0], "X") == 4 {
				skip = std(b, "Unsqueeze", skip, b.Ints(1, 2))
			}
			s := add(b, std(b, "Add", x[0], skip), in(x, 4))
			return vals(groupNorm(b, n, s, x[1], x[2]), s)[:max(1, len(n.Outputs))]
		}})
)

func groupNorm(b *ir.Builder, n *ir.Node, x, gamma, beta *ir.Value) *ir.Value {
	r := rank(b, x, "X")
	groups := ops.Int(n, "groups")
	if b.Err() != nil {
		return nil
	}
	if groups < 1 || r < 3 {
		fail(b, "expected 1 or more groups and 3 or more axes, found %d groups of %v", groups, x.Type)
		return nil
	}
	last := ops.Int(n, "channels_last") != 0
	inner := tensor.Float32
	if x.Elem() == tensor.Float64 {
		inner = tensor.Float64
	}
	y := cast(b, x, inner)
	if last {
		y = channels(b, y, false)
	}
	// (N, groups, the rest) is normalized over the rest.
	shape := std(b, "Shape", y)
	y = std(b, "Reshape", y, b.Ints(0, groups, -1))
	mean := std(b, "ReduceMean", y, b.Ints(2))
	d := std(b, "Sub", y, mean)
	variance := std(b, "ReduceMean", std(b, "Mul", d, d), b.Ints(2))
	y = std(b, "Div", d, std(b, "Sqrt", std(b, "Add", variance, constLike(b, y, ops.Float(n, "epsilon")))))
	y = with(b, "Reshape", vals(y, shape), ir.A("allowzero", 1))
	perChannel := func(v *ir.Value) *ir.Value {
		return std(b, "Unsqueeze", cast(b, v, inner), span(b, 1, r-1))
	}
	y = std(b, "Add", std(b, "Mul", y, perChannel(gamma)), perChannel(beta))
	if ops.Int(n, "activation") != 0 {
		y = std(b, "Swish", y)
	}
	if last {
		y = channels(b, y, true)
	}
	if b.Err() != nil {
		return nil
	}
	return cast(b, y, x.Elem())
}
