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
	// the outputs of g, with their numbers; nil until a value is replaced
	outputs map[*ir.Value]int
	// the nodes of g that are known; nil until an output is replaced
	within map[*ir.Node]bool
}

func newReaders(g *ir.Graph) *readers {
	return &readers{g: g, before: g.Uses(), since: map[*ir.Value][]ir.Use{}, nodes: len(g.Nodes)}
}

// replace is Replace with known readers.
func (r *readers) replace(old, with *ir.Value) bool {
	r.appended()
	if !r.takesOver(old, with) {
		return false
	}
	for _, list := range [2][]ir.Use{r.before[old], r.since[old]} {
		for _, u := range list {
			switch {
			case u.Node == nil && u.Graph.Outputs[u.Index] == old:
				u.Graph.ReplaceOutput(u.Index, with)
				if u.Graph == r.g {
					r.outputs[old]--
					r.outputs[with]++
				}
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

// takesOver is the function takesOver, in constant time.
func (r *readers) takesOver(old, with *ir.Value) bool {
	if r.outputs == nil {
		r.outputs = make(map[*ir.Value]int)
		for _, v := range r.g.Outputs {
			old.Def.Step(1)
			r.outputs[v]++
		}
	}
	within := func(n *ir.Node) bool {
		if r.within == nil {
			r.within = make(map[*ir.Node]bool)
			for _, m := range r.g.Nodes {
				m.Step(4)
				r.within[m] = true
			}
		}
		return r.within[n]
	}
	return prepare(old, with, func(v *ir.Value) bool { return r.outputs[v] > 0 }, within)
}

// appended adds the readers of values among the new nodes of the graph.
func (r *readers) appended() {
	added := &ir.Graph{Nodes: r.g.Nodes[r.nodes:]}
	for v, list := range added.Uses() {
		r.since[v] = append(r.since[v], list...)
	}
	if r.within != nil {
		for _, n := range added.Nodes {
			r.within[n] = true
		}
	}
	r.nodes = len(r.g.Nodes)
}
