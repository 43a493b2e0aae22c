package essm

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// maxSubset bounds the factors of a product.
const maxSubset = 16

// SubsetProducts multiplies the last steps of a sequence with each other.
var SubsetProducts = ops.Register(&ir.Op{
	Domain: "essm", Name: "SubsetProducts",
	Doc: `Products of so many different last steps of a sequence, as Liquid-S4 has them: y[t] is the product of the steps
L-1-d for the d of subset t. Subsets are in the order of their largest element, then of the next one. All are 0 where the
sequence is short: where not even its last L-1 steps have L subsets.`,
	In: ops.Sig("u:T[B,L,H]"), Out: ops.Sig("y:T[B,L,H]"),
	Elems: map[string][]tensor.DType{"T": ops.Floats},
	Attrs: []ir.AttrSpec{{Name: "size", Kind: ir.AttrInt, Default: int64(2), Doc: "number of factors"}},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if k := n.Attrs.Int("size", 2); k < 2 || k > maxSubset {
			return nil, fmt.Errorf("size: expected 2 to %d, found %d", maxSubset, k)
		}
		b, err := ops.Bind(n)
		if err != nil {
			return nil, err
		}
		return b.Outputs(n.Op)
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		t := ops.Tensor(in, 0)
		batch, length, width := t.Dim(0), t.Dim(1), t.Dim(2)
		u, y := ops.F64(c, in, 0), ops.Make[float64](c, t.Len())
		size := int(c.Node.Attrs.Int("size", 2))
		subset := ops.Make[int](c, size+1) // ascending, and a bound
		for i := range size {
			subset[i] = i
		}
		if !subsetsReach(length-1, size, length) {
			length = 0
		}
		for step := range length {
			for b := range batch {
				c.Step(size * width)
				row := y[(b*t.Dim(1)+step)*width : (b*t.Dim(1)+step+1)*width]
				for i, d := range subset[:size] {
					from := u[(b*t.Dim(1)+t.Dim(1)-1-d)*width:]
					for j := range row {
						if i == 0 {
							row[j] = 1
						}
						row[j] *= from[j]
					}
				}
			}
			subset[size] = length // the next subset: the smallest element that can grow does, and those below restart
			i := 0
			for i < size-1 && subset[i]+1 == subset[i+1] {
				subset[i] = i
				i++
			}
			subset[i]++
		}
		return ops.One(ops.Real(c, t.DType(), y, t.Shape()...))
	},
	Along:      func(n *ir.Node, in []ir.Fact) []ir.Fact { return []ir.Fact{ops.Global(n, in)} },
	NoGradient: ops.NotYet,
	Tol:        ir.Rounding,
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		return ops.Stated(n, bind, ops.Product(n.Attrs.Int("size", 2), ops.Count(n.In(0), bind)))
	},
})

// subsetsReach reports whether n elements have at least count subsets of the given size. Numbers of subsets that are
// not exact in float64 are far above any count.
func subsetsReach(n, size, count int) bool {
	subsets := 1.0
	for i := range size {
		subsets = subsets * float64(max(0, n-i)) / float64(i+1)
	}
	return subsets >= float64(count)
}
