package microsoft

import (
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// RelativePositionBias is the term that T5 adds to the products of queries and keys.
var RelativePositionBias = composed(&ir.Op{Name: "RelativePositionBias",
	Doc: "bias (1,heads,query_length,key_length): for each head, its number of the table for the bucket of key step " +
		"minus query step. Half of the buckets, or of those of each sign if is_bidirectional is 1, are for the " +
		"distances 0, 1, …; the others for longer ones up to max_distance, by their logarithm. bias_table " +
		"(buckets,heads) holds the buckets of one head after the other.",
	In:  ops.Sig("bias_table:T[_,_]", "query_length:int64", "key_length:int64"),
	Out: ops.Sig("output:T[1,_,_,_]"), Elems: types{"T": half16}, Tol: ir.Rounding,
	Attrs: []ir.AttrSpec{ops.Required(ops.IntSpec("max_distance", nil,
		"the longest distance with a bucket of its own")),
		ops.IntSpec("is_bidirectional", 0, "whether later keys have buckets")},
	Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
		buckets, count := dim(b, x[0], 0, "bias_table"), dim(b, x[0], 1, "bias_table")
		longest, both := ops.Int(n, "max_distance"), ops.Int(n, "is_bidirectional") != 0
		each := buckets
		if both {
			each /= 2
		}
		exact := each / 2
		if b.Err() != nil || count < 1 || exact < 1 || longest <= exact {
			return fail(b, "bias_table, max_distance: expected 4 or more buckets, and a distance beyond half of "+
				"them, found %v, %d",
				x[0].Type, longest)
		}
		h := heads{b: b, n: n}
		ahead := std(b, "Sub", std(b, "Unsqueeze", h.steps(x[2]), b.Ints(0)),
			std(b, "Unsqueeze", h.steps(x[1]), b.Ints(1)))
		zero := b.Const("zero", tensor.Scalar(int64(0)))
		var distance, first *ir.Value
		if both {
			distance, first = std(b, "Abs", ahead), std(b, "Mul", cast(b, std(b, "Greater", ahead, zero), tensor.Int64),
				b.Ints(each))
		} else {
			distance = std(b, "Max", std(b, "Neg", ahead), zero)
		}
		// As T5 computes it, in float32.
		real := cast(b, std(b, "Max", distance, b.Ints(1)), tensor.Float32)
		long := std(b, "Log", std(b, "Div", real, constLike(b, real, float64(exact))))
		long = std(b, "Div", long, constLike(b, real, math.Log(float64(longest)/float64(exact))))
		long = cast(b, std(b, "Mul", long, constLike(b, real, float64(each-exact))), tensor.Int64)
		long = std(b, "Min", std(b, "Add", long, b.Ints(exact)), b.Ints(each-1))
		at := std(b, "Where", std(b, "Less", distance, b.Ints(exact)), distance, long)
		at = add(b, at, first)
		table := std(b, "Reshape", x[0], b.Ints(1, count, buckets))
		return vals(with(b, "Gather", vals(table, at), ir.A("axis", 2)))
	}})
