package onnx

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// Unsupported is an operator that the resolver does not have, and the nodes that apply it.
type Unsupported struct {
	Domain  string // "" is ai.onnx
	Op      string
	Version int      // of the domain, as the model imports it; 0: it does not
	Nodes   []string // their names, or those of their first outputs; the first maxUnsupported of them
	More    int      // nodes beyond those
}

// UnsupportedError lists everything that keeps a model from being read for want of operators.
type UnsupportedError struct {
	File      string
	Operators []Unsupported // sorted by domain, name and version
	More      int           // nodes that apply yet other operators, after the first maxUnsupported of the file
}

// maxUnsupported bounds the operators that are listed, and the nodes of each; no exporter writes so many.
const maxUnsupported = 1024

// Error names the operators, and for each the first few nodes.
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
			break // oneLine cuts there
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

// imports reads a list of opset imports.
func imports(list []opsetProto) (map[string]int, error) {
	out := map[string]int{}
	for _, o := range list {
		if o.version < 1 || o.version > 1<<30 {
			return nil, fmt.Errorf("version %d of domain %s: expected 1 or more", o.version, quote(o.domain))
		}
		if o.domain == "" && o.version > MaxOpset {
			return nil, fmt.Errorf("operator set %d of ai.onnx is not known; the newest known one is %d", o.version, MaxOpset)
		}
		if v, ok := out[o.domain]; ok && v != int(o.version) {
			return nil, fmt.Errorf("domain %s is imported in versions %d and %d", quote(o.domain), v, o.version)
		}
		out[o.domain] = int(o.version)
	}
	return out, nil
}

// resolving finds what each node applies, before anything is built: an operator, or a function of the model.
type resolving struct {
	*reader
	missing map[operatorKey]*Unsupported
	domains map[string]bool
	more    int // nodes whose operators are missing, and not listed
}

// section is a list of nodes with its own versions of operator sets: the model's, or those of a function. found keeps what
// its nodes apply, as most apply what others do.
type section struct {
	opsets map[string]int
	depth  int // of function calls
	found  map[functionKey]*applied
	last   functionKey // what found gave last
	was    *applied
}

// applied is what nodes apply: one of these.
type applied struct {
	operator *ir.Op
	function *functionProto
	missing  *Unsupported // nil too where there were too many to list
}

// resolve finds the operators and functions of the whole model, functions that nobody calls left out.
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
	if n := inlined(m.graph.nodes, r.budget.Nodes); n > r.budget.Nodes {
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

// unlisted stands for the operators that are missing beyond maxUnsupported.
var unlisted applied

// find tells what n applies, and remembers it.
func (v *resolving) find(n *nodeProto, s *section) (*applied, error) {
	a := &applied{}
	version := s.opsets[n.domain]
	f := v.functions[functionKey{n.domain, n.op, n.overload}]
	// A function that a file brings along says what its own operator means; but of this program's own operators it is only a
	// rendering for others, and may have several, one for each way in which the operator is applied.
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

// same checks that the graph's own version of a domain gives the operator that a function's version gives, since a graph
// has one version of each.
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
		return fmt.Errorf("node %s: a function uses version %d of domain %s, the model version %d, in which the operator is another", n.label(), version, quote(n.domain), have)
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
	f.size = inlined(f.nodes, v.budget.Nodes)
	return err
}

// inlined counts the nodes that a list of nodes becomes, calls themselves included; beyond limit it stops counting. The
// sizes of the functions that they call are known.
func inlined(nodes []nodeProto, limit int) int {
	sum := 0
	for i := range nodes {
		n := &nodes[i]
		sum++
		if n.function != nil {
			sum += n.function.size
		}
		for _, a := range n.attrs {
			for _, g := range a.parts().graphs {
				sum += inlined(g.nodes, limit)
			}
		}
		if sum > limit {
			return limit + 1
		}
	}
	return sum
}

// op finds an operator that the reader itself adds to the graph.
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
