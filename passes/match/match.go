// Package match holds patterns over graphs, and rewrite rules, as values.
//
// It imports ir only. Matching changes nothing. A variable that occurs twice in a pattern stands for the same value.
// Only the match reads its inner values, unless the pattern is Shared, so a rewrite can drop them.
package match

import (
	"slices"
	"strings"

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
	values []bound[*ir.Value]
	nodes  []bound[*ir.Node]
	uses   map[*ir.Value][]ir.Use
	all    []*ir.Node
	// Found is what a rule's Check has found out, for its Make.
	Found any
}

// bound is a variable that stands for something. There are few in a pattern.
type bound[T any] struct {
	name string
	is   T
}

func find[T any](list []bound[T], name string) (is T, ok bool) {
	for i := range list {
		if list[i].name == name {
			return list[i].is, true
		}
	}
	return is, false
}

// Val gives the value of a variable; nil when it stands for an absent input.
func (m *Match) Val(name string) *ir.Value {
	v, _ := find(m.values, name)
	return v
}

// Node gives the node that a named operator pattern matched.
func (m *Match) Node(name string) *ir.Node {
	n, _ := find(m.nodes, name)
	return n
}

// Nodes lists the nodes that the pattern went through, the root first.
func (m *Match) Nodes() []*ir.Node { return m.all }

// Uses says how often v is read.
func (m *Match) Uses(v *ir.Value) int { return len(m.uses[v]) }

// Of tries a pattern on the value that node n computes first. uses are those of the whole graph. The match takes the
// place of what m held.
func (m *Match) Of(p *OpPattern, n *ir.Node, uses map[*ir.Value][]ir.Use) bool {
	m.Root, m.uses, m.Found = n, uses, nil
	m.values, m.nodes, m.all = m.values[:0], m.nodes[:0], m.all[:0]
	return p.out < len(n.Outputs) && n.Outputs[p.out] != nil && p.node(m, n)
}

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
	if old, seen := find(m.values, p.name); seen {
		return old == v
	}
	m.values = append(m.values, bound[*ir.Value]{p.name, v})
	return true
}

// OpPattern stands for one output of an operator's node.
type OpPattern struct {
	domain string
	op     string
	in     []Pattern
	out    int
	name   string
	shared bool
	any    bool
	check  func(*ir.Node) bool
}

// Op stands for the first output of an operator (named as by ir.Op.FullName) whose inputs match; inputs that are not
// listed must be absent.
func Op(name string, in ...Pattern) *OpPattern {
	p := &OpPattern{op: name, in: in}
	if dot := strings.LastIndexByte(name, '.'); dot >= 0 {
		p.domain, p.op = name[:dot], name[dot+1:]
	}
	return p
}

// is reports whether n applies the operator.
func (p *OpPattern) is(n *ir.Node) bool { return n.Op.Name == p.op && n.Op.Domain == p.domain }

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
	return p.is(v.Def) && (p.shared || len(m.uses[v]) == 1) && p.node(m, v.Def)
}

func (p *OpPattern) node(m *Match, n *ir.Node) bool {
	if !p.is(n) || p.check != nil && !p.check(n) {
		return false
	}
	m.all = append(m.all, n)
	if p.name != "" {
		if old, seen := find(m.nodes, p.name); seen {
			return old == n // its inputs have matched before
		}
		m.nodes = append(m.nodes, bound[*ir.Node]{p.name, n})
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
		values, nodes := len(m.values), len(m.nodes)
		if p.in[0].match(m, n.In(0)) && p.in[1].match(m, n.In(1)) {
			return true
		}
		m.values, m.nodes = m.values[:values], m.nodes[:nodes]
		return p.in[0].match(m, n.In(1)) && p.in[1].match(m, n.In(0))
	}
	for i, q := range p.in {
		if !q.match(m, n.In(i)) {
			return false
		}
	}
	return true
}

// Rule rewrites what its pattern matches.
type Rule struct {
	Name string
	Doc  string
	// Pattern is the value to replace; it must be an OpPattern.
	Pattern *OpPattern
	// Check gives the reason for leaving a match alone; empty, or no Check: rewrite.
	Check func(m *Match) string
	// Make builds the replacement of the root node's outputs, in their order; a shorter list leaves the rest, which
	// nobody must read. Further values are replaced through Also.
	Make func(b *ir.Builder, m *Match) []*ir.Value
	// Also gives further replacements: outputs of inner nodes that have readers outside, such as a final state.
	Also func(m *Match, made []*ir.Value) map[*ir.Value]*ir.Value
}

// Set is a list of rules, found by the operators of the nodes that they go through.
type Set struct {
	rules []*Rule
	needs [][]string // by rule: the operators in its pattern, that of the node that it rewrites first
}

// NewSet makes a set of rules, which are tried in this order.
func NewSet(rules ...*Rule) *Set {
	s := &Set{rules: rules}
	for _, r := range rules {
		s.needs = append(s.needs, r.Pattern.names(nil))
	}
	return s
}

func (p *OpPattern) names(list []string) []string {
	list = append(list, p.op)
	for _, q := range p.in {
		if o, ok := q.(*OpPattern); ok {
			list = o.names(list)
		}
	}
	return list
}

// In gives the rules whose patterns some nodes of g may match, in their order, by the name of the operator that each
// rewrites.
func (s *Set) In(g *ir.Graph) map[string][]*Rule {
	there := map[string]bool{}
	for _, n := range g.Nodes {
		there[n.Op.Name] = true
	}
	var found map[string][]*Rule
	for i, r := range s.rules {
		if slices.ContainsFunc(s.needs[i], func(name string) bool { return !there[name] }) {
			continue
		}
		if found == nil {
			found = map[string][]*Rule{}
		}
		found[r.Pattern.op] = append(found[r.Pattern.op], r)
	}
	return found
}
