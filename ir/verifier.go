package ir

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
)

// Verifier verifies a graph repeatedly while it is rewritten. It does not check a node again whose operator, inputs
// and outputs have the same types as before. What the operator would infer from nodes further away, such as shapes
// from the arithmetic that computes them, may have changed meanwhile: Verify finds that, and a Verifier does not.
// The zero Verifier has not verified anything.
type Verifier struct {
	verifier
	known map[*Node]stand
	free  []valueStand // memory for further nodes
}

// stand is the state of a node when it was verified.
type stand struct {
	op     *Op
	attrs  Attrs
	inputs int
	values []valueStand // inputs, then outputs
}

type valueStand struct {
	value *Value
	typ   Type
	konst *tensor.Tensor
}

func standOf(v *Value) valueStand {
	if v == nil {
		return valueStand{}
	}
	return valueStand{v, v.Type, v.Const}
}

// Verify checks the same as the function Verify, with the exception described at Verifier.
func (c *Verifier) Verify(g *Graph) error {
	if c.known == nil {
		n := hint(len(g.Nodes))
		c.memory = c
		c.known = make(map[*Node]stand, n)
	}
	if n := hint(2 * len(g.Nodes)); c.names == nil || len(c.names) > 1<<13 { // clearing large ones takes milliseconds
		c.names, c.defined = make(map[string]*Value, n), make(map[*Value]bool, n)
	}
	clear(c.names)
	clear(c.defined)
	c.opsets, c.pace = g.Opsets, g.pace
	return c.graph(g)
}

// Forget drops the nodes that were verified: what passes have replaced can be freed then.
func (c *Verifier) Forget() { *c = Verifier{} }

// knows reports whether n has not changed. Passes replace attributes and types, and never change them in place.
func (c *Verifier) knows(n *Node) bool {
	s, ok := c.known[n]
	return ok && s.op == n.Op && s.inputs == len(n.Inputs) && len(s.values) == len(n.Inputs)+len(n.Outputs) &&
		len(s.attrs) == len(n.Attrs) && (len(s.attrs) == 0 || &s.attrs[0] == &n.Attrs[0]) &&
		stands(s.values[:s.inputs], n.Inputs) && stands(s.values[s.inputs:], n.Outputs)
}

func stands(were []valueStand, are []*Value) bool {
	return slices.EqualFunc(were, are, func(s valueStand, v *Value) bool { return s == standOf(v) })
}

func (c *Verifier) remember(n *Node) {
	if len(n.Subgraphs()) > 0 { // types depend on their content
		return
	}
	size := len(n.Inputs) + len(n.Outputs)
	if size > 1<<12 { // large tables cannot be made in parts
		return
	}
	if len(c.free) < size {
		c.free = make([]valueStand, max(size, 1024))
	}
	s := stand{n.Op, n.Attrs, len(n.Inputs), c.free[:0:size]}
	c.free = c.free[size:]
	for _, v := range n.Inputs {
		c.pace.Step(1)
		s.values = append(s.values, standOf(v))
	}
	for _, v := range n.Outputs {
		c.pace.Step(1)
		s.values = append(s.values, standOf(v))
	}
	c.known[n] = s
}
