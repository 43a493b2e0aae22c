package ml

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Regression trees of versions 1 and 3. Version 5, deprecated in favor of TreeEnsemble, equals version 3.
var (
	TreeEnsembleRegressor1 = treeRegressor(1)
	TreeEnsembleRegressor  = treeRegressor(3)
)

func treeRegressor(since int) *ir.Op {
	extra := []ir.AttrSpec{
		intsAttr("target_treeids", "tree of each vote"), intsAttr("target_nodeids", "its leaf"),
		intsAttr("target_ids", "its target"), floatsAttr("target_weights", "its weight"),
		ops.IntSpec("n_targets", 1, "number of targets"),
		ops.ChoiceSpec("aggregate_function", "combination of votes", "SUM", "AVERAGE", "MIN", "MAX"),
	}
	if since >= 3 {
		extra = append(extra, tensorAttr("target_weights_as_tensor", "the same in double precision"))
	}
	return ops.Register(&ir.Op{
		Domain: Domain, Name: "TreeEnsembleRegressor", Since: since,
		Doc: "Each tree leads a sample (row of X) to a leaf, which votes for targets. Per target, the votes are " +
			"summed, or averaged over the trees, or " +
			"the smallest or largest is taken, base_values is added, and post_transform is applied.",
		In: ops.Sig("X:T"), Out: ops.Sig("Y:float32[_,_]"), Elems: elems("T", numeric),
		Attrs: flatAttrs(since, extra...),
		Infer: perSample(func(n *ir.Node, d ir.Dim) ([]ir.Type, error) {
			k := ops.Int(n, "n_targets")
			if err := limit("n_targets", k); err != nil {
				return nil, err
			}
			return []ir.Type{ir.Tensor(tensor.Float32, d, k)}, nil
		}),
		Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
			return perRow(n, bind, listed(n, "nodes_featureids", "target_ids"))
		},
		Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			n := c.Node
			if err := limit("n_targets", ops.Int(n, "n_targets")); err != nil {
				return nil, err
			}
			targets := int(ops.Int(n, "n_targets"))
			f, err := flatForest(c, n, "target", targets)
			if err != nil {
				return nil, err
			}
			base, err := floatsOrTensor(c, n, "base_values")
			if err != nil {
				return nil, err
			}
			if len(base) != 0 && len(base) != targets {
				return nil, fmt.Errorf("base_values has %d elements for %d targets", len(base), targets)
			}
			var rows [][]float64
			err = f.eachSample(c, in, func(votes [][]vote) error {
				if _, err := ops.Elems([]int{len(rows) + 1, targets}); err != nil {
					return err
				}
				sums, _ := aggregate(c, ops.Str(n, "aggregate_function"), votes, targets)
				for i := range ops.Each(c, len(base)) {
					sums[i] += base[i]
				}
				rows = ops.Append(c, rows, finish(c, ops.Str(n, "post_transform"), sums, alone))
				return nil
			})
			if err != nil {
				return nil, err
			}
			return ops.One(joined(c, rows, targets))
		},
		Along: alongSamples, Tol: ir.Summing,
	})
}
