// Package match holds patterns over graphs, and rewrite rules, as values.
//
// It imports ir only. What always holds: matching changes nothing; a variable that occurs twice in a pattern means the same
// value; inner values of a match are read by the match alone unless the pattern says Shared, so that a rewrite which drops
// them loses nothing.
package match

import (
	"fmt"

	"github.com/essmc/essmc/ir"
)

// Pattern describes a value by the way it is computed.
type Pattern interface {
	match(m *Match, v *ir.Value) bool
}

// Match is what the variables of a pattern stand for at one place.
type Match struct {
	// Root is the node that computes the matched value.
	Root   *ir.Node
	values map[string]*ir.Value
	nodes  map[string]*ir.Node
	uses   map[*ir.Value][]ir.Use
	all    []*ir.Node
	// miss is why the deepest attempt failed, where a pattern could say.
	miss string
}

// Val gives the value of a variable; nil when it stands for an absent input.
func (m *Match) Val(name string) *ir.Value { return m.values[name] }

// Node gives the node that a named operator pattern matched.
func (m *Match) Node(name string) *ir.Node { return m.nodes[name] }

// Nodes lists the nodes that the pattern went through, the root first.
func (m *Match) Nodes() []*ir.Node { return m.all }

// Uses says how often v is read.
func (m *Match) Uses(v *ir.Value) int { return len(m.uses[v]) }

// Of tries a pattern on the value that node n computes first. uses are those of the whole graph.
func Of(p Pattern, n *ir.Node, uses map[*ir.Value][]ir.Use) (*Match, bool) {
	m := &Match{Root: n, values: map[string]*ir.Value{}, nodes: map[string]*ir.Node{}, uses: uses}
	o, ok := p.(*OpPattern)
	if !ok || o.out >= len(n.Outputs) || n.Outputs[o.out] == nil {
		return nil, false
	}
	return m, o.node(m, n)
}

// Miss is why a match failed, where the pattern came far enough to tell.
func (m *Match) Miss() string { return m.miss }

type variable struct {
	name string
	ok   func(*ir.Value) bool
}

// Var stands for any value, an absent input included.
func Var(name string) Pattern { return &variable{name: name} }

// Absent stands for an optional input that is not there.
func Absent() Pattern { return absent{} }

type absent struct{}

func (absent) match(_ *Match, v *ir.Value) bool { return v == nil }

// Const stands for a constant.
func Const(name string) Pattern {
	return &variable{name, func(v *ir.Value) bool { return v != nil && v.Const != nil }}
}

// Where stands for a value that a condition holds of; it is not called for absent inputs, which do not match.
func Where(name string, ok func(*ir.Value) bool) Pattern {
	return &variable{name, func(v *ir.Value) bool { return v != nil && ok(v) }}
}

func (p *variable) match(m *Match, v *ir.Value) bool {
	if p.ok != nil && !p.ok(v) {
		return false
	}
	if old, seen := m.values[p.name]; seen {
		return old == v
	}
	m.values[p.name] = v
	return true
}

// OpPattern stands for one output of an operator's node.
type OpPattern struct {
	op     string
	in     []Pattern
	out    int
	name   string
	shared bool
	any    bool
	check  func(*ir.Node) bool
}

// Op stands for the first output of an operator (named as by ir.Op.FullName) whose inputs match; inputs that are not listed
// must be absent.
func Op(name string, in ...Pattern) *OpPattern { return &OpPattern{op: name, in: in} }

// Out makes the pattern stand for output i.
func (p *OpPattern) Out(i int) *OpPattern { q := *p; q.out = i; return &q }

// As names the node, for Match.Node; a name that occurs twice means the same node.
func (p *OpPattern) As(name string) *OpPattern { q := *p; q.name = name; return &q }

// Shared lets values outside of the match read this one too.
func (p *OpPattern) Shared() *OpPattern { q := *p; q.shared = true; return &q }

// AnyInputs lets the inputs be whatever they are.
func (p *OpPattern) AnyInputs() *OpPattern { q := *p; q.any = true; return &q }

// If adds a condition on the node, its attributes mostly.
func (p *OpPattern) If(ok func(*ir.Node) bool) *OpPattern { q := *p; q.check = ok; return &q }

func (p *OpPattern) match(m *Match, v *ir.Value) bool {
	if v == nil || v.Def == nil || p.out >= len(v.Def.Outputs) || v.Def.Outputs[p.out] != v {
		return false
	}
	if v.Def.Op.FullName() != p.op {
		return false
	}
	if !p.shared && len(m.uses[v]) != 1 {
		m.miss = fmt.Sprintf("%s is read %d times", v.Name, len(m.uses[v]))
		return false
	}
	return p.node(m, v.Def)
}

func (p *OpPattern) node(m *Match, n *ir.Node) bool {
	if n.Op.FullName() != p.op || p.check != nil && !p.check(n) {
		return false
	}
	m.all = append(m.all, n)
	if p.name != "" {
		if old, seen := m.nodes[p.name]; seen {
			return old == n // its inputs have matched before
		}
		m.nodes[p.name] = n
	}
	if p.any {
		return true
	}
	for i := len(p.in); i < len(n.Inputs); i++ {
		if n.Inputs[i] != nil {
			return false
		}
	}
	if n.Op.Commutative && len(p.in) == 2 {
		values, nodes := clone(m.values), clone(m.nodes)
		if p.in[0].match(m, n.In(0)) && p.in[1].match(m, n.In(1)) {
			return true
		}
		m.values, m.nodes = values, nodes
		return p.in[0].match(m, n.In(1)) && p.in[1].match(m, n.In(0))
	}
	for i, q := range p.in {
		if !q.match(m, n.In(i)) {
			return false
		}
	}
	return true
}

func clone[V any](m map[string]V) map[string]V {
	c := make(map[string]V, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}

// Rule rewrites what its pattern matches.
type Rule struct {
	Name string
	Doc  string
	// Pattern is the value to replace; it must be an OpPattern.
	Pattern *OpPattern
	// Check gives the reason for leaving a match alone; empty, or no Check: rewrite.
	Check func(m *Match) string
	// Make builds the replacement of the root node's outputs, in their order; a shorter list leaves the rest, which nobody
	// must read. Further values are replaced through Also.
	Make func(b *ir.Builder, m *Match) []*ir.Value
	// Also gives further replacements: outputs of inner nodes that have readers outside, such as a final state.
	Also func(m *Match, made []*ir.Value) map[*ir.Value]*ir.Value
}
