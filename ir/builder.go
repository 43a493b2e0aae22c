package ir

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/essmc/essmc/ir/tensor"
)

// Builder makes graphs node by node and infers types on the way. It keeps the first error, so callers check once, at
// Build. A number is appended to a name that is taken.
type Builder struct {
	g        *Graph
	resolver Resolver
	opsets   map[string]int
	names    map[string]bool
	numbers  map[string]int // the last number appended to a hint of Unique
	scope    string
	err      error
	outer    *Builder
}

// NewBuilder starts a graph. Its operators come from resolver, at the given versions of their domains.
func NewBuilder(name string, resolver Resolver, opsets map[string]int) *Builder {
	return &Builder{g: &Graph{Name: name, Opsets: opsets, Meta: map[string]string{}}, resolver: resolver,
		opsets: opsets, names: map[string]bool{}, numbers: map[string]int{}}
}

// Edit returns a builder that appends nodes to an existing graph. Call Sort afterwards.
func Edit(g *Graph, resolver Resolver, opsets map[string]int) *Builder {
	b := &Builder{g: g, resolver: resolver, opsets: opsets, names: make(map[string]bool, hint(2*len(g.Nodes))),
		numbers: map[string]int{}}
	pace := g.pace
	g.eachGraph(func(g *Graph) {
		for _, v := range g.Inputs {
			pace.Step(tableSteps)
			b.names[v.Name] = true
		}
		for _, v := range g.Parameters {
			b.names[v.Name] = true
		}
		for _, n := range g.Nodes {
			pace.Step(1)
			for _, vs := range [2][]*Value{n.Inputs, n.Outputs} {
				for _, v := range vs {
					if pace.Step(tableSteps); v != nil {
						b.names[v.Name] = true
					}
				}
			}
		}
		for _, v := range g.Outputs { // a constant may be read here only
			if pace.Step(tableSteps); v != nil {
				b.names[v.Name] = true
			}
		}
	})
	return b
}

// Sub starts a subgraph, which may use b's values and becomes an attribute of a node of b.
func (b *Builder) Sub(name string) *Builder {
	s := NewBuilder(name, b.resolver, b.opsets)
	s.g.Opsets, s.g.Meta = nil, nil
	s.names, s.numbers, s.scope, s.outer = b.names, b.numbers, b.scope, b
	return s
}

// Import lets Op and Ops find the operators of a domain that the graph does not name, in the given version. A domain
// that the graph names keeps its version.
func (b *Builder) Import(domain string, version int) {
	root := b
	for root.outer != nil {
		root = root.outer
	}
	for _, opsets := range []map[string]int{b.opsets, root.g.Opsets} {
		if _, ok := opsets[domain]; !ok && opsets != nil {
			opsets[domain] = version
		}
	}
}

// PaceLike makes the nodes that are added count their steps as n does: they are n's body.
func (b *Builder) PaceLike(n *Node) { b.g.pace = n.pace }

// Scope sets the part of the model that the following nodes belong to, and returns the former one.
func (b *Builder) Scope(scope string) (former string) {
	former, b.scope = b.scope, scope
	return former
}

// Fail records an error, unless there is one already.
func (b *Builder) Fail(err error) {
	if b.err == nil {
		b.err = err
	}
	if b.outer != nil {
		b.outer.Fail(err)
	}
}

// Err returns the first error so far.
func (b *Builder) Err() error { return b.err }

// Graph returns the graph under construction.
func (b *Builder) Graph() *Graph { return b.g }

// Unique returns a name that no other value has: hint itself, if it is free.
func (b *Builder) Unique(hint string) string {
	if hint == "" {
		hint = "v"
	}
	name := hint
	if b.names[name] {
		i := b.numbers[hint] // names stay in use, so those with lower numbers are not free
		for b.names[name] {
			i++
			name = hint + "_" + strconv.Itoa(i)
		}
		b.numbers[hint] = i
	}
	b.names[name] = true
	return name
}

// Input adds a graph input.
func (b *Builder) Input(name string, t Type) *Value {
	if b.names[name] {
		b.Fail(fmt.Errorf("graph %s: two values are named %q", b.g.Name, name))
	}
	b.names[name] = true
	v := &Value{Name: name, Type: t}
	b.g.Inputs = append(b.g.Inputs, v)
	return v
}

// Const makes a constant; it becomes part of the graph when a node reads it.
func (b *Builder) Const(name string, t *tensor.Tensor) *Value { return NewConst(b.Unique(name), t) }

// Parameter adds a parameter to the graph, with the content t.
func (b *Builder) Parameter(name string, t *tensor.Tensor) *Value {
	if b.names[name] {
		b.Fail(fmt.Errorf("graph %s: two values are named %q", b.g.Name, name))
	}
	b.names[name] = true
	v := NewParameter(name, t)
	b.g.Parameters = append(b.g.Parameters, v)
	return v
}

// Update makes an output of the graph the new content of a parameter.
func (b *Builder) Update(parameter, output *Value) {
	b.g.Updates = append(b.g.Updates, Update{parameter, output})
}

// Ints makes a constant vector of int64, as shapes and axes are given.
func (b *Builder) Ints(v ...int64) *Value {
	return b.Const("ints", tensor.FromSlice(v, len(v)))
}

// Output makes v an output of the graph under the given name, or under v's own if the name is empty.
func (b *Builder) Output(name string, v *Value) {
	if v == nil {
		b.Fail(fmt.Errorf("graph %s: output %q has no value", b.g.Name, name))
		return
	}
	if name != "" && v.Name != name {
		if b.names[name] {
			b.Fail(fmt.Errorf("graph %s: two values are named %q", b.g.Name, name))
		}
		// An input, a constant, a value of the enclosing graph and one that already is an output keep their names; the
		// output is a copy.
		if v.Def == nil || slices.Contains(b.g.Outputs, v) || !slices.Contains(b.g.Nodes, v.Def) {
			v = b.Op("", "Identity", []*Value{v})
			if v == nil {
				return
			}
		}
		b.names[name] = true
		v.Name = name
	}
	b.g.Outputs = append(b.g.Outputs, v)
}

// Op applies an operator and gives its first output. Attributes are made with A.
func (b *Builder) Op(domain, name string, in []*Value, attrs ...Attr) *Value {
	out := b.Ops(domain, name, 1, in, attrs...)
	if len(out) == 0 {
		return nil
	}
	return out[0]
}

// Ops applies an operator and gives its first n outputs. After an error it gives nil values.
func (b *Builder) Ops(domain, name string, n int, in []*Value, attrs ...Attr) []*Value {
	if b.err != nil {
		return make([]*Value, n)
	}
	op := b.resolver.Resolve(domain, name, b.opsets[domain])
	if op == nil {
		b.Fail(fmt.Errorf("no operator %s in version %d of domain %q", name, b.opsets[domain], domain))
		return make([]*Value, n)
	}
	return b.Apply(op, n, in, NewAttrs(attrs...))
}

// Apply adds a node for op with n outputs, named after the operator.
func (b *Builder) Apply(op *Op, n int, in []*Value, attrs Attrs) []*Value {
	if b.err != nil {
		return make([]*Value, n)
	}
	node := &Node{Op: op, Scope: b.scope, Inputs: in, Attrs: attrs}
	for range n {
		hint := op.Name
		if b.scope != "" {
			hint = b.scope + "." + op.Name
		}
		node.Outputs = append(node.Outputs, &Value{Name: b.Unique(hint), Def: node})
	}
	root := b
	for root.outer != nil {
		root = root.outer
	}
	node.pace = root.g.pace
	if err := InferNode(node); err != nil {
		b.Fail(err)
		return make([]*Value, n)
	}
	b.g.Nodes = append(b.g.Nodes, node)
	node.Step(pacerSteps / 8) // the caller's work, too
	return node.Outputs
}

// Infer returns the types that the node's operator infers for its outputs. It checks the number and kinds of inputs and
// attributes first, and does not change the node.
func Infer(n *Node) ([]Type, error) {
	if err := checkNode(n); err != nil {
		return nil, fmt.Errorf("node %v: %w", n, err)
	}
	if n.Op.Infer == nil {
		return nil, fmt.Errorf("node %v: operator %s has no type inference", n, n.Op.FullName())
	}
	types, err := infer(n)
	if err != nil {
		return nil, fmt.Errorf("node %v: %w", n, err)
	}
	if len(types) < len(n.Outputs) {
		return nil, fmt.Errorf("node %v: has %d outputs, operator gives %d", n, len(n.Outputs), len(types))
	}
	return types, nil
}

// infer calls the operator's Infer. Its arguments come from files, so a panic there becomes an error.
func infer(n *Node) (types []Type, err error) {
	defer func() {
		if v := recover(); v != nil {
			PassOn(v)
			types, err = nil, fmt.Errorf("operator %s cannot infer its output types: internal error: %v",
				n.Op.FullName(), v)
		}
	}()
	return n.Op.Infer(n)
}

// InferNode sets the types of the node's outputs to those that Infer returns.
func InferNode(n *Node) error {
	types, err := Infer(n)
	if err != nil {
		return err
	}
	for i, v := range n.Outputs {
		if v != nil {
			v.Type = types[i]
		}
	}
	return nil
}

// Build finishes and verifies the graph.
func (b *Builder) Build() (*Graph, error) {
	if b.err != nil {
		return nil, b.err
	}
	if b.outer != nil {
		return b.g, nil // verified with the graph around it
	}
	if err := Verify(b.g); err != nil {
		return nil, err
	}
	return b.g, nil
}
