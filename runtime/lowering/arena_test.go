package lowering

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	_ "github.com/essmc/essmc/ops/std"
	"github.com/essmc/essmc/runtime"
)

// Values that are alive at the same time do not overlap. The arena is at least as large as the live values and, for
// a chain of values that are each made from the previous one, at most as large as two.
func TestPlace(t *testing.T) {
	for _, c := range []struct {
		name    string
		all     []Interval
		align   int
		offsets []int
		size    int
	}{
		{"nothing", nil, 4, []int{}, 0},
		{"one", []Interval{{0, 3, 5}}, 4, []int{0}, 8},
		{"no numbers", []Interval{{0, 1, 0}, {0, 1, 0}}, 4, []int{0, 4}, 8},
		{"a chain", []Interval{{0, 1, 8}, {1, 2, 8}, {2, 3, 8}, {3, 4, 8}}, 8, []int{0, 8, 0, 8}, 16},
		{"a gap", []Interval{{0, 9, 4}, {0, 1, 8}, {2, 3, 4}, {2, 3, 4}}, 4, []int{8, 0, 0, 4}, 12},
		{"both ends count", []Interval{{0, 1, 4}, {1, 1, 4}, {2, 2, 4}}, 4, []int{0, 4, 0}, 8},
	} {
		offsets, size := Place(nil, c.all, c.align)
		if !slices.Equal(offsets, c.offsets) || size != c.size {
			t.Errorf("%s: found %v of %d, expected %v of %d", c.name, offsets, size, c.offsets, c.size)
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for trial := range 600 {
		Place := Place
		if trial%2 == 1 {
			Place = placeMany
		}
		all := make([]Interval, rng.IntN(40))
		const units, align = 20, 16
		for i := range all {
			first := rng.IntN(units)
			all[i] = Interval{first, first + rng.IntN(units-first), rng.IntN(100)}
		}
		offsets, size := Place(nil, all, align)
		owner := make([]int, size)
		most := 0
		for u := range units {
			clear(owner)
			alive := 0
			for i, v := range all {
				if u < v.First || u > v.Last {
					continue
				}
				room := align * max(1, (v.Size+align-1)/align)
				alive += room
				if offsets[i]%align != 0 {
					t.Fatalf("offset %d is no multiple of %d", offsets[i], align)
				}
				for at := offsets[i]; at < offsets[i]+room; at++ {
					if owner[at] != 0 {
						t.Fatalf("%v: at unit %d number %d belongs to %d and %d", all, u, at, owner[at]-1, i)
					}
					owner[at] = i + 1
				}
			}
			most = max(most, alive)
		}
		if size < most || size > (2+trial%2)*most {
			t.Errorf("%v: an arena of %d for %d at once", all, size, most)
		}
		again, _ := Place(nil, all, align)
		if !slices.Equal(offsets, again) {
			t.Errorf("%v: %v, then %v", all, offsets, again)
		}
	}
}

// Ranges in use do not overlap and are aligned, and returned ranges are used again.
func TestScratch(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	for range 200 {
		a := Scratch{Align: 16, Page: 256, Skew: 48}
		type taken struct{ off, n int }
		var now []taken
		most := 0
		for range 60 {
			if len(now) > 0 && rng.IntN(2) == 0 {
				i := rng.IntN(len(now))
				a.Give(now[i].off, now[i].n)
				now = slices.Delete(now, i, i+1)
				continue
			}
			n := rng.IntN(600)
			off := a.Take(n)
			if off%16 != 0 || off < 0 || off+n > a.Size() {
				t.Fatalf("%d numbers at %d of %d", n, off, a.Size())
			}
			sum := n
			for _, o := range now {
				if n > 0 && o.n > 0 && off < o.off+o.n && o.off < off+n {
					t.Fatalf("%d numbers at %d, where %d are at %d", n, off, o.n, o.off)
				}
				sum += o.n
			}
			now, most = append(now, taken{off, n}), max(most, sum)
		}
		if a.Size() < most {
			t.Errorf("%d for %d", a.Size(), most)
		}
		for _, o := range now {
			a.Give(o.off, o.n)
		}
		size := a.Size()
		if size > 0 && (len(a.free) != 1 || a.free[0] != memoryRange{0, size}) {
			t.Errorf("with all given back, %v of %d are free", a.free, size)
		}
		if off := a.Take(size / 2); size > 0 && (off != 0 || a.Size() != max(size, a.round(size/2))) {
			t.Errorf("half of it is taken at %d, and the size is %d, not %d", off, a.Size(), size)
		}
	}
	var plain Scratch
	if a, b := plain.Take(3), plain.Take(5); a != 0 || b != 3 || plain.Size() != 8 {
		t.Errorf("without alignment: at %d and %d, size %d", a, b, plain.Size())
	}
}

// evaluated is a backend without implementations: bodies are written out, the rest is evaluated.
type evaluated struct{}

func (evaluated) Name() string                       { return "evaluated" }
func (evaluated) Implement(*Compiler, *Step) Support { return Expand }
func lowered(t testing.TB, g *ir.Graph) *Program {
	t.Helper()
	p, err := Lower(g, runtime.Config{}, evaluated{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Lifetimes count in units: a value that is computed and read in one unit lives only there, and outputs live beyond
// the last unit.
func TestLives(t *testing.T) {
	b := ir.NewBuilder("lives", ops.Default, ops.Opsets())
	x := b.Input("x", ir.Tensor(tensor.Float32, 4))
	a := b.Op("", "Exp", []*ir.Value{x})
	c := b.Op("", "Sin", []*ir.Value{a})
	d := b.Op("", "Add", []*ir.Value{c, a})
	b.Op("", "Cos", []*ir.Value{d}) // nobody reads it
	b.Output("y", b.Op("", "Mul", []*ir.Value{d, x}))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	p := lowered(t, g)
	bound := p.Bind(runtime.Binding{Inputs: []ir.Type{g.Inputs[0].Type}}, nil)
	s := p.Steps
	if len(s) != 5 {
		t.Fatalf("%d steps", len(s))
	}
	for _, c := range []struct {
		units [][]*Step
		lives []Life // of the input, then of the steps' outputs
	}{
		{[][]*Step{{s[0]}, {s[1]}, {s[2]}, {s[3]}, {s[4]}}, []Life{{-1, 4}, {0, 2}, {1, 2}, {2, 4}, {3, 3}, {4, 5}}},
		{[][]*Step{{s[0], s[1]}, {s[2], s[3], s[4]}}, []Life{{-1, 1}, {0, 1}, {0, 1}, {1, 1}, {1, 1}, {1, 2}}},
		{[][]*Step{s}, []Life{{-1, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 1}}},
	} {
		all := bound.Lives(c.units)
		found := []Life{all[p.Inputs[0].ID]}
		for _, s := range s {
			found = append(found, all[s.Out[0].ID])
		}
		if !slices.Equal(found, c.lives) {
			t.Errorf("%d units: found %v, expected %v", len(c.units), found, c.lives)
		}
	}
}

// Without a limit an executable may take what the machine has.
func TestMemoryLimit(t *testing.T) {
	for _, c := range [][3]int64{{5, 0, 5}, {5, 3, 5}, {0, 7, 7}, {0, 0, mostBytes}, {-1, 1 << 62, mostBytes}} {
		if got := memoryLimit(c[0], c[1]); got != c[2] {
			t.Errorf("%d asked for, the machine has %d: %d, expected %d", c[0], c[1], got, c[2])
		}
	}
}
