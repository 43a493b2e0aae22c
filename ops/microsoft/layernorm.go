package microsoft

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	stdops "github.com/essmc/essmc/ops/std"
)

// ONNX Runtime uses LayerNormalization in models of opsets before 17, where the standard has none.
var _ = ops.Same(stdops.LayerNormalization, 1)

var simplified = ir.Op{Name: "SimplifiedLayerNormalization",
	Doc: "X/sqrt(mean(X*X)+epsilon)*scale with the mean over the axes from axis on; and the reciprocal of the root.",
	In:  ops.Sig("X:T", "scale:V"), Out: ops.Sig("Y:V", "inv_std_var:U?"), Tol: ir.Summing,
	Attrs: []ir.AttrSpec{ops.IntSpec("axis", -1, "first normalized axis"),
		ops.FloatSpec("epsilon", 1e-5, "added to the mean"),
		ops.IntSpec("stash_type", 1, "element type of the computation")},
	Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
		y, inv := rmsNorm(b, n, x[0], x[1], ops.Int(n, "axis"), wants(n, 1))
		return vals(y, inv)[:max(1, len(n.Outputs))]
	}}

// SimplifiedLayerNormalization is RMSNormalization. ONNX Runtime writes it into the standard's domain.
var (
	SimplifiedLayerNormalization = composed(copyOf(simplified))
	_                            = ops.Register(ops.ByBody(copyOf(simplified)))
)

func copyOf(op ir.Op) *ir.Op { return &op }

// rmsNorm computes the norm and, if root is set, the reciprocal root.
func rmsNorm(b *ir.Builder, n *ir.Node, x, scale *ir.Value, axis int64, root bool) (y, inv *ir.Value) {
	y = with(b, "RMSNormalization", vals(x, scale), ir.A("axis", axis), ir.A("epsilon", ops.Float(n, "epsilon")))
	if !root {
		return y, nil
	}
	r := rank(b, x, "X")
	if b.Err() != nil {
		return nil, nil
	}
	a, err := ops.Axis(axis, r)
	if err != nil {
		b.Fail(err)
		return nil, nil
	}
	u := cast(b, x, tensor.Float32)
	mean := std(b, "ReduceMean", std(b, "Mul", u, u), span(b, a, r))
	return y, std(b, "Reciprocal", std(b, "Sqrt", std(b, "Add", mean, constLike(b, u, ops.Float(n, "epsilon")))))
}

var skipOut = ops.Sig("output:T", "mean:U?", "inv_std_var:U?", "input_skip_bias_sum:T?")

// Normalizations of a sum.
var (
	SkipLayerNormalization = composed(&ir.Op{Name: "SkipLayerNormalization",
		Doc: "LayerNormalization over the last axis of input plus skip plus bias; with mean, reciprocal deviation " +
			"and the sum.",
		In: ops.Sig("input:T", "skip:T", "gamma:T", "beta:T?", "bias:T?"), Out: skipOut, Tol: ir.Summing,
		Attrs: []ir.AttrSpec{ops.FloatSpec("epsilon", 1e-12, "added to the variance")},
		Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
			s := add(b, add(b, x[0], x[1]), in(x, 4))
			y := layerNorm(b, n, s, x[2], in(x, 3))
			return vals(y[0], y[1], y[2], s)[:max(1, len(n.Outputs))]
		}})
	SkipSimplifiedLayerNormalization = composed(&ir.Op{Name: "SkipSimplifiedLayerNormalization",
		Doc: "RMSNormalization over the last axis of input plus skip plus bias; with the reciprocal root and the sum.",
		In:  ops.Sig("input:T", "skip:T", "gamma:T", "bias:T?"), Out: skipOut, Tol: ir.Summing,
		Attrs: []ir.AttrSpec{ops.FloatSpec("epsilon", 1e-12, "added to the mean")},
		Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
			if wants(n, 1) {
				return fail(b, "output 1 (mean) has no meaning here")
			}
			s := add(b, add(b, x[0], x[1]), in(x, 3))
			y, inv := rmsNorm(b, n, s, x[2], -1, wants(n, 2))
			return vals(y, nil, inv, s)[:max(1, len(n.Outputs))]
		}})
	EmbedLayerNormalization = composed(&ir.Op{Name: "EmbedLayerNormalization",
		Doc: "LayerNormalization over the last axis of the sum of embeddings of input_ids (B,L), of segment_ids and " +
			"of positions (position_ids, or 0 to L-1); with the number of ones " +
			"in each row of mask (0 without one), and the sum.",
		In: ops.Sig("input_ids:int32[B,L]", "segment_ids:int32[B,L]?", "word_embedding:T[_,D]",
			"position_embedding:T[_,D]", "segment_embedding:T[_,D]?", "gamma:T[D]", "beta:T[D]",
			"mask:int32[B,L]?", "position_ids:int32[_,L]?"),
		Out: ops.Sig("output:T[B,L,D]", "mask_index:int32[B]?", "embedding_sum:T[B,L,D]?"), Tol: ir.Summing,
		Attrs: []ir.AttrSpec{ops.FloatSpec("epsilon", 1e-12, "added to the variance"),
			ops.IntSpec("mask_index_type", nil, "not used")},
		Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
			word := std(b, "Gather", x[2], x[0])
			place := x[3]
			if p := in(x, 8); p != nil {
				place = std(b, "Gather", place, p)
			} else {
				place = std(b, "Slice", place, b.Ints(0), with(b, "Shape", x[:1], ir.A("start", 1)), b.Ints(0))
			}
			s := std(b, "Add", word, place)
			if x[1] != nil {
				if x[4] == nil {
					return fail(b, "input 4 (segment_embedding) is missing")
				}
				s = std(b, "Add", s, std(b, "Gather", x[4], x[1]))
			}
			mask := in(x, 7)
			if mask == nil {
				mask = std(b, "Mul", x[0], constLike(b, x[0], 0))
			}
			ones := with(b, "ReduceSum", vals(mask, b.Ints(1)), ir.A("keepdims", 0))
			return vals(layerNorm(b, n, s, x[5], x[6])[0], ones, s)[:max(1, len(n.Outputs))]
		}})
)

// layerNorm applies LayerNormalization over the last axis.
func layerNorm(b *ir.Builder, n *ir.Node, x, gamma, beta *ir.Value) []*ir.Value {
	args := vals(x, gamma, beta)
	if beta == nil {
		args = args[:2]
	}
	return b.Ops("", "LayerNormalization", 3, args, ir.A("axis", -1), ir.A("epsilon", ops.Float(n, "epsilon")))
}
