package onnx

import (
	"errors"
	"fmt"

	"github.com/essmc/essmc/ir"
)

// call is one use of a function.
type call struct {
	path  string               // Scope of the nodes: the names of the enclosing calls
	known map[string]bool      // names of the function's attributes
	attrs map[string]boundAttr // attributes that have a value
}

// boundAttr is an attribute's value, with the scope of the names in it.
type boundAttr struct {
	*attrProto
	as string // the attribute's name at the node that uses it
	in *scope
}

// bind resolves a reference to an attribute of the enclosing function. It returns false if the call omits the
// attribute.
func (s *scope) bind(a *attrProto) (b boundAttr, ok bool, err error) {
	if a.ref == "" {
		return boundAttr{a, a.name, s}, true, nil
	}
	if s.call == nil {
		return b, false, fmt.Errorf("attribute %s refers to attribute %s of a function, but is not in one",
			quote(a.name), quote(a.ref))
	}
	if !s.call.known[a.ref] {
		return b, false, fmt.Errorf("attribute %s refers to attribute %s, which the function does not have",
			quote(a.name),
			quote(a.ref))
	}
	b, ok = s.call.attrs[a.ref]
	b.as = a.name
	return b, ok, nil
}

// inline adds to g the body of the function that p calls.
func (r *reader) inline(g *ir.Graph, s *scope, p *nodeProto, inputs []*ir.Value) error {
	f := p.function
	fail := func(err error) error {
		return fmt.Errorf("node %s: function %s: %w", p.label(), quote(f.String()), err)
	}
	if len(inputs) > len(f.inputs) || len(p.outputs) > len(f.outputs) {
		return fail(fmt.Errorf("called with %d inputs and %d outputs, it has %d and %d", len(inputs), len(p.outputs),
			len(f.inputs), len(f.outputs)))
	}
	c := &call{path: p.name, known: map[string]bool{}, attrs: map[string]boundAttr{}}
	if c.path == "" {
		c.path = f.name
	}
	if outer := s.path(); outer != "" {
		c.path = outer + "." + c.path
	}
	if len(c.path) > mostName {
		return fail(fmt.Errorf("the names of the calls around it have %d bytes, more than %d", len(c.path), mostName))
	}
	if r.nameBytes += int64(len(c.path)); r.nameBytes > r.budget.Names {
		return fail(fmt.Errorf("the names of values take more than %d bytes", r.budget.Names))
	}
	in := &scope{vals: map[string]*ir.Value{}, names: map[string]string{}, call: c}
	if err := bindAttrs(s, p, c); err != nil {
		return fail(err)
	}
	for i, name := range f.inputs {
		if _, twice := in.vals[name]; twice || name == "" {
			return fail(fmt.Errorf("input %d is named %s, as an earlier one or nothing", i, quote(name)))
		}
		in.vals[name] = nil
		if i < len(inputs) {
			in.vals[name] = inputs[i]
		}
	}
	given := map[string]string{} // from the names of the function's outputs to those at the call
	for i, name := range p.outputs {
		if _, twice := given[f.outputs[i]]; name != "" && !twice {
			given[f.outputs[i]] = s.names[name]
		}
	}
	err := r.declareNodes(in, f.nodes, func(name string) (string, error) {
		if _, input := in.vals[name]; input {
			return "", fmt.Errorf("value %s is an input and defined in the body", quote(name))
		}
		if n, ok := given[name]; ok {
			return n, nil
		}
		return r.unique(c.path + "/" + name)
	})
	if err != nil {
		return fail(err)
	}
	if err := r.body(g, in, f.nodes); err != nil {
		return err // err names the node and the enclosing calls
	}
	for i, name := range p.outputs {
		if name == "" {
			continue
		}
		v := in.vals[f.outputs[i]]
		if v == nil {
			return fail(fmt.Errorf("output %s is not defined", quote(f.outputs[i])))
		}
		s.vals[name] = v
	}
	return nil
}

// bindAttrs sets the function's attributes to the values in the call, or else to their defaults.
func bindAttrs(s *scope, p *nodeProto, c *call) error {
	f := p.function
	for _, name := range f.attrs {
		c.known[name] = true
	}
	for _, a := range f.defaults {
		if a.ref != "" {
			return errors.New("the default of an attribute refers to another attribute")
		}
		c.known[a.name] = true
		c.attrs[a.name] = boundAttr{a, a.name, &scope{}}
	}
	for _, a := range p.attrs {
		if !c.known[a.name] {
			return fmt.Errorf("has no attribute %s", quote(a.name))
		}
		b, ok, err := s.bind(a)
		if err != nil {
			return err
		}
		if ok {
			c.attrs[a.name] = b
		}
	}
	return nil
}
