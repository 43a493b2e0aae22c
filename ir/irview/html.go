package irview

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/essmc/essmc/ir"
)

// Page is the content of an HTML page.
type Page struct {
	Title   string
	Columns []Column
	// Regions are the steps of the last graph that were measured, if any, and Setting is what they were measured with.
	Regions []Region
	Setting string
}

// Column is the graph after one pass.
type Column struct {
	Name  string   // name of the pass
	Doc   string   // description of the pass
	Notes []string // its actions with their reasons; those that start with "warning: " are highlighted
	// Graph is the graph after the pass; nil if there is none. HTML reads it, so callers clone a graph that later
	// passes change.
	Graph *ir.Graph
	// Changes is the number of rewrites.
	Changes int
	// Err is the message of an error in or after the pass; empty: none.
	Err string
}

// Region is nodes that run together.
type Region struct {
	Name, Op, Form string
	Time           time.Duration // of one run
	Values         []string      // names of the first outputs of the nodes
}

var (
	//go:embed page.css
	css string
	//go:embed page.js
	script string
	//go:embed page.body
	body string
)

// content is the data of the page's script.
type content struct {
	Title    string       `json:"title"`
	Strings  []string     `json:"strings"`
	Records  []record     `json:"records"`
	Columns  []columnData `json:"columns"`
	Drawings []*drawing   `json:"drawings"`
	Regions  []regionData `json:"regions,omitempty"`
	Setting  string       `json:"setting,omitempty"`
}

type columnData struct {
	Name  string   `json:"name"`
	Doc   string   `json:"doc,omitempty"`
	Notes []string `json:"notes,omitempty"`
	Err   string   `json:"err,omitempty"`
	// Work is the statement about what the pass has changed.
	Work string `json:"work"`
	// Drawing is the number of the graph's drawing; -1: there is none. Passes that leave the graph as it was share that
	// of the column before.
	Drawing int `json:"drawing"`
}

type regionData struct {
	Name string  `json:"name"`
	Op   string  `json:"op"`
	Form string  `json:"form"`
	MS   float64 `json:"ms"`
	Out  []int   `json:"out"`
}

// HTML writes a page that draws the graph of each column, and marks how it differs from the one before. The layout is
// computed here; the page's script draws it. Names are text only, and the page loads nothing.
func HTML(w io.Writer, p Page) error {
	t := newTable()
	c := content{Title: clean(p.Title), Setting: clean(p.Setting), Drawings: []*drawing{}}
	known := map[string]int{} // drawings by the graph's records
	var before []int
	for i, col := range p.Columns {
		d := columnData{Name: clean(col.Name), Doc: clean(col.Doc), Err: clean(col.Err), Drawing: -1}
		for _, n := range col.Notes {
			d.Notes = append(d.Notes, clean(n))
		}
		if col.Graph != nil {
			records := t.graph(col.Graph)
			key := fmt.Sprint(records)
			at, ok := known[key]
			if !ok {
				if drawn := t.draw(col.Graph); drawn != nil {
					at = len(c.Drawings)
					c.Drawings = append(c.Drawings, drawn)
				} else {
					at = -1
					d.Notes = append(d.Notes, fmt.Sprintf("warning: the graph has more than %d nodes; it is not drawn",
						maxDrawn))
				}
				known[key] = at
			}
			d.Drawing = at
			if d.Work = statement(col.Changes, t.compare(before, records)); i == 0 {
				d.Work = plural(len(col.Graph.Nodes), "node")
			}
			before = records
		}
		c.Columns = append(c.Columns, d)
	}
	for _, r := range p.Regions {
		d := regionData{Name: clean(r.Name), Op: clean(r.Op), Form: clean(r.Form), MS: float64(r.Time) / 1e6}
		for _, v := range r.Values {
			d.Out = append(d.Out, t.text(v))
		}
		c.Regions = append(c.Regions, d)
	}
	c.Strings, c.Records = t.strings, t.records
	data, err := json.Marshal(c) // escapes <, > and &
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n")
	b.WriteString(`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">` + "\n")
	b.WriteString("<meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"color-scheme\" " +
		"content=\"light dark\">\n")
	fmt.Fprintf(&b, "<title>%s</title>\n<style>\n%s</style>\n</head>\n<body>\n%s", html.EscapeString(c.Title), css,
		body)
	fmt.Fprintf(&b, "<script type=\"application/json\" "+
		"id=\"data\">%s</script>\n<script>\n%s</script>\n</body>\n</html>\n", data, script)
	_, err = io.WriteString(w, b.String())
	return err
}

// graph returns the records of a graph's inputs, nodes and outputs, sorted.
func (t *table) graph(g *ir.Graph) []int {
	var out []int
	for _, v := range g.Inputs {
		if v != nil {
			out = append(out, t.inputRecord(v))
		}
	}
	for _, n := range g.Nodes {
		out = append(out, t.node(n))
	}
	for _, v := range g.Outputs {
		out = append(out, t.outputRecord(v))
	}
	slices.Sort(out)
	return out
}

// difference is the numbers of nodes, inputs and outputs by which two graphs differ.
type difference struct{ added, removed, changed int }

// compare compares two graphs by their sorted records. A node is changed if another one in the graph before has
// computed the value of its name.
func (t *table) compare(before, after []int) (d difference) {
	old, now := map[int]int{}, map[int]int{}
	for _, r := range before {
		old[r]++
	}
	names := map[int]int{} // values that only the graph before computes in this way
	for _, r := range after {
		now[r]++
	}
	for _, r := range before {
		if now[r] > 0 {
			now[r]--
			continue
		}
		d.removed++
		names[t.records[r].value()]++
	}
	for _, r := range after {
		if old[r] > 0 {
			old[r]--
			continue
		}
		if v := t.records[r].value(); names[v] > 0 {
			names[v]--
			d.changed++
			d.removed--
			continue
		}
		d.added++
	}
	return d
}

// value is the name by which a record is found again in another graph.
func (r *record) value() int {
	switch {
	case len(r.Out) > 0:
		return r.Out[0]
	case len(r.In) > 0:
		return -1 - r.In[0]
	}
	return -1
}

// statement says what a pass has changed: its own count, and what that did to the nodes.
func statement(changes int, d difference) string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{d.added, "added"}, {d.removed, "removed"}, {d.changed, "changed"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	nodes := strings.Join(parts, ", ")
	switch {
	case changes == 0 && nodes == "":
		return "no changes"
	case nodes == "":
		return plural(changes, "change") + " that the graph does not show"
	case changes == 0:
		return "nodes: " + nodes
	}
	return plural(changes, "change") + "; nodes: " + nodes
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// clean replaces characters that HTML cannot hold even when escaped.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return '�'
		}
		return r
	}, strings.ToValidUTF8(s, "�"))
}
