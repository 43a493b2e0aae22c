package irtext

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// Options are settings for printing and parsing. The zero Options print everything into the text, and parse without
// access to files.
type Options struct {
	// Data takes the content of constants with more than Inline elements when printing. If it is nil, all content is in
	// the text.
	Data io.Writer
	// DataName is the name of Data in the text: a file beside it.
	DataName string
	// Inline is the largest number of elements of a constant whose content stays in the text; 0 means 64.
	Inline int
	// Types prints the types of all intermediate values, not only the types that differ from the inferred ones.
	Types bool

	// Parameters are patterns of names: the constants of the text that they select become parameters when parsing,
	// before anything looks at their content. In a pattern "*" stands for any text and "?" for one byte. Only a
	// constant's own name selects one that is not of floating point or complex numbers. A pattern that selects nothing
	// is an error.
	Parameters []string
	// Open reads the constants outside the text when parsing. If it is nil, they are refused.
	Open Opener
	// Budget limits the resources of parsing. Zero fields mean the defaults.
	Budget Budget
	// Context, if not nil, ends parsing with its error when it is done.
	Context context.Context
}

// irVersion is the version of ONNX's file format that the text names. It is the first one with 4-bit integers, the
// newest feature that is printed.
const irVersion = 10

// dataAlign is the alignment of constants outside the text, a cache line, so that the file can be mapped.
const dataAlign = 64

// Print writes g as text that Parse reads. It fails if g contains something that cannot be written: a value without
// a name or type, or a dimension whose symbol ParseDim would read differently.
func Print(w io.Writer, g *ir.Graph, o Options) (err error) {
	defer tensor.Caught(&err)
	if o.Inline == 0 {
		o.Inline = 64
	}
	var b bytes.Buffer
	p := &printer{o: o, emit: func(t Token) { b.WriteString(t.Text) }, consts: homes(g),
		offsets: map[*tensor.Tensor]int64{}}
	p.graph(g, true)
	p.plain("\n")
	if p.err != nil {
		return fmt.Errorf("print graph %s: %w", g.Name, p.err)
	}
	_, err = w.Write(b.Bytes())
	return err
}

// String returns the text of g with all constants. For a graph that cannot be written it returns the reason, as a
// comment.
func String(g *ir.Graph) string {
	var b strings.Builder
	if err := Print(&b, g, Options{}); err != nil {
		return "# " + strings.ReplaceAll(err.Error(), "\n", " ") + "\n"
	}
	return b.String()
}

// homes returns the list of constants of each graph. A constant is in the list of the innermost graph around all its
// readers. Lists are in the order of first use.
func homes(g *ir.Graph) map[*ir.Graph][]*ir.Value {
	path := map[*ir.Value][]*ir.Graph{}
	var walk func(g *ir.Graph, up []*ir.Graph)
	walk = func(g *ir.Graph, up []*ir.Graph) {
		up = append(slices.Clip(up), g)
		use := func(v *ir.Value) {
			if v == nil || v.Const == nil {
				return
			}
			old, seen := path[v]
			if !seen {
				path[v] = up
				return
			}
			n := 0
			for n < len(old) && n < len(up) && old[n] == up[n] {
				n++
			}
			path[v] = old[:n]
		}
		for _, n := range g.Nodes {
			for _, v := range n.Inputs {
				use(v)
			}
			for _, s := range n.Subgraphs() {
				if s != nil {
					walk(s, up)
				}
			}
		}
		for _, v := range g.Outputs {
			use(v)
		}
	}
	walk(g, nil)
	out := map[*ir.Graph][]*ir.Value{}
	for _, v := range g.Constants() {
		if up := path[v]; len(up) > 0 {
			out[up[len(up)-1]] = append(out[up[len(up)-1]], v)
		}
	}
	return out
}

type printer struct {
	outputsOf *ir.Graph
	outputs   map[*ir.Value]bool // of outputsOf
	o         Options
	emit      func(Token)
	view      bool // for people: no content of constants, types after the nodes
	err       error
	indent    int
	scope     string // the last heading
	consts    map[*ir.Graph][]*ir.Value
	// offsets holds the places of tensors in Data. Tensors that several constants share are written once.
	offsets map[*tensor.Tensor]int64
	size    int64
}

func (p *printer) plain(s string) { p.emit(Token{Text: s}) }

func (p *printer) token(k Kind, s string) { p.emit(Token{Kind: k, Text: s}) }

func (p *printer) line() { p.plain("\n" + strings.Repeat("  ", p.indent)) }

func (p *printer) fail(format string, args ...any) {
	if p.err == nil && !p.view {
		p.err = fmt.Errorf(format, args...)
	}
}

func (p *printer) value(v *ir.Value) {
	switch {
	case v == nil:
		p.plain(`""`)
		return
	case v.Name == "":
		p.fail("a value has no name")
	}
	p.emit(Token{Kind: Name, Text: p.name(v.Name), Value: v})
}

func (p *printer) typed(v *ir.Value) {
	if v == nil {
		p.fail("an input or output of the graph has no value")
		p.plain("?")
		return
	}
	p.typ(v.Name, v.Type)
	p.plain(" ")
	p.value(v)
}

func (p *printer) typ(of string, t ir.Type) {
	if p.view {
		s := "?"
		if t != nil {
			s = t.String()
		}
		p.token(Type, oneLine(s))
		return
	}
	s, err := typeText(t)
	if err != nil {
		p.fail("type of %s: %w", of, err)
	}
	p.token(Type, s)
}

func typeText(t ir.Type) (string, error) {
	switch t := t.(type) {
	case *ir.TensorType:
		if !t.Elem.Valid() {
			return "", fmt.Errorf("element type %v", t.Elem)
		}
		if t.NoRank {
			return t.Elem.ONNX() + "[]", nil
		}
		if len(t.Shape) == 0 {
			return t.Elem.ONNX(), nil
		}
		var b strings.Builder
		b.WriteString(t.Elem.ONNX())
		for i, d := range t.Shape {
			b.WriteByte("[,"[min(i, 1)])
			s, err := dimText(d)
			if err != nil {
				return "", err
			}
			b.WriteString(s)
		}
		return b.String() + "]", nil
	case *ir.SequenceType:
		s, err := typeText(t.Elem)
		return "seq(" + s + ")", err
	case *ir.OptionalType:
		s, err := typeText(t.Elem)
		return "optional(" + s + ")", err
	}
	return "", fmt.Errorf("there is none")
}

func dimText(d ir.Dim) (string, error) {
	s := d.String()
	if _, ok := d.Known(); ok || d.IsUnknown() {
		return s, nil
	}
	if back, err := ir.ParseDim(s); err != nil || back.String() != s || !slices.Equal(back.Symbols(), d.Symbols()) {
		return "", fmt.Errorf("dimension %q cannot be written as an expression", s)
	}
	if isIdent(s) {
		return s, nil
	}
	return quote(s), nil
}

// graph writes a graph. p.indent is the indentation of the line on which it starts.
func (p *printer) graph(g *ir.Graph, outermost bool) {
	if !p.view {
		p.header(g, outermost)
	}
	p.token(Keyword, p.name(g.Name))
	p.plain(" (")
	for i, v := range g.Inputs {
		p.comma(i)
		p.typed(v)
	}
	p.plain(") => (")
	for i, v := range g.Outputs {
		p.comma(i)
		p.typed(v)
	}
	p.plain(")")
	if p.view { // readers want the nodes first
		p.nodes(g)
		p.infos(g)
	} else {
		p.infos(g)
		p.nodes(g)
	}
}

func (p *printer) nodes(g *ir.Graph) {
	if len(g.Nodes) == 0 && len(p.consts[g]) == 0 && len(g.Parameters) == 0 {
		p.plain(" {}")
		return
	}
	p.line()
	p.plain("{")
	p.indent++
	around := p.scope
	for _, n := range g.Nodes {
		p.line()
		if p.view && n.Scope != p.scope {
			p.scope = n.Scope
			p.token(Comment, "# "+cmp.Or(oneLine(p.scope), "(no scope)"))
			p.line()
		}
		p.node(n)
	}
	p.scope = around
	p.indent--
	p.line()
	p.plain("}")
}

func (p *printer) comma(i int) {
	if i > 0 {
		p.plain(", ")
	}
}

func (p *printer) header(g *ir.Graph, outermost bool) {
	var keys []func()
	if outermost {
		keys = append(keys, func() { p.plain("ir_version: " + strconv.Itoa(irVersion)) })
	}
	if g.Opsets != nil {
		keys = append(keys, func() {
			p.plain("opset_import: [")
			for i, d := range slices.Sorted(maps.Keys(g.Opsets)) {
				p.comma(i)
				p.plain(quote(d) + " : " + strconv.Itoa(g.Opsets[d]))
			}
			p.plain("]")
		})
	}
	if g.Doc != "" {
		keys = append(keys, func() { p.plain("doc_string: " + quote(g.Doc)) })
	}
	if len(g.Meta) > 0 {
		keys = append(keys, func() {
			p.plain("metadata_props: [")
			for i, k := range slices.Sorted(maps.Keys(g.Meta)) {
				p.comma(i)
				p.plain(quote(k) + ": " + quote(g.Meta[k]))
			}
			p.plain("]")
		})
	}
	if len(g.History) > 0 {
		keys = append(keys, func() { p.history(g.History) })
	}
	if len(keys) == 0 {
		return
	}
	p.plain("<")
	p.indent++
	for i, k := range keys {
		if i > 0 {
			p.plain(",")
		}
		p.line()
		k()
	}
	p.indent--
	p.line()
	p.plain(">")
	p.line()
}

func (p *printer) history(h []ir.Event) {
	p.plain("history: [")
	p.indent++
	for i, e := range h {
		if i > 0 {
			p.plain(",")
		}
		p.line()
		p.plain(quote(e.Pass) + " : " + strconv.Itoa(e.Changes))
		if len(e.Notes) == 0 {
			continue
		}
		p.plain(" [")
		for j, n := range e.Notes {
			p.comma(j)
			p.plain(quote(n))
		}
		p.plain("]")
	}
	p.indent--
	p.line()
	p.plain("]")
}

// infos writes the parameters of g, its updates, its constants, and the types that differ from the inferred ones.
func (p *printer) infos(g *ir.Graph) {
	var typed []*ir.Value
	if !p.view {
		for _, n := range g.Nodes {
			typed = append(typed, p.needTypes(g, n)...)
		}
	}
	if len(g.Parameters)+len(g.Updates)+len(p.consts[g])+len(typed) == 0 {
		return
	}
	p.line()
	p.plain("<")
	p.indent++
	items := 0
	item := func() {
		if items++; items > 1 {
			p.plain(",")
		}
		p.line()
	}
	for _, v := range g.Parameters {
		item()
		p.token(Keyword, parameterWord)
		p.plain(" ")
		p.initial(v)
	}
	for _, u := range g.Updates {
		item()
		p.token(Keyword, updateWord)
		p.plain(" ")
		p.value(u.Parameter)
		p.plain(" = ")
		p.value(u.Output)
	}
	for _, v := range p.consts[g] {
		item()
		p.typed(v)
		p.holds(v.Const)
	}
	for _, v := range typed {
		item()
		p.typed(v)
	}
	p.indent--
	p.line()
	p.plain(">")
}

// initial writes a parameter with its content.
func (p *printer) initial(v *ir.Value) {
	p.typed(v)
	if v == nil || v.Init == nil {
		p.fail("a parameter has no content")
		return
	}
	p.holds(v.Init)
}

// holds writes the content of a constant or parameter; for people, only if it is short.
func (p *printer) holds(t *tensor.Tensor) {
	if !p.view || t.Len() <= viewElems {
		p.plain(" = ")
		p.content(t)
	}
}

func (p *printer) needTypes(g *ir.Graph, n *ir.Node) []*ir.Value {
	var types []ir.Type
	if !p.o.Types {
		types, _ = ir.Infer(n) // types that cannot be inferred are written
	}
	var out []*ir.Value
	if p.outputsOf != g { // there may be many of both
		p.outputsOf, p.outputs = g, make(map[*ir.Value]bool, len(g.Outputs))
		for _, v := range g.Outputs {
			p.outputs[v] = true
		}
	}
	for i, v := range n.Outputs {
		if v == nil || p.outputs[v] || i < len(types) && ir.EqualTypes(types[i], v.Type) {
			continue
		}
		out = append(out, v)
	}
	return out
}

func (p *printer) node(n *ir.Node) {
	if !p.view && (n.Name != "" || n.Scope != "") {
		p.plain("[")
		if n.Name != "" {
			p.plain(quotable(n.Name))
		}
		if n.Scope != "" {
			if n.Name != "" {
				p.plain(" ")
			}
			p.plain("@ " + quote(n.Scope))
		}
		p.plain("] ")
	}
	for i, v := range n.Outputs {
		p.comma(i)
		p.value(v)
	}
	p.plain(" = ")
	if n.Op == nil {
		p.fail("a node has no operator")
		p.plain("?")
	} else {
		p.emit(Token{Kind: Op, Text: p.op(n.Op), Node: n})
	}
	late := len(n.Subgraphs()) > 0 // subgraphs are long, so they follow the inputs
	if !late {
		p.attrs(n)
	}
	p.plain(" (")
	for i, v := range n.Inputs {
		p.comma(i)
		p.value(v)
	}
	p.plain(")")
	if late {
		p.attrs(n)
	}
	if p.view {
		p.remark(n)
	}
}

// remark writes a comment after a node: the types of its outputs, and its name in the source.
func (p *printer) remark(n *ir.Node) {
	p.plain("  ")
	p.token(Comment, "#")
	for i, v := range n.Outputs {
		if v == nil {
			continue
		}
		if i > 0 {
			p.plain(",")
		}
		p.plain(" ")
		p.typ(v.Name, v.Type)
	}
	if n.Name != "" {
		p.token(Comment, " "+strconv.Quote(n.Name))
	}
}

func (p *printer) op(o *ir.Op) string {
	if p.view {
		return oneLine(o.FullName())
	}
	name := quotable(o.Name)
	if o.Domain == "" {
		return name
	}
	for _, part := range strings.Split(o.Domain, ".") {
		if !isIdent(part) {
			return quote(o.Domain) + "." + name
		}
	}
	return o.Domain + "." + name
}

// kindNames maps attribute kinds to ONNX's words for them.
var kindNames = map[ir.AttrKind]string{
	ir.AttrInt: "int", ir.AttrFloat: "float", ir.AttrString: "string", ir.AttrTensor: "tensor", ir.AttrGraph: "graph",
	ir.AttrType: "type_proto",
	ir.AttrInts: "ints", ir.AttrFloats: "floats", ir.AttrStrings: "strings", ir.AttrTensors: "tensors",
	ir.AttrGraphs: "graphs", ir.AttrTypes: "type_protos",
}

func (p *printer) attrs(n *ir.Node) {
	if len(n.Attrs) == 0 {
		return
	}
	p.plain(" <")
	for i, a := range n.Attrs {
		p.comma(i)
		kind, ok := kindNames[a.Kind()]
		if !ok {
			p.fail("node %v: attribute %q has a value of type %T", n, a.Name, a.Value)
		}
		p.token(Attr, p.name(a.Name))
		if !p.view {
			p.plain(": " + kind)
		}
		p.plain(" = ")
		p.attr(n, a)
	}
	p.plain(">")
}

func (p *printer) attr(n *ir.Node, a ir.Attr) {
	switch v := a.Value.(type) {
	case int64:
		p.token(Literal, strconv.FormatInt(v, 10))
	case float64:
		p.token(Literal, floatText(v))
	case string:
		p.token(Literal, p.quote(v))
	case *tensor.Tensor:
		p.tensor(n, a, v)
	case *ir.Graph:
		p.subgraph(n, a, v)
	case ir.Type:
		p.typ("attribute "+a.Name, v)
	case []int64:
		list(p, v, func(x int64) { p.token(Literal, strconv.FormatInt(x, 10)) })
	case []float64:
		list(p, v, func(x float64) { p.token(Literal, floatText(x)) })
	case []string:
		list(p, v, func(x string) { p.token(Literal, p.quote(x)) })
	case []*tensor.Tensor:
		list(p, v, func(x *tensor.Tensor) { p.tensor(n, a, x) })
	case []*ir.Graph:
		list(p, v, func(x *ir.Graph) { p.subgraph(n, a, x) })
	case []ir.Type:
		list(p, v, func(x ir.Type) { p.typ("attribute "+a.Name, x) })
	}
}

func list[T any](p *printer, v []T, each func(T)) {
	p.plain("[")
	for i, x := range v {
		p.comma(i)
		each(x)
	}
	p.plain("]")
}

func (p *printer) subgraph(n *ir.Node, a ir.Attr, g *ir.Graph) {
	if g == nil {
		p.fail("node %v: attribute %q has no graph", n, a.Name)
		p.plain("?")
		return
	}
	p.indent++
	p.graph(g, false)
	p.indent--
}

func (p *printer) tensor(n *ir.Node, a ir.Attr, t *tensor.Tensor) {
	if t == nil {
		p.fail("node %v: attribute %q has no tensor", n, a.Name)
		p.plain("?")
		return
	}
	p.typ(a.Name, ir.Of(t))
	if !p.view || t.Len() <= viewElems {
		p.plain(" = ")
		p.content(t)
	}
}

// content writes a tensor's elements, or writes them to Data and their place to the text.
func (p *printer) content(t *tensor.Tensor) {
	if p.o.Data == nil || t.Len() <= p.o.Inline || t.DType() == tensor.String {
		b := []byte{'{'}
		for i := range t.Len() {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = appendElem(b, t, i)
		}
		p.token(Literal, string(append(b, '}')))
		return
	}
	at, ok := p.offsets[t]
	if !ok && p.err == nil {
		pad := make([]byte, -p.size&(dataAlign-1))
		for _, b := range [][]byte{pad, t.Bytes()} {
			if _, err := p.o.Data.Write(b); err != nil {
				p.err = err
			}
		}
		at = p.size + int64(len(pad))
		p.offsets[t], p.size = at, at+int64(len(t.Bytes()))
	}
	p.plain(fmt.Sprintf(`["location": %s, "offset": "%d", "length": "%d"]`, quote(p.o.DataName), at, len(t.Bytes())))
}

// quote writes a string: exactly for the parser, on one line for people.
func (p *printer) quote(s string) string {
	if p.view {
		return strconv.Quote(s)
	}
	return quote(s)
}

// name writes a name. For people it has quotes only where it would not look like a name.
func (p *printer) name(s string) string {
	if p.view && s != "" && !strings.ContainsAny(s, " ,()<>{}=#\"") {
		return oneLine(s)
	}
	return p.quoteUnless(isIdent(s), s)
}

func (p *printer) quoteUnless(plain bool, s string) string {
	if plain {
		return s
	}
	return p.quote(s)
}

var escaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

func quote(s string) string { return `"` + escaper.Replace(s) + `"` }

func quotable(s string) string {
	if isIdent(s) {
		return s
	}
	return quote(s)
}

func isIdent(s string) bool {
	for i := range len(s) {
		if !isIdentByte(s[i], i == 0) {
			return false
		}
	}
	return s != ""
}

func isIdentByte(c byte, first bool) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || !first && c >= '0' && c <= '9'
}

func oneLine(s string) string {
	if q := strconv.Quote(s); q[1:len(q)-1] != s {
		return q
	}
	return s
}
