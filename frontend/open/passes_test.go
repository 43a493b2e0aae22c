package open_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/runtime"
)

// TestPasses checks that further passes run where their After and Before say, also where the model skips passes that
// they name, and that they are in the history, and can be skipped.
func TestPasses(t *testing.T) {
	own := func(name, after, before string) *passes.Pass {
		return &passes.Pass{Name: name, Doc: "notes", Run: func(c *passes.Context, _ *ir.Graph) (int, error) { c.Note("seen"); return 0, nil },
			After: []passes.Reason{{Pass: after, Why: "a test"}}, Before: []passes.Reason{{Pass: before, Why: "a test"}}}
	}
	raised := open.PassNames()[0]
	paths, _ := stored(t)
	for _, kind := range []open.Kind{open.Directory, open.ONNX, open.Plan} {
		var seen []string
		o := open.Options{Passes: []*passes.Pass{own("mine", "discretize", "fuse"), own("early", raised, "mine")}, Observe: func(s passes.Snapshot) {
			if s.Pass != nil {
				seen = append(seen, s.Pass.Name)
			}
		}}
		m := file(t, paths[kind], o)
		g := graph(t, m)
		at := func(name string) int { return slices.Index(seen, name) }
		in := slices.ContainsFunc(g.History, func(e ir.Event) bool { return e.Pass == "mine" && slices.Equal(e.Notes, []string{"seen"}) })
		if kind == open.Plan {
			if in || seen != nil {
				t.Errorf("%v: passes %v", kind, seen)
			}
			continue
		}
		if !in || at("mine") != at("discretize")+1 || at("early") < 0 || at("early") > at("mine") ||
			slices.Contains(seen, raised) != (kind == open.ONNX) {
			t.Errorf("%v: passes %v", kind, seen)
		}
		if o.Skip = []string{"mine"}; slices.ContainsFunc(graph(t, file(t, paths[kind], o)).History, func(e ir.Event) bool { return e.Pass == "mine" }) {
			t.Errorf("%v: a skipped pass has run", kind)
		}
		o.Passes = append(o.Passes, own("late", "fuse", "fold"))
		_, err := open.File(paths[kind], o)
		var option *open.OptionError
		if !errors.As(err, &option) || option.Option != "Passes" || !errors.Is(err, runtime.ErrOption) ||
			!strings.Contains(err.Error(), "contradicts itself") {
			t.Errorf("%v: found %v", kind, err)
		}
		o.Passes = []*passes.Pass{own("mine", "discretise", "fuse")}
		if _, err := open.File(paths[kind], o); err == nil ||
			!strings.Contains(err.Error(), `option Passes: pass mine: After names "discretise", which is no pass; there are `+raised) {
			t.Errorf("%v: found %v", kind, err)
		}
	}
}
