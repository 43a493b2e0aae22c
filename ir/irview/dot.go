// Package irview draws graphs: as DOT for Graphviz, and as an HTML page with the graph after each pass.
//
// It imports ir and the standard library only. Equal graphs give equal bytes. Names and notes are shown as text and
// never act as markup. A page loads no other file. Graphs that Verify refuses can be drawn too. Layouts are computed in
// internal/layered; the page's script only draws them.
package irview

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/essmc/essmc/ir"
)

// DOT writes g for Graphviz: a box for each node, grouped by scope and by subgraph, edges with the types of their
// values. Constants and parameters are named inside the boxes that read them, so that edges show what is computed.
func DOT(w io.Writer, g *ir.Graph) error {
	d := &dot{ids: map[*ir.Value]string{}}
	d.line(0, "digraph %s {", dotQuote(g.Name))
	d.line(1, "rankdir=TB; node [shape=box, style=rounded, fontname=sans, fontsize=11]; edge [fontname=sans, "+
		"fontsize=9]")
	d.graph(g, 1)
	for _, e := range d.edges {
		d.line(1, "%s", e)
	}
	d.line(0, "}")
	_, err := w.Write(d.b.Bytes())
	return err
}

type dot struct {
	b     bytes.Buffer
	n     int
	ids   map[*ir.Value]string // the box or ellipse of a value's source
	edges []string
}

func (d *dot) line(indent int, format string, args ...any) {
	d.b.WriteString(strings.Repeat("  ", indent))
	fmt.Fprintf(&d.b, format, args...)
	d.b.WriteByte('\n')
}

func (d *dot) id() string {
	d.n++
	return fmt.Sprintf("n%d", d.n)
}

func (d *dot) edge(v *ir.Value, to string) {
	if v == nil || v.Const != nil || v.Init != nil {
		return
	}
	from, ok := d.ids[v]
	if !ok { // the value is defined nowhere: the graph is broken
		from = d.id()
		d.ids[v] = from
		d.edges = append(d.edges, fmt.Sprintf("%s [label=%s, color=red]", from, dotQuote(v.Name+" (undefined)")))
	}
	d.edges = append(d.edges, fmt.Sprintf("%s -> %s [label=%s]", from, to, dotQuote(v.Name+"\n"+typeOf(v))))
}

// parameterText is how a box names a parameter that it reads.
func parameterText(v *ir.Value) string { return "parameter " + v.Name + ": " + typeOf(v) }

func typeOf(v *ir.Value) string {
	if v.Type == nil {
		return "?"
	}
	return v.Type.String()
}

func (d *dot) graph(g *ir.Graph, indent int) {
	for _, v := range g.Inputs {
		if v == nil {
			continue
		}
		id := d.id()
		d.ids[v] = id
		d.line(indent, "%s [shape=ellipse, style=filled, fillcolor=\"#dbe9ff\", label=%s]", id,
			dotQuote(v.Name+"\n"+typeOf(v)))
	}
	open := ""
	for _, n := range g.Nodes {
		if n.Scope != open {
			if open != "" {
				indent--
				d.line(indent, "}")
			}
			if open = n.Scope; open != "" {
				d.line(indent, "subgraph cluster_%s { label=%s; color=gray", d.id(), dotQuote(open))
				indent++
			}
		}
		d.node(n, indent)
	}
	if open != "" {
		indent--
		d.line(indent, "}")
	}
	for _, v := range g.Outputs {
		id := d.id()
		name := "?"
		if v != nil {
			name = v.Name
		}
		for _, u := range g.Updates {
			if u.Output == v && u.Parameter != nil {
				name += "\nupdates " + u.Parameter.Name
			}
		}
		d.line(indent, "%s [shape=ellipse, style=filled, fillcolor=\"#dff5e1\", label=%s]", id, dotQuote(name))
		d.edge(v, id)
	}
}

func (d *dot) node(n *ir.Node, indent int) {
	id := d.id()
	label := "?"
	if n.Op != nil {
		label = n.Op.FullName()
	}
	for _, v := range n.Inputs {
		switch {
		case v == nil:
		case v.Const != nil:
			label += "\n" + v.Name + ": " + typeOf(v)
		case v.Init != nil:
			label += "\n" + parameterText(v)
		}
	}
	d.line(indent, "%s [label=%s]", id, dotQuote(label))
	for _, v := range n.Inputs {
		d.edge(v, id)
	}
	for _, v := range n.Outputs {
		if v != nil {
			d.ids[v] = id
		}
	}
	for _, s := range n.Subgraphs() {
		d.line(indent, "subgraph cluster_%s { label=%s; style=dashed", d.id(), dotQuote(label+": "+s.Name))
		d.graph(s, indent+1)
		d.line(indent, "}")
	}
}

// dotQuote writes a string of DOT. Line feeds become line breaks; other control characters, which Graphviz cannot show,
// become the replacement character.
func dotQuote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range strings.ToValidUTF8(s, "�") {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case unicode.IsControl(r):
			b.WriteRune('�')
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
