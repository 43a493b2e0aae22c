package regions

import (
	"iter"

	"github.com/essmc/essmc/ir"
)

// Walk visits values of a graph, each once: depth first, and those of one Add in their order. Recognizers walk from a
// result back to what it is computed from, or ahead to what is computed from a value. They add the values that follow
// each one, so a region ends where they add none.
type Walk struct {
	seen map[*ir.Value]bool
	next []*ir.Value // the last one comes first
}

// WalkFrom returns a walk that starts at the given values.
func WalkFrom(values ...*ir.Value) *Walk {
	w := &Walk{seen: map[*ir.Value]bool{nil: true}}
	w.Add(values...)
	return w
}

// Add adds values that are visited before the ones that wait. It ignores nil.
func (w *Walk) Add(values ...*ir.Value) {
	for i := range values {
		w.next = append(w.next, values[len(values)-1-i])
	}
}

// Values yields the values, until there are none left.
func (w *Walk) Values() iter.Seq[*ir.Value] {
	return func(yield func(v *ir.Value) bool) {
		for len(w.next) > 0 {
			v := w.next[len(w.next)-1]
			w.next = w.next[:len(w.next)-1]
			if w.seen[v] {
				continue
			}
			if w.seen[v] = true; !yield(v) {
				return
			}
		}
	}
}

// InOrder lists the nodes of a set in the order of the graph.
func InOrder(g *ir.Graph, set map[*ir.Node]bool) []*ir.Node {
	out := make([]*ir.Node, 0, len(set))
	for _, n := range g.Nodes {
		if set[n] {
			out = append(out, n)
		}
	}
	return out
}

// Elsewhere returns the first use by an output of a graph, or by a node that is not inside.
func Elsewhere(uses []ir.Use, inside func(n *ir.Node) bool) (use ir.Use, ok bool) {
	for _, u := range uses {
		if u.Node == nil || !inside(u.Node) {
			return u, true
		}
	}
	return ir.Use{}, false
}
