// Package match represents patterns over graphs, and rewrite rules, as Go values.
//
// It imports ir only. Matching changes nothing. A variable that occurs twice in a pattern matches the same value
// twice. A match's inner values have no readers outside it, unless the pattern is Shared, so a rewrite can drop
// them.
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

// Match holds the values of a pattern's variables in one match.
type Match struct {
	// Root is the node that computes the matched value.
	Root   *ir.Node
	values []bound[*ir.Value]
	nodes  []bound[*ir.Node]
	uses   map[*ir.Value][]ir.Use
	all    []*ir.Node
	// Found is the result of a rule's Check, for its Make.
	Found any
	// Settled are the values that follow from parameters and constants, which Fixed matches besides constants.
	Settled map[*ir.Value]bool
}

// bound is a variable with its value. A pattern has few of them.
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

// Val returns the value of a variable. It is nil for an absent input.
func (m *Match) Val(name string) *ir.Value {
	v, _ := find(m.values, name)
	return v
}

// IsFixed reports whether v is a constant or settled.
func (m *Match) IsFixed(v *ir.Value) bool { return v.Const != nil || m.Settled[v] }

// Node returns the node that a named operator pattern matched.
func (m *Match) Node(name string) *ir.Node {
	n, _ := find(m.nodes, name)
	return n
}

// Nodes lists the nodes of the match, the root first.
func (m *Match) Nodes() []*ir.Node { return m.all }

// Uses returns the number of readers of v.
func (m *Match) Uses(v *ir.Value) int { return len(m.uses[v]) }

// Of matches a pattern with the first output of node n, and reports whether it matches. uses are the uses in the
// whole graph. The previous content of m is lost.
func (m *Match) Of(p *OpPattern, n *ir.Node, uses map[*ir.Value][]ir.Use) bool {
	m.Root, m.uses, m.Found = n, uses, nil
	m.values, m.nodes, m.all = m.values[:0], m.nodes[:0], m.all[:0]
	return p.out < len(n.Outputs) && n.Outputs[p.out] != nil && p.node(m, n)
}

type variable struct {
	name  string
	ok    func(*ir.Value) bool
	fixed bool // it must be constant or settled
}

// Var matches any value, including an absent input.
func Var(name string) Pattern { return &variable{name: name} }

// Fixed matches a constant or a settled value. Only rules that read no elements, or look first whether there are any,
// may use it.
func Fixed(name string) Pattern { return FixedWhere(name, nil) }

// FixedWhere matches a constant or a settled value for which ok returns true.
func FixedWhere(name string, ok func(*ir.Value) bool) Pattern {
	return &variable{name, func(v *ir.Value) bool { return v != nil && (ok == nil || ok(v)) }, true}
}

// Absent matches an absent optional input.
func Absent() Pattern { return absent{} }

type absent struct{}

func (absent) match(_ *Match, v *ir.Value) bool { return v == nil }

// Const matches a constant.
func Const(name string) Pattern {
	return &variable{name: name, ok: func(v *ir.Value) bool { return v != nil && v.Const != nil }}
}

// Where matches a value for which ok returns true. It does not match absent inputs.
func Where(name string, ok func(*ir.Value) bool) Pattern {
	return &variable{name: name, ok: func(v *ir.Value) bool { return v != nil && ok(v) }}
}

func (p *variable) match(m *Match, v *ir.Value) bool {
	if p.ok != nil && !p.ok(v) || p.fixed && !m.IsFixed(v) {
		return false
	}
	if old, seen := find(m.values, p.name); seen {
		return old == v
	}
	m.values = append(m.values, bound[*ir.Value]{p.name, v})
	return true
}

// OpPattern matches one output of an operator's node.
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

// Op matches the first output of an operator (a name as ir.Op.FullName returns it) whose inputs match. Inputs that are
// not listed must be absent.
func Op(name string, in ...Pattern) *OpPattern {
	p := &OpPattern{op: name, in: in}
	if dot := strings.LastIndexByte(name, '.'); dot >= 0 {
		p.domain, p.op = name[:dot], name[dot+1:]
	}
	return p
}

// is reports whether n applies the operator.
func (p *OpPattern) is(n *ir.Node) bool { return n.Op.Name == p.op && n.Op.Domain == p.domain }

// Out returns the pattern for output i of the node.
func (p *OpPattern) Out(i int) *OpPattern { q := *p; q.out = i; return &q }

// As returns the pattern with a name for the node; see Match.Node. A name that occurs twice means the same node.
func (p *OpPattern) As(name string) *OpPattern { q := *p; q.name = name; return &q }

// Shared returns the pattern for a value that may have readers outside of the match.
func (p *OpPattern) Shared() *OpPattern { q := *p; q.shared = true; return &q }

// AnyInputs returns the pattern with any inputs.
func (p *OpPattern) AnyInputs() *OpPattern { q := *p; q.any = true; return &q }

// If returns the pattern with a condition on the node, usually on its attributes.
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

// Rule rewrites the matches of a pattern.
type Rule struct {
	Name string
	Doc  string
	// Pattern matches the value to replace. It must be an OpPattern.
	Pattern *OpPattern
	// Check returns the reason for leaving a match as it is, or "" to rewrite it. A nil Check accepts all matches.
	Check func(m *Match) string
	// Make builds the replacement of the root node's outputs, in order. Outputs that a shorter list omits must have no
	// readers. Also replaces further values.
	Make func(b *ir.Builder, m *Match) []*ir.Value
	// Also returns further replacements: for outputs of inner nodes with readers outside, such as a final state.
	Also func(m *Match, made []*ir.Value) map[*ir.Value]*ir.Value
}

// Set is a list of rules, indexed by the operators in their patterns.
type Set struct {
	rules []*Rule
	needs [][]string // by rule: the operators in its pattern, the root's first
}

// NewSet returns a set of rules, which are tried in this order.
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

// In returns the rules whose patterns may match nodes of g, in order, by the operator of their root.
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
