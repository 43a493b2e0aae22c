package grad

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// Train gives the batch norms of g, which have fixed statistics, those of the batch: each essm.BatchNorm becomes an
// essm.BatchNormTrain. Running statistics that are parameters get their next content as updates of the graph, by
// outputs with the name of the parameter and ".next". It returns the number of changes.
func Train(g *ir.Graph, momentum float64) (changes int, err error) {
	b := ir.Edit(g, ops.Default, g.Opsets)
	train := ops.Default.Resolve("essm", "BatchNormTrain", g.Opsets["essm"])
	for _, n := range g.Nodes {
		if n.Op.FullName() != "essm.BatchNorm" {
			continue
		}
		for i := range 2 {
			n.Outputs = append(n.Outputs, &ir.Value{Name: b.Unique(n.Inputs[3+i].Name + ".next"), Def: n})
		}
		n.Attrs = ir.NewAttrs(ir.A("epsilon", ops.Float(n, "epsilon")), ir.A("momentum", momentum))
		n.Op = train
		if err := ir.InferNode(n); err != nil {
			return changes, fmt.Errorf("training: %w", err)
		}
		for i, v := range n.Outputs[1:] {
			if p := n.Inputs[3+i]; p.Init != nil {
				g.Outputs = append(g.Outputs, v)
				g.Updates = append(g.Updates, ir.Update{Parameter: p, Output: v})
			}
		}
		changes++
	}
	return changes, nil
}
