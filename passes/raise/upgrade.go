package raise

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
)

// Upgrade replaces operators of earlier versions by the newest ones.
var Upgrade = &passes.Pass{
	Name: "upgrade",
	Doc: "Operators of earlier versions → the newest, or their bodies if the definitions differ. Other passes " +
		"expect the newest versions.",
	Run: func(_ *passes.Context, g *ir.Graph) (int, error) {
		changes := 0
		_ = g.Walk(func(_ *ir.Graph, n *ir.Node) error {
			if op := ops.Current(n.Op); op != n.Op || op.Body != nil && !ops.Newest(op) {
				changes++
			}
			return nil
		})
		return changes, ops.Upgrade(g)
	},
}
