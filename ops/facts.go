package ops

import (
	"fmt"
	"maps"

	"github.com/essmc/essmc/ir"
)

// Facts are the facts of every value of a graph along one dimension. A fact is a statement about the meaning of the
// graph, so it holds for every shape and backend. A value about which nothing can be shown is global.
type Facts struct {
	Symbol string
	graph  *ir.Graph
	of     map[*ir.Value]ir.Fact
}

// FactsAlong derives the facts along the dimension with the given symbol. An input varies along it if one of its
// dimensions is that symbol, or a multiple of it.
func FactsAlong(g *ir.Graph, symbol string) *Facts {
	return &Facts{Symbol: symbol, graph: g, of: Propagate(g, inputsAlong(g, symbol))}
}

// inputsAlong returns the facts of a graph's inputs.
func inputsAlong(g *ir.Graph, symbol string) map[*ir.Value]ir.Fact {
	seed := map[*ir.Value]ir.Fact{}
	for _, v := range g.Inputs {
		for axis, d := range v.Shape() {
			if s := d.Symbols(); len(s) == 1 && s[0] == symbol {
				seed[v] = ir.Fact{Symbol: symbol, Axis: axis, Stride: 1}
				break
			}
		}
	}
	return seed
}

// TimeInputs returns the facts of a graph's inputs along its time dimension; nil if the graph does not declare one.
func TimeInputs(g *ir.Graph) map[*ir.Value]ir.Fact {
	if g.Meta[ir.MetaTime] == "" {
		return nil
	}
	return inputsAlong(g, g.Meta[ir.MetaTime])
}

// TimeFacts derives the facts along the graph's time dimension. It returns nil if the graph does not declare one.
func TimeFacts(g *ir.Graph) *Facts { return factsOf(g, ir.MetaTime) }

// BatchFacts derives the facts along the graph's batch dimension. It returns nil if the graph does not declare one.
func BatchFacts(g *ir.Graph) *Facts { return factsOf(g, ir.MetaBatch) }

func factsOf(g *ir.Graph, key string) *Facts {
	if g.Meta[key] == "" {
		return nil
	}
	return FactsAlong(g, g.Meta[key])
}

// Of returns the fact of a value of the graph.
func (f *Facts) Of(v *ir.Value) ir.Fact { return f.of[v] }

// Extend adds the facts of the values of a body of the graph, given the facts of the body's inputs.
func (f *Facts) Extend(body *ir.Graph, inputs map[*ir.Value]ir.Fact) {
	maps.Copy(f.of, Propagate(body, inputs))
}

// State returns the number of scalars, per sample, that the graph keeps between steps.
func (f *Facts) State() int64 {
	var sum int64
	for _, n := range f.graph.Nodes {
		for _, v := range n.Outputs {
			if v != nil {
				sum += f.of[v].State
			}
		}
	}
	return sum
}

// Blocker is the first node that keeps the graph from running step by step with a state of fixed size, and the reason.
type Blocker struct {
	Node *ir.Node
	Why  string
}

// String names the node's part of the model: "layers.0 (essm.SSM): looks ahead without bound".
func (b *Blocker) String() string {
	if b.Node.Scope != "" {
		return fmt.Sprintf("%s (%s): %s", b.Node.Scope, b.Node.Op.FullName(), b.Why)
	}
	return fmt.Sprintf("%v: %s", b.Node, b.Why)
}

// Blocker returns the first node that keeps the graph from running as a stream, or nil if there is none.
func (f *Facts) Blocker() *Blocker {
	for _, n := range f.graph.Nodes {
		for _, v := range n.Outputs {
			if v == nil {
				continue
			}
			x := f.of[v]
			cause := x.Cause
			if cause == nil {
				cause = n
			}
			switch {
			case x.Ahead >= ir.Unbounded && !x.Global:
				return &Blocker{cause, "looks ahead without bound"}
			case x.Global:
				return &Blocker{cause, "needs the whole sequence at once"}
			case x.Back >= ir.Unbounded && !x.Summary:
				return &Blocker{cause, "looks back without bound, and has no state of fixed size"}
			}
		}
	}
	return nil
}
