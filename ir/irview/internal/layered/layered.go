// Package layered places the nodes of a directed graph in rows, so that edges lead downwards, few of them cross, and
// long ones are straight. It follows Sugiyama, Tagawa and Toda (1981): ranks, order within ranks, coordinates.
//
// It imports the standard library only, and knows nothing of what is drawn. Equal graphs give equal places. A graph
// with cycles is placed too; one edge of each cycle leads upwards then.
package layered

import (
	"cmp"
	"slices"
)

// Size is the size of a node.
type Size struct{ W, H float64 }

// Edge leads from one node to another. Edges of one node and port that go far share their lane.
type Edge struct{ From, To, Port int }

// Lane is a vertical part of an edge between its ends, at X from Top to Bottom.
type Lane struct{ X, Top, Bottom float64 }

// Route is the way of an edge. It starts at X = From on the lower side of its first node, takes the lanes in turn, and
// ends at X = To on the upper side of its last node.
type Route struct {
	From, To float64
	Lanes    []Lane
}

// Layout is the places of all nodes, by their left upper corners, and the routes of all edges. Places begin at 0.
type Layout struct {
	X, Y   []float64
	Routes []Route
	W, H   float64
	Ranks  int
}

const (
	rowGap   = 26.0 // between rows
	nodeGap  = 18.0 // between nodes of a row
	laneGap  = 9.0  // between lanes
	sweeps   = 12   // of the order, and of the coordinates
	maxLanes = 400_000
)

// item is a node, or the place of an edge in a row that it only crosses.
type item struct {
	node     int // or -1
	rank     int
	pos      int // within the row
	w        float64
	x        float64 // of the middle
	up, down []int
}

type placer struct {
	sizes []Size
	edges []Edge
	rank  []int
	back  []bool // the edge is turned round for the ranks
	items []item
	rows  [][]int
	via   [][]int // items that an edge crosses, from its upper end on
}

// Place places nodes of the given sizes.
func Place(sizes []Size, edges []Edge) *Layout {
	p := &placer{sizes: sizes, edges: edges}
	p.turn()
	p.ranks()
	p.lanes()
	p.order()
	p.coordinates()
	return p.layout()
}

// ends returns the upper and the lower node of an edge.
func (p *placer) ends(e int) (from, to int) {
	if p.back[e] {
		return p.edges[e].To, p.edges[e].From
	}
	return p.edges[e].From, p.edges[e].To
}

// turn finds the edges that close cycles.
func (p *placer) turn() {
	p.back = make([]bool, len(p.edges))
	out := make([][]int, len(p.sizes))
	for i, e := range p.edges {
		out[e.From] = append(out[e.From], i)
	}
	const open, done = 1, 2
	state, next := make([]byte, len(p.sizes)), make([]int, len(p.sizes))
	for root := range p.sizes {
		if state[root] != 0 {
			continue
		}
		state[root] = open
		for stack := []int{root}; len(stack) > 0; {
			v := stack[len(stack)-1]
			if next[v] == len(out[v]) {
				state[v] = done
				stack = stack[:len(stack)-1]
				continue
			}
			e := out[v][next[v]]
			next[v]++
			switch to := p.edges[e].To; state[to] {
			case 0:
				state[to] = open
				stack = append(stack, to)
			case open:
				p.back[e] = true
			}
		}
	}
}

// ranks puts each node below all it depends on, and those that few depend on near their readers.
func (p *placer) ranks() {
	n := len(p.sizes)
	p.rank = make([]int, n)
	in, out := make([][]int, n), make([][]int, n)
	for e := range p.edges {
		if from, to := p.ends(e); from != to {
			out[from] = append(out[from], to)
			in[to] = append(in[to], from)
		}
	}
	order, missing := make([]int, 0, n), make([]int, n)
	for v := range n {
		if missing[v] = len(in[v]); missing[v] == 0 {
			order = append(order, v)
		}
	}
	for i := 0; i < len(order); i++ {
		for _, to := range out[order[i]] {
			p.rank[to] = max(p.rank[to], p.rank[order[i]]+1)
			if missing[to]--; missing[to] == 0 {
				order = append(order, to)
			}
		}
	}
	for _, v := range slices.Backward(order) {
		if len(out[v]) == 0 || len(in[v]) > len(out[v]) {
			continue
		}
		low := n
		for _, to := range out[v] {
			low = min(low, p.rank[to]-1)
		}
		p.rank[v] = max(p.rank[v], low)
	}
}

// lanes makes the items: the nodes, and the places where edges cross rows.
func (p *placer) lanes() {
	ranks := 0
	for v, s := range p.sizes {
		p.items = append(p.items, item{node: v, rank: p.rank[v], w: s.W})
		ranks = max(ranks, p.rank[v]+1)
	}
	p.via = make([][]int, len(p.edges))
	type port struct {
		node, port int
		back       bool
	}
	shared := map[port][]int{} // the lane of a port, by row
	join := func(a, b int) {
		if !slices.Contains(p.items[a].down, b) {
			p.items[a].down = append(p.items[a].down, b)
			p.items[b].up = append(p.items[b].up, a)
		}
	}
	for e := range p.edges {
		from, to := p.ends(e)
		if from == to {
			continue
		}
		key := port{from, p.edges[e].Port, p.back[e]}
		lane := shared[key]
		last := from
		for r := p.rank[from] + 1; r < p.rank[to] && len(p.items) < maxLanes; r++ {
			i := r - p.rank[from] - 1
			if i == len(lane) {
				lane = append(lane, len(p.items))
				p.items = append(p.items, item{node: -1, rank: r})
			}
			join(last, lane[i])
			last = lane[i]
			p.via[e] = append(p.via[e], last)
		}
		shared[key] = lane
		if p.items[last].rank == p.rank[to]-1 {
			join(last, to)
		}
	}
	p.rows = make([][]int, ranks)
}

// layout turns the items' places into those of nodes and edges.
func (p *placer) layout() *Layout {
	l := &Layout{X: make([]float64, len(p.sizes)), Y: make([]float64, len(p.sizes)), Ranks: len(p.rows),
		Routes: make([]Route, len(p.edges))}
	left := 0.0
	for i, it := range p.items {
		if x := it.x - it.w/2; i == 0 || x < left {
			left = x
		}
	}
	top, bottom := make([]float64, len(p.rows)), make([]float64, len(p.rows))
	y := 0.0
	for r, row := range p.rows {
		h := 0.0
		for _, i := range row {
			p.items[i].x -= left
			l.W = max(l.W, p.items[i].x+p.items[i].w/2)
			if n := p.items[i].node; n >= 0 {
				h = max(h, p.sizes[n].H)
			}
		}
		top[r], bottom[r] = y, y+h
		l.H = y + h
		y += h + rowGap
	}
	for _, it := range p.items {
		if it.node >= 0 {
			s := p.sizes[it.node]
			l.X[it.node] = it.x - s.W/2
			l.Y[it.node] = top[it.rank] + (bottom[it.rank]-top[it.rank]-s.H)/2
		}
	}
	for e := range p.edges {
		lanes := []Lane{}
		for _, i := range p.via[e] {
			it := p.items[i]
			if k := len(lanes); k > 0 && lanes[k-1].X == it.x {
				lanes[k-1].Bottom = bottom[it.rank]
				continue
			}
			lanes = append(lanes, Lane{it.x, top[it.rank], bottom[it.rank]})
		}
		if p.back[e] {
			slices.Reverse(lanes)
			for i, a := range lanes {
				lanes[i].Top, lanes[i].Bottom = a.Bottom, a.Top
			}
		}
		l.Routes[e].Lanes = lanes
	}
	p.spread(l)
	for e := range p.edges {
		p.beside(&l.Routes[e], l, e, top, bottom)
	}
	return l
}

// beside leads an edge straight past higher nodes in the rows of its ends.
func (p *placer) beside(r *Route, l *Layout, e int, top, bottom []float64) {
	d := p.edges[e]
	if p.back[e] || d.From == d.To {
		return
	}
	if from, row := l.Y[d.From]+p.sizes[d.From].H, bottom[p.rank[d.From]]; from < row {
		r.Lanes = append([]Lane{{r.From, from, row}}, r.Lanes...)
	}
	if to, row := l.Y[d.To], top[p.rank[d.To]]; row < to {
		r.Lanes = append(r.Lanes, Lane{r.To, row, to})
	}
}

// spread gives edges their ends: one place below a node, and above it a place for each edge, in the order of where they
// come from.
func (p *placer) spread(l *Layout) {
	into := make([][]int, len(p.sizes))
	for e, d := range p.edges {
		l.Routes[e].From = p.items[d.From].x
		into[d.To] = append(into[d.To], e)
	}
	for v, edges := range into {
		at := func(e int) float64 {
			if k := l.Routes[e].Lanes; len(k) > 0 {
				return k[len(k)-1].X
			}
			return l.Routes[e].From
		}
		slices.SortStableFunc(edges, func(a, b int) int { return cmp.Compare(at(a), at(b)) })
		w := min(p.sizes[v].W-16, 14*float64(len(edges)-1))
		for i, e := range edges {
			l.Routes[e].To = p.items[v].x
			if len(edges) > 1 {
				l.Routes[e].To += w * (float64(i)/float64(len(edges)-1) - 0.5)
			}
		}
	}
}
