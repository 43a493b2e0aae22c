package onnx

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// Keys of metadata_props that Write makes of a graph's parameters, and Read of the file. They do not become Graph.Meta.
const (
	propParameters = "essmc.parameters" // the names of initializers, a JSON list
	propUpdates    = "essmc.updates"    // a JSON list of pairs: the name of a parameter, the name of an output
)

// update is the names of a parameter and of the output that updates it.
type update [2]string

// listed reads the parameters and updates that the file itself lists.
func (r *reader) listed() error {
	read := func(key string, to any) error {
		text, ok := r.info.Metadata[key]
		if !ok {
			return nil
		}
		if err := json.Unmarshal([]byte(text), to); err != nil {
			var bad *json.UnmarshalTypeError
			if errors.As(err, &bad) {
				err = fmt.Errorf("found a JSON %s", bad.Value)
			}
			return fmt.Errorf("metadata %s: expected a JSON list: %w", quote(key), err)
		}
		return nil
	}
	var names []string
	if err := read(propParameters, &names); err != nil {
		return err
	}
	if len(names) > 0 {
		r.marked = make(map[string]bool, hint(len(names)))
	}
	for _, name := range names {
		r.source.watch.Step(1)
		r.marked[name] = false
	}
	return read(propUpdates, &r.updates)
}

// fixedValue makes a constant or, if the file or a pattern says so, a parameter. node is for Constant nodes, which are
// selected by their own name only.
func (r *reader) fixedValue(name string, t *tensor.Tensor, node bool) *ir.Value {
	_, marked := r.marked[name]
	selected := false
	if node {
		selected = r.pick.SelectNamed(name, t.DType())
	} else {
		selected = r.pick.Select(name, t.DType())
	}
	if !selected && !marked {
		return ir.NewConst(name, t)
	}
	if marked {
		r.marked[name] = true
	}
	v := ir.NewParameter(name, t)
	r.parameters = append(r.parameters, v)
	return v
}

// finish adds the parameters and updates to the outermost graph, when all of its values are known.
func (r *reader) finish(g *ir.Graph) error {
	if err := r.pick.Err("initializers"); err != nil {
		return fmt.Errorf("parameters: %w", err)
	}
	g.Parameters = r.parameters
	missing := 0
	for _, found := range r.marked {
		if !found {
			missing++
		}
	}
	if missing > 0 {
		r.warn("the file lists %d parameters that it does not have: a tool has removed or renamed them", missing)
	}
	if len(r.updates) == 0 {
		return nil
	}
	parameters, outputs := map[string]*ir.Value{}, map[string]*ir.Value{}
	for _, v := range g.Parameters {
		r.source.watch.Step(1)
		parameters[v.Name] = v
	}
	for _, v := range g.Outputs {
		r.source.watch.Step(1)
		outputs[v.Name] = v
	}
	for _, u := range r.updates {
		r.source.watch.Step(1)
		p, out := parameters[u[0]], outputs[u[1]]
		if p == nil || out == nil {
			r.warn("the file updates parameter %s by output %s, and does not have both", quote(u[0]), quote(u[1]))
			continue
		}
		g.Updates = append(g.Updates, ir.Update{Parameter: p, Output: out})
	}
	return nil
}

// properties returns the metadata_props of a graph's parameters.
func properties(g *ir.Graph) map[string]string {
	props := map[string]string{}
	put := func(key string, list any) {
		b, err := json.Marshal(list)
		if err != nil {
			panic(err) // lists of strings
		}
		props[key] = string(b)
	}
	if len(g.Parameters) > 0 {
		var names []string
		for _, v := range g.Parameters {
			names = append(names, v.Name)
		}
		put(propParameters, names)
	}
	if len(g.Updates) > 0 {
		var pairs []update
		for _, u := range g.Updates {
			pairs = append(pairs, update{u.Parameter.Name, u.Output.Name})
		}
		put(propUpdates, pairs)
	}
	return props
}
