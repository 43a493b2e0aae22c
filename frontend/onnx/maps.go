package onnx

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// mapInput is an input that the file has as a map. It is a tensor here, with a row for each map and a column for each
// key, as runtime.FromMaps makes it.
type mapInput struct {
	key     tensor.DType
	columns map[string]int64 // by key, as text
	words   []string         // the keys of the columns; int64 keys are in numbers
	numbers []int64
	dense   bool // the columns are the values of a map in the order of its keys
}

// maxColumns bounds the columns of a sparse CastMap.
const maxColumns = 1 << 24

var errMixed = errors.New("a dense CastMap and other operators read the same map")

// mapInput makes a tensor of an input that is a map, and returns nil for inputs of other types.
func (r *reader) mapInput(g *ir.Graph, p *graphProto, in valueProto) (*ir.Value, error) {
	key, elem, err := r.mapType(in.typ)
	if elem == tensor.Invalid || err != nil {
		return nil, err
	}
	m := &mapInput{key: key, columns: map[string]int64{}}
	if r.mapReaders == nil {
		r.mapReaders = map[string][]*nodeProto{}
		for i := range p.nodes {
			r.source.watch.Step(1)
			if n := &p.nodes[i]; readsMap(n.operator) && len(n.inputs) > 0 {
				r.mapReaders[n.inputs[0]] = append(r.mapReaders[n.inputs[0]], n)
			}
		}
	}
	for _, n := range r.mapReaders[in.name] {
		if err := m.readBy(n); err != nil {
			return nil, fmt.Errorf("node %s: %w", n.label(), err)
		}
	}
	columns := ir.Const(int64(len(m.columns)))
	if m.dense {
		columns = ir.Unknown
	} else if len(m.columns) == 0 {
		return nil, errors.New("is a map, which neither a DictVectorizer nor a CastMap of the outermost graph reads")
	}
	var list any = m.numbers
	switch {
	case m.dense:
		list = []int64{}
	case key == tensor.String:
		list = m.words
	}
	keys, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	g.Meta[ir.MetaKeys+in.name] = string(keys)
	v := &ir.Value{Name: in.name, Type: &ir.TensorType{Elem: elem, Shape: ir.Shape{r.dims.dim("N"), columns}}}
	if r.maps == nil {
		r.maps = map[*ir.Value]*mapInput{}
	}
	r.maps[v] = m
	return v, nil
}

// mapType returns the types of the keys and values of a map, or tensor.Invalid for other types.
func (r *reader) mapType(c *cursor) (key, elem tensor.DType, err error) {
	if c == nil {
		return
	}
	var m *cursor
	if err := c.each(func(f field) error {
		if f.num == 5 {
			return f.only(&m)
		}
		return nil
	}); err != nil || m == nil {
		return key, elem, err
	}
	err = m.each(func(f field) error {
		switch f.num {
		case 1:
			var e int64
			err := f.int(&e)
			key = tensor.DType(e)
			return err
		case 2:
			var v cursor
			if err := f.message(&v); err != nil {
				return err
			}
			t, err := r.typeOf(v, 1)
			if tt, ok := t.(*ir.TensorType); ok {
				elem = tt.Elem
			}
			return err
		}
		return nil
	})
	if err == nil && (key != tensor.Int64 && key != tensor.String || elem == tensor.Invalid) {
		err = errors.New("expected a map from int64 or string to numbers or texts")
	}
	return key, elem, err
}

func readsMap(op *ir.Op) bool {
	return op != nil && op.Domain == "ai.onnx.ml" && (op.Name == "DictVectorizer" || op.Name == "CastMap")
}

// readBy adds the keys that a node reads.
func (m *mapInput) readBy(p *nodeProto) error {
	n := &ir.Node{Op: p.operator}
	for _, a := range p.attrs {
		switch a.typ {
		case attrInt:
			n.Attrs = n.Attrs.With(a.name, a.i)
		case attrString:
			n.Attrs = n.Attrs.With(a.name, a.s)
		case attrInts:
			n.Attrs = n.Attrs.With(a.name, a.parts().ints)
		case attrStrings:
			n.Attrs = n.Attrs.With(a.name, a.parts().strings)
		}
	}
	words, numbers, dense, err := m.keysOf(n)
	if err != nil {
		return err
	}
	if m.dense || dense && len(m.columns) > 0 {
		return errMixed
	}
	m.dense = dense
	for _, w := range words {
		if _, ok := m.columns[w]; !ok {
			m.columns[w] = int64(len(m.words))
			m.words = append(m.words, w)
		}
	}
	for _, k := range numbers {
		w := strconv.FormatInt(k, 10)
		if _, ok := m.columns[w]; !ok {
			m.columns[w] = int64(len(m.numbers))
			m.numbers = append(m.numbers, k)
		}
	}
	return nil
}

// keysOf returns the keys of the elements that a node gives, or that these are the values in the order of their keys.
func (m *mapInput) keysOf(n *ir.Node) (words []string, numbers []int64, dense bool, err error) {
	if n.Op.Name == "DictVectorizer" {
		words, numbers = n.Attrs.Strs("string_vocabulary", nil), n.Attrs.Ints("int64_vocabulary", nil)
		if (len(words) == 0) == (len(numbers) == 0) {
			err = errors.New("expected either string_vocabulary or int64_vocabulary")
		} else if (len(words) > 0) != (m.key == tensor.String) {
			err = fmt.Errorf("expected a vocabulary of %v, as the keys of the map are", m.key)
		}
		return words, numbers, false, err
	}
	if m.key != tensor.Int64 {
		return nil, nil, false, fmt.Errorf("expected a map from int64, found keys of %v", m.key)
	}
	if n.Attrs.Str("map_form", "DENSE") == "DENSE" {
		return nil, nil, true, nil
	}
	most := n.Attrs.Int("max_map", 1)
	if most < 1 || most > maxColumns {
		return nil, nil, false, fmt.Errorf("max_map: expected 1 to %d, found %d", maxColumns, most)
	}
	for k := range most {
		numbers = append(numbers, k)
	}
	return nil, numbers, false, nil
}

// unmap replaces a node that reads a map by operators on the tensor of the map's values; n becomes the last of them.
// It does not change nodes that read no map.
func (r *reader) unmap(g *ir.Graph, n *ir.Node) error {
	var m *mapInput
	for i, v := range n.Inputs {
		if m = r.maps[v]; m != nil {
			if i > 0 || !readsMap(n.Op) {
				return fmt.Errorf("input %s of the model is a map, which only DictVectorizer and CastMap read",
					quote(v.Name))
			}
			break
		}
	}
	if m == nil {
		return nil
	}
	words, numbers, _, err := m.keysOf(n)
	if err != nil {
		return err
	}
	for _, k := range numbers {
		words = append(words, strconv.FormatInt(k, 10))
	}
	at := make([]int64, len(words))
	same := m.dense || len(words) == len(m.columns)
	for i, w := range words {
		at[i] = m.columns[w]
		same = same && at[i] == int64(i)
	}
	x := n.In(0)
	elem := x.Type.(*ir.TensorType).Elem
	to := elem
	if n.Op.Name == "CastMap" {
		to = map[string]tensor.DType{"TO_FLOAT": tensor.Float32, "TO_STRING": tensor.String,
			"TO_INT64": tensor.Int64}[n.Attrs.Str("cast_to", "TO_FLOAT")]
		if elem != tensor.Float32 && elem != tensor.String || to == tensor.Invalid ||
			to == tensor.String && elem != to {
			return fmt.Errorf("a map to %v with cast_to %s is not supported", elem, n.Attrs.Str("cast_to", "TO_FLOAT"))
		}
	}
	if !same {
		name, err := r.unique(x.Name + "_columns")
		if err != nil {
			return err
		}
		pick := &ir.Node{Name: n.Name, Inputs: []*ir.Value{x, ir.NewConst(name, tensor.FromSlice(at, len(at)))},
			Attrs: ir.Attrs{ir.A("axis", int64(1))}}
		if pick.Op, err = r.op("Gather"); err != nil {
			return err
		}
		if to == elem {
			n.Op, n.Inputs, n.Attrs = pick.Op, pick.Inputs, pick.Attrs
			return nil
		}
		if name, err = r.unique(x.Name + "_values"); err != nil {
			return err
		}
		x = &ir.Value{Name: name, Def: pick}
		pick.Outputs = []*ir.Value{x}
		if err := ir.InferNode(pick); err != nil {
			return err
		}
		g.Nodes = append(g.Nodes, pick)
	}
	n.Inputs, n.Attrs = []*ir.Value{x}, nil
	name := "Identity"
	if to != elem {
		name, n.Attrs = "Cast", ir.Attrs{ir.A("to", int64(to))}
	}
	n.Op, err = r.op(name)
	return err
}
