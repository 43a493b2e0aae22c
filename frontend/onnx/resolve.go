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
	Nodes   []string // their names, or those of their first outputs
}

// UnsupportedError lists everything that keeps a model from being read for want of operators.
type UnsupportedError struct {
	File      string
	Operators []Unsupported // sorted by domain, name and version
}

// Error names the operators, and for each the first few nodes.
func (e *UnsupportedError) Error() string {
	const most = 5
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ", e.File)
	if n := len(e.Operators); n == 1 {
		b.WriteString("1 operator is not supported: ")
	} else {
		fmt.Fprintf(&b, "%d operators are not supported: ", n)
	}
	for i, u := range e.Operators {
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
		if more := len(u.Nodes) - most; more > 0 {
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

// resolver finds what each node applies, before anything is built: an operator, or a function of the model.
type resolving struct {
	*reader
	missing map[operatorKey]*Unsupported
	domains map[string]bool
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
	v := resolving{r, map[operatorKey]*Unsupported{}, map[string]bool{}}
	if err := v.nodes(m.graph.nodes, r.opsets, 0); err != nil {
		return err
	}
	if n := inlined(m.graph.nodes, r.budget.Nodes); n > r.budget.Nodes {
		return fmt.Errorf("more than %d nodes after functions are inlined", r.budget.Nodes)
	}
	r.info.Domains = slices.Sorted(maps.Keys(v.domains))
	if len(v.missing) == 0 {
		return nil
	}
	e := &UnsupportedError{File: r.file}
	for _, u := range v.missing {
		e.Operators = append(e.Operators, *u)
	}
	slices.SortFunc(e.Operators, func(a, b Unsupported) int {
		return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Op, b.Op), cmp.Compare(a.Version, b.Version))
	})
	return e
}

func (v *resolving) nodes(nodes []*nodeProto, opsets map[string]int, depth int) error {
	for _, n := range nodes {
		if err := v.node(n, opsets, depth); err != nil {
			return err
		}
		for _, a := range n.attrs {
			for _, g := range a.graphs {
				if err := v.nodes(g.nodes, opsets, depth); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (v *resolving) node(n *nodeProto, opsets map[string]int, depth int) error {
	v.domains[n.domain] = true
	version := opsets[n.domain]
	f := v.functions[functionKey{n.domain, n.op, n.overload}]
	// A function that a file brings along says what its own operator means; but of this program's own operators it is only a
	// rendering for others, and may have several, one for each way in which the operator is applied.
	if (n.overload == "" && f == nil || n.domain == "essm") && version > 0 {
		n.operator = v.resolver.Resolve(n.domain, n.op, version)
	}
	switch {
	case n.operator != nil:
		return v.same(n, version)
	case f != nil:
		n.function = f
		return v.function(f, depth+1)
	}
	name := n.name
	if name == "" && len(n.outputs) > 0 {
		name = n.outputs[0]
	}
	k := operatorKey{n.domain, n.op, version}
	if v.missing[k] == nil {
		v.missing[k] = &Unsupported{Domain: n.domain, Op: n.op, Version: version}
	}
	v.missing[k].Nodes = append(v.missing[k].Nodes, name)
	return nil
}

// same checks that the graph's own version of a domain gives the operator that a function's version gives, since a graph
// has one version of each.
func (v *resolving) same(n *nodeProto, version int) error {
	have, ok := v.opsets[n.domain]
	if !ok {
		v.opsets[n.domain] = version
		return nil
	}
	if have == version {
		return nil
	}
	if own := v.resolver.Resolve(n.domain, n.op, have); own == nil || ops.Current(own) != ops.Current(n.operator) {
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
		err = v.nodes(f.nodes, opsets, depth)
	} else {
		err = fmt.Errorf("function %s: %w", quote(f.String()), err)
	}
	f.state = 2
	f.size = inlined(f.nodes, v.budget.Nodes)
	return err
}

// inlined counts the nodes that a list of nodes becomes, calls themselves included; beyond limit it stops counting. The
// sizes of the functions that they call are known.
func inlined(nodes []*nodeProto, limit int) int {
	sum := 0
	for _, n := range nodes {
		sum++
		if n.function != nil {
			sum += n.function.size
		}
		for _, a := range n.attrs {
			for _, g := range a.graphs {
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
