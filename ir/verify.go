package ir

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir/tensor"
)

// Verify checks that a graph is well-formed. The error is a *VerifyError.
//
//   - Every value has a type, and a name that is unique in the outermost graph and all graphs in it. The type of a
//     constant is its tensor's type.
//   - Nodes read only values that are defined before them: inputs, constants, parameters, results of earlier nodes, and
//     values of the graphs around.
//   - A value is defined once.
//   - Only the outermost graph has parameters. Each has the type of its content, and nothing else defines it. An update
//     is from an output of the graph to a parameter of the same type, and no parameter has two.
//   - A node has the inputs and attributes that its operator requires, and no others.
//   - The types of a node's outputs are compatible with those that its operator infers.
//   - The operator is of the version that the graph's opsets select.
func Verify(g *Graph) error { return verify(g, g.pace) }

func verify(g *Graph, p *Pacer) error {
	n := hint(2 * len(g.Nodes))
	c := verifier{names: make(map[string]*Value, n), defined: make(map[*Value]bool, n), opsets: g.Opsets, pace: p}
	return c.graph(g)
}

// tableSteps is the number of steps of an entry of a large table. Its parts grow at almost the same time.
const tableSteps = 6

// hint is the size with which a table of n entries begins: allocating one for many takes milliseconds.
func hint(n int) int { return min(n, 1<<13) }

// VerifyError describes a fault of a graph, with the node and the value at fault; either may be nil.
type VerifyError struct {
	Graph *Graph
	Node  *Node
	Value *Value
	Msg   string
}

// Error names graph, node and value.
func (e *VerifyError) Error() string {
	s := "graph " + e.Graph.Name
	if e.Node != nil {
		s += ": node " + e.Node.String()
	}
	if e.Value != nil {
		s += ": value " + e.Value.Name
	}
	return s + ": " + e.Msg
}

type verifier struct {
	names   map[string]*Value
	defined map[*Value]bool // that a node may read
	opsets  map[string]int
	memory  *Verifier // nil: every node is looked at
	pace    *Pacer
}

func (c *verifier) name(g *Graph, n *Node, v *Value) error {
	if v.Name == "" {
		return &VerifyError{g, n, v, "has no name"}
	}
	if other, ok := c.names[v.Name]; ok && other != v {
		return &VerifyError{g, n, v, "another value has the same name"}
	}
	c.names[v.Name] = v
	if v.Type == nil {
		return &VerifyError{g, n, v, "has no type"}
	}
	return nil
}

func (c *verifier) graph(g *Graph) error {
	define := func(n *Node, v *Value) error {
		if c.defined[v] {
			return &VerifyError{g, n, v, "is defined twice"}
		}
		if err := c.name(g, n, v); err != nil {
			return err
		}
		c.defined[v] = true
		return nil
	}
	read := func(n *Node, v *Value) error {
		if v.Const != nil {
			if v.Def != nil {
				return &VerifyError{g, n, v, "is a constant and has a defining node"}
			}
			if !isTypeOf(v.Type, v.Const) {
				return &VerifyError{g, n, v, fmt.Sprintf("has type %v, its tensor is %v", v.Type, Of(v.Const))}
			}
			return c.name(g, n, v)
		}
		if !c.defined[v] {
			return &VerifyError{g, n, v, "is read before it is defined"}
		}
		return nil
	}
	for _, v := range g.Inputs {
		if c.pace.Step(tableSteps); v == nil {
			return &VerifyError{g, nil, nil, "an input has no value"}
		}
		if v.Def != nil || v.Const != nil {
			return &VerifyError{g, nil, v, "is a graph input and has a definition"}
		}
		if err := define(nil, v); err != nil {
			return err
		}
	}
	if err := c.parameters(g, define); err != nil {
		return err
	}
	for _, n := range g.Nodes {
		if n == nil {
			return &VerifyError{g, nil, nil, "a node is nil"}
		}
		c.pace.node(n)
		known := c.memory != nil && c.memory.knows(n)
		if !known {
			if err := checkNode(n); err != nil {
				return &VerifyError{g, n, nil, err.Error()}
			}
		}
		if c.opsets != nil {
			have, ok := c.opsets[n.Op.Domain]
			if !ok {
				return &VerifyError{g, n, nil, fmt.Sprintf("domain %q is not among the graph's opsets", n.Op.Domain)}
			}
			if n.Op.Since > have {
				return &VerifyError{g, n, nil,
					fmt.Sprintf("operator is from version %d of domain %q, the graph has %d", n.Op.Since, n.Op.Domain,
						have)}
			}
		}
		for _, v := range n.Inputs {
			if c.pace.Step(1); v != nil {
				if err := read(n, v); err != nil {
					return err
				}
			}
		}
		for _, s := range n.Subgraphs() {
			if len(s.Parameters) > 0 || len(s.Updates) > 0 {
				return &VerifyError{g, n, nil, "subgraph " + s.Name + " has parameters of its own"}
			}
			if err := c.graph(s); err != nil {
				return err
			}
			c.forget(s)
		}
		if !known {
			if err := c.outputs(g, n); err != nil {
				return err
			}
			if c.memory != nil {
				c.memory.remember(n)
			}
		}
		for _, v := range n.Outputs {
			if v == nil {
				continue
			}
			if c.pace.Step(tableSteps); v.Def != n {
				return &VerifyError{g, n, v, "does not know that this node defines it"}
			}
			if err := define(n, v); err != nil {
				return err
			}
		}
	}
	for _, v := range g.Outputs {
		if c.pace.Step(1); v == nil {
			return &VerifyError{g, nil, nil, "an output has no value"}
		}
		if err := read(nil, v); err != nil {
			return err
		}
	}
	return nil
}

// parameters checks the parameters of the outermost graph, and its updates.
func (c *verifier) parameters(g *Graph, define func(n *Node, v *Value) error) error {
	for _, v := range g.Parameters {
		c.pace.Step(1)
		switch {
		case v == nil:
			return &VerifyError{g, nil, nil, "a parameter has no value"}
		case v.Def != nil || v.Const != nil:
			return &VerifyError{g, nil, v, "is a parameter and has a definition"}
		case v.Init == nil:
			return &VerifyError{g, nil, v, "is a parameter without content"}
		case !isTypeOf(v.Type, v.Init):
			return &VerifyError{g, nil, v, fmt.Sprintf("has type %v, its tensor is %v", v.Type, Of(v.Init))}
		}
		if err := define(nil, v); err != nil {
			return err
		}
	}
	if len(g.Updates) == 0 {
		return nil
	}
	updated, outputs := map[*Value]bool{}, map[*Value]bool{}
	for _, v := range g.Outputs {
		c.pace.Step(1)
		outputs[v] = true
	}
	for _, u := range g.Updates {
		c.pace.Step(1)
		switch p, v := u.Parameter, u.Output; {
		case p == nil || v == nil || p.Init == nil || !c.defined[p]:
			return &VerifyError{g, nil, p, "is updated and not a parameter"}
		case !outputs[v]:
			return &VerifyError{g, nil, p, "is updated by " + v.Name + ", which is not an output"}
		case !EqualTypes(p.Type, v.Type):
			return &VerifyError{g, nil, p, fmt.Sprintf("has type %v, its update %s is %v", p.Type, v.Name, v.Type)}
		case updated[p]:
			return &VerifyError{g, nil, p, "has two updates"}
		}
		updated[u.Parameter] = true
	}
	return nil
}

// forget hides a subgraph's values, which are not visible outside.
func (c *verifier) forget(g *Graph) {
	for _, v := range g.Inputs {
		c.pace.Step(1)
		delete(c.defined, v)
	}
	for _, n := range g.Nodes {
		c.pace.node(n)
		for _, v := range n.Outputs {
			c.pace.Step(1)
			delete(c.defined, v)
		}
	}
}

func (c *verifier) outputs(g *Graph, n *Node) error {
	if n.Op.Infer == nil {
		return nil
	}
	types, err := infer(n.Paced(c.pace))
	if err != nil {
		return &VerifyError{g, n, nil, err.Error()}
	}
	for i, v := range n.Outputs {
		if c.pace.Step(1); v == nil {
			continue
		}
		if i >= len(types) {
			return &VerifyError{g, n, v, fmt.Sprintf("is output %d, operator gives %d", i, len(types))}
		}
		if v.Type == nil || !Compatible(v.Type, types[i]) {
			return &VerifyError{g, n, v, fmt.Sprintf("has type %v, operator gives %v", v.Type, types[i])}
		}
	}
	return nil
}

// checkNode compares the node to its operator's declaration: number of inputs and outputs, kinds of attributes.
func checkNode(n *Node) error {
	op := n.Op
	if op == nil {
		return fmt.Errorf("has no operator")
	}
	if err := checkParams("input", op.In, n.Inputs); err != nil {
		return err
	}
	if err := checkParams("output", op.Out, n.Outputs); err != nil {
		return err
	}
	for i, a := range n.Attrs {
		if i > 0 && n.Attrs[i-1].Name >= a.Name {
			return fmt.Errorf("attributes are not sorted at %q", a.Name)
		}
		j := slices.IndexFunc(op.Attrs, func(s AttrSpec) bool { return s.Name == a.Name })
		if j < 0 {
			return fmt.Errorf("operator %s has no attribute %q", op.FullName(), a.Name)
		}
		s := op.Attrs[j]
		if k := a.Kind(); k != s.Kind {
			return fmt.Errorf("attribute %q: expected %s, found %s", a.Name, s.Kind, k)
		}
		if hasNil(a.Value) {
			return fmt.Errorf("attribute %q has no value", a.Name)
		}
		if str, ok := a.Value.(string); ok && s.OneOf != nil && !slices.Contains(s.OneOf, str) {
			return fmt.Errorf("attribute %q: expected one of %q, found %q", a.Name, s.OneOf, str)
		}
	}
	for _, s := range op.Attrs {
		if s.Required && !n.Attrs.Has(s.Name) {
			return fmt.Errorf("attribute %q is missing", s.Name)
		}
	}
	return nil
}

// hasNil reports whether an attribute's value is or contains a nil tensor, graph or type.
func hasNil(value any) bool {
	switch v := value.(type) {
	case *tensor.Tensor:
		return v == nil
	case *Graph:
		return v == nil
	case []*tensor.Tensor:
		return slices.Contains(v, nil)
	case []*Graph:
		return slices.Contains(v, nil)
	case []Type:
		return slices.Contains(v, nil)
	}
	return false
}

func checkParams(what string, params []Param, vals []*Value) error {
	variadic := len(params) > 0 && params[len(params)-1].Variadic
	if len(vals) > len(params) && !variadic {
		return fmt.Errorf("expected at most %d %ss, found %d", len(params), what, len(vals))
	}
	for i, p := range params {
		if p.Variadic && (i < len(vals) || p.Optional) {
			continue
		}
		if p.Optional || what == "output" && i > 0 {
			continue
		}
		if i >= len(vals) || vals[i] == nil {
			return fmt.Errorf("%s %d (%s) is missing", what, i, p.Name)
		}
	}
	return nil
}
