package raise

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/passes"
)

// convolutions are the passes that recognise long convolutions, behind those that prepare for all.
var convolutions = []*passes.Pass{Upgrade, Shapes, Conv, DFT, Toeplitz}

var convolutionOrders = []passes.Order{
	{Before: "upgrade", After: "raise-conv", Why: "what it makes is arranged by operators of the newest versions"},
	{Before: "upgrade", After: "raise-dft", Why: "what it makes is arranged by operators of the newest versions"},
	{Before: "upgrade", After: "raise-toeplitz", Why: "what it makes is arranged by operators of the newest versions"},
	{Before: "raise-shapes", After: "raise-conv", Why: "pads and slices of unknown sizes hide that as many steps come out as went in"},
	{Before: "raise-shapes", After: "raise-dft", Why: "pads and slices of unknown sizes hide that as many steps come out as went in"},
	{Before: "raise-conv", After: "fold", Why: "how a kernel is computed names its exponentials; folded, they have to be fitted"},
	{Before: "raise-dft", After: "fold", Why: "how a kernel is computed names its exponentials; folded, they have to be fitted"},
	{Before: "raise-conv", After: "canonicalize", Why: "transposes around what is raised cancel then"},
	{Before: "raise-dft", After: "canonicalize", Why: "transposes around what is raised cancel then"},
	{Before: "raise-toeplitz", After: "canonicalize", Why: "transposes around what is raised cancel then"},
}

// Conv raises long depthwise convolutions.
var Conv = &passes.Pass{
	Name: "raise-conv",
	Doc:  "A depthwise Conv with a long kernel, with its pads, slices and reversals, alone or one per direction → essm.SSM where exponentials give the kernel, else essm.LongConv.",
	Run: func(c *passes.Context, g *ir.Graph) (int, error) {
		return raiseAll(c, g, "convolution", isLongConv)
	},
}

// isLongConv accepts convolutions along one axis with enough taps. One that mixes channels is named as a near miss.
func isLongConv(s *surroundings, n *ir.Node) (anchor bool, why string) {
	if n.Op.FullName() != "Conv" || s.isFixed(n.Outputs[0]) || n.In(1) == nil {
		return false, ""
	}
	w := n.In(1).Shape()
	if len(w) < 3 {
		return false, ""
	}
	long := 0
	for _, d := range w[2:] {
		k, known := d.Known()
		if !known || k >= minTaps {
			long++
		} else if k > 1 {
			return false, ""
		}
	}
	switch {
	case long != 1:
		return false, ""
	case !s.isFixed(n.In(1)):
		return false, "its kernel depends on an input"
	case !depthwise(n):
		return false, "it mixes channels, or skips steps"
	}
	return true, ""
}

// maxProbes bounds how many regions around one anchor are run.
const maxProbes = 10

// raiseAll raises what it can find around the anchors that is accepts, and notes why the others stay.
func raiseAll(c *passes.Context, g *ir.Graph, form string, is func(*surroundings, *ir.Node) (bool, string)) (int, error) {
	changes := 0
	done := map[*ir.Node]bool{}
	for {
		s := look(g)
		i := slices.IndexFunc(g.Nodes, func(n *ir.Node) bool {
			if done[n] {
				return false
			}
			ok, why := is(s, n)
			if !ok {
				done[n] = true
				if why != "" {
					missed(c, form, n, "%s", why)
				}
			}
			return ok
		})
		if i < 0 {
			return changes, nil
		}
		n := g.Nodes[i]
		done[n] = true
		name := where(n) // what replaces the node takes its result's name
		what, m, err := s.raise(g, n)
		if err != nil {
			return changes, err
		}
		if m != nil {
			missed(c, form, n, "%s", m.why)
			continue
		}
		changes++
		c.Note("%s: %s", name, what)
		if err := finish(g); err != nil {
			return changes, err
		}
	}
}

// raise replaces the largest region around an anchor that turns out to be a convolution.
func (s *surroundings) raise(g *ir.Graph, anchor *ir.Node) (what string, _ *miss, _ error) {
	best := &miss{-1, "nothing around it takes and gives the same number of steps"}
	probes := 0
	for _, sink := range s.sinks(anchor) {
		for _, source := range s.sources(sink) {
			if probes >= maxProbes {
				return "", best, nil
			}
			if !sameSize(source, sink) {
				continue
			}
			r, why := s.region(source, sink, anchor)
			if r == nil {
				if best.stage < 0 && why != "" {
					best = &miss{-1, why}
				}
				continue
			}
			probes++
			res, m := s.probe(r)
			if m == nil {
				what, m = s.build(g, anchor, r, res)
			}
			if m == nil {
				return what, nil, nil
			}
			if m.stage > best.stage {
				best = m
			}
		}
	}
	return "", best, nil
}

// sameSize is the cheap part of what probe asks for.
func sameSize(a, b *ir.Value) bool {
	return isReal(a.Elem()) && isReal(b.Elem()) && len(a.Shape()) > 0 && len(b.Shape()) > 0 && a.Shape().Size().Equal(b.Shape().Size())
}

// build puts the operators in place of the region.
func (s *surroundings) build(g *ir.Graph, anchor *ir.Node, r *region, res *response) (string, *miss) {
	m, miss := res.model(s.poles(r, res))
	if miss != nil {
		return "", miss
	}
	b := edit(g)
	b.Scope(anchor.Scope)
	y, why := res.emit(b, r, m)
	if why == "" && b.Err() != nil {
		why = b.Err().Error()
	}
	if why != "" {
		g.RemoveDead()
		return "", missf(5, "%s", why)
	}
	if !replace(g, r.sink, y) {
		return "", missf(5, "%s cannot be replaced", r.sink.Name)
	}
	return fmt.Sprintf("%d nodes → %s", len(r.nodes), m), nil
}

// String says what a model is, for people.
func (m *model) String() string {
	one := func(h *half, direction string) string {
		if h.exps == nil {
			return fmt.Sprintf("essm.LongConv %s, %d channels of %d taps (%s)", direction, len(h.taps), len(h.taps[0]), h.why)
		}
		s := fmt.Sprintf("essm.SSM %s, %d channels of %d states", direction, len(h.exps), h.states())
		if h.window > 0 {
			s += fmt.Sprintf(", cut off after %d lags", h.window)
		}
		return s
	}
	switch {
	case m.both:
		return one(m.fwd, "bidirectional")
	case m.fwd == nil:
		return one(m.bwd, "backward")
	case m.bwd == nil:
		return one(m.fwd, "forward")
	}
	return one(m.fwd, "forward") + " + " + one(m.bwd, "backward")
}
