package ml

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// TreeEnsembleRegressor is for version 3. Version 1 had no tensors as attributes; version 5, deprecated in favor of
// TreeEnsemble, equals version 3.
var TreeEnsembleRegressor = ops.Same(treeRegressor(), 1)

func treeRegressor() *ir.Op {
	extra := []ir.AttrSpec{
		intsAttr("target_treeids", "tree of each vote"), intsAttr("target_nodeids", "its leaf"),
		intsAttr("target_ids", "its target"), floatsAttr("target_weights", "its weight"),
		ops.IntSpec("n_targets", 1, "number of targets"),
		ops.ChoiceSpec("aggregate_function", "combination of votes", "SUM", "AVERAGE", "MIN", "MAX"),
		tensorAttr("target_weights_as_tensor", "the same in double precision"),
	}
	return ops.Register(&ir.Op{
		Domain: Domain, Name: "TreeEnsembleRegressor", Since: 3,
		Doc: "Each tree leads a sample (row of X) to a leaf, which votes for targets. Per target, the votes are " +
			"summed, or averaged over the trees, or " +
			"the smallest or largest is taken, base_values is added, and post_transform is applied.",
		In: ops.Sig("X:T"), Out: ops.Sig("Y:float32[_,_]"), Elems: elems("T", numeric),
		Attrs: flatAttrs(extra...),
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
			e, err := regressor(c, c.Node)
			if err != nil {
				return nil, err
			}
			var rows [][]float64
			err = e.eachSample(c, in, func(_ int, scores []float64) { rows = ops.Append(c, rows, scores) })
			if err != nil {
				return nil, err
			}
			return ops.One(joined(c, rows, e.Targets))
		},
		Along: alongSamples, NoGradient: fitted, Tol: ir.Summing,
	})
}

// regressor reads the attributes of a regressor.
func regressor(c *ir.EvalCtx, n *ir.Node) (*Ensemble, error) {
	if err := limit("n_targets", ops.Int(n, "n_targets")); err != nil {
		return nil, err
	}
	targets := int(ops.Int(n, "n_targets"))
	e, err := flatForest(c, n, "target", targets)
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
	kind := ops.Str(n, "post_transform")
	e.Scores, e.Combine = targets, combinations[ops.Str(n, "aggregate_function")]
	e.finish = func(c *ir.EvalCtx, sums []float64, _ []bool) (int, []float64) {
		for i := range ops.Each(c, len(base)) {
			sums[i] += base[i]
		}
		return 0, finish(c, kind, sums, alone)
	}
	return e, nil
}
