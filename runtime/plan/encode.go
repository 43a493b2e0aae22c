package plan

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// The records of plan.fbs, which documents the fields.
type (
	typeRec struct {
		elem, dimsEnd uint32
		kind          byte
	}
	blob struct {
		data   []byte
		offset int64
	}
	tensorRec struct {
		storage, extentsEnd uint32
		dtype               byte
		text                bool // storage is an end in elements, not a blob
	}
	opRec   struct{ domain, name, since uint32 }
	pair    struct{ a, b uint32 }
	attrRec struct {
		number int64
		name   uint32
		kind   byte
	}
	nodeRec  struct{ op, name, scope, inputsEnd, outputsEnd, attrsEnd uint32 }
	eventRec struct {
		changes        int64
		pass, notesEnd uint32
	}
	graphRec struct{ name, doc, inputsEnd, outputsEnd, nodesEnd, opsetsEnd, metaEnd, eventsEnd uint32 }
)

// Kinds of types.
const (
	typeTensor = iota + 1
	typeNoRank
	typeSequence
	typeOptional
)

// attrKinds lists the kinds of attributes. A plan holds the index of one, plus one.
var attrKinds = [...]ir.AttrKind{ir.AttrInt, ir.AttrFloat, ir.AttrString, ir.AttrTensor, ir.AttrGraph, ir.AttrType,
	ir.AttrInts, ir.AttrFloats, ir.AttrStrings, ir.AttrTensors, ir.AttrGraphs, ir.AttrTypes}

// maxDepth bounds the nesting of graphs, and of types, in a plan.
const maxDepth = 64

type blobKey struct {
	sum   [sha256.Size]byte
	bools string // the shape of a bool tensor
}

// encoder turns a graph into the columns of a plan. It numbers everything in the order of first occurrence.
type encoder struct {
	strings    []string
	dims       []uint32
	types      []typeRec
	blobs      []blob
	extents    []int64
	elements   []uint32
	tensors    []tensorRec
	ops        []opRec
	values     []pair
	constants  []pair
	numbers    []int64
	refs       []uint32
	attrs      []attrRec
	nodeIn     []uint32
	nodeOut    []uint32
	nodes      []nodeRec
	graphIn    []uint32
	graphOut   []uint32
	opsets     []pair
	meta       []pair
	notes      []uint32
	events     []eventRec
	graphs     []graphRec
	parameters []uint32
	updates    []pair

	stringID   map[string]uint32
	typeID     map[string]uint32 // by text
	goodDim    map[string]bool
	blobID     map[blobKey]uint32
	tensorID   map[*tensor.Tensor]uint32
	sameTensor map[string]uint32 // by dtype, shape and blob
	opID       map[*ir.Op]uint32
	valueID    map[*ir.Value]uint32
	constantID map[*ir.Value]uint32
	graphID    map[*ir.Graph]uint32

	queue []*ir.Graph // by id
	depth []int       // of each graph in queue
}

func newEncoder() *encoder {
	return &encoder{
		stringID: map[string]uint32{}, typeID: map[string]uint32{}, goodDim: map[string]bool{},
		blobID: map[blobKey]uint32{}, tensorID: map[*tensor.Tensor]uint32{}, sameTensor: map[string]uint32{},
		opID: map[*ir.Op]uint32{}, valueID: map[*ir.Value]uint32{}, constantID: map[*ir.Value]uint32{},
		graphID: map[*ir.Graph]uint32{},
	}
}

// encode adds g and then its subgraphs, each after the graph that holds it, so that values are defined before they are
// captured.
func (e *encoder) encode(g *ir.Graph) error {
	if _, err := e.subgraph(g, 0); err != nil {
		return err
	}
	for i := 0; i < len(e.queue); i++ {
		if err := e.graph(e.queue[i], e.depth[i]); err != nil {
			if i > 0 {
				err = fmt.Errorf("subgraph %s: %w", e.queue[i].Name, err)
			}
			return err
		}
	}
	return nil
}

func (e *encoder) subgraph(g *ir.Graph, depth int) (uint32, error) {
	if g == nil {
		return 0, fmt.Errorf("is not a graph")
	}
	if _, twice := e.graphID[g]; twice {
		return 0, fmt.Errorf("graph %s is used twice", g.Name)
	}
	if depth > maxDepth {
		return 0, fmt.Errorf("graph %s is nested deeper than %d", g.Name, maxDepth)
	}
	id := uint32(len(e.queue))
	e.graphID[g] = id
	e.queue = append(e.queue, g)
	e.depth = append(e.depth, depth)
	return id, nil
}

func (e *encoder) graph(g *ir.Graph, depth int) error {
	var r graphRec
	var err error
	if r.name, err = e.text(g.Name); err != nil {
		return fmt.Errorf("name: %w", err)
	}
	if r.doc, err = e.text(g.Doc); err != nil {
		return fmt.Errorf("documentation: %w", err)
	}
	for _, v := range g.Inputs {
		id, err := e.define(v)
		if err != nil {
			return err
		}
		e.graphIn = append(e.graphIn, id)
	}
	for _, v := range g.Parameters {
		id, err := e.constant("parameter", v, v.Init)
		if err != nil {
			return err
		}
		e.parameters = append(e.parameters, id)
	}
	for _, n := range g.Nodes {
		if err := e.node(n, depth); err != nil {
			return fmt.Errorf("node %v: %w", n, err)
		}
	}
	for _, v := range g.Outputs {
		id, err := e.operand(v)
		if err != nil {
			return err
		}
		e.graphOut = append(e.graphOut, id)
	}
	e.update(g)
	if err := e.about(g); err != nil {
		return err
	}
	r.inputsEnd, r.outputsEnd, r.nodesEnd = uint32(len(e.graphIn)), uint32(len(e.graphOut)), uint32(len(e.nodes))
	r.opsetsEnd, r.metaEnd, r.eventsEnd = uint32(len(e.opsets)), uint32(len(e.meta)), uint32(len(e.events))
	e.graphs = append(e.graphs, r)
	return nil
}

// update adds the updates of a graph, whose parameters are its first constants.
func (e *encoder) update(g *ir.Graph) {
	if len(g.Updates) == 0 {
		return
	}
	output := make(map[*ir.Value]uint32, len(g.Outputs))
	for i, v := range slices.Backward(g.Outputs) {
		output[v] = uint32(i) // the first one of a value
	}
	for _, u := range g.Updates {
		e.updates = append(e.updates, pair{e.constantID[u.Parameter], output[u.Output]})
	}
}

// about adds the parts of a graph besides its nodes.
func (e *encoder) about(g *ir.Graph) error {
	for _, domain := range sortedKeys(g.Opsets) {
		id, err := e.text(domain)
		if err != nil {
			return fmt.Errorf("opset: %w", err)
		}
		version, err := natural(g.Opsets[domain])
		if err != nil {
			return fmt.Errorf("version of domain %q: %w", domain, err)
		}
		e.opsets = append(e.opsets, pair{id, version})
	}
	for _, key := range sortedKeys(g.Meta) {
		k, err := e.text(key)
		if err != nil {
			return fmt.Errorf("metadata key: %w", err)
		}
		v, err := e.text(g.Meta[key])
		if err != nil {
			return fmt.Errorf("metadata %q: %w", key, err)
		}
		e.meta = append(e.meta, pair{k, v})
	}
	for i, ev := range g.History {
		pass, err := e.text(ev.Pass)
		if err != nil {
			return fmt.Errorf("history event %d: %w", i, err)
		}
		if e.notes, err = e.texts(e.notes, ev.Notes); err != nil {
			return fmt.Errorf("history event %d: %w", i, err)
		}
		e.events = append(e.events, eventRec{int64(ev.Changes), pass, uint32(len(e.notes))})
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func natural(n int) (uint32, error) {
	if n < 0 || n > math.MaxInt32 {
		return 0, fmt.Errorf("expected 0 to %d, found %d", math.MaxInt32, n)
	}
	return uint32(n), nil
}

func (e *encoder) text(s string) (uint32, error) {
	if id, ok := e.stringID[s]; ok {
		return id, nil
	}
	if !utf8.ValidString(s) {
		return 0, fmt.Errorf("text %.40q is not UTF-8", s)
	}
	id := uint32(len(e.strings))
	e.stringID[s] = id
	e.strings = append(e.strings, s)
	return id, nil
}

func (e *encoder) texts(pool []uint32, list []string) ([]uint32, error) {
	for _, s := range list {
		id, err := e.text(s)
		if err != nil {
			return pool, err
		}
		pool = append(pool, id)
	}
	return pool, nil
}

func (e *encoder) define(v *ir.Value) (uint32, error) {
	name, err := e.text(v.Name)
	if err != nil {
		return 0, fmt.Errorf("value %q: %w", v.Name, err)
	}
	typ, err := e.typ(v.Type, 0)
	if err != nil {
		return 0, fmt.Errorf("value %s: %w", v.Name, err)
	}
	id := uint32(len(e.values))
	e.valueID[v] = id
	e.values = append(e.values, pair{name, typ})
	return id, nil
}

// operand returns the number by which a reader of v refers to it.
func (e *encoder) operand(v *ir.Value) (uint32, error) {
	if v == nil {
		return 0, nil
	}
	id, ok := e.constantID[v] // parameters of the graph are there, too
	if !ok && v.Const == nil {
		id, ok := e.valueID[v]
		if !ok {
			return 0, fmt.Errorf("value %s is read before it is defined", v.Name)
		}
		return 1 + 2*id, nil
	}
	if !ok {
		var err error
		if id, err = e.constant("constant", v, v.Const); err != nil {
			return 0, err
		}
	}
	return 2 + 2*id, nil
}

// constant adds a constant or parameter with the content t.
func (e *encoder) constant(what string, v *ir.Value, t *tensor.Tensor) (uint32, error) {
	name, err := e.text(v.Name)
	if err != nil {
		return 0, fmt.Errorf("%s %q: %w", what, v.Name, err)
	}
	content, err := e.tensor(t)
	if err != nil {
		return 0, fmt.Errorf("%s %s: %w", what, v.Name, err)
	}
	id := uint32(len(e.constants))
	e.constantID[v] = id
	e.constants = append(e.constants, pair{name, content})
	return id, nil
}

// minor returns the lowest minor version that has all parts of the graph.
func (e *encoder) minor() int {
	if len(e.parameters) > 0 {
		return minorParameters
	}
	return 0
}

func (e *encoder) node(n *ir.Node, depth int) error {
	var r nodeRec
	var err error
	if r.op, err = e.op(n.Op); err != nil {
		return err
	}
	if r.name, err = e.text(n.Name); err != nil {
		return fmt.Errorf("name: %w", err)
	}
	if r.scope, err = e.text(n.Scope); err != nil {
		return fmt.Errorf("scope: %w", err)
	}
	for i, v := range n.Inputs {
		id, err := e.operand(v)
		if err != nil {
			return fmt.Errorf("input %d: %w", i, err)
		}
		e.nodeIn = append(e.nodeIn, id)
	}
	for i, v := range n.Outputs {
		id := uint32(0)
		if v != nil {
			def, err := e.define(v)
			if err != nil {
				return fmt.Errorf("output %d: %w", i, err)
			}
			id = 1 + 2*def
		}
		e.nodeOut = append(e.nodeOut, id)
	}
	for _, a := range n.Attrs {
		if err := e.attr(a, depth); err != nil {
			return fmt.Errorf("attribute %q: %w", a.Name, err)
		}
	}
	r.inputsEnd, r.outputsEnd, r.attrsEnd = uint32(len(e.nodeIn)), uint32(len(e.nodeOut)), uint32(len(e.attrs))
	e.nodes = append(e.nodes, r)
	return nil
}

func (e *encoder) op(op *ir.Op) (uint32, error) {
	if id, ok := e.opID[op]; ok {
		return id, nil
	}
	domain, err := e.text(op.Domain)
	if err != nil {
		return 0, fmt.Errorf("operator's domain: %w", err)
	}
	name, err := e.text(op.Name)
	if err != nil {
		return 0, fmt.Errorf("operator's name: %w", err)
	}
	since, err := natural(op.Since)
	if err != nil {
		return 0, fmt.Errorf("operator's version: %w", err)
	}
	id := uint32(len(e.ops))
	e.opID[op] = id
	e.ops = append(e.ops, opRec{domain, name, since})
	return id, nil
}

func (e *encoder) attr(a ir.Attr, depth int) (err error) {
	r := attrRec{kind: byte(slices.Index(attrKinds[:], a.Kind()) + 1)}
	if r.name, err = e.text(a.Name); err != nil {
		return err
	}
	var id uint32
	switch v := a.Value.(type) {
	case int64:
		r.number = v
	case float64:
		r.number = int64(math.Float64bits(v))
	case string:
		id, err = e.text(v)
	case *tensor.Tensor:
		id, err = e.tensor(v)
	case *ir.Graph:
		id, err = e.subgraph(v, depth+1)
	case ir.Type:
		id, err = e.typ(v, 0)
	case []int64:
		e.numbers = append(e.numbers, v...)
	case []float64:
		for _, x := range v {
			e.numbers = append(e.numbers, int64(math.Float64bits(x)))
		}
	case []string:
		e.refs, err = e.texts(e.refs, v)
	case []*tensor.Tensor:
		err = appendRefs(e, v, e.tensor)
	case []*ir.Graph:
		err = appendRefs(e, v, func(g *ir.Graph) (uint32, error) { return e.subgraph(g, depth+1) })
	case []ir.Type:
		err = appendRefs(e, v, func(t ir.Type) (uint32, error) { return e.typ(t, 0) })
	default:
		err = fmt.Errorf("an attribute cannot have a value of type %T", v)
	}
	if err != nil {
		return err
	}
	switch a.Kind() {
	case ir.AttrInt, ir.AttrFloat:
	case ir.AttrInts, ir.AttrFloats:
		r.number = int64(len(e.numbers))
	case ir.AttrStrings, ir.AttrTensors, ir.AttrGraphs, ir.AttrTypes:
		r.number = int64(len(e.refs))
	default:
		r.number = int64(id)
	}
	e.attrs = append(e.attrs, r)
	return nil
}

func appendRefs[T any](e *encoder, list []T, id func(T) (uint32, error)) error {
	for i, x := range list {
		n, err := id(x)
		if err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
		e.refs = append(e.refs, n)
	}
	return nil
}

func (e *encoder) typ(t ir.Type, depth int) (uint32, error) {
	if depth > maxDepth {
		return 0, fmt.Errorf("type is nested deeper than %d", maxDepth)
	}
	var r typeRec
	var err error
	switch t := t.(type) {
	case *ir.TensorType:
		if !t.Elem.Valid() {
			return 0, fmt.Errorf("type %v has no element type", t)
		}
		if id, ok := e.typeID[t.String()]; ok {
			return id, nil
		}
		r.kind, r.elem = typeTensor, uint32(t.Elem)
		if t.NoRank {
			r.kind = typeNoRank
			break
		}
		for _, d := range t.Shape {
			id, err := e.dim(d)
			if err != nil {
				return 0, fmt.Errorf("type %v: %w", t, err)
			}
			e.dims = append(e.dims, id)
		}
	case *ir.SequenceType:
		r.kind = typeSequence
		r.elem, err = e.typ(t.Elem, depth+1)
	case *ir.OptionalType:
		r.kind = typeOptional
		r.elem, err = e.typ(t.Elem, depth+1)
	default:
		return 0, fmt.Errorf("has no type")
	}
	if err != nil {
		return 0, err
	}
	text := t.String()
	id, ok := e.typeID[text]
	if !ok {
		r.dimsEnd = uint32(len(e.dims))
		id = uint32(len(e.types))
		e.typeID[text] = id
		e.types = append(e.types, r)
	}
	return id, nil
}

// dim stores a dimension as its text. It checks that the text reads the same, since the name of a symbol may not.
func (e *encoder) dim(d ir.Dim) (uint32, error) {
	s := d.String()
	if !e.goodDim[s] {
		back, err := ir.ParseDim(s)
		if err != nil {
			return 0, err
		}
		if back.String() != s || !slices.Equal(back.Symbols(), d.Symbols()) {
			return 0, fmt.Errorf("dimension %q has a symbol that cannot be written", s)
		}
		e.goodDim[s] = true
	}
	return e.text(s)
}

func (e *encoder) tensor(t *tensor.Tensor) (uint32, error) {
	if t == nil {
		return 0, fmt.Errorf("has no content")
	}
	if id, ok := e.tensorID[t]; ok {
		return id, nil
	}
	r := tensorRec{dtype: byte(t.DType())}
	if t.DType() == tensor.String {
		var err error
		if e.elements, err = e.texts(e.elements, t.Strings()); err != nil {
			return 0, err
		}
		r.storage, r.text = uint32(len(e.elements)), true
	} else {
		r.storage = e.blob(t)
		same := fmt.Sprint(t.DType(), t.Shape(), r.storage)
		if id, ok := e.sameTensor[same]; ok {
			e.tensorID[t] = id
			return id, nil
		}
		e.sameTensor[same] = uint32(len(e.tensors))
	}
	for _, d := range t.Shape() {
		e.extents = append(e.extents, int64(d))
	}
	r.extentsEnd = uint32(len(e.extents))
	id := uint32(len(e.tensors))
	e.tensorID[t] = id
	e.tensors = append(e.tensors, r)
	return id, nil
}

// blob stores equal contents once, also of different types. Readers check every byte of a bool tensor, so these share
// only with bool tensors of equal shapes.
func (e *encoder) blob(t *tensor.Tensor) uint32 {
	key := blobKey{sum: sha256.Sum256(t.Bytes())}
	if t.DType() == tensor.Bool {
		key.bools = tensor.ShapeString(t.Shape())
	}
	id, ok := e.blobID[key]
	if !ok {
		id = uint32(len(e.blobs))
		e.blobID[key] = id
		e.blobs = append(e.blobs, blob{data: t.Bytes()})
	}
	return id
}
