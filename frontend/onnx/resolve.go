package onnx

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/essmc/essmc/internal/ends"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// Unsupported is an operator that the resolver lacks, with the nodes that apply it.
type Unsupported struct {
	Domain  string // "" for ai.onnx
	Op      string
	Version int      // imported version of the domain; 0: not imported
	Nodes   []string // names of at most maxUnsupported nodes, or of their first outputs
	More    int      // number of further nodes
}

// UnsupportedError lists the operators that prevent a model from being read.
type UnsupportedError struct {
	File      string
	Operators []Unsupported // sorted by domain, name and version
	More      int           // number of nodes that apply further operators
}

// maxUnsupported bounds the listed operators, and the nodes of each. Files of exporters have fewer.
const maxUnsupported = 1024

// Error names the operators, and the first nodes of each.
func (e *UnsupportedError) Error() string {
	const most = 5
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ", e.File)
	switch n := len(e.Operators); {
	case e.More > 0:
		fmt.Fprintf(&b, "%d operators, and those of %d more nodes, are not supported: ", n, e.More)
	case n == 1:
		b.WriteString("1 operator is not supported: ")
	default:
		fmt.Fprintf(&b, "%d operators are not supported: ", n)
	}
	for i, u := range e.Operators {
		if b.Len() > maxLine {
			break // oneLine truncates there
		}
		if i > 0 {
			b.WriteString("; ")
		}
		domain := cmp.Or(u.Domain, "ai.onnx")
		if u.Version == 0 {
			fmt.Fprintf(&b, "%s (domain %s, which the model does not import)", u.Op, domain)
		} else {
			fmt.Fprintf(&b, "%s (domain %s, version %d)", u.Op, domain, u.Version)
		}
		b.WriteString(" at node ")
		for j, n := range u.Nodes[:min(len(u.Nodes), most)] {
			if j > 0 {
				b.WriteString(", ")
			}
			b.WriteString(quote(n))
		}
		if more := len(u.Nodes) + u.More - most; more > 0 {
			fmt.Fprintf(&b, " and %d more", more)
		}
	}
	return oneLine(b.String())
}

type functionKey struct{ domain, name, overload string }

type operatorKey struct {
	domain, op string
	version    int
}

// imports reads a list of operator set imports.
func imports(list []opsetProto) (map[string]int, error) {
	out := map[string]int{}
	for _, o := range list {
		if o.version < 1 || o.version > 1<<30 {
			return nil, fmt.Errorf("version %d of domain %s: expected 1 or more", o.version, quote(o.domain))
		}
		if v, ok := out[o.domain]; ok && v != int(o.version) {
			return nil, fmt.Errorf("domain %s is imported in versions %d and %d", quote(o.domain), v, o.version)
		}
		out[o.domain] = int(o.version)
	}
	return out, nil
}

// resolving finds the operator or function of each node, before the graph is built.
type resolving struct {
	*reader
	missing map[operatorKey]*Unsupported
	domains map[string]bool
	more    int // number of nodes with missing operators that are not listed
}

// section is a list of nodes with its own versions of operator sets: the model's, or a function's. found caches the
// results for its nodes.
type section struct {
	opsets map[string]int
	depth  int // depth of function calls
	found  map[functionKey]*applied
	last   functionKey // key of the last result in found
	was    *applied
}

// applied is the result for a node: one of the following.
type applied struct {
	operator *ir.Op
	function *functionProto
	missing  *Unsupported // nil if there are too many to list
}

// resolve finds the operators and functions of all nodes, except those in functions that are not called.
func (r *reader) resolve(m *modelProto) error {
	r.functions = map[functionKey]*functionProto{}
	for _, f := range m.functions {
		k := functionKey{f.domain, f.name, f.overload}
		if r.functions[k] != nil {
			return fmt.Errorf("two functions are named %s", quote(f.String()))
		}
		r.functions[k] = f
	}
	v := resolving{reader: r, missing: map[operatorKey]*Unsupported{}, domains: map[string]bool{}}
	if err := v.nodes(m.graph.nodes, newSection(r.opsets, 0)); err != nil {
		return err
	}
	if n := inlined(r.source.watch, m.graph.nodes, r.budget.Nodes); n > r.budget.Nodes {
		return fmt.Errorf("more than %d nodes after functions are inlined", r.budget.Nodes)
	}
	r.info.Domains = slices.Sorted(maps.Keys(v.domains))
	if len(v.missing) == 0 {
		return nil
	}
	e := &UnsupportedError{File: r.file, More: v.more}
	for _, u := range v.missing {
		e.Operators = append(e.Operators, *u)
	}
	slices.SortFunc(e.Operators, func(a, b Unsupported) int {
		return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Op, b.Op), cmp.Compare(a.Version, b.Version))
	})
	return e
}

func newSection(opsets map[string]int, depth int) *section {
	return &section{opsets: opsets, depth: depth, found: map[functionKey]*applied{}}
}

func (v *resolving) nodes(nodes []nodeProto, s *section) error {
	for i := range nodes {
		n := &nodes[i]
		v.source.watch.Step(1)
		if err := v.node(n, s); err != nil {
			return err
		}
		for _, a := range n.attrs {
			for _, g := range a.parts().graphs {
				if err := v.nodes(g.nodes, s); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (v *resolving) node(n *nodeProto, s *section) error {
	k := functionKey{n.domain, n.op, n.overload}
	a := s.was
	if a == nil || k != s.last {
		if a = s.found[k]; a == nil {
			var err error
			if a, err = v.find(n, s); err != nil {
				return err
			}
		}
		s.last, s.was = k, a
	}
	n.operator, n.function = a.operator, a.function
	switch {
	case a.operator != nil || a.function != nil:
	case a.missing != nil && len(a.missing.Nodes) == maxUnsupported:
		a.missing.More++
	case a.missing != nil:
		name := n.name
		if name == "" && len(n.outputs) > 0 {
			name = n.outputs[0]
		}
		a.missing.Nodes = append(a.missing.Nodes, name)
	default:
		v.more++
	}
	return nil
}

// unlisted is the result for missing operators beyond maxUnsupported.
var unlisted applied

// find finds the operator or function of n, and caches it.
func (v *resolving) find(n *nodeProto, s *section) (*applied, error) {
	a := &applied{}
	version := s.opsets[n.domain]
	f := v.functions[functionKey{n.domain, n.op, n.overload}]
	// A function in the file defines an operator of the file. For an operator of this program it is only a rendering
	// for other programs, and there may be several, for different applications of the operator.
	if (n.overload == "" && f == nil || n.domain == "essm") && version > 0 {
		a.operator = v.resolver.Resolve(n.domain, n.op, version)
	}
	switch {
	case a.operator != nil:
		if err := v.same(n, a.operator, version); err != nil {
			return nil, err
		}
	case f != nil:
		a.function = f
		if err := v.function(f, s.depth+1); err != nil {
			return nil, err
		}
	default:
		k := operatorKey{n.domain, n.op, version}
		if v.missing[k] == nil {
			if len(v.missing) >= maxUnsupported {
				return &unlisted, nil
			}
			v.missing[k] = &Unsupported{Domain: n.domain, Op: n.op, Version: version}
		}
		a.missing = v.missing[k]
	}
	v.domains[n.domain] = true
	s.found[functionKey{n.domain, n.op, n.overload}] = a
	return a, nil
}

// same checks that the graph's version of a domain has the operator of a function's version. A graph has one version of
// each domain.
func (v *resolving) same(n *nodeProto, op *ir.Op, version int) error {
	have, ok := v.opsets[n.domain]
	if !ok {
		v.opsets[n.domain] = version
		return nil
	}
	if have == version {
		return nil
	}
	if own := v.resolver.Resolve(n.domain, n.op, have); own == nil || ops.Current(own) != ops.Current(op) {
		return fmt.Errorf(
			"node %s: a function uses version %d of domain %s, the model version %d, in which the operator differs",
			n.label(), version, quote(n.domain), have)
	}
	return nil
}

func (v *resolving) function(f *functionProto, depth int) error {
	if depth > v.budget.Depth {
		return fmt.Errorf("function %s: calls are nested deeper than %d", quote(f.String()), v.budget.Depth)
	}
	switch f.state {
	case 1:
		return fmt.Errorf("function %s calls itself", quote(f.String()))
	case 2:
		return nil
	}
	f.state = 1
	opsets, err := imports(f.opsets)
	if err == nil {
		err = v.nodes(f.nodes, newSection(opsets, depth))
	} else {
		err = fmt.Errorf("function %s: %w", quote(f.String()), err)
	}
	f.state = 2
	f.size = inlined(v.source.watch, f.nodes, v.budget.Nodes)
	return err
}

// inlined returns the number of nodes that a list of nodes becomes, including calls. It stops counting beyond limit.
// The sizes of called functions are known.
func inlined(w *ends.Watch, nodes []nodeProto, limit int) int {
	sum := 0
	for i := range nodes {
		w.Step(1)
		n := &nodes[i]
		sum++
		if n.function != nil {
			sum += n.function.size
		}
		for _, a := range n.attrs {
			for _, g := range a.parts().graphs {
				sum += inlined(w, g.nodes, limit)
			}
		}
		if sum > limit {
			return limit + 1
		}
	}
	return sum
}

// op returns an operator that the reader itself adds to the graph.
func (r *reader) op(name string) (*ir.Op, error) {
	if _, ok := r.opsets[""]; !ok {
		r.opsets[""] = MaxOpset
	}
	op := r.resolver.Resolve("", name, r.opsets[""])
	if op == nil {
		return nil, fmt.Errorf("no operator %s in version %d of ai.onnx", name, r.opsets[""])
	}
	return op, nil
}
