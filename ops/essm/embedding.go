package essm

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Embedding looks tokens up in a table.
var Embedding = ops.Register(&ir.Op{
	Domain: "essm", Name: "Embedding",
	Doc: "y[…,:] = table[tokens[…],:]. Unlike Gather it refuses negative tokens. Tokens are from 0 to V-1.",
	In:  ops.Sig("tokens:I[...]", "table:T[V,H]"), Out: ops.Sig("y:T[...,H]"),
	Elems: map[string][]tensor.DType{"I": {tensor.Int64, tensor.Int32}, "T": ops.Floats},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		ids, table := ops.Tensor(in, 0), ops.Tensor(in, 1)
		tokens, err := ops.Int64s(c, ids)
		if err != nil {
			return nil, err
		}
		vocab, h := table.Dim(0), table.Dim(1)
		rows, y := ops.F64(c, in, 1), ops.Make[float64](c, len(tokens)*h)
		for i, k := range ops.All(c, tokens) {
			if k < 0 || k >= int64(vocab) {
				return nil, TokenError(c.Node.In(0).Name, ids.Shape(), i, k, vocab)
			}
			ops.Put(c, y[i*h:], rows[int(k)*h:(int(k)+1)*h])
		}
		return ops.One(ops.Real(c, table.DType(), y, append(append([]int{}, ids.Shape()...), h)...))
	},
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		if !in[1].Constant() {
			return []ir.Fact{ops.Global(n, in)}
		}
		f := in[0]
		f.State = 0
		return []ir.Fact{f}
	},
	Gradient: gradEmbedding,
	Linear:   ops.LinearIn([]int{1}),
	Tol:      ir.Exact,
})

// TokenError returns the error for a token of the named value that is not in the vocabulary.
func TokenError(name string, shape []int, at int, token int64, vocab int) error {
	where := make([]int, len(shape))
	for i, r := len(shape)-1, at; i >= 0; i-- {
		where[i], r = r%shape[i], r/shape[i]
	}
	return fmt.Errorf("%s%s: token %d is outside of the vocabulary, 0 to %d", name, tensor.ShapeString(where), token,
		vocab-1)
}
