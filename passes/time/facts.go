// Package time derives from a graph how its values move along time and batch: what a step depends on, where state is kept,
// and which operators stand in the way of running the graph step by step. From that it makes step graphs: the same model as a
// graph that computes one chunk of a sequence, with the state between chunks as inputs and outputs (Step).
//
// It imports ir, ir/tensor and ops only. What always holds: a fact is a statement about the graph's meaning, so it holds for
// every shape and backend; what cannot be shown is called global. A step graph is an ordinary portable graph, and gives for
// any cut into chunks what its source gives for the whole sequence; its state before the first step is all zeros.
package time

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// Facts are the facts of every value of a graph along one dimension.
type Facts struct {
	Symbol string
	graph  *ir.Graph
	of     map[*ir.Value]ir.Fact
}

// Along derives the facts for the dimension that symbol names: an input varies along it where one of its dimensions is that
// symbol, or a multiple of it.
func Along(g *ir.Graph, symbol string) *Facts {
	seed := map[*ir.Value]ir.Fact{}
	for _, v := range g.Inputs {
		for axis, d := range v.Shape() {
			if s := d.Symbols(); len(s) == 1 && s[0] == symbol {
				seed[v] = ir.Fact{Symbol: symbol, Axis: axis, Stride: 1}
				break
			}
		}
	}
	return &Facts{Symbol: symbol, graph: g, of: ops.Propagate(g, seed)}
}

// Time derives the facts along the graph's time dimension; nil when the graph does not declare one.
func Time(g *ir.Graph) *Facts { return declared(g, ir.MetaTime) }

// Batch derives the facts along the graph's batch dimension; nil when the graph does not declare one.
func Batch(g *ir.Graph) *Facts { return declared(g, ir.MetaBatch) }

func declared(g *ir.Graph, key string) *Facts {
	if g.Meta[key] == "" {
		return nil
	}
	return Along(g, g.Meta[key])
}

// Of gives the fact of a value of the graph.
func (f *Facts) Of(v *ir.Value) ir.Fact { return f.of[v] }

// State counts the scalars that the graph keeps between steps, per sample.
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

// Blocker is the first node that keeps the graph from running step by step with a state of fixed size, and why.
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

// Blocker finds what keeps the graph from being a stream; nil when nothing does.
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
				return &Blocker{cause, "looks back without bound, and no state of fixed size sums that up"}
			}
		}
	}
	return nil
}
