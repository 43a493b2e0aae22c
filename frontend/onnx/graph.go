package onnx

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/internal/patterns"
	"github.com/essmc/essmc/ir"
)

// reader is the state of reading one model.
type reader struct {
	file     string
	resolver ir.Resolver
	dir      *files.Root
	budget   Budget
	source   *source
	pace     *ir.Pacer // of the inference of types
	lazy     *openFile // the same file, for lazy tensors; or nil
	kept     int       // files with external tensors that stay open

	files         map[string]*externalFile
	externalBytes int64
	memory        int64
	fixedMemory   bool
	known         map[*tensorProto]*decoded

	functions map[functionKey]*functionProto
	opsets    map[string]int // of the graph under construction
	info      *Info
	dims      *dimNames
	fixed     bool                    // the model has no open dimensions
	minusOnes int                     // number of dimensions of -1 in types so far
	keys      map[*ir.Value][2]string // the labels of ZipMaps, as ir.MetaKeys and ir.MetaLabels have them
	maps      map[*ir.Value]*mapInput // inputs that are maps in the file
	// mapReaders are the nodes of the outermost graph that read maps, by the name of their input.
	mapReaders map[string][]*nodeProto

	pick       *patterns.Set   // of Options.Parameters
	marked     map[string]bool // the parameters that the file lists, and whether they were found
	updates    []update        // that the file lists
	parameters []*ir.Value     // of the outermost graph

	words     words
	names     map[string]bool // names of values in use
	next      map[string]int  // from a name in use to the next number to try
	nameBytes int64
	nodes     int
}

// scope resolves names of values: of a graph within an outer scope, or of a function.
type scope struct {
	outer    *scope
	vals     map[string]*ir.Value // nil for an input of a function that the call omits
	names    map[string]string    // from values that are defined here to their names in the graph
	declared map[string]*cursor   // types stated in the file
	call     *call                // nil outside of functions
}

func (s *scope) find(name string) (*ir.Value, bool) {
	for ; s != nil; s = s.outer {
		if v, ok := s.vals[name]; ok {
			return v, true
		}
	}
	return nil, false
}

func (s *scope) path() string {
	if s.call == nil {
		return ""
	}
	return s.call.path
}

func (r *reader) model() (*ir.Graph, *Info, error) {
	if r.source.size > r.budget.Bytes {
		return nil, nil, fmt.Errorf("file of %d bytes, more than %d", r.source.size, r.budget.Bytes)
	}
	p := parser{budget: r.budget}
	m, err := p.model(r.source.all())
	if err != nil {
		return nil, nil, err
	}
	if m.ir < 1 || m.ir > 1<<30 {
		return nil, nil, fmt.Errorf("IR version %d: this is not an ONNX model", m.ir)
	}
	if len(m.opsets) == 0 && m.ir < 3 {
		m.opsets = []opsetProto{{"", 1}} // files of the first version have no imports
	}
	if r.opsets, err = imports(m.opsets); err != nil {
		return nil, nil, err
	}
	r.info = m.info()
	r.info.Opsets = maps.Clone(r.opsets)
	if err := r.resolve(m); err != nil {
		return nil, r.info, err
	}
	if v := r.opsets[""]; v > MaxOpset {
		r.warn("operator set %d of ai.onnx is newer than %d, the newest known one, and is read as that one", v,
			MaxOpset)
		r.opsets[""] = MaxOpset
	}
	g := &ir.Graph{Name: m.graph.name, Doc: m.graph.doc, Opsets: r.opsets, Meta: map[string]string{}}
	if g.Name == "" {
		g.Name = "main"
	}
	if err := r.listed(); err != nil {
		return nil, nil, err
	}
	if err := r.main(g, m.graph); err != nil {
		return nil, nil, err
	}
	if err := r.finish(g); err != nil {
		return nil, nil, err
	}
	r.meta(g, m)
	if err := ir.VerifyContext(r.source.watch.Context(), g); err != nil {
		return nil, nil, err
	}
	return g, r.info, nil
}

func (m *modelProto) info() *Info {
	i := &Info{
		IRVersion: m.ir, Producer: m.producer, ProducerVersion: m.producerVersion, Domain: m.domain,
		ModelVersion: m.version,
		Doc:          m.doc, Metadata: map[string]string{},
	}
	for _, f := range m.functions {
		i.Functions = append(i.Functions, f.String())
	}
	for _, e := range m.metadata {
		i.Metadata[e.key] = e.value
	}
	if m.ir > maxIR {
		i.Notes = append(i.Notes, fmt.Sprintf("IR version %d is newer than %d, the newest known one", m.ir, maxIR))
	}
	if m.training > 0 {
		i.Notes = append(i.Notes, "training information is ignored")
	}
	if m.graph.quantization > 0 {
		i.Notes = append(i.Notes, "quantization annotations are ignored")
	}
	return i
}

// meta copies the description of the model to the graph.
func (r *reader) meta(g *ir.Graph, m *modelProto) {
	maps.Copy(g.Meta, r.info.Metadata)
	delete(g.Meta, propParameters)
	delete(g.Meta, propUpdates)
	if m.producer != "" {
		g.Meta[MetaProducer] = strings.TrimSpace(m.producer + " " + m.producerVersion)
	}
	if m.domain != "" {
		g.Meta[MetaDomain] = m.domain
	}
	for s, name := range r.dims.taken {
		if s != name {
			g.Meta[MetaDim+s] = name
		}
	}
	for _, vs := range [][]*ir.Value{g.Inputs, g.Outputs} {
		for _, v := range vs {
			for i, d := range v.Shape() {
				if _, known := d.Known(); !known {
					a := DynamicAxis{Value: v.Name, Axis: i}
					if !d.IsUnknown() {
						a.Symbol = d.String()
					}
					r.info.Dynamic = append(r.info.Dynamic, a)
				}
			}
		}
	}
	if g.Doc == "" {
		g.Doc = m.doc
	}
	MarkDims(g)
}

// main builds the outermost graph.
func (r *reader) main(g *ir.Graph, p *graphProto) error {
	s := &scope{}
	r.names = make(map[string]bool, hint(len(p.nodes)+len(p.tensors)))
	if err := r.declare(s, p, func(name string) (string, error) {
		r.names[name] = true
		return name, nil
	}); err != nil {
		return err
	}
	if err := r.constants(s, p); err != nil {
		return err
	}
	r.collectDims(p)
	r.fixed = true
	for _, in := range p.inputs {
		r.source.watch.Step(2)
		if v, err := r.mapInput(g, p, in); err != nil {
			return fmt.Errorf("input %s: %w", quote(in.name), err)
		} else if v != nil && s.vals[in.name] == nil {
			r.fixed = false
			s.vals[in.name] = v
			g.Inputs = append(g.Inputs, v)
			continue
		}
		t, err := r.port("input", in)
		if err != nil {
			return err
		}
		if v, ok := s.vals[in.name]; ok { // main builds the outermost graph.
			if t != nil && !ir.Compatible(v.Type, t) {
				return fmt.Errorf("input %s: has type %v, but its initializer has type %v", quote(in.name), t, v.Type)
			}
			r.info.Defaults = append(r.info.Defaults, in.name)
			continue
		}
		if t == nil {
			return fmt.Errorf("input %s has no type", quote(in.name))
		}
		r.fixed = r.fixed && isFixed(t)
		v := &ir.Value{Name: in.name, Type: t}
		s.vals[in.name] = v
		g.Inputs = append(g.Inputs, v)
	}
	if err := r.body(g, s, p.nodes); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, out := range p.outputs {
		if r.source.watch.Step(2); seen[out.name] {
			return fmt.Errorf("output %s is listed twice", quote(out.name))
		}
		seen[out.name] = true
		if err := r.output(g, s, out); err != nil {
			return err
		}
	}
	return nil
}

// output adds an output of the outermost graph. If a function only passes a value on, the output is a copy with its own
// name.
func (r *reader) output(g *ir.Graph, s *scope, out valueProto) error {
	v, ok := s.vals[out.name]
	if !ok || v == nil {
		return fmt.Errorf("output %s is not defined", quote(out.name))
	}
	if r.maps[v] != nil {
		return fmt.Errorf("output %s is a map that is also an input", quote(out.name))
	}
	var t ir.Type
	if keys, ok := r.keys[v]; ok { // stated as maps
		g.Meta[ir.MetaKeys+out.name] = keys[0]
		if g.Meta[ir.MetaLabels] == "" {
			g.Meta[ir.MetaLabels] = keys[1]
		}
	} else {
		var err error
		if t, err = r.port("output", out); err != nil {
			return err
		}
	}
	if v.Name != out.name {
		op, err := r.op("Identity")
		if err != nil {
			return err
		}
		n := &ir.Node{Op: op, Inputs: []*ir.Value{v}}
		v = &ir.Value{Name: out.name, Def: n}
		n.Outputs = []*ir.Value{v}
		if err := ir.InferNode(n); err != nil {
			return err
		}
		g.Nodes = append(g.Nodes, n)
	}
	// Computed values were checked at their definition. Others are inputs or constants.
	if v.Def == nil && t != nil && !ir.Compatible(t, v.Type) {
		if !ir.Compatible(withoutShape(t), withoutShape(v.Type)) {
			return fmt.Errorf("output %s: the file states type %v, found %v", quote(out.name), t, v.Type)
		}
		r.warn("output %s: the file states type %v, found %v, which counts", quote(out.name), t, v.Type)
	}
	g.Outputs = append(g.Outputs, v)
	return nil
}

// isFixed reports whether all dimensions in t are numbers.
func isFixed(t ir.Type) bool {
	switch t := t.(type) {
	case *ir.TensorType:
		_, ok := t.Shape.Known()
		return ok && !t.NoRank
	case *ir.SequenceType:
		return isFixed(t.Elem)
	case *ir.OptionalType:
		return isFixed(t.Elem)
	}
	return false
}

// mostNotes is enough notes of one kind.
const mostNotes = 100

func (r *reader) warn(format string, args ...any) {
	if len(r.info.Warnings) < mostNotes {
		r.info.Warnings = append(r.info.Warnings, fmt.Sprintf(format, args...))
	}
}

// port reads the type of an input or output of the model, and notes violations of the standard.
func (r *reader) port(what string, p valueProto) (ir.Type, error) {
	before := r.minusOnes
	t, err := r.stated(p.typ)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", what, quote(p.name), err)
	}
	if r.minusOnes > before && len(r.info.Notes) < mostNotes {
		r.info.Notes = append(r.info.Notes, fmt.Sprintf("%s %s: dimension -1 read as open", what, p.name))
	}
	return t, nil
}

// stated reads a type that may be missing.
func (r *reader) stated(c *cursor) (ir.Type, error) {
	if c == nil {
		return nil, nil
	}
	return r.typeOf(*c, 0)
}

// collectDims collects the names of single dimensions of inputs, before expressions of them are read.
func (r *reader) collectDims(p *graphProto) {
	r.dims = newDimNames()
	defer func() { r.dims = &dimNames{of: map[string]ir.Dim{}, taken: map[string]string{}, plain: r.dims.plain} }()
	for _, in := range p.inputs {
		r.source.watch.Step(2)
		t, err := r.stated(in.typ)
		if err != nil {
			continue // reported when the inputs are made
		}
		if tt, ok := ir.AsTensor(t); ok {
			for _, d := range tt.Shape {
				if s, ok := d.Symbol(); ok && r.dims.taken[s] == s {
					r.dims.plain[s] = true
				}
			}
		}
	}
}

// declare registers the values that a graph defines, and refuses duplicates.
func (r *reader) declare(s *scope, p *graphProto, name func(string) (string, error)) (err error) {
	n := hint(len(p.nodes) + len(p.tensors))
	s.vals, s.names, s.declared = make(map[string]*ir.Value, n), make(map[string]string, n), map[string]*cursor{}
	initial := map[string]bool{}
	for _, t := range p.tensors {
		if r.source.watch.Step(1); t.name == "" {
			return errors.New("an initializer has no name")
		}
		if initial[t.name] {
			return fmt.Errorf("two initializers are named %s", quote(t.name))
		}
		initial[t.name] = true
		if s.names[t.name], err = name(t.name); err != nil {
			return err
		}
	}
	inputs := map[string]bool{}
	for _, in := range p.inputs {
		if r.source.watch.Step(1); inputs[in.name] {
			return fmt.Errorf("two inputs are named %s", quote(in.name))
		}
		inputs[in.name] = true
		if initial[in.name] {
			if s.outer != nil {
				return fmt.Errorf("input %s of a subgraph has an initializer", quote(in.name))
			}
			continue
		}
		if s.names[in.name], err = name(in.name); err != nil {
			return err
		}
	}
	for _, vs := range [][]valueProto{p.infos, p.outputs} {
		for _, v := range vs {
			if r.source.watch.Step(1); v.typ != nil {
				s.declared[v.name] = v.typ
			}
		}
	}
	return r.declareNodes(s, p.nodes, name)
}

func (r *reader) declareNodes(s *scope, nodes []nodeProto, name func(string) (string, error)) (err error) {
	for i := range nodes {
		n := &nodes[i]
		for _, out := range n.outputs {
			if r.source.watch.Step(16); out == "" {
				continue
			}
			if _, twice := s.names[out]; twice {
				return fmt.Errorf("node %s: value %s is defined twice", n.label(), quote(out))
			}
			if s.names[out], err = name(out); err != nil {
				return err
			}
		}
	}
	return nil
}

// unique returns the name itself if it is not in use, and otherwise a name with a number.
func (r *reader) unique(hint string) (string, error) {
	name := hint
	for r.names[name] {
		r.next[hint]++
		name = hint + "_" + strconv.Itoa(r.next[hint])
	}
	r.names[name] = true
	if len(name) > mostName {
		return "", fmt.Errorf("the name of a value, with those of the functions around it, has %d bytes, more than "+
			"%d: %s",
			len(name), mostName, quote(name))
	}
	if r.nameBytes += int64(len(name)); r.nameBytes > r.budget.Names {
		return "", fmt.Errorf("the names of values take more than %d bytes", r.budget.Names)
	}
	return name, nil
}

// constants makes constants and parameters of the initializers of a graph.
func (r *reader) constants(s *scope, p *graphProto) error {
	for _, t := range p.tensors {
		r.source.watch.Step(4)
		x, err := r.tensor(t)
		if err != nil {
			return err
		}
		s.vals[t.name] = r.fixedValue(s.names[t.name], x, false)
	}
	return nil
}

// subgraph builds a graph that is an attribute. hints are the types of its inputs, if they follow from the node.
func (r *reader) subgraph(s *scope, p *graphProto, hints []ir.Type) (*ir.Graph, error) {
	in := &scope{outer: s, call: s.call}
	if err := r.declare(in, p, r.unique); err != nil {
		return nil, err
	}
	if err := r.constants(in, p); err != nil {
		return nil, err
	}
	g := &ir.Graph{Name: p.name, Doc: p.doc}
	if g.Name == "" {
		g.Name = "body"
	}
	for i, x := range p.inputs {
		r.source.watch.Step(2)
		t, err := r.stated(x.typ)
		if err != nil {
			return nil, fmt.Errorf("input %s: %w", quote(x.name), err)
		}
		if t = loosen(t); t == nil && i < len(hints) {
			t = hints[i]
		}
		if t == nil {
			return nil, fmt.Errorf("input %s has no type", quote(x.name))
		}
		v := &ir.Value{Name: in.names[x.name], Type: t}
		in.vals[x.name] = v
		g.Inputs = append(g.Inputs, v)
	}
	if err := r.body(g, in, p.nodes); err != nil {
		return nil, err
	}
	for _, out := range p.outputs {
		r.source.watch.Step(1)
		v, ok := in.find(out.name)
		if !ok || v == nil {
			return nil, fmt.Errorf("output %s is not defined", quote(out.name))
		}
		g.Outputs = append(g.Outputs, v)
	}
	return g, nil
}

// body adds nodes to g in an order in which definitions precede uses.
func (r *reader) body(g *ir.Graph, s *scope, nodes []nodeProto) error {
	order, err := sortNodes(r.source.watch, nodes)
	if err != nil {
		return err
	}
	for i := range nodes {
		p := &nodes[i]
		if order != nil {
			p = &nodes[order[i]]
		}
		if err := spend(&r.nodes, r.budget.Nodes, "nodes after functions were inlined"); err != nil {
			return err
		}
		r.source.watch.Step(8)
		if err := r.node(g, s, p); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) node(g *ir.Graph, s *scope, p *nodeProto) error {
	fail := func(err error) error {
		if path := s.path(); path != "" {
			return fmt.Errorf("node %s in %s: %w", p.label(), quote(path), err)
		}
		return fmt.Errorf("node %s: %w", p.label(), err)
	}
	inputs, err := r.inputs(s, p)
	if err != nil {
		return fail(err)
	}
	if p.function != nil {
		return r.inline(g, s, p, inputs)
	}
	n := &ir.Node{Op: p.operator, Name: p.name, Scope: s.path(), Inputs: inputs}
	// Trailing inputs that are omitted may be listed without a name.
	for len(n.Inputs) > 0 && n.Inputs[len(n.Inputs)-1] == nil &&
		(len(n.Op.In) == 0 || !n.Op.In[len(n.Op.In)-1].Variadic) {
		n.Inputs = n.Inputs[:len(n.Inputs)-1]
	}
	if err := r.attributes(s, p, n); err != nil {
		return fail(err)
	}
	if n.Op.Domain == "" && n.Op.Name == "Constant" {
		if err := r.constant(s, p, n); err != nil {
			return fail(err)
		}
		return nil
	}
	n.Outputs = make([]*ir.Value, 0, len(p.outputs))
	for _, out := range p.outputs {
		if r.source.watch.Step(4); out == "" {
			n.Outputs = append(n.Outputs, nil)
			continue
		}
		v := &ir.Value{Name: s.names[out], Def: n}
		s.vals[out] = v
		n.Outputs = append(n.Outputs, v)
	}
	if len(r.maps) > 0 {
		if err := r.unmap(g, n); err != nil {
			return fail(err)
		}
	}
	if err := ir.InferNode(n.Paced(r.pace)); err != nil {
		return err
	}
	if n.Op.Domain == "ai.onnx.ml" && n.Op.Name == "ZipMap" {
		if err := r.zipped(n); err != nil {
			return fail(err)
		}
		g.Nodes = append(g.Nodes, n)
		return nil
	}
	for i, v := range n.Outputs {
		if r.source.watch.Step(4); v == nil {
			continue
		}
		t, err := r.stated(s.declared[p.outputs[i]])
		if err != nil {
			return fail(fmt.Errorf("value %s: %w", quote(p.outputs[i]), err))
		}
		if t == nil {
			continue
		}
		if !ir.Compatible(t, v.Type) {
			if !ir.Compatible(withoutShape(t), withoutShape(v.Type)) {
				return fail(fmt.Errorf("value %s: the file states type %v, the operator has type %v",
					quote(p.outputs[i]), t, v.Type))
			}
			r.warn("node %s: value %s: the file states type %v, the operator has type %v, which counts", p.label(),
				quote(p.outputs[i]), t, v.Type)
			continue
		}
		v.Type = refine(v.Type, t, r.fixed)
	}
	g.Nodes = append(g.Nodes, n)
	return nil
}

// zipped makes an Identity of a ZipMap, whose maps are a tensor here, and keeps its labels.
func (r *reader) zipped(n *ir.Node) (err error) {
	words, numbers := n.Attrs.Strs("classlabels_strings", nil), n.Attrs.Ints("classlabels_int64s", nil)
	keys, err := json.Marshal(words)
	if len(words) == 0 {
		for _, k := range numbers {
			words = append(words, strconv.FormatInt(k, 10))
		}
		keys, err = json.Marshal(numbers)
	}
	if err != nil {
		return err
	}
	names, err := json.Marshal(words)
	if err != nil {
		return err
	}
	if n.Op, err = r.op("Identity"); err != nil {
		return err
	}
	n.Attrs = nil
	if v := n.Out(0); v != nil {
		if r.keys == nil {
			r.keys = map[*ir.Value][2]string{}
		}
		r.keys[v] = [2]string{string(keys), string(names)}
	}
	return nil
}

func (r *reader) inputs(s *scope, p *nodeProto) ([]*ir.Value, error) {
	in := make([]*ir.Value, 0, len(p.inputs))
	for i, name := range p.inputs {
		if r.source.watch.Step(2); name == "" {
			in = append(in, nil)
			continue
		}
		v, ok := s.find(name)
		if !ok {
			return nil, fmt.Errorf("input %d, %s, is not defined", i, quote(name))
		}
		in = append(in, v)
	}
	return in, nil
}
