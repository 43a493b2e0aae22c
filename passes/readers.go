package passes

import (
	"github.com/essmc/essmc/ir"
)

// readers finds the readers of values while nodes are appended to a graph and values are replaced, without a walk
// through the graph each time.
type readers struct {
	g      *ir.Graph
	before map[*ir.Value][]ir.Use // in the original graph
	since  map[*ir.Value][]ir.Use // added later
	nodes  int                    // the number of g's nodes that are known
}

func newReaders(g *ir.Graph) *readers {
	return &readers{g: g, before: g.Uses(), since: map[*ir.Value][]ir.Use{}, nodes: len(g.Nodes)}
}

// replace is Replace with known readers.
func (r *readers) replace(old, with *ir.Value) bool {
	if !takesOver(r.g, old, with) {
		return false
	}
	r.appended()
	for _, list := range [2][]ir.Use{r.before[old], r.since[old]} {
		for _, u := range list {
			switch {
			case u.Node == nil && u.Graph.Outputs[u.Index] == old:
				u.Graph.ReplaceOutput(u.Index, with)
			case u.Node != nil && u.Node.Inputs[u.Index] == old:
				u.Node.Inputs[u.Index] = with
			default: // replaced since
				continue
			}
			r.since[with] = append(r.since[with], u)
		}
	}
	return true
}

// appended adds the readers of values among the new nodes of the graph.
func (r *readers) appended() {
	added := &ir.Graph{Nodes: r.g.Nodes[r.nodes:]}
	for v, list := range added.Uses() {
		r.since[v] = append(r.since[v], list...)
	}
	r.nodes = len(r.g.Nodes)
}
