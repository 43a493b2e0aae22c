package passes

import "github.com/essmc/essmc/ir"

// DCE removes code whose results are not used.
var DCE = &Pass{
	Name: "dce",
	Doc:  "Removes dead code: unused nodes, and unused optional outputs.",
	Run:  func(_ *Context, g *ir.Graph) (int, error) { return g.RemoveUnread(), nil },
}
