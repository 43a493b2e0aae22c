package essm

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// ByteTable is any function of one number of 8 bits. Passes make it of operators between DequantizeLinear and
// QuantizeLinear.
var ByteTable = ops.Register(ops.ByBody(&ir.Op{
	Domain: "essm", Name: "ByteTable",
	Doc: "y = table[x]. The 8 bits of x count as a number from 0 to 255, so that negative numbers stand in the " +
		"table's second half.",
	In: ops.Sig("x:I[...]", "table:T[256]"), Out: ops.Sig("y:T[...]"),
	Elems: map[string][]tensor.DType{"I": {tensor.Uint8, tensor.Int8}, "T": {tensor.Uint8, tensor.Int8}},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, table := ops.Tensor(in, 0), ops.Tensor(in, 1)
		if table.Len() != 256 {
			return nil, fmt.Errorf("table: expected 256 numbers, found %d", table.Len())
		}
		y := ops.New(c, table.DType(), x.Shape()...)
		to, values := y.Bytes(), table.Bytes()
		for i, v := range ops.All(c, x.Bytes()) {
			to[i] = values[v]
		}
		return []tensor.Datum{y}, nil
	},
	// Gather takes negative indices from the end of the table.
	Body: func(b *ir.Builder, _ *ir.Node, in []*ir.Value) []*ir.Value {
		i := b.Op("", "Cast", in[:1], ir.A("to", int(tensor.Int32)))
		return []*ir.Value{b.Op("", "Gather", []*ir.Value{in[1], i})}
	},
	Tol: ir.Exact,
}))
