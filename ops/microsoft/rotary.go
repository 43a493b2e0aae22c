package microsoft

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// RotaryEmbedding rotates pairs of features by angles proportional to the position.
var RotaryEmbedding = composed(&ir.Op{Name: "RotaryEmbedding",
	Doc: "Pairs (x1, x2) of the features of each head become (x1*cos-x2*sin, x2*cos+x1*sin), with cos and sin from " +
		"the caches (positions, pairs) at position_ids (B,L), or at " +
		"position_ids[0]+t if it has one element. Pairs are the two halves of a head, or neighbors if interleaved is " +
		"1. With rotary_embedding_dim only the first features are rotated. input " +
		"is (B,L,heads*features) or (B,heads,L,features).",
	In: ops.Sig("input:T", "position_ids:int64", "cos_cache:T[_,_]", "sin_cache:T[_,_]"), Out: ops.Sig("output:T"),
	Elems: types{"T": nbitsTypes}, Tol: ir.Rounding,
	Attrs: []ir.AttrSpec{ops.IntSpec("interleaved", 0, "whether pairs are neighbors"),
		ops.IntSpec("is_packed_batching", 0, "must be 0"),
		ops.IntSpec("num_heads", 0, "number of heads, if the caches do not determine it"),
		ops.IntSpec("rotary_embedding_dim", 0, "number of features of a head that are rotated; 0: all"),
		ops.FloatSpec("scale", 1, "must be 1")},
	Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
		if ops.Int(n, "is_packed_batching") != 0 || ops.Float(n, "scale") != 1 {
			return fail(b, "expected is_packed_batching 0 and scale 1, found %d and %v",
				ops.Int(n, "is_packed_batching"), ops.Float(n, "scale"))
		}
		r := rank(b, x[0], "input")
		turned := 2 * dim(b, x[2], 1, "cos_cache")
		if b.Err() != nil {
			return nil
		}
		y := x[0]
		size := turned
		switch {
		case r == 3:
			if h := ops.Int(n, "num_heads"); h > 0 {
				size = dim(b, y, 2, "input") / h
			}
			if b.Err() != nil || size < 1 {
				return fail(b, "input: expected heads of 1 or more features, found %v", x[0].Type)
			}
			y = std(b, "Reshape", y, b.Ints(0, 0, -1, size)) // (B,L,heads,features)
		case r == 4:
			if k, ok := y.Shape()[3].Known(); ok {
				size = k
			}
			y = with(b, "Transpose", vals(y), ir.A("perm", []int{0, 2, 1, 3}))
		default:
			return fail(b, "input: expected 3 or 4 axes, found %v", x[0].Type)
		}
		if d := ops.Int(n, "rotary_embedding_dim"); d != 0 && d != turned || size < turned {
			return fail(b, "rotary_embedding_dim %d, heads of %d features: the caches are for %d", d, size, turned)
		}
		place := x[1]
		if rank(b, place, "position_ids") == 1 {
			length := with(b, "Shape", vals(y), ir.A("start", 1), ir.A("end", 2))
			zero := b.Const("zero", tensor.Scalar(int64(0)))
			one := b.Const("one", tensor.Scalar(int64(1)))
			steps := std(b, "Range", zero, std(b, "Reshape", length, b.Ints()), one)
			place = std(b, "Unsqueeze", std(b, "Add", steps, place), b.Ints(0))
		}
		at := func(cache *ir.Value) *ir.Value { return std(b, "Unsqueeze", std(b, "Gather", cache, place), b.Ints(2)) }
		cos, sin := at(x[2]), at(x[3]) // (B,L,1,pairs)
		rest := (*ir.Value)(nil)
		if size > turned {
			p := b.Ops("", "Split", 2, vals(y, b.Ints(turned, size-turned)), ir.A("axis", -1))
			y, rest = p[0], p[1]
		}
		pairAxis := int64(3)
		shape := b.Ints(0, 0, 0, 2, turned/2)
		if ops.Int(n, "interleaved") != 0 {
			shape, pairAxis = b.Ints(0, 0, 0, turned/2, 2), 4
		}
		p := b.Ops("", "Split", 2, vals(std(b, "Reshape", y, shape)), ir.A("axis", pairAxis), ir.A("num_outputs", 2))
		x1, x2 := std(b, "Squeeze", p[0], b.Ints(pairAxis)), std(b, "Squeeze", p[1], b.Ints(pairAxis))
		first := std(b, "Sub", std(b, "Mul", x1, cos), std(b, "Mul", x2, sin))
		second := std(b, "Add", std(b, "Mul", x2, cos), std(b, "Mul", x1, sin))
		y = with(b, "Concat", vals(std(b, "Unsqueeze", first, b.Ints(pairAxis)),
			std(b, "Unsqueeze", second, b.Ints(pairAxis))), ir.A("axis", pairAxis))
		y = std(b, "Reshape", y, b.Ints(0, 0, 0, turned))
		if rest != nil {
			y = with(b, "Concat", vals(y, rest), ir.A("axis", -1))
		}
		if r == 4 {
			return vals(with(b, "Transpose", vals(y), ir.A("perm", []int{0, 2, 1, 3})))
		}
		return vals(std(b, "Reshape", y, b.Ints(0, 0, -1)))
	}})
