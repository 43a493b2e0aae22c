package onnx

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/essmc/essmc/ir"
)

// The messages of onnx.proto that the reader uses, with the field numbers of that file. Tensors and types are read when
// they are needed.

type modelProto struct {
	ir, version               int64
	producer, producerVersion string
	domain, doc               string
	opsets                    []opsetProto
	graph                     *graphProto
	functions                 []*functionProto
	metadata                  []entryProto
	training                  int
}

type opsetProto struct {
	domain  string
	version int64
}

type entryProto struct{ key, value string }

type graphProto struct {
	name, doc       string
	nodes           []nodeProto
	tensors         []*tensorProto // initializers, including sparse ones
	inputs, outputs []valueProto
	infos           []valueProto
	quantization    int
	free            []string // captured names; valid after freeNames
	freed           bool
}

type valueProto struct {
	name string
	typ  *cursor // nil if the file has none
}

type nodeProto struct {
	inputs, outputs  []string
	name, op         string
	domain, overload string
	attrs            []*attrProto
	// resolve sets one of these: the function that the node calls, or its operator.
	function *functionProto
	operator *ir.Op
}

type attrType int64

// The values of AttributeProto.AttributeType.
const (
	attrUndefined attrType = iota
	attrFloat
	attrInt
	attrString
	attrTensor
	attrGraph
	attrFloats
	attrInts
	attrStrings
	attrTensors
	attrGraphs
	attrSparse
	attrSparses
	attrTypeProto
	attrTypeProtos
	attrEnd
)

type attrProto struct {
	name, ref string
	typ       attrType
	f         float64
	i         int64
	s         string
	lists     *attrLists // nil for most attributes, to save memory; read through parts
}

// attrLists are the rarely used parts of an attribute.
type attrLists struct {
	floats  []float64
	ints    []int64
	strings []string
	tensors []*tensorProto // including a single tensor, and sparse ones
	graphs  []*graphProto  // including a single graph
	types   []cursor       // including a single type
}

var noLists attrLists

// parts returns the rarely used parts of the attribute, for reading.
func (a *attrProto) parts() *attrLists {
	if a.lists == nil {
		return &noLists
	}
	return a.lists
}

type functionProto struct {
	name, domain, overload string
	inputs, outputs        []string
	attrs                  []string // attributes without default
	defaults               []*attrProto
	nodes                  []nodeProto
	opsets                 []opsetProto
	state                  int // of resolve: 0 new, 1 in progress, 2 done
	size                   int // number of nodes that a call becomes
}

func (f *functionProto) String() string {
	s := strings.TrimPrefix(f.domain+"."+f.name, ".")
	if f.overload != "" {
		s += ":" + f.overload
	}
	return s
}

// parser reads messages within the budget. Names and nodes are many and small, so they are allocated in slabs.
type parser struct {
	budget                    Budget
	nodes, attributes, values int
	words                     words
	names                     slab[string]
	attrs                     slab[attrProto]
	attrLists                 slab[*attrProto]
}

// slab divides larger allocations.
type slab[T any] struct {
	free []T
	next int // size of the next allocation
}

// take returns n zero elements. Their capacity is n.
func (s *slab[T]) take(n int) []T {
	if len(s.free) < n {
		s.next = max(n, min(2*s.next, 4096), 16)
		s.free = make([]T, s.next)
	}
	out := s.free[:n:n]
	s.free = s.free[n:]
	return out
}

// add appends v to a list in the slab.
func (s *slab[T]) add(list []T, v T) []T {
	if len(list) == cap(list) {
		grown := s.take(max(1, 2*cap(list)))[:len(list)]
		copy(grown, list)
		list = grown
	}
	return append(list, v)
}

// words caches names, since operators' and attributes' names, and recent names of values, recur.
type words [256]string

// get returns b as a string.
func (w *words) get(b []byte) string {
	h := uint32(2166136261)
	for _, c := range b[:min(len(b), 64)] {
		h = (h ^ uint32(c)) * 16777619
	}
	at := &w[(h^h>>8)%uint32(len(w))]
	if *at != string(b) {
		*at = string(b)
	}
	return *at
}

// text reads a name.
func (p *parser) text(f field, to *string) (err error) {
	*to, err = f.name(&p.words)
	return err
}

// texts appends a name to a list.
func (p *parser) texts(f field, to *[]string) error {
	s, err := f.name(&p.words)
	*to = p.names.add(*to, s)
	return err
}

// makeNodes counts the nodes in field num of a message and allocates them, unless they are too many.
func (p *parser) makeNodes(c cursor, num protowire.Number) ([]nodeProto, error) {
	n := 0
	err := c.each(func(f field) error {
		if f.num != num {
			return nil
		}
		n++
		return spend(&p.nodes, p.budget.Nodes, "nodes")
	})
	if err != nil {
		return nil, err
	}
	return make([]nodeProto, n), nil
}

func spend(n *int, limit int, what string) error {
	if *n++; *n > limit {
		return fmt.Errorf("more than %d %s", limit, what)
	}
	return nil
}

func (p *parser) model(c cursor) (*modelProto, error) {
	m := &modelProto{}
	var graph *cursor
	err := c.each(func(f field) error {
		switch f.num {
		case 1:
			return f.int(&m.ir)
		case 2:
			return p.text(f, &m.producer)
		case 3:
			return p.text(f, &m.producerVersion)
		case 4:
			return p.text(f, &m.domain)
		case 5:
			return f.int(&m.version)
		case 6:
			return f.raw(&m.doc)
		case 7:
			return f.only(&graph)
		case 8:
			return p.opset(f, &m.opsets)
		case 14:
			return p.entry(f, &m.metadata)
		case 20:
			m.training++
		case 25:
			return p.function(f, m)
		}
		return nil
	})
	if err != nil {
		if m.ir == 0 && graph == nil { // exporters write the version first
			err = fmt.Errorf("not an ONNX model, or a damaged one: %w; export or fetch it again", err)
		}
		return nil, err
	}
	if graph == nil {
		return nil, fmt.Errorf("not an ONNX model: it has no graph")
	}
	m.graph, err = p.graph(*graph, 0)
	return m, err
}

func (p *parser) opset(f field, to *[]opsetProto) error {
	var o opsetProto
	var c cursor
	if err := f.message(&c); err != nil {
		return err
	}
	if err := spend(&p.values, p.budget.Values, "values"); err != nil {
		return err
	}
	err := c.each(func(f field) error {
		switch f.num {
		case 1:
			return p.text(f, &o.domain)
		case 2:
			return f.int(&o.version)
		}
		return nil
	})
	o.domain = canonical(o.domain)
	*to = append(*to, o)
	return err
}

// canonical returns the name of an operator domain in graphs.
func canonical(domain string) string {
	switch domain {
	case "ai.onnx":
		return ""
	case "ai.essmc":
		return "essm"
	}
	return domain
}

func (p *parser) entry(f field, to *[]entryProto) error {
	var e entryProto
	var c cursor
	if err := f.message(&c); err != nil {
		return err
	}
	if err := spend(&p.values, p.budget.Values, "values"); err != nil {
		return err
	}
	err := c.each(func(f field) error {
		switch f.num {
		case 1:
			return p.text(f, &e.key)
		case 2:
			return f.raw(&e.value)
		}
		return nil
	})
	*to = append(*to, e)
	return err
}

func (p *parser) graph(c cursor, depth int) (*graphProto, error) {
	if depth > p.budget.Depth {
		return nil, fmt.Errorf("graphs are nested deeper than %d", p.budget.Depth)
	}
	g := &graphProto{}
	nodes, err := p.makeNodes(c, 1)
	if err != nil {
		return nil, err
	}
	g.nodes = nodes[:0]
	err = c.each(func(f field) error {
		switch f.num {
		case 1:
			g.nodes = g.nodes[:len(g.nodes)+1]
			return p.node(f, &g.nodes[len(g.nodes)-1], depth)
		case 2:
			return p.text(f, &g.name)
		case 5, 15:
			t, err := p.tensor(f, f.num == 15)
			g.tensors = append(g.tensors, t)
			return err
		case 10:
			return f.raw(&g.doc)
		case 11:
			return p.named(f, &g.inputs, "input")
		case 12:
			return p.named(f, &g.outputs, "output")
		case 13:
			return p.value(f, &g.infos)
		case 14:
			g.quantization++
		}
		return nil
	})
	if err != nil && g.name != "" && depth == 0 {
		err = fmt.Errorf("graph %s: %w", quote(g.name), err)
	}
	return g, err
}

func (p *parser) named(f field, to *[]valueProto, what string) error {
	err := p.value(f, to)
	if err == nil && (*to)[len(*to)-1].name == "" {
		err = fmt.Errorf("an %s has no name", what)
	}
	return err
}

func (p *parser) value(f field, to *[]valueProto) error {
	var v valueProto
	var c cursor
	if err := f.message(&c); err != nil {
		return err
	}
	if err := spend(&p.values, p.budget.Values, "values"); err != nil {
		return err
	}
	err := c.each(func(f field) error {
		switch f.num {
		case 1:
			return p.text(f, &v.name)
		case 2:
			return f.only(&v.typ)
		}
		return nil
	})
	*to = append(*to, v)
	return err
}

// node reads a node into n.
func (p *parser) node(f field, n *nodeProto, depth int) error {
	var c cursor
	if err := f.message(&c); err != nil {
		return err
	}
	inputs, outputs := 0, 0
	err := c.each(func(f field) error {
		switch f.num {
		case 1:
			return p.port(f, &n.inputs, &inputs)
		case 2:
			return p.port(f, &n.outputs, &outputs)
		case 3:
			return p.text(f, &n.name)
		case 4:
			return p.text(f, &n.op)
		case 5:
			a, err := p.attr(f, depth)
			n.attrs = p.attrLists.add(n.attrs, a)
			return err
		case 7:
			return p.text(f, &n.domain)
		case 8:
			return p.text(f, &n.overload)
		}
		return nil
	})
	n.domain = canonical(n.domain)
	if err == nil && n.op == "" {
		err = fmt.Errorf("has no operator")
	}
	for _, found := range []struct {
		n    int
		what string
	}{{inputs, "inputs"}, {outputs, "outputs"}} {
		if err == nil && found.n > p.budget.Ports {
			err = fmt.Errorf("expected at most %d %s, found %d", p.budget.Ports, found.what, found.n)
		}
	}
	if err == nil {
		err = n.distinct()
	}
	if err != nil {
		return fmt.Errorf("node %s: %w", n.label(), err)
	}
	return nil
}

// port appends the name of an input or output to a list, and counts it. Names beyond the limit are only counted, since
// the name of the node, for the message, may be behind them.
func (p *parser) port(f field, to *[]string, count *int) error {
	if *count++; *count > p.budget.Ports {
		return nil
	}
	return p.texts(f, to)
}

// distinct checks that attributes have distinct names.
func (n *nodeProto) distinct() error {
	if len(n.attrs) < 2 {
		return nil
	}
	const few = 16 // up to here, each is compared with all others
	var seen map[string]bool
	if len(n.attrs) > few {
		seen = make(map[string]bool, len(n.attrs))
	}
	for i, a := range n.attrs {
		twice := seen[a.name]
		if seen == nil {
			twice = slices.ContainsFunc(n.attrs[:i], func(b *attrProto) bool { return a.name == b.name })
		} else {
			seen[a.name] = true
		}
		if twice {
			return fmt.Errorf("two attributes are named %s", quote(a.name))
		}
	}
	return nil
}

// label names the node in messages.
func (n *nodeProto) label() string {
	s := "without name"
	switch {
	case n.name != "":
		s = quote(n.name)
	case len(n.outputs) > 0:
		s = "of output " + quote(n.outputs[0])
	}
	if n.op != "" {
		s += " (" + n.op[:min(len(n.op), 80)] + ")"
	}
	return s
}

func (p *parser) attr(f field, depth int) (*attrProto, error) {
	a := &p.attrs.take(1)[0]
	var c cursor
	if err := f.message(&c); err != nil {
		return nil, err
	}
	if err := spend(&p.attributes, p.budget.Attributes, "attributes"); err != nil {
		return nil, err
	}
	guess := attrUndefined // from the field in use, for files of the first IR versions
	err := c.each(func(f field) error {
		if l := f.num; l >= 5 && l <= 11 || l == 14 || l == 15 || l == 22 || l == 23 {
			if a.lists == nil {
				a.lists = new(attrLists)
			}
		}
		switch f.num {
		case 1:
			return p.text(f, &a.name)
		case 21:
			return p.text(f, &a.ref)
		case 20:
			var t int64
			err := f.int(&t)
			if err == nil && (t < 0 || t >= int64(attrEnd)) {
				err = fmt.Errorf("unknown type %d", t)
			}
			a.typ = attrType(t)
			return err
		case 2:
			guess = attrFloat
			a.f = float64(math.Float32frombits(uint32(f.val)))
			return f.want(protowire.Fixed32Type)
		case 3:
			guess = attrInt
			return f.int(&a.i)
		case 4:
			guess = attrString
			return f.raw(&a.s)
		case 5, 10, 22, 23:
			guess = map[protowire.Number]attrType{5: attrTensor, 10: attrTensors, 22: attrSparse,
				23: attrSparses}[f.num]
			t, err := p.tensor(f, f.num >= 22)
			a.lists.tensors = append(a.lists.tensors, t)
			return err
		case 6, 11:
			guess = map[protowire.Number]attrType{6: attrGraph, 11: attrGraphs}[f.num]
			var c cursor
			if err := f.message(&c); err != nil {
				return err
			}
			g, err := p.graph(c, depth+1)
			a.lists.graphs = append(a.lists.graphs, g)
			return err
		case 7:
			guess = attrFloats
			if a.lists.floats == nil && f.typ == protowire.Fixed32Type {
				a.lists.floats = make([]float64, 0, c.len()/5)
			}
			return f.numbers(4, func(v uint64) error {
				a.lists.floats = append(a.lists.floats, float64(math.Float32frombits(uint32(v))))
				return nil
			})
		case 8:
			guess = attrInts
			if a.lists.ints == nil && f.typ == protowire.VarintType { // lists are long, and of numbers alike
				a.lists.ints = make([]int64, 0, c.len()/int64(1+protowire.SizeVarint(f.val)))
			}
			return f.numbers(0, func(v uint64) error {
				a.lists.ints = append(a.lists.ints, int64(v))
				return nil
			})
		case 9:
			guess = attrStrings
			var s string
			err := f.recurring(&s, &p.words)
			if a.lists.strings == nil && f.typ == protowire.BytesType {
				a.lists.strings = make([]string, 0, c.len()/(2+f.body.len()))
			}
			a.lists.strings = append(a.lists.strings, s)
			return err
		case 14, 15:
			guess = map[protowire.Number]attrType{14: attrTypeProto, 15: attrTypeProtos}[f.num]
			var c cursor
			err := f.message(&c)
			a.lists.types = append(a.lists.types, c)
			return err
		}
		return nil
	})
	if err == nil && a.name == "" {
		err = fmt.Errorf("has no name")
	}
	if a.typ == attrUndefined {
		a.typ = guess
	}
	if err == nil && a.typ == attrUndefined && a.ref == "" {
		err = fmt.Errorf("has neither type nor value")
	}
	if err != nil {
		return nil, fmt.Errorf("attribute %s: %w", quote(a.name), err)
	}
	return a, nil
}

func (p *parser) function(f field, m *modelProto) error {
	fn := &functionProto{}
	var c cursor
	if err := f.message(&c); err != nil {
		return err
	}
	if err := spend(&p.values, p.budget.Values, "values"); err != nil {
		return err
	}
	nodes, err := p.makeNodes(c, 7)
	if err != nil {
		return err
	}
	fn.nodes = nodes[:0]
	err = c.each(func(f field) error {
		switch f.num {
		case 1:
			return p.text(f, &fn.name)
		case 4:
			return p.texts(f, &fn.inputs)
		case 5:
			return p.texts(f, &fn.outputs)
		case 6:
			return p.texts(f, &fn.attrs)
		case 7:
			fn.nodes = fn.nodes[:len(fn.nodes)+1]
			return p.node(f, &fn.nodes[len(fn.nodes)-1], 0)
		case 9:
			return p.opset(f, &fn.opsets)
		case 10:
			return p.text(f, &fn.domain)
		case 11:
			a, err := p.attr(f, 0)
			fn.defaults = append(fn.defaults, a)
			return err
		case 13:
			return p.text(f, &fn.overload)
		}
		return nil
	})
	fn.domain = canonical(fn.domain)
	if err == nil && fn.name == "" {
		err = fmt.Errorf("has no name")
	}
	if err != nil {
		return fmt.Errorf("function %s: %w", quote(fn.String()), err)
	}
	m.functions = append(m.functions, fn)
	return nil
}
