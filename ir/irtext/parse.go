package irtext

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/essmc/essmc/internal/ends"
	"github.com/essmc/essmc/internal/patterns"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// Budget bounds the resources that parsing one text may use.
type Budget struct {
	Bytes int   // bytes of text; default 256 MiB
	Nodes int   // nodes of all graphs; default 1,000,000
	Depth int   // nesting of graphs, and of types; default 32
	Ports int   // inputs of a node, and outputs of a node; default 65,536
	Data  int64 // bytes of constants outside the text; default 16 GiB
}

func (b Budget) withDefaults() Budget {
	if b.Bytes == 0 {
		b.Bytes = 256 << 20
	}
	if b.Nodes == 0 {
		b.Nodes = 1_000_000
	}
	if b.Depth == 0 {
		b.Depth = 32
	}
	if b.Ports == 0 {
		b.Ports = 1 << 16
	}
	if b.Data == 0 {
		b.Data = 16 << 30
	}
	return b
}

// Parse reads a graph and verifies it. It infers the types of intermediate values that the text does not state. Errors
// are of type *Error and start with "name:line:column: ".
func Parse(src []byte, name string, resolver ir.Resolver, o Options) (_ *ir.Graph, err error) {
	defer ends.Catch(name, &err)
	b := o.Budget.withDefaults()
	p := &parser{scanner: scanner{file: name, src: src, watch: ends.Of(o.Context)}, resolver: resolver, open: o.Open,
		budget: b, names: map[string]bool{}, places: map[*ir.Node]int{}, pick: patterns.New(o.Parameters)}
	p.pace = ir.NewPacer(p.watch.Checker())
	if len(src) > b.Bytes {
		p.fail(0, "expected a text of at most %d bytes, found more", b.Bytes)
		return nil, p.err
	}
	g := p.graph(true)
	if p.peek() != 0 || p.i < len(p.src) {
		p.fail(p.i, "expected the end of the text after the graph (functions are not supported), found %s", p.found())
	}
	p.update()
	if p.err != nil {
		return nil, p.err
	}
	if err := p.pick.Err("constants"); err != nil {
		return nil, fmt.Errorf("%s: parameters: %w", name, err)
	}
	if err := ir.VerifyContext(o.Context, g); err != nil {
		if o.Context != nil && o.Context.Err() != nil {
			return nil, fmt.Errorf("%s: %w", name, context.Cause(o.Context))
		}
		at := 0
		var v *ir.VerifyError
		if errors.As(err, &v) && v.Node != nil {
			at = p.places[v.Node]
		}
		p.fail(at, "%w", err)
		return nil, p.err
	}
	return g, nil
}

type parser struct {
	pace *ir.Pacer // of the inference of types
	scanner
	resolver ir.Resolver
	open     Opener
	budget   Budget
	opsets   map[string]int // of the outermost graph; nil for the newest
	names    map[string]bool
	scopes   []map[string]*ir.Value
	places   map[*ir.Node]int
	nodes    int
	depth    int
	data     int64
	root     *ir.Graph
	pick     *patterns.Set
	updates  []updated
}

// The words before parameters and updates.
const (
	parameterWord = "parameter"
	updateWord    = "update"
)

// updated is a parameter and its update, by their names.
type updated struct {
	parameter, output string
	at                int
}

// declared is a name with the type that the text gives it.
type declared struct {
	name string
	typ  ir.Type // nil: not given
	at   int
	used bool
}

// define makes v visible in the innermost graph.
func (p *parser) define(at int, v *ir.Value) {
	if v.Name == "" {
		p.fail(at, "expected a name, found an empty one")
	}
	if p.names[v.Name] {
		p.fail(at, "expected a name that is free, found a second value %q", v.Name)
	}
	p.names[v.Name] = true
	p.scopes[len(p.scopes)-1][v.Name] = v
}

func (p *parser) lookup(name string) *ir.Value {
	for _, s := range slices.Backward(p.scopes) {
		if v, ok := s[name]; ok {
			return v
		}
	}
	return nil
}

// deeper enters a level of nesting; the caller leaves it with p.depth--.
func (p *parser) deeper() bool {
	p.depth++
	if p.depth > p.budget.Depth {
		p.fail(p.i, "expected at most %d levels of nesting, found more", p.budget.Depth)
	}
	return p.err == nil
}

func (p *parser) graph(outermost bool) *ir.Graph {
	g := &ir.Graph{}
	if outermost {
		g.Meta = map[string]string{}
		p.root = g
	}
	if p.accept('<') {
		p.header(g)
	}
	if outermost {
		p.opsets = g.Opsets
	}
	g.Name = p.need("the name of a graph")
	return p.body(g)
}

// body reads a graph, after its name.
func (p *parser) body(g *ir.Graph) *ir.Graph {
	defer func() { p.depth-- }()
	if !p.deeper() {
		return g
	}
	p.scopes = append(p.scopes, map[string]*ir.Value{})
	defer func() { p.scopes = p.scopes[:len(p.scopes)-1] }()

	p.expect('(', "before the inputs of graph "+g.Name)
	p.each(')', func() {
		d := p.valueInfo()
		if d.typ == nil {
			p.fail(d.at, "expected a type before input %q, found none", d.name)
		}
		if p.peek() == '=' {
			p.fail(p.i, "expected inputs without defaults, found one at %q", d.name)
		}
		v := &ir.Value{Name: d.name, Type: d.typ}
		p.define(d.at, v)
		g.Inputs = append(g.Inputs, v)
	})
	p.expect('=', "of => after the inputs")
	p.expect('>', "of => after the inputs")
	p.expect('(', "before the outputs of graph "+g.Name)
	types := map[string]*declared{}
	var outs []*declared
	p.each(')', func() {
		d := p.valueInfo()
		outs = append(outs, d)
		if old := types[d.name]; old == nil || old.typ == nil {
			types[d.name] = d
		} else if d.typ != nil && !ir.EqualTypes(old.typ, d.typ) {
			p.fail(d.at, "expected type %v for output %q as before, found %v", old.typ, d.name, d.typ)
		}
	})
	var infos []*declared
	if p.accept('<') {
		p.each('>', func() { infos = p.info(g, types, infos) })
	}
	p.expect('{', "before the nodes of graph "+g.Name)
	for p.err == nil && !p.accept('}') {
		if n := p.node(types); n != nil {
			g.Nodes = append(g.Nodes, n)
		}
	}
	for _, d := range outs {
		p.watch.Step(1)
		v := p.lookup(d.name)
		switch {
		case v == nil:
			p.fail(d.at, "expected output %q of graph %q to be defined, found no definition", d.name, g.Name)
		case d.typ != nil && !ir.Compatible(d.typ, v.Type):
			p.fail(d.at, "expected type %v for output %q, found %v", v.Type, d.name, d.typ)
		}
		g.Outputs = append(g.Outputs, v)
	}
	for _, d := range infos {
		if !d.used {
			p.fail(d.at, "expected a node that computes %q, found none", d.name)
		}
	}
	return g
}

// each reads items, separated by commas, up to the closing character.
func (p *parser) each(closing byte, item func()) {
	if p.accept(closing) {
		return
	}
	for p.err == nil {
		p.watch.Step(1)
		item()
		if !p.accept(',') {
			p.expect(closing, "at the end of the list")
			return
		}
	}
}

// valueInfo reads a type, which may be missing, and a name.
func (p *parser) valueInfo() *declared {
	d := &declared{at: p.here()}
	if isTypeName(p.peekIdent()) {
		d.typ = p.typ()
	}
	d.at = p.here()
	d.name = p.need("the name of a value")
	return d
}

// info reads a parameter, an update, a constant, or the type of a value that a later node computes.
func (p *parser) info(g *ir.Graph, types map[string]*declared, infos []*declared) []*declared {
	at := p.here()
	word := p.peekIdent()
	marked := word == parameterWord || word == updateWord
	if marked {
		p.ident()
		if g != p.root {
			p.fail(at, "expected parameters in the outermost graph only, found one in graph %q", g.Name)
			return infos
		}
	}
	if word == updateWord {
		u := updated{at: at, parameter: p.need("the name of a parameter")}
		p.expect('=', "after parameter "+u.parameter)
		u.output = p.need("the name of an output")
		p.updates = append(p.updates, u)
		return infos
	}
	d := p.valueInfo()
	if d.typ == nil {
		p.fail(d.at, "expected a type before %q, found none", d.name)
		return infos
	}
	if marked {
		p.expect('=', "before the content of parameter "+d.name)
		if t := p.content(d.at, d.typ); t != nil {
			p.pick.Select(d.name, t.DType())
			p.parameter(d, t)
		}
		return infos
	}
	if p.accept('=') {
		switch t := p.content(d.at, d.typ); {
		case t == nil:
		case p.pick.Select(d.name, t.DType()):
			p.parameter(d, t)
		default:
			p.define(d.at, ir.NewConst(d.name, t))
		}
		return infos
	}
	if old := types[d.name]; old != nil && old.typ != nil {
		p.fail(d.at, "expected one type for %q, found a second", d.name)
	}
	types[d.name] = d
	return append(infos, d)
}

// parameter adds a parameter to the outermost graph. It is visible in the innermost one, where the text has it.
func (p *parser) parameter(d *declared, t *tensor.Tensor) {
	v := ir.NewParameter(d.name, t)
	p.define(d.at, v)
	p.root.Parameters = append(p.root.Parameters, v)
}

// update finds the parameters and outputs of updates, when all of them are known.
func (p *parser) update() {
	if p.err != nil || len(p.updates) == 0 {
		return
	}
	parameters, outputs := map[string]*ir.Value{}, map[string]*ir.Value{}
	for _, v := range p.root.Parameters {
		p.watch.Step(1)
		parameters[v.Name] = v
	}
	for _, v := range p.root.Outputs {
		p.watch.Step(1)
		outputs[v.Name] = v
	}
	for _, u := range p.updates {
		p.watch.Step(1)
		v, out := parameters[u.parameter], outputs[u.output]
		switch {
		case v == nil:
			p.fail(u.at, "expected the update of a parameter, found %q", u.parameter)
		case out == nil:
			p.fail(u.at, "expected an output that updates %q, found %q", u.parameter, u.output)
		case !ir.EqualTypes(v.Type, out.Type):
			p.fail(u.at, "expected an update of type %v for %q, found %q of type %v", v.Type, v.Name, out.Name,
				out.Type)
		}
		p.root.Updates = append(p.root.Updates, ir.Update{Parameter: v, Output: out})
	}
}

func (p *parser) header(g *ir.Graph) {
	seen := map[string]bool{}
	p.each('>', func() {
		at := p.here()
		key := p.need("a key of the header")
		if seen[key] {
			p.fail(at, "expected each key once, found %q again", key)
		}
		seen[key] = true
		p.expect(':', "behind "+key)
		switch key {
		case "ir_version":
			p.integer("a version")
		case "opset_import":
			p.opsetImport(g)
		case "doc_string":
			g.Doc = p.str("a text")
		case "metadata_props":
			p.expect('[', "before the properties")
			p.each(']', func() {
				at := p.here()
				k := p.str("a key")
				p.expect(':', "after the key")
				p.meta(at, g, k, p.str("a value"))
			})
		case "producer_name", "producer_version", "domain":
			p.meta(at, g, key, p.str("a text"))
		case "model_version":
			p.meta(at, g, key, p.number("a version"))
		case "history":
			p.expect('[', "before the history")
			p.each(']', func() { g.History = append(g.History, p.event()) })
		default:
			p.fail(at, "expected a key of the header, found %q", key)
		}
	})
}

func (p *parser) meta(at int, g *ir.Graph, key, value string) {
	if g.Meta == nil {
		g.Meta = map[string]string{}
	}
	if _, ok := g.Meta[key]; ok {
		p.fail(at, "expected each property once, found %q again", key)
	}
	g.Meta[key] = value
}

func (p *parser) opsetImport(g *ir.Graph) {
	g.Opsets = map[string]int{}
	p.expect('[', "before the operator sets")
	p.each(']', func() {
		at := p.here()
		d := p.str("a domain")
		if d == "ai.onnx" {
			d = ""
		}
		p.expect(':', "after the domain")
		if _, ok := g.Opsets[d]; ok {
			p.fail(at, "expected each domain once, found %q again", d)
		}
		v := p.integer("a version")
		if v < math.MinInt32 || v > math.MaxInt32 {
			p.fail(at, "expected a version of 32 bits, found %d", v)
		}
		g.Opsets[d] = int(v)
	})
}

func (p *parser) event() ir.Event {
	e := ir.Event{Pass: p.str("the name of a pass")}
	p.expect(':', "after the pass")
	e.Changes = int(p.integer("a number of changes"))
	if p.accept('[') {
		p.each(']', func() { e.Notes = append(e.Notes, p.str("a note")) })
	}
	return e
}

// ids reads names up to, and without, a character that ends the list. As in ONNX, a missing name before a comma is the
// empty name. Of more names than a node may have, ids returns the number only.
func (p *parser) ids(end byte) (names []string, at []int, n int) {
	for p.err == nil {
		p.watch.Step(2)
		place := p.here()
		name, ok := p.name()
		if !ok && p.peek() != ',' {
			if p.peek() != end {
				p.fail(place, "expected a name or %q, found %s", string(end), p.found())
			}
			return names, at, n
		}
		if n++; n <= p.budget.Ports {
			names, at = append(names, name), append(at, place)
		}
		if !p.accept(',') {
			return names, at, n
		}
	}
	return names, at, n
}

// ports checks the number of inputs or outputs of a node.
func (p *parser) ports(at int, n *ir.Node, what string, found int) {
	if found <= p.budget.Ports {
		return
	}
	label := n.Op.FullName()
	if n.Name != "" {
		label = fmt.Sprintf("%q (%s)", n.Name, label)
	}
	p.fail(at, "node %s: expected at most %d %s, found %d", label, p.budget.Ports, what, found)
}

func (p *parser) node(types map[string]*declared) *ir.Node {
	at := p.here()
	if p.nodes++; p.nodes > p.budget.Nodes {
		p.fail(at, "expected at most %d nodes, found more", p.budget.Nodes)
	}
	n := &ir.Node{}
	if p.accept('[') {
		n.Name, _ = p.name()
		if p.accept('@') {
			n.Scope = p.need("a scope")
		}
		p.expect(']', "after the node's label")
	}
	outs, outsAt, made := p.ids('=')
	p.expect('=', "after the outputs of a node")
	n.Op = p.op()
	if n.Op == nil {
		return nil
	}
	hasAttrs := p.accept('<')
	if hasAttrs {
		n.Attrs = p.attrs(n.Op)
	}
	p.expect('(', "before the inputs of "+n.Op.FullName())
	ins, insAt, read := p.ids(')')
	p.expect(')', "after the inputs of "+n.Op.FullName())
	if !hasAttrs && p.accept('<') {
		n.Attrs = p.attrs(n.Op)
	}
	p.ports(at, n, "inputs", read)
	p.ports(at, n, "outputs", made)
	p.watch.Step(8)
	for i, name := range ins {
		p.watch.Step(4)
		var v *ir.Value
		if name != "" {
			if v = p.lookup(name); v == nil {
				p.fail(insAt[i], "expected a value that is defined before it is read, found %q", name)
			}
		}
		n.Inputs = append(n.Inputs, v)
	}
	for _, name := range outs {
		p.watch.Step(4)
		var v *ir.Value
		if name != "" {
			v = &ir.Value{Name: name, Def: n}
		}
		n.Outputs = append(n.Outputs, v)
	}
	if p.err != nil {
		return nil
	}
	p.places[n] = at
	p.inferNode(at, n)
	for i, v := range n.Outputs {
		if p.watch.Step(4); v == nil {
			continue
		}
		if d := types[v.Name]; d != nil && d.typ != nil {
			if v.Type != nil && !ir.Compatible(d.typ, v.Type) {
				p.fail(d.at, "expected type %v for %q as operator %s gives it, found %v", v.Type, v.Name,
					n.Op.FullName(), d.typ)
			}
			v.Type, d.used = d.typ, true
		} else if v.Type == nil {
			p.fail(outsAt[i], "expected a stated type for %q, since operator %s infers none, found none", v.Name,
				n.Op.FullName())
		}
		p.define(outsAt[i], v)
	}
	return n
}

func (p *parser) inferNode(at int, n *ir.Node) {
	if n.Op.Infer == nil || p.err != nil {
		return
	}
	if err := ir.InferNode(n.Paced(p.pace)); err != nil {
		p.fail(at, "%w", err)
	}
}

// op reads the domain and name of an operator and looks it up.
func (p *parser) op() *ir.Op {
	at := p.here()
	parts := []string{p.need("an operator")}
	for p.err == nil && p.accept('.') {
		parts = append(parts, p.need("an operator"))
	}
	if p.peek() == ':' {
		p.fail(p.i, "expected an operator without overload, found one")
	}
	if p.err != nil {
		return nil
	}
	last := len(parts) - 1
	domain, name := strings.Join(parts[:last], "."), parts[last]
	if domain == "ai.onnx" {
		domain = ""
	}
	version := math.MaxInt32
	if p.opsets != nil {
		v, ok := p.opsets[domain]
		if !ok {
			p.fail(at, "expected an operator of a domain that opset_import names, found %s of domain %q", name, domain)
			return nil
		}
		version = v
	}
	op := p.resolver.Resolve(domain, name, version)
	if op == nil {
		if p.opsets == nil {
			p.fail(at, "expected a known operator, found %s of domain %q", name, domain)
		} else {
			p.fail(at, "expected a known operator, found %s of domain %q in version %d", name, domain, version)
		}
	}
	return op
}
