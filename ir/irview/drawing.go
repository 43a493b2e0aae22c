package irview

import (
	"math"
	"strings"
	"unicode/utf8"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irview/internal/layered"
)

// drawing is a graph with the places of its nodes and edges, in pixels.
type drawing struct {
	// Boxes has a record, x, y, width and height for each node, input and output, and for frames around subgraphs.
	// Frames come before what they contain.
	Boxes []int `json:"b"`
	// Edges have the numbers of two boxes, x of both ends, and x, top and bottom of each vertical part in between.
	Edges [][]int `json:"e"`
	W     int     `json:"w"`
	H     int     `json:"h"`
	Nodes int     `json:"n"` // nodes with those of subgraphs
	// Scopes has the text of a part of the model, and x, y, width and height of its frame.
	Scopes []int `json:"s,omitempty"`
}

// maxDrawn is the number of nodes of the largest graph that is drawn.
const maxDrawn = 20_000

const (
	boxHeight = 36
	margin    = 12 // around a subgraph
	title     = 20 // the height of the name of a subgraph, and of a node with subgraphs
	opWidth   = 8.0
	typeWidth = 6.4
	maxLabel  = 44 // characters of a type in a box
)

// artist draws a graph.
type artist struct {
	t     *table
	d     *drawing
	nodes map[*ir.Node]int // the box of a node
}

// draw returns the drawing of a graph, or nil if it is too large.
func (t *table) draw(g *ir.Graph) *drawing {
	count := 0
	_ = g.Walk(func(*ir.Graph, *ir.Node) error { count++; return nil })
	if count > maxDrawn {
		return nil
	}
	a := &artist{t: t, d: &drawing{Nodes: count, Edges: [][]int{}}, nodes: map[*ir.Node]int{}}
	s := a.sketch(g, true)
	a.put(s, 0, 0)
	a.d.W, a.d.H = round(s.w), round(s.h)
	a.scopes(g)
	return a.d
}

// sketch is the layout of a graph before its place is known.
type sketch struct {
	w, h  float64
	items []part
	edges []layered.Edge
	lay   *layered.Layout
}

// part is one box of a sketch, with the sketches of its subgraphs.
type part struct {
	record int
	node   *ir.Node
	w, h   float64
	inner  []*sketch
	names  []string
}

// sketch lays a graph out, its subgraphs first. What a subgraph reads from the graphs around it has a box of its own
// there, and an edge from its source to the node with the subgraph.
func (a *artist) sketch(g *ir.Graph, outermost bool) *sketch {
	s := &sketch{}
	from := map[*ir.Value]int{}
	port := map[*ir.Value]int{}
	add := func(p part) int {
		s.items = append(s.items, p)
		return len(s.items) - 1
	}
	for _, v := range g.Inputs {
		if v != nil {
			from[v] = add(a.box(part{record: a.t.inputRecord(v)}, limit(v.Name, 30), typeOf(v)))
		}
	}
	for _, n := range g.Nodes {
		p := part{record: a.t.node(n), node: n}
		for _, sub := range n.Subgraphs() {
			p.inner = append(p.inner, a.sketch(sub, false))
			p.names = append(p.names, sub.Name)
		}
		typ := ""
		if v := n.Out(0); v != nil {
			typ = typeOf(v)
		}
		i := add(a.box(p, opName(n), typ))
		for k, v := range n.Outputs {
			if v != nil {
				from[v], port[v] = i, k
			}
		}
	}
	connect := func(v *ir.Value, to int) {
		if v == nil || v.Const != nil || v.Init != nil {
			return
		}
		i, ok := from[v]
		if !ok {
			op, role := "outer", roleOuter
			if outermost {
				op, role = "undefined", roleUndefined
			}
			r := a.t.add(record{Op: a.t.text(op), Role: role, Out: []int{a.t.text(v.Name), a.t.text(typeOf(v))}}, "")
			i = add(a.box(part{record: r}, limit(v.Name, 30), typeOf(v)))
			from[v] = i
		}
		s.edges = append(s.edges, layered.Edge{From: i, To: to, Port: port[v]})
	}
	nodes := len(s.items)
	for i := range nodes {
		n := s.items[i].node
		if n == nil {
			continue
		}
		for _, v := range n.Inputs {
			connect(v, i)
		}
		for _, sub := range n.Subgraphs() {
			for _, v := range sub.Captures() {
				connect(v, i)
			}
		}
	}
	for _, v := range g.Outputs {
		name := "?"
		if v != nil {
			name = v.Name
		}
		i := add(a.box(part{record: a.t.outputRecord(v)}, limit(name, 30), ""))
		connect(v, i)
	}
	s.edges = unique(s.edges)
	sizes := make([]layered.Size, len(s.items))
	for i, p := range s.items {
		sizes[i] = layered.Size{W: p.w, H: p.h}
	}
	s.lay = layered.Place(sizes, s.edges)
	s.w, s.h = s.lay.W, s.lay.H
	return s
}

// unique leaves one edge for each pair of boxes and port.
func unique(edges []layered.Edge) []layered.Edge {
	seen := map[layered.Edge]bool{}
	out := edges[:0]
	for _, e := range edges {
		if !seen[e] {
			seen[e] = true
			out = append(out, e)
		}
	}
	return out
}

// box returns a part with the size for its text and its subgraphs.
func (a *artist) box(p part, first, second string) part {
	p.w = max(float64(utf8.RuneCountInString(first))*opWidth,
		float64(utf8.RuneCountInString(shortType(second)))*typeWidth, 34) + 18
	p.h = boxHeight
	if len(p.inner) == 0 {
		return p
	}
	w, h := float64(margin), 0.0
	for _, s := range p.inner {
		w += s.w + 3*margin
		h = max(h, s.h)
	}
	p.w = max(p.w, w)
	p.h = boxHeight + h + title + 3*margin
	return p
}

// shortType is a type as boxes show it: without float, which is the rule, and cut off if it is long. The page's script
// does the same.
func shortType(s string) string {
	if rest, ok := strings.CutPrefix(s, "float["); ok {
		s = "[" + rest
	}
	return limit(s, maxLabel)
}

// put gives a sketch its place, and appends its boxes and edges.
func (a *artist) put(s *sketch, x, y float64) {
	boxes := make([]int, len(s.items))
	for i, p := range s.items {
		px, py := x+s.lay.X[i], y+s.lay.Y[i]
		boxes[i] = a.append(p.record, px, py, p.w, p.h)
		if p.node != nil {
			a.nodes[p.node] = boxes[i]
		}
		at := px + margin
		for k, inner := range p.inner {
			r := a.t.add(record{Op: a.t.text(p.names[k]), Role: roleGraph}, "")
			a.append(r, at, py+boxHeight, inner.w+2*margin, inner.h+title+2*margin)
			a.put(inner, at+margin, py+boxHeight+title+margin)
			at += inner.w + 3*margin
		}
	}
	for i, e := range s.edges {
		route := s.lay.Routes[i]
		line := []int{boxes[e.From], boxes[e.To], round(x + route.From), round(x + route.To)}
		for _, l := range route.Lanes {
			line = append(line, round(x+l.X), round(y+l.Top), round(y+l.Bottom))
		}
		a.d.Edges = append(a.d.Edges, line)
	}
}

func (a *artist) append(r int, x, y, w, h float64) int {
	a.d.Boxes = append(a.d.Boxes, r, round(x), round(y), round(w), round(h))
	return len(a.d.Boxes)/5 - 1
}

// scopes frames the parts of the model whose nodes are together: no node of another part is within their rows.
func (a *artist) scopes(g *ir.Graph) {
	type area struct{ x, y, right, bottom int }
	areas := map[string]*area{}
	var names []string
	for _, n := range g.Nodes {
		b := a.d.Boxes[5*a.nodes[n]:]
		r := areas[n.Scope]
		if r == nil {
			r = &area{b[1], b[2], b[1] + b[3], b[2] + b[4]}
			areas[n.Scope] = r
			names = append(names, n.Scope)
		}
		r.x, r.y, r.right, r.bottom = min(r.x, b[1]), min(r.y, b[2]), max(r.right, b[1]+b[3]), max(r.bottom, b[2]+b[4])
	}
	for _, name := range names {
		r, apart := areas[name], name != ""
		for _, other := range names {
			o := areas[other]
			if other != name && r.y < o.bottom && o.y < r.bottom && r.x < o.right && o.x < r.right {
				apart = false
			}
		}
		if apart {
			const pad = 9
			a.d.Scopes = append(a.d.Scopes, a.t.text(name), r.x-pad, r.y-pad, r.right-r.x+2*pad, r.bottom-r.y+2*pad)
		}
	}
}

func round(x float64) int { return int(math.Round(x)) }
