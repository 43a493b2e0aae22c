package opstest

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// This file reads the parts of ONNX's protobuf messages that tests of single operators have. Field numbers are those of
// onnx.proto.

type noOperator struct{ name string }

func (e *noOperator) Error() string { return "no operator " + e.name }

// message is a decoded protobuf message: per field number, its values in order.
type message map[protowire.Number][]any // uint64, or []byte

func decode(b []byte) (message, error) {
	m := message{}
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		b = b[n:]
		switch typ {
		case protowire.VarintType:
			v, n := protowire.ConsumeVarint(b)
			if n < 0 {
				return nil, protowire.ParseError(n)
			}
			m[num], b = append(m[num], v), b[n:]
		case protowire.Fixed32Type:
			v, n := protowire.ConsumeFixed32(b)
			if n < 0 {
				return nil, protowire.ParseError(n)
			}
			m[num], b = append(m[num], uint64(v)), b[n:]
		case protowire.Fixed64Type:
			v, n := protowire.ConsumeFixed64(b)
			if n < 0 {
				return nil, protowire.ParseError(n)
			}
			m[num], b = append(m[num], v), b[n:]
		case protowire.BytesType:
			v, n := protowire.ConsumeBytes(b)
			if n < 0 {
				return nil, protowire.ParseError(n)
			}
			m[num], b = append(m[num], v), b[n:]
		default:
			return nil, fmt.Errorf("wire type %d", typ)
		}
	}
	return m, nil
}

func (m message) str(f protowire.Number) string {
	if len(m[f]) == 0 {
		return ""
	}
	return string(m[f][0].([]byte))
}

func (m message) num(f protowire.Number) uint64 {
	if len(m[f]) == 0 {
		return 0
	}
	v, _ := m[f][0].(uint64)
	return v
}

func (m message) subs(f protowire.Number) ([]message, error) {
	var out []message
	for _, v := range m[f] {
		s, err := decode(v.([]byte))
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func (m message) sub(f protowire.Number) (message, error) {
	s, err := m.subs(f)
	if err != nil || len(s) == 0 {
		return message{}, err
	}
	return s[0], nil
}

// nums reads a repeated number, packed or not; width is 0 for varints, else 4 or 8 bytes.
func (m message) nums(f protowire.Number, width int) []uint64 {
	var out []uint64
	for _, v := range m[f] {
		b, packed := v.([]byte)
		if !packed {
			out = append(out, v.(uint64))
			continue
		}
		for len(b) > 0 {
			var x uint64
			n := width
			switch width {
			case 4:
				y, k := protowire.ConsumeFixed32(b)
				x, n = uint64(y), k
			case 8:
				x, n = protowire.ConsumeFixed64(b)
			default:
				x, n = protowire.ConsumeVarint(b)
			}
			if n < 0 {
				return out
			}
			out, b = append(out, x), b[n:]
		}
	}
	return out
}

// ReadModel reads an ONNX model into a graph; for subgraphInputs see Nodes.
func ReadModel(b []byte, subgraphInputs func(*ir.Node) []ir.Type) (*ir.Graph, error) {
	m, err := decode(b)
	if err != nil {
		return nil, err
	}
	r := graphReader{map[string]int{}, subgraphInputs}
	sets, err := m.subs(8)
	if err != nil {
		return nil, err
	}
	for _, s := range sets {
		r.opsets[s.str(1)] = int(s.num(2))
	}
	g, err := m.sub(7)
	if err != nil {
		return nil, err
	}
	return r.graph(g, nil, nil)
}

type graphReader struct {
	opsets         map[string]int
	subgraphInputs func(*ir.Node) []ir.Type
}

// graph reads a graph. types are the types of its inputs if the file omits them.
func (r graphReader) graph(m message, outer map[string]*ir.Value, types []ir.Type) (*ir.Graph, error) {
	g := &ir.Graph{Name: m.str(2)}
	vals := map[string]*ir.Value{}
	maps.Copy(vals, outer)
	inits, err := m.subs(5)
	if err != nil {
		return nil, err
	}
	for _, s := range inits {
		t, err := readTensor(s)
		if err != nil {
			return nil, err
		}
		vals[s.str(8)] = ir.NewConst(s.str(8), t)
	}
	inputs, err := m.subs(11)
	if err != nil {
		return nil, err
	}
	for i, s := range inputs {
		tm, err := s.sub(2)
		if err != nil {
			return nil, err
		}
		var t ir.Type
		if i < len(types) && len(tm) == 0 {
			t = types[i]
		} else if t, err = readType(tm); err != nil {
			return nil, err
		}
		v := &ir.Value{Name: s.str(1), Type: t}
		vals[v.Name] = v
		g.Inputs = append(g.Inputs, v)
	}
	nodes, err := m.subs(1)
	if err != nil {
		return nil, err
	}
	for _, s := range nodes {
		name, domain := s.str(4), s.str(7)
		op := ops.Default.Resolve(domain, name, r.opsets[domain])
		if op == nil {
			return nil, &noOperator{strings.TrimPrefix(domain+"."+name, ".")}
		}
		n := &ir.Node{Op: op, Name: s.str(3)}
		for _, x := range s[1] {
			v := vals[string(x.([]byte))]
			if v == nil && len(x.([]byte)) > 0 {
				return nil, fmt.Errorf("node %v reads %q, which is not defined", n, x)
			}
			n.Inputs = append(n.Inputs, v)
		}
		attrs, err := s.subs(5)
		if err != nil {
			return nil, err
		}
		// Graphs come last: the types of their inputs may follow from the other attributes.
		slices.SortStableFunc(attrs, func(a, b message) int { return cmp.Compare(len(a[6]), len(b[6])) })
		for _, a := range attrs {
			v, err := r.attr(a, n, vals)
			if err != nil {
				return nil, err
			}
			n.Attrs = n.Attrs.With(a.str(1), v)
		}
		for _, x := range s[2] {
			if len(x.([]byte)) == 0 {
				n.Outputs = append(n.Outputs, nil)
				continue
			}
			v := &ir.Value{Name: string(x.([]byte)), Def: n}
			vals[v.Name] = v
			n.Outputs = append(n.Outputs, v)
		}
		if err := ir.InferNode(n); err != nil {
			return nil, err
		}
		g.Nodes = append(g.Nodes, n)
	}
	outputs, err := m.subs(12)
	if err != nil {
		return nil, err
	}
	for _, s := range outputs {
		v := vals[s.str(1)]
		if v == nil {
			return nil, fmt.Errorf("output %q is not defined", s.str(1))
		}
		g.Outputs = append(g.Outputs, v)
	}
	return g, nil
}

func (r graphReader) attr(m message, n *ir.Node, vals map[string]*ir.Value) (any, error) {
	switch m.num(20) {
	case 1:
		return float64(math.Float32frombits(uint32(m.num(2)))), nil
	case 2:
		return int64(m.num(3)), nil
	case 3:
		return m.str(4), nil
	case 4:
		s, err := m.sub(5)
		if err != nil {
			return nil, err
		}
		return readTensor(s)
	case 5:
		s, err := m.sub(6)
		if err != nil {
			return nil, err
		}
		var types []ir.Type
		if r.subgraphInputs != nil {
			types = r.subgraphInputs(n)
		}
		return r.graph(s, vals, types)
	case 6:
		out := []float64{}
		for _, v := range m.nums(7, 4) {
			out = append(out, float64(math.Float32frombits(uint32(v))))
		}
		return out, nil
	case 7:
		out := []int64{}
		for _, v := range m.nums(8, 0) {
			out = append(out, int64(v))
		}
		return out, nil
	case 8:
		out := []string{}
		for _, v := range m[9] {
			out = append(out, string(v.([]byte)))
		}
		return out, nil
	case 13:
		s, err := m.sub(14)
		if err != nil {
			return nil, err
		}
		return readType(s)
	}
	return nil, fmt.Errorf("attribute %s has type %d", m.str(1), m.num(20))
}

func readType(m message) (ir.Type, error) {
	switch {
	case m[1] != nil:
		t, err := m.sub(1)
		if err != nil {
			return nil, err
		}
		out := &ir.TensorType{Elem: tensor.DType(t.num(1)), NoRank: t[2] == nil}
		if out.NoRank {
			return out, nil
		}
		s, err := t.sub(2)
		if err != nil {
			return nil, err
		}
		dims, err := s.subs(1)
		out.Shape = ir.Shape{}
		for _, d := range dims {
			switch {
			case d[1] != nil:
				out.Shape = append(out.Shape, ir.Const(int64(d.num(1))))
			case d[2] != nil:
				out.Shape = append(out.Shape, ir.Sym(d.str(2)))
			default:
				out.Shape = append(out.Shape, ir.Unknown)
			}
		}
		return out, err
	case m[4] != nil, m[9] != nil:
		f := protowire.Number(4)
		if m[9] != nil {
			f = 9
		}
		s, err := m.sub(f)
		if err != nil {
			return nil, err
		}
		e, err := s.sub(1)
		if err != nil {
			return nil, err
		}
		t, err := readType(e)
		if f == 9 {
			return &ir.OptionalType{Elem: t}, err
		}
		return &ir.SequenceType{Elem: t}, err
	}
	return nil, fmt.Errorf("unknown type %v", slices.Sorted(maps.Keys(m)))
}

// ReadDatum reads a serialized value of the given type.
func ReadDatum(b []byte, typ ir.Type) (tensor.Datum, error) {
	m, err := decode(b)
	if err != nil {
		return nil, err
	}
	return datum(m, typ)
}

func datum(m message, typ ir.Type) (tensor.Datum, error) {
	switch typ := typ.(type) {
	case *ir.SequenceType:
		seq := &tensor.Sequence{}
		for f := protowire.Number(3); f <= 7; f++ {
			subs, err := m.subs(f)
			if err != nil {
				return nil, err
			}
			for _, s := range subs {
				d, err := datum(s, typ.Elem)
				if err != nil {
					return nil, err
				}
				seq.Items = append(seq.Items, d)
			}
		}
		return seq, nil
	case *ir.OptionalType:
		o := &tensor.Optional{}
		for f := protowire.Number(3); f <= 7; f++ {
			subs, err := m.subs(f)
			if err != nil {
				return nil, err
			}
			for _, s := range subs {
				if o.Value, err = datum(s, typ.Elem); err != nil {
					return nil, err
				}
			}
		}
		return o, nil
	}
	return readTensor(m)
}

func readTensor(m message) (*tensor.Tensor, error) {
	d := tensor.DType(m.num(2))
	shape := []int{}
	for _, v := range m.nums(1, 0) {
		shape = append(shape, int(v))
	}
	n, err := tensor.Size(shape)
	if err != nil {
		return nil, err
	}
	if d == tensor.String {
		var s []string
		for _, v := range m[6] {
			s = append(s, string(v.([]byte)))
		}
		if len(s) != n {
			return nil, fmt.Errorf("%d strings for shape %v", len(s), shape)
		}
		return tensor.FromStrings(s, shape...), nil
	}
	if m[9] != nil {
		return tensor.FromBytes(d, shape, m[9][0].([]byte))
	}
	t := tensor.New(d, shape...)
	put := func(v []uint64, w int) {
		for i, x := range v {
			for j := range w {
				if i*w+j < len(t.Bytes()) {
					t.Bytes()[i*w+j] = byte(x >> (8 * j))
				}
			}
		}
	}
	switch d {
	case tensor.Float32, tensor.Complex64:
		put(m.nums(4, 4), 4)
	case tensor.Float64, tensor.Complex128:
		put(m.nums(10, 8), 8)
	case tensor.Int64:
		put(m.nums(7, 0), 8)
	case tensor.Uint32, tensor.Uint64:
		put(m.nums(11, 0), d.Bits()/8)
	default:
		put(m.nums(5, 0), max(1, d.Bits()/8))
	}
	return t, nil
}
