package passes_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/passes"
)

func TestInsert(t *testing.T) {
	pass := func(name string, after, before string) *passes.Pass {
		p := &passes.Pass{Name: name, Run: func(*passes.Context, *ir.Graph) (int, error) { return 0, nil }}
		for _, n := range strings.Fields(after) {
			p.After = append(p.After, passes.Reason{Pass: n, Why: "it must"})
		}
		for _, n := range strings.Fields(before) {
			p.Before = append(p.Before, passes.Reason{Pass: n, Why: "it must"})
		}
		return p
	}
	list := []*passes.Pass{pass("a", "", ""), pass("b", "", ""), pass("a", "", "elsewhere"), pass("c", "a", "")}
	for _, c := range []struct {
		others []*passes.Pass
		want   string // the order, or a part of the error
	}{
		{nil, "a b a c"},
		{[]*passes.Pass{pass("x", "", "")}, "x a b a c"},
		{[]*passes.Pass{pass("x", "b", "")}, "a b x a c"},
		{[]*passes.Pass{pass("x", "a", "c")}, "a b a x c"},
		{[]*passes.Pass{pass("x", "", "c"), pass("y", "c", "")}, "x a b a c y"},
		{[]*passes.Pass{pass("x", "y", "c"), pass("y", "b", "")}, "a b y x a c"},
		{[]*passes.Pass{pass("x", "", ""), pass("y", "b", "x")}, "a b y x a c"},
		{[]*passes.Pass{pass("x", "c", "b")}, "contradicts itself: b after x after c after b"},
		{[]*passes.Pass{pass("x", "y", ""), pass("y", "x", "")}, "contradicts itself: x after y after x"},
		{[]*passes.Pass{pass("x", "x", "")}, "contradicts itself: x after x"},
		{[]*passes.Pass{pass("x", "", "b"), pass("b", "", "")}, "pass b: another pass has this name"},
		{[]*passes.Pass{pass("x", "", ""), pass("x", "", "")}, "pass x: another pass has this name"},
		{[]*passes.Pass{pass("x", "q", "")}, `pass x: After names "q", which is no pass; there are a, b, a, c, x`},
		{[]*passes.Pass{pass("x", "", "q")}, `pass x: Before names "q"`},
		{[]*passes.Pass{pass("x", "", ""), nil}, "pass 2 of 2: expected a pass with Name and Run"},
		{[]*passes.Pass{{Name: "x"}}, "pass 1 of 1: expected a pass with Name and Run"},
	} {
		all, err := passes.Insert(list, c.others...)
		var names []string
		for _, p := range all {
			names = append(names, p.Name)
		}
		if got := strings.Join(names, " "); got != c.want && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("found %s (%v), expected %s", got, err, c.want)
		}
	}
	if all, err := passes.Insert(passes.Pipeline()); err != nil || !slices.Equal(all, passes.Pipeline()) {
		t.Errorf("without others: %v, %v", all, err)
	}
}
