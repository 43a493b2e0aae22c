package onnxgo

import (
	"context"
	"fmt"
	"slices"

	onnx "github.com/owulveryck/onnx-go"
	"gonum.org/v1/gonum/graph"
	"gonum.org/v1/gonum/graph/simple"
	gorgonia "gorgonia.org/tensor"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// DefaultOpset is the version of ONNX's operators that a Graph prefers: the one that most models have which onnx-go's
// decoder can read.
const DefaultOpset = 11

// Graph receives a model from onnx-go's decoder and runs it. Use it from one goroutine at a time. The zero Graph is not
// valid; make one with New.
type Graph struct {
	// The decoder draws an edge from each output of an operator to each of its inputs, with the input's position as weight.
	// A plain graph holds one edge between two nodes, so the positions of an input that is read twice are kept in reads.
	*simple.WeightedDirectedGraph
	opts  runtime.Options
	opset int
	ops   []*operation
	reads map[int64][]read

	decoded bool // the first operator came, so tensors are given by the user from now on
	built   *model
}

// operation is one operator of the decoded model; its inputs are the reads of its first output.
type operation struct {
	onnx.Operation
	outputs []*Node
}

type read struct {
	position int
	node     *Node
}

// New makes an empty graph that runs on o.Backend, the CPU where that is nil. onnx-go drops the opset of a model, so each operator is taken in the newest
// version up to opset under which the node's inputs and attributes make sense, or the oldest after it; 0 stands for
// DefaultOpset. Give the model's own opset where it is known.
func New(o runtime.Options, opset int) *Graph {
	if opset == 0 {
		opset = DefaultOpset
	}
	return &Graph{WeightedDirectedGraph: simple.NewWeightedDirectedGraph(0, 0), opts: o, opset: opset, reads: map[int64][]read{}}
}

// Node is a value of the model.
type Node struct {
	graph.Node
	g     *Graph
	name  string
	t     gorgonia.Tensor
	given bool // set by the user, not by the decoder
}

// SetName is called by the decoder.
func (n *Node) SetName(name string) { n.name = name }

// GetName gives the value's name in the model.
func (n *Node) GetName() string { return n.name }

// SetTensor gives an input its tensor; the decoder calls it for constants.
func (n *Node) SetTensor(t gorgonia.Tensor) error {
	n.t = t
	if n.g.decoded && !n.given {
		n.given = true
		n.g.discard() // what was a constant, perhaps, is an input
	}
	return nil
}

// GetTensor gives the value's tensor: what it was set to, or what Run computed.
func (n *Node) GetTensor() gorgonia.Tensor { return n.t }

// NewNode makes a node that is not yet part of the graph.
func (g *Graph) NewNode() graph.Node {
	return &Node{Node: g.WeightedDirectedGraph.NewNode(), g: g}
}

// SetWeightedEdge adds an edge, and keeps its weight also where there is an edge between the nodes already.
func (g *Graph) SetWeightedEdge(e graph.WeightedEdge) {
	if from, to := e.From().ID(), e.To(); from != to.ID() {
		g.reads[from] = append(g.reads[from], read{int(e.Weight()), to.(*Node)})
		g.WeightedDirectedGraph.SetWeightedEdge(e)
	} else {
		g.reads[from] = append(g.reads[from], read{int(e.Weight()), to.(*Node)}) // refused when the graph is built
	}
}

// ApplyOperation is called by the decoder for each operator, with its outputs.
func (g *Graph) ApplyOperation(o onnx.Operation, outputs ...graph.Node) error {
	g.decoded = true
	op := &operation{Operation: o}
	for _, n := range outputs {
		op.outputs = append(op.outputs, n.(*Node))
	}
	if len(op.outputs) == 0 {
		return fmt.Errorf("operator %s has no outputs", o.Name)
	}
	g.ops = append(g.ops, op)
	g.discard()
	return nil
}

// Close releases what Run has compiled; a later Run compiles again.
func (g *Graph) Close() error {
	m := g.built
	g.built = nil
	if m == nil {
		return nil
	}
	return m.Close()
}

func (g *Graph) discard() { _ = g.Close() }

// Run computes the model's outputs from the tensors that SetInput gave.
func (g *Graph) Run() error { return g.RunContext(context.Background()) }

// RunContext is Run, which stops when ctx is done.
func (g *Graph) RunContext(ctx context.Context) error {
	leaves := g.leaves()
	data := map[string]tensor.Datum{}
	types := map[*Node]*ir.TensorType{}
	for _, n := range leaves {
		if n.t == nil {
			return fmt.Errorf("input %q has no tensor; set it before Run", n.name)
		}
		if !n.given {
			continue
		}
		t, err := FromGorgonia(n.t)
		if err != nil {
			return fmt.Errorf("input %q: %w", n.name, err)
		}
		data[key(n)], types[n] = t, ir.Of(t)
	}
	if g.built == nil || !g.built.takes(types) {
		g.discard()
		m, err := g.compile(leaves, types)
		if err != nil {
			return err
		}
		g.built = m
	}
	out, err := g.built.session.Run(ctx, data)
	if err != nil {
		return err
	}
	for _, n := range g.built.results {
		t, ok := out[key(n)].(*tensor.Tensor)
		if !ok {
			return fmt.Errorf("output %q is no tensor", n.name)
		}
		if n.t, err = ToGorgonia(t); err != nil {
			return fmt.Errorf("output %q: %w", n.name, err)
		}
	}
	return nil
}

// leaves lists the values that no operator computes, in the order of their IDs. A node without a name stands for absent
// inputs.
func (g *Graph) leaves() []*Node {
	computed := map[*Node]bool{}
	for _, op := range g.ops {
		for _, n := range op.outputs {
			computed[n] = true
		}
	}
	seen := map[*Node]bool{}
	var out []*Node
	for _, op := range g.ops {
		for _, r := range g.reads[op.outputs[0].ID()] {
			if n := r.node; !computed[n] && !seen[n] && n.name != "" && !g.fake(op, n) {
				seen[n] = true
				out = append(out, n)
			}
		}
	}
	slices.SortFunc(out, func(a, b *Node) int { return int(a.ID() - b.ID()) })
	return out
}

// fake reports whether n is the input that the decoder makes up for an operator without inputs.
func (g *Graph) fake(op *operation, n *Node) bool {
	return len(g.reads[op.outputs[0].ID()]) == 1 && n.t == nil && len(n.name) >= 6 && n.name[len(n.name)-6:] == "/input"
}

// key names a value in the compiled graph; names in the model may be empty or repeat.
func key(n *Node) string { return fmt.Sprintf("%s#%d", n.name, n.ID()) }
