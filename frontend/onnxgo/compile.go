package onnxgo

import (
	"errors"
	"fmt"
	"slices"

	gorgonia "gorgonia.org/tensor"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
)

// model is a Graph compiled for certain types and shapes of inputs.
type model struct {
	*runtime.Model
	session *runtime.Session
	types   map[*Node]*ir.TensorType
	results []*Node
}

// takes reports whether the model was compiled for inputs of these types.
func (m *model) takes(types map[*Node]*ir.TensorType) bool {
	if len(types) != len(m.types) {
		return false
	}
	for n, t := range types {
		if had, ok := m.types[n]; !ok || !ir.EqualTypes(t, had) {
			return false
		}
	}
	return true
}

// newest is the version for verifying a graph with operators of several versions.
const newest = 1 << 20

// compile builds the graph, runs the passes and prepares it to run. Leaves without a type in types are constants.
func (g *Graph) compile(leaves []*Node, types map[*Node]*ir.TensorType) (*model, error) {
	b := ir.NewBuilder("model", ops.Default, map[string]int{"": newest, "essm": 1})
	values := map[*Node]*ir.Value{}
	for _, n := range leaves {
		if t, ok := types[n]; ok {
			values[n] = b.Input(key(n), t)
			continue
		}
		t, err := FromGorgonia(n.t)
		if err != nil {
			return nil, fmt.Errorf("constant %q: %w", n.name, err)
		}
		values[n] = b.Const(key(n), t)
	}
	if err := g.operations(b, values); err != nil {
		return nil, err
	}
	m := &model{types: types}
	for _, n := range g.results() {
		v := values[n]
		b.Output(key(n), v)
		m.results = append(m.results, n)
	}
	built, err := b.Build()
	if err != nil {
		return nil, err
	}
	opened, err := open.Graph(built, "model", open.Options{})
	if err != nil {
		return nil, err
	}
	if m.Model, err = opened.Compile(g.opts); err != nil {
		return nil, err
	}
	m.session = m.NewSession()
	return m, nil
}

// operations adds the operators in an order in which definitions precede uses.
func (g *Graph) operations(b *ir.Builder, values map[*Node]*ir.Value) error {
	waiting := slices.Clone(g.ops)
	for len(waiting) > 0 {
		var later []*operation
		for _, op := range waiting {
			in, ready := g.inputs(op, values)
			if !ready {
				later = append(later, op)
				continue
			}
			out, err := g.apply(b, op, in)
			if err != nil {
				return fmt.Errorf("operator %s that computes %q: %w", op.Name, op.outputs[0].name, err)
			}
			for i, n := range op.outputs {
				if n.name != "" {
					values[n] = out[i]
				}
			}
		}
		if len(later) == len(waiting) {
			return fmt.Errorf("operator %s that computes %q waits for a value that nothing computes", later[0].Name,
				later[0].outputs[0].name)
		}
		waiting = later
	}
	return nil
}

// inputs returns an operator's inputs in order, with nil for absent ones. It returns false if one has not been computed
// yet.
func (g *Graph) inputs(op *operation, values map[*Node]*ir.Value) (in []*ir.Value, ready bool) {
	for _, r := range g.reads[op.outputs[0].ID()] {
		for len(in) <= r.position {
			in = append(in, nil)
		}
		if r.node.name == "" || g.fake(op, r.node) {
			continue
		}
		v, ok := values[r.node]
		if !ok {
			return nil, false
		}
		in[r.position] = v
	}
	for len(in) > 0 && in[len(in)-1] == nil {
		in = in[:len(in)-1]
	}
	return in, true
}

// apply adds an operator in the version that fits.
func (g *Graph) apply(b *ir.Builder, op *operation, in []*ir.Value) ([]*ir.Value, error) {
	attrs, err := attributes(op)
	if err != nil {
		return nil, err
	}
	versions := g.versions(op.Name)
	if len(versions) == 0 {
		return nil, fmt.Errorf("is not supported")
	}
	var first error
	for _, v := range versions {
		node := &ir.Node{Op: v, Inputs: in, Attrs: attrs}
		for range op.outputs {
			node.Outputs = append(node.Outputs, &ir.Value{Name: "probe", Def: node})
		}
		if err := ir.InferNode(node); err != nil {
			if first == nil {
				first = errors.Unwrap(err)
			}
			continue
		}
		return b.Apply(v, len(op.outputs), in, attrs), b.Err()
	}
	return nil, first
}

// versions lists the versions of an operator in the order in which they are tried.
func (g *Graph) versions(name string) []*ir.Op {
	var before, after []*ir.Op
	for _, op := range ops.Default.All() {
		switch {
		case op.Domain != "" || op.Name != name:
		case op.Since <= g.opset:
			before = append(before, op)
		default:
			after = append(after, op)
		}
	}
	slices.Reverse(before) // All returns the oldest first
	return append(before, after...)
}

// attributes converts the decoder's attributes to those of the IR.
func attributes(op *operation) (ir.Attrs, error) {
	names := make([]string, 0, len(op.Attributes))
	for name := range op.Attributes {
		names = append(names, name)
	}
	slices.Sort(names)
	var out []ir.Attr
	for _, name := range names {
		switch v := op.Attributes[name].(type) {
		case float32, int64, string, []int64, []string:
			out = append(out, ir.A(name, v))
		case []float32:
			w := make([]float64, len(v))
			for i, x := range v {
				w[i] = float64(x)
			}
			out = append(out, ir.A(name, w))
		case gorgonia.Tensor:
			t, err := FromGorgonia(v)
			if err != nil {
				return nil, fmt.Errorf("attribute %s: %w", name, err)
			}
			out = append(out, ir.A(name, t))
		default:
			return nil, fmt.Errorf("attribute %s: unsupported Go type %T", name, v)
		}
	}
	return ir.NewAttrs(out...), nil
}

// results lists the values that no operator reads. They are the outputs of the model, since the decoder does not return
// these.
func (g *Graph) results() []*Node {
	read := map[*Node]bool{}
	for _, op := range g.ops {
		for _, r := range g.reads[op.outputs[0].ID()] {
			read[r.node] = true
		}
	}
	var out []*Node
	for _, op := range g.ops {
		for _, n := range op.outputs {
			if n.name != "" && !read[n] {
				out = append(out, n)
			}
		}
	}
	return out
}
