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

// DefaultOpset is the version of ONNX's operators that a Graph prefers. Most models that onnx-go can decode have it.
const DefaultOpset = 11

// Graph receives a model from onnx-go's decoder and runs it. Use it from one goroutine at a time. The zero Graph is not
// valid; use New.
type Graph struct {
	// The decoder adds an edge from each output of an operator to each of its inputs, weighted by the input's index.
	// Since the graph holds one edge between two nodes, reads keeps all indices of an input that an operator reads
	// twice.
	*simple.WeightedDirectedGraph
	opts  runtime.Options
	opset int
	ops   []*operation
	reads map[int64][]read

	decoded bool // an operator was added, so SetTensor is called by the user from now on
	built   *model
}

// operation is an operator of the decoded model. Its inputs are the reads of its first output.
type operation struct {
	onnx.Operation
	outputs []*Node
}

type read struct {
	position int
	node     *Node
}

// New returns an empty graph that runs on o.Backend, or on the CPU backend if that is nil. onnx-go drops the opset
// of a model. So each operator is taken in the newest version up to opset in which the node's inputs and attributes
// are valid, or the oldest after it. 0 means DefaultOpset. Callers that know the model's opset should pass it.
func New(o runtime.Options, opset int) *Graph {
	if opset == 0 {
		opset = DefaultOpset
	}
	return &Graph{WeightedDirectedGraph: simple.NewWeightedDirectedGraph(0, 0), opts: o, opset: opset,
		reads: map[int64][]read{}}
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

// GetName returns the value's name in the model.
func (n *Node) GetName() string { return n.name }

// SetTensor sets the tensor of an input. The decoder calls it for constants.
func (n *Node) SetTensor(t gorgonia.Tensor) error {
	n.t = t
	if n.g.decoded && !n.given {
		n.given = true
		n.g.discard() // a constant may become an input
	}
	return nil
}

// GetTensor returns the value's tensor: the one set, or the one that Run computed.
func (n *Node) GetTensor() gorgonia.Tensor { return n.t }

// NewNode returns a node that is not yet part of the graph.
func (g *Graph) NewNode() graph.Node {
	return &Node{Node: g.WeightedDirectedGraph.NewNode(), g: g}
}

// SetWeightedEdge adds an edge. It keeps the weights of several edges between the same nodes.
func (g *Graph) SetWeightedEdge(e graph.WeightedEdge) {
	if from, to := e.From().ID(), e.To(); from != to.ID() {
		g.reads[from] = append(g.reads[from], read{int(e.Weight()), to.(*Node)})
		g.WeightedDirectedGraph.SetWeightedEdge(e)
	} else {
		g.reads[from] = append(g.reads[from], read{int(e.Weight()), to.(*Node)}) // an error when the graph is built
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

// Close releases the compiled model. A later Run compiles again.
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

// RunContext is Run with a context. It returns an error when ctx is done.
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

// leaves lists the values that no operator computes, in the order of their IDs. A node without a name represents
// absent inputs.
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

// fake reports whether n is an input that the decoder adds to an operator without inputs.
func (g *Graph) fake(op *operation, n *Node) bool {
	return len(g.reads[op.outputs[0].ID()]) == 1 && n.t == nil && len(n.name) >= 6 && n.name[len(n.name)-6:] == "/input"
}

// key returns a unique name for a value in the compiled graph. Names in the model may be empty or repeat.
func key(n *Node) string { return fmt.Sprintf("%s#%d", n.name, n.ID()) }
