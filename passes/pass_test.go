package passes_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/passtest"
)

// TestGolden runs each pass on the graphs in testdata/<pass>.
func TestGolden(t *testing.T) {
	for _, p := range passes.Pipeline() {
		passtest.Golden(t, p, passtest.Case{})
	}
}

func TestOrder(t *testing.T) {
	all := passes.Pipeline()
	byName := map[string]*passes.Pass{}
	for _, p := range all {
		if byName[p.Name] != nil {
			t.Errorf("two passes are named %s", p.Name)
		}
		byName[p.Name] = p
	}
	passtest.Orders(t, all)
	if err := passes.Run(&ir.Graph{Name: "g"}, all, passes.Options{}); err != nil {
		t.Errorf("the pipeline breaks its own order: %v", err)
	}
	if err := passes.Run(&ir.Graph{Name: "g"}, all, passes.Options{StopAfter: "fuze"}); err == nil ||
		!strings.Contains(err.Error(), "fold") {
		t.Errorf("unknown pass: got %v, want an error that lists the passes", err)
	}
}

// TestObserve checks that observers see every pass, including one that fails.
func TestObserve(t *testing.T) {
	var seen []string
	bad := &passes.Pass{Name: "bad", Run: func(_ *passes.Context, g *ir.Graph) (int, error) {
		g.Outputs = append(g.Outputs, nil)
		return 1, nil
	}}
	err := passes.Run(&ir.Graph{Name: "g"}, []*passes.Pass{passes.Fold, bad, passes.DCE},
		passes.Options{Observe: func(s passes.Snapshot) {
			name := "start"
			if s.Pass != nil {
				name = s.Pass.Name
			}
			if s.Failure != nil {
				name += "!"
			}
			seen = append(seen, name)
		}})
	if err == nil || !strings.Contains(err.Error(), "pass 2 bad (after fold)") {
		t.Errorf("got error %v, want one that names the pass and its place", err)
	}
	if want := []string{"start", "fold", "bad!"}; !slices.Equal(seen, want) {
		t.Errorf("observer saw %v, want %v", seen, want)
	}
}

// TestContext checks that a context ends a run before the next pass.
func TestContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	ran := 0
	err := passes.Run(&ir.Graph{Name: "g"}, []*passes.Pass{passes.Fold, passes.CSE, passes.DCE},
		passes.Options{Context: ctx, Observe: func(s passes.Snapshot) {
			if s.Pass == passes.Fold {
				cancel(why)
			}
			ran++
		}})
	if !errors.Is(err, why) || err.Error() != "before pass 2 cse: enough" || ran != 2 {
		t.Errorf("found %v after %d snapshots", err, ran)
	}
}
