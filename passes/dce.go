package passes

import "github.com/essmc/essmc/ir"

// DCE removes code whose results are not used.
var DCE = &Pass{
	Name: "dce",
	Doc:  "Removes dead code: unused nodes, and unused optional outputs.",
	Run: func(_ *Context, g *ir.Graph) (int, error) {
		changes := g.RemoveDead()
		uses := g.Uses()
		for _, n := range g.Nodes {
			if len(n.Subgraphs()) > 0 {
				continue // they have an output for each of the node's
			}
			for i, v := range n.Outputs {
				if i > 0 && v != nil && len(uses[v]) == 0 && n.Op.Out[min(i, len(n.Op.Out)-1)].Optional {
					n.Outputs[i] = nil
					changes++
				}
			}
			for len(n.Outputs) > 1 && n.Outputs[len(n.Outputs)-1] == nil {
				n.Outputs = n.Outputs[:len(n.Outputs)-1]
			}
		}
		return changes, nil
	},
}
