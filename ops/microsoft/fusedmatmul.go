package microsoft

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

var transAttrs = []ir.AttrSpec{ops.FloatSpec("alpha", 1, "factor of the product"),
	ops.IntSpec("transA", 0, "whether the last two axes of A are swapped"),
	ops.IntSpec("transB", 0, "whether the last two axes of B are swapped")}

// Matrix products with transpositions.
var (
	FusedMatMul = composed(&ir.Op{Name: "FusedMatMul",
		Doc: "alpha times MatMul of A and B. With transBatch* the first axis is moved behind the other batch axes; " +
			"with trans* the last two axes are then swapped. Vectors stay.",
		In: ops.Sig("A:T", "B:T"), Out: ops.Sig("Y:T"), Tol: ir.Summing,
		Attrs: append(transAttrs[:3:3], ops.IntSpec("transBatchA", 0, "whether the first axis of A is its row"),
			ops.IntSpec("transBatchB", 0, "whether the first axis of B is its row")),
		Body: fusedMatMul})
	TransposeMatMul = composed(&ir.Op{Name: "TransposeMatMul",
		Doc: "alpha times MatMul of A and B; with trans* their last two axes are swapped.",
		In:  ops.Sig("A:T", "B:T"), Out: ops.Sig("Y:T"), Tol: ir.Summing, Attrs: transAttrs, Body: fusedMatMul})
)

func fusedMatMul(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
	side := func(v *ir.Value, what string) *ir.Value {
		r := rank(b, v, what)
		if n.Attrs.Bool("transBatch"+what, false) && r > 2 {
			var perm []int64
			for i := 1; i < r-1; i++ {
				perm = append(perm, int64(i))
			}
			v = with(b, "Transpose", vals(v), ir.A("perm", append(perm, 0, int64(r-1))))
		}
		if n.Attrs.Bool("trans"+what, false) {
			v = swapLast(b, v, what)
		}
		return v
	}
	y := std(b, "MatMul", side(x[0], "A"), side(x[1], "B"))
	if a := ops.Float(n, "alpha"); a != 1 {
		y = std(b, "Mul", y, constLike(b, x[0], a))
	}
	return vals(y)
}

// FusedGemm is Gemm with an activation.
var FusedGemm = composed(&ir.Op{Name: "FusedGemm", Doc: "Gemm, then an activation by its ONNX name.",
	In: ops.Sig("A:T[_,_]", "B:T[_,_]", "C:T?"), Out: ops.Sig("Y:T[_,_]"), Tol: ir.Summing,
	Attrs: []ir.AttrSpec{ops.FloatSpec("alpha", 1, "factor of the product"), ops.FloatSpec("beta", 1, "factor of C"),
		ops.IntSpec("transA", 0, "whether A is transposed"),
		ops.IntSpec("transB", 0, "whether B is transposed"), ops.Spec("activation", ir.AttrString, "activation"),
		ops.Spec("activation_alpha", ir.AttrFloat, "its first parameter"),
		ops.Spec("activation_beta", ir.AttrFloat, "its second parameter"),
		ops.Spec("activation_gamma", ir.AttrFloat, "not used")},
	Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
		y := with(b, "Gemm", x, attrsOf(n, "alpha", "beta", "transA", "transB")...)
		return vals(activate(b, y, ops.Str(n, "activation"), func(i int, def float64) float64 {
			return n.Attrs.Float([]string{"activation_alpha", "activation_beta"}[i], def)
		}))
	}})
