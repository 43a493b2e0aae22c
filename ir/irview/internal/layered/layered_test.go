package layered

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

func sizes(n int) []Size {
	s := make([]Size, n)
	for i := range s {
		s[i] = Size{60, 36}
	}
	return s
}

// checkRows checks that no nodes lie on each other, that edges lead downwards (except for turned ones), and that a route
// has its ends at its nodes.
func checkRows(t *testing.T, l *Layout, s []Size, edges []Edge, cyclic bool) {
	t.Helper()
	for i := range s {
		for j := range i {
			if l.X[i] < l.X[j]+s[j].W && l.X[j] < l.X[i]+s[i].W && l.Y[i] < l.Y[j]+s[j].H && l.Y[j] < l.Y[i]+s[i].H {
				t.Fatalf("nodes %d and %d lie on each other", i, j)
			}
		}
		if l.X[i] < -1e-9 || l.Y[i] < 0 || l.X[i]+s[i].W > l.W+1e-9 || l.Y[i]+s[i].H > l.H+1e-9 {
			t.Fatalf("node %d is outside", i)
		}
	}
	for i, e := range edges {
		r := l.Routes[i]
		if r.From < l.X[e.From] || r.From > l.X[e.From]+s[e.From].W || r.To < l.X[e.To] || r.To > l.X[e.To]+s[e.To].W {
			t.Fatalf("edge %d has its ends at %v and %v", i, r.From, r.To)
		}
		y := l.Y[e.From] + s[e.From].H
		for _, lane := range r.Lanes {
			if !cyclic && (lane.Top < y || lane.Bottom < lane.Top) {
				t.Fatalf("edge %d goes upwards: %+v", i, r)
			}
			y = lane.Bottom
		}
		if !cyclic && y > l.Y[e.To]+1e-9 {
			t.Fatalf("edge %d goes upwards: %+v", i, r)
		}
	}
}

func TestPlaceRandom(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 1 + r.IntN(60)
		s := sizes(n)
		for i := range s {
			s[i] = Size{20 + 200*r.Float64(), 20 + 100*r.Float64()}
		}
		var edges []Edge
		cyclic := seed%4 == 3
		for range r.IntN(3 * n) {
			from, to := r.IntN(n), r.IntN(n)
			if from > to && !cyclic {
				from, to = to, from
			}
			if from != to || cyclic {
				edges = append(edges, Edge{from, to, r.IntN(2)})
			}
		}
		l := Place(s, edges)
		checkRows(t, l, s, edges, cyclic)
		if !reflect.DeepEqual(l, Place(s, edges)) {
			t.Fatal("two layouts of the same graph differ")
		}
	}
}

// TestPlaceKnown checks layouts whose best form is known: a chain is straight, edges of a grid of two columns do not cross,
// and a residual connection has one straight lane beside a straight trunk.
func TestPlaceKnown(t *testing.T) {
	l := Place(sizes(4), []Edge{{0, 1, 0}, {1, 2, 0}, {2, 3, 0}})
	for i := range 4 {
		if l.X[i] != l.X[0] || l.Y[i] != float64(i)*(36+rowGap) {
			t.Errorf("chain: node %d at %v, %v", i, l.X[i], l.Y[i])
		}
	}
	// Two chains between one source and one sink, given crosswise.
	edges := []Edge{{0, 1, 0}, {0, 2, 0}, {1, 4, 0}, {2, 3, 0}, {3, 5, 0}, {4, 6, 0}, {5, 7, 0}, {6, 7, 0}}
	p := &placer{sizes: sizes(8), edges: edges}
	p.turn()
	p.ranks()
	p.lanes()
	p.order()
	if n := p.crossings(); n != 0 {
		t.Errorf("%d crossings, expected none", n)
	}
	edges = []Edge{{0, 1, 0}, {1, 2, 0}, {2, 3, 0}, {3, 4, 0}, {0, 4, 0}}
	l = Place(sizes(5), edges)
	if lanes := l.Routes[4].Lanes; len(lanes) != 1 || lanes[0].X < l.X[1]+60 && lanes[0].X > l.X[1] {
		t.Errorf("residual connection: %+v", l.Routes[4])
	}
	for i := 1; i < 4; i++ {
		if d := l.X[i] - l.X[1]; d > 1 || d < -1 {
			t.Errorf("trunk: node %d at %v, not %v", i, l.X[i], l.X[1])
		}
	}
	if l := Place(nil, nil); l.W != 0 || l.H != 0 {
		t.Errorf("no nodes: %+v", l)
	}
}

// TestCrossings compares the count with that of all pairs.
func TestCrossings(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for range 40 {
		n := 2 + r.IntN(8)
		var edges []Edge
		for range r.IntN(30) {
			edges = append(edges, Edge{r.IntN(n), n + r.IntN(n), 0})
		}
		p := &placer{sizes: sizes(2 * n), edges: edges}
		p.items, p.rows = make([]item, 2*n), [][]int{nil, nil}
		for i := range p.items {
			p.items[i].pos = i % n
			p.rows[i/n] = append(p.rows[i/n], i)
		}
		want := 0
		for i, a := range edges {
			p.items[a.From].down = append(p.items[a.From].down, a.To)
			for _, b := range edges[:i] {
				if (a.From-b.From)*(a.To-b.To) < 0 {
					want++
				}
			}
		}
		if got := p.crossings(); got != want {
			t.Fatalf("%d crossings, expected %d: %v", got, want, edges)
		}
	}
}
