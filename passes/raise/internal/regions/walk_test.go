package regions

import (
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
)

// A walk visits each value once: depth first, in the order of inputs, and up to where none are added.
func TestWalk(t *testing.T) {
	value := func(name string, in ...*ir.Value) *ir.Value {
		v := &ir.Value{Name: name}
		if len(in) > 0 {
			v.Def = &ir.Node{Inputs: in, Outputs: []*ir.Value{v}}
		}
		return v
	}
	shared := value("shared", value("hidden"))
	end := value("end", shared, value("a"), nil, shared, value("b", shared, value("c")))
	var got []string
	walk := WalkFrom(end, value("last"))
	for v := range walk.Values() {
		if got = append(got, v.Name); v.Def != nil && v != shared {
			walk.Add(v.Def.Inputs...)
		}
	}
	if want := []string{"end", "shared", "a", "b", "c", "last"}; !slices.Equal(got, want) {
		t.Errorf("visited %q, expected %q", got, want)
	}
	walk = WalkFrom(end)
	for v := range walk.Values() {
		walk.Add(v.Def.Inputs...)
		break
	}
	for v := range walk.Values() { // goes on
		if v != shared {
			t.Errorf("continued at %s, expected shared", v.Name)
		}
		break
	}
}

// Elsewhere finds uses by outputs of a graph and by nodes that are not inside.
func TestElsewhere(t *testing.T) {
	a, b := &ir.Node{}, &ir.Node{}
	inside := func(n *ir.Node) bool { return n == a }
	if u, ok := Elsewhere([]ir.Use{{Node: a}}, inside); ok {
		t.Errorf("found %v, expected no other use", u)
	}
	if u, ok := Elsewhere([]ir.Use{{Node: a}, {Node: b, Index: 1}, {}}, inside); !ok || u.Node != b || u.Index != 1 {
		t.Errorf("found %v, expected input 1 of the other node", u)
	}
	if u, ok := Elsewhere([]ir.Use{{Node: a}, {}}, inside); !ok || u.Node != nil {
		t.Errorf("found %v, expected the output", u)
	}
}
