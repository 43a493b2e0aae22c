package onnx

import (
	"fmt"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// graph writes a graph. Parameters, and the constants of its subgraphs, are initializers of the outermost graph.
func (w *writer) graph(g *ir.Graph, outermost bool) (*message, error) {
	m := &message{}
	own := map[*ir.Value]bool{}
	for _, n := range g.Nodes {
		p, err := w.node(n)
		if err != nil {
			return nil, err
		}
		m.message(1, p)
		for _, v := range n.Outputs {
			own[v] = true
		}
	}
	outputs := slices.Clone(g.Outputs)
	for i, v := range outputs {
		twice := slices.Contains(outputs[:i], v)
		if own[v] && !twice {
			continue
		}
		if outermost {
			if twice {
				return nil, fmt.Errorf("graph %s: output %s is listed twice", g.Name, v.Name)
			}
			continue // an input, a parameter or a constant
		}
		// The outputs of a subgraph must be computed in it: engines accept no others.
		copied := &ir.Value{Name: v.Name + "/out" + strconv.Itoa(i), Type: v.Type}
		p := &message{}
		p.text(1, v.Name)
		p.text(2, copied.Name)
		p.text(3, w.unique(v.Name+"/Identity"))
		p.text(4, "Identity")
		m.message(1, p)
		w.domains[""] = max(w.domains[""], 1)
		outputs[i] = copied
	}
	m.text(2, g.Name)
	if outermost {
		for _, v := range g.Parameters {
			t, err := w.tensor(v.Init, v.Name)
			if err != nil {
				return nil, fmt.Errorf("parameter %s: %w", v.Name, err)
			}
			m.message(5, t)
		}
		for _, v := range g.Constants() {
			t, err := w.tensor(v.Const, v.Name)
			if err != nil {
				return nil, fmt.Errorf("constant %s: %w", v.Name, err)
			}
			m.message(5, t)
		}
	}
	if g.Doc != "" {
		m.text(10, g.Doc)
	}
	if err := w.values(m, 11, g.Inputs); err != nil {
		return nil, err
	}
	if err := w.values(m, 12, outputs); err != nil {
		return nil, err
	}
	var infos []*ir.Value
	for _, n := range g.Nodes {
		for _, v := range n.Outputs {
			if v != nil && v.Type != nil && !slices.Contains(g.Outputs, v) {
				infos = append(infos, v)
			}
		}
	}
	return m, w.values(m, 13, infos)
}

func (w *writer) values(m *message, f protowire.Number, vs []*ir.Value) error {
	for _, v := range vs {
		p := &message{}
		p.text(1, v.Name)
		if v.Type != nil {
			t, err := w.typ(v.Type)
			if err != nil {
				return fmt.Errorf("value %s: %w", v.Name, err)
			}
			p.message(2, t)
		}
		m.message(f, p)
	}
	return nil
}

func (w *writer) unique(name string) string {
	k := w.names[name]
	w.names[name]++
	if k > 0 {
		return w.unique(name + "_" + strconv.Itoa(k))
	}
	return name
}

// node writes a node. A node without a name gets one of its scope and its operator, because viewers group by names.
func (w *writer) node(n *ir.Node) (*message, error) {
	m := &message{}
	for _, v := range n.Inputs {
		m.text(1, nameOf(v))
	}
	for _, v := range n.Outputs {
		m.text(2, nameOf(v))
	}
	name := n.Name
	if name == "" {
		if name = n.Op.Name; n.Scope != "" {
			name = n.Scope + "/" + name
		}
	}
	m.text(3, w.unique(name))
	m.text(4, n.Op.Name)
	for _, a := range n.Attrs {
		p, err := w.attr(a)
		if err != nil {
			return nil, fmt.Errorf("node %v: attribute %s: %w", n, a.Name, err)
		}
		m.message(5, p)
	}
	if n.Op.Domain != "" {
		m.text(7, fileDomain(n.Op.Domain))
	}
	if o := w.overload[n]; o != "" {
		m.text(8, o)
		w.ir = max(w.ir, 10)
	}
	w.domains[n.Op.Domain] = max(w.domains[n.Op.Domain], n.Op.Since)
	return m, nil
}

func nameOf(v *ir.Value) string {
	if v == nil {
		return ""
	}
	return v.Name
}

func (w *writer) attr(a ir.Attr) (*message, error) {
	m := &message{}
	m.text(1, a.Name)
	typ := attrUndefined
	switch v := a.Value.(type) {
	case int64:
		typ = attrInt
		m.int(3, v)
	case float64:
		typ = attrFloat
		m.float(2, v)
	case string:
		typ = attrString
		m.text(4, v)
	case *tensor.Tensor:
		typ = attrTensor
		if err := w.tensors(m, 5, v); err != nil {
			return nil, err
		}
	case *ir.Graph:
		typ = attrGraph
		if err := w.graphs(m, 6, v); err != nil {
			return nil, err
		}
	case ir.Type:
		typ = attrTypeProto
		if err := w.types(m, 14, v); err != nil {
			return nil, err
		}
	case []int64:
		typ = attrInts
		for _, x := range v {
			m.int(8, x)
		}
	case []float64:
		typ = attrFloats
		for _, x := range v {
			m.float(7, x)
		}
	case []string:
		typ = attrStrings
		for _, x := range v {
			m.text(9, x)
		}
	case []*tensor.Tensor:
		typ = attrTensors
		if err := w.tensors(m, 10, v...); err != nil {
			return nil, err
		}
	case []*ir.Graph:
		typ = attrGraphs
		if err := w.graphs(m, 11, v...); err != nil {
			return nil, err
		}
	case []ir.Type:
		typ = attrTypeProtos
		if err := w.types(m, 15, v...); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("of a kind that ONNX does not have: %T", v)
	}
	m.int(20, int64(typ))
	return m, nil
}

func (w *writer) tensors(m *message, f protowire.Number, ts ...*tensor.Tensor) error {
	for _, t := range ts {
		p, err := w.tensor(t, "")
		if err != nil {
			return err
		}
		m.message(f, p)
	}
	return nil
}

func (w *writer) graphs(m *message, f protowire.Number, gs ...*ir.Graph) error {
	for _, g := range gs {
		p, err := w.graph(g, false)
		if err != nil {
			return err
		}
		m.message(f, p)
	}
	return nil
}

func (w *writer) types(m *message, f protowire.Number, ts ...ir.Type) error {
	for _, t := range ts {
		p, err := w.typ(t)
		if err != nil {
			return err
		}
		m.message(f, p)
	}
	return nil
}

// typ writes a type. A dimension that is an expression is written as text. An unknown one has neither value nor name.
func (w *writer) typ(t ir.Type) (*message, error) {
	m := &message{}
	switch t := t.(type) {
	case *ir.TensorType:
		w.ir = max(w.ir, elemIR(t.Elem))
		p := &message{}
		p.int(1, int64(t.Elem))
		if !t.NoRank {
			shape := &message{}
			for _, d := range t.Shape {
				shape.message(1, w.dim(d))
			}
			p.message(2, shape)
		}
		m.message(1, p)
		return m, nil
	case *ir.SequenceType:
		return m, w.holder(m, 4, t.Elem)
	case *ir.OptionalType:
		w.ir = max(w.ir, 8)
		return m, w.holder(m, 9, t.Elem)
	}
	return nil, fmt.Errorf("ONNX cannot represent type %v", t)
}

func (w *writer) holder(m *message, f protowire.Number, elem ir.Type) error {
	e, err := w.typ(elem)
	if err != nil {
		return err
	}
	p := &message{}
	p.message(1, e)
	m.message(f, p)
	return nil
}

func (w *writer) dim(d ir.Dim) *message {
	m := &message{}
	if n, ok := d.Known(); ok {
		m.int(1, n)
		return m
	}
	if d.IsUnknown() {
		return m
	}
	name := d.String()
	if s, ok := d.Symbol(); ok && w.dims[s] != "" {
		name = w.dims[s]
	}
	m.text(2, name)
	return m
}

// tensor writes a tensor. Its bytes are not copied, or are written to the second file.
func (w *writer) tensor(t *tensor.Tensor, name string) (*message, error) {
	w.ir = max(w.ir, elemIR(t.DType()))
	m := &message{}
	for _, d := range t.Shape() {
		m.int(1, int64(d))
	}
	m.int(2, int64(t.DType()))
	if t.DType() == tensor.String {
		for _, s := range t.Strings() {
			m.text(6, s)
		}
	}
	if name != "" {
		m.text(8, name)
	}
	switch data := t.Bytes(); {
	case t.DType() == tensor.String:
	case name != "" && w.o.External != "" && len(data) >= w.o.ExternalFrom:
		at := (w.at + alignExternal - 1) / alignExternal * alignExternal
		w.external = append(w.external, placed{data, at})
		w.at = at + int64(len(data))
		entries := [][2]string{
			{"location", w.o.External}, {"offset", strconv.FormatInt(at, 10)}, {"length", strconv.Itoa(len(data))},
		}
		if w.o.checksum != "" {
			entries = append(entries, [2]string{"checksum", w.o.checksum})
		}
		for _, e := range entries {
			p := &message{}
			p.text(1, e[0])
			p.text(2, e[1])
			m.message(13, p)
		}
		m.int(14, 1)
	default:
		m.data(9, data)
	}
	return m, nil
}

// function writes a model-local function. Its constants are nodes, since functions have no initializers.
func (w *writer) function(f Function) (*message, error) {
	op := f.Nodes[0].Op
	m := &message{}
	m.text(1, op.Name)
	for _, v := range f.Body.Inputs {
		m.text(4, v.Name)
	}
	for _, v := range f.Body.Outputs {
		m.text(5, v.Name)
	}
	attrs := map[string]bool{}
	for _, n := range f.Nodes {
		for _, a := range n.Attrs {
			attrs[a.Name] = true
		}
	}
	for _, a := range op.Attrs {
		if attrs[a.Name] {
			m.text(6, a.Name)
		}
	}
	outer := w.domains
	w.domains = map[string]int{}
	for _, v := range f.Body.Constants() {
		p := &message{}
		p.text(2, v.Name)
		p.text(3, w.unique(v.Name))
		p.text(4, "Constant")
		a, err := w.attr(ir.Attr{Name: "value", Value: v.Const})
		if err != nil {
			return nil, err
		}
		p.message(5, a)
		m.message(7, p)
	}
	for _, n := range f.Body.Nodes {
		p, err := w.node(n)
		if err != nil {
			return nil, fmt.Errorf("function %s: %w", op.FullName(), err)
		}
		m.message(7, p)
	}
	if op.Doc != "" {
		m.text(8, op.Doc)
	}
	for _, s := range w.opsets(f.Body) {
		m.message(9, opsetMessage(s))
	}
	w.domains = outer
	m.text(10, fileDomain(op.Domain))
	if f.Overload != "" {
		m.text(13, f.Overload)
	}
	w.ir = max(w.ir, 8)
	return m, nil
}
