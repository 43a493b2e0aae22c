package onnx

import (
	"errors"
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/std"
)

// attributes sets the attributes of n. Graphs come last, because the types of their inputs may depend on other
// attributes.
func (r *reader) attributes(s *scope, p *nodeProto, n *ir.Node) error {
	var graphs []boundAttr
	for _, a := range p.attrs {
		b, ok, err := s.bind(a)
		if err != nil {
			return err
		}
		if !ok {
			continue // an attribute of the function that the call omits
		}
		if b.typ == attrGraph || b.typ == attrGraphs {
			graphs = append(graphs, b)
			continue
		}
		v, err := r.attr(b, nil)
		if err != nil {
			return fmt.Errorf("attribute %s: %w", quote(a.name), err)
		}
		n.Attrs = n.Attrs.With(a.name, v)
	}
	for _, b := range graphs {
		v, err := r.attr(b, n)
		if err != nil {
			return fmt.Errorf("attribute %s: %w", quote(b.as), err)
		}
		n.Attrs = n.Attrs.With(b.as, v)
	}
	return nil
}

// attr returns the value of an attribute of n.
func (r *reader) attr(b boundAttr, n *ir.Node) (any, error) {
	a, l := b.attrProto, b.parts()
	one := func(k int, what string) error {
		if k != 1 {
			return fmt.Errorf("expected one %s, found %d", what, k)
		}
		return nil
	}
	switch a.typ {
	case attrFloat:
		return a.f, nil
	case attrInt:
		return a.i, nil
	case attrString:
		return a.s, nil
	case attrFloats:
		return append([]float64{}, l.floats...), nil
	case attrInts:
		return append([]int64{}, l.ints...), nil
	case attrStrings:
		return append([]string{}, l.strings...), nil
	case attrTensor, attrSparse:
		if err := one(len(l.tensors), "tensor"); err != nil {
			return nil, err
		}
		return r.tensor(l.tensors[0])
	case attrTensors, attrSparses:
		out := make([]*tensor.Tensor, len(l.tensors))
		for i, t := range l.tensors {
			var err error
			if out[i], err = r.tensor(t); err != nil {
				return nil, err
			}
		}
		return out, nil
	case attrTypeProto, attrTypeProtos:
		types := make([]ir.Type, len(l.types))
		for i, c := range l.types {
			t, err := r.typeOf(c, 0)
			if err == nil && t == nil {
				err = errors.New("a type is empty")
			}
			if err != nil {
				return nil, err
			}
			types[i] = t
		}
		if a.typ == attrTypeProtos {
			return types, nil
		}
		if err := one(len(types), "type"); err != nil {
			return nil, err
		}
		return types[0], nil
	case attrGraph:
		if err := one(len(l.graphs), "graph"); err != nil {
			return nil, err
		}
		return r.subgraph(b.in, l.graphs[0], std.SubgraphInputs(n))
	case attrGraphs:
		out := make([]*ir.Graph, len(l.graphs))
		for i, g := range l.graphs {
			var err error
			if out[i], err = r.subgraph(b.in, g, nil); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return nil, fmt.Errorf("has type %d without a value", a.typ)
}

// constant replaces n, a node of Constant, by a constant.
func (r *reader) constant(s *scope, p *nodeProto, n *ir.Node) error {
	if len(p.outputs) != 1 || p.outputs[0] == "" || len(p.inputs) != 0 {
		return fmt.Errorf("expected no input and one output, found %d and %d", len(p.inputs), len(p.outputs))
	}
	if len(n.Attrs) != 1 {
		return fmt.Errorf("expected exactly one attribute, found %d", len(n.Attrs))
	}
	var t *tensor.Tensor
	a := n.Attrs[0]
	switch v := a.Value.(type) {
	case *tensor.Tensor:
		t = v
	case float64:
		t = tensor.Scalar(float32(v))
	case []float64:
		var err error
		if t, err = tensor.FromFloat64s(tensor.Float32, v, len(v)); err != nil {
			return err
		}
	case int64:
		t = tensor.Scalar(v)
	case []int64:
		t = tensor.FromSlice(v, len(v))
	case string:
		t = tensor.FromStrings([]string{v})
	case []string:
		t = tensor.FromStrings(v, len(v))
	}
	want := map[string]ir.AttrKind{
		"value": ir.AttrTensor, "sparse_value": ir.AttrTensor, "value_float": ir.AttrFloat,
		"value_floats": ir.AttrFloats,
		"value_int":    ir.AttrInt, "value_ints": ir.AttrInts, "value_string": ir.AttrString,
		"value_strings": ir.AttrStrings,
	}
	if t == nil || want[a.Name] != a.Kind() {
		return fmt.Errorf("attribute %s of kind %s has no constant", quote(a.Name), a.Kind())
	}
	out := p.outputs[0]
	declared, err := r.stated(s.declared[out])
	if err != nil {
		return fmt.Errorf("value %s: %w", quote(out), err)
	}
	if declared != nil && !ir.Compatible(declared, ir.Of(t)) {
		return fmt.Errorf("value %s: the file states type %v, the constant has type %v", quote(out), declared, ir.Of(t))
	}
	s.vals[out] = r.fixedValue(s.names[out], t, true)
	return nil
}
