// Package convolution recognizes convolutions along time, by running a region of a graph on impulses: Convs with long
// kernels, products of transforms, Toeplitz matrices, and weighted running sums. They become state-space systems if
// their kernels are sums of exponentials, else essm.LongConv.
//
// It imports ir, the operator packages, passes, gonum, and package regions. A region is replaced only if random numbers
// give the same answer as its convolution.
package convolution

import (
	"fmt"
	"slices"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// Conv raises long depthwise convolutions.
var Conv = &passes.Pass{
	Name: "raise-conv",
	Doc: "A depthwise Conv with a long kernel, with its pads, slices and reversals, one or one per direction → " +
		"essm.SSM if the kernel is a sum of exponentials, else essm.LongConv.",
	After: []passes.Reason{
		regions.AfterUpgrade,
		regions.AfterShapes,
		{Pass: "raise-exported", Why: "systems with a window are Convs there, but the taps do not show the state"},
	},
	Before: []passes.Reason{
		regions.BeforeFoldKernels,
		regions.BeforeCancelling,
	},
	Run: func(c *passes.Context, g *ir.Graph) (int, error) {
		return raiseAll(c, g, "convolution", []string{"Conv"}, isLongConv)
	},
}

// isLongConv accepts convolutions along one axis with enough taps. If one mixes channels, it returns that as the
// reason.
func isLongConv(ix *regions.Index, n *ir.Node) (anchor bool, why string) {
	if n.Op.FullName() != "Conv" || ix.IsFixed(n.Outputs[0]) || n.In(1) == nil {
		return false, ""
	}
	w := n.In(1).Shape()
	if len(w) < 3 {
		return false, ""
	}
	long := 0
	for _, d := range w[2:] {
		k, known := d.Known()
		if !known || k >= regions.MinTaps {
			long++
		} else if k > 1 {
			return false, ""
		}
	}
	switch {
	case long != 1:
		return false, ""
	case ix.Settled[n.In(1)]:
		return false, fmt.Sprintf("its kernel, %s, follows from parameters; forms are recognized by numbers of "+
			"constants", n.In(1).Name)
	case !ix.IsFixed(n.In(1)):
		return false, fmt.Sprintf("its kernel, %s, depends on an input; expected constants", n.In(1).Name)
	}
	why = regions.WhyNotDepthwise(n)
	return why == "", why
}

// maxProbes is the maximum number of regions that are run around one anchor.
const maxProbes = 10

// raiseAll raises the convolutions that it finds around the anchors that is accepts, and records why the others
// stay. Anchors are nodes of the named operators (as ir.Op.FullName returns them).
func raiseAll(c *passes.Context, g *ir.Graph, form string, names []string,
	is func(*regions.Index, *ir.Node) (bool, string)) (int, error) {
	changes := 0
	if !slices.ContainsFunc(g.Nodes, func(n *ir.Node) bool { return slices.Contains(names, n.Op.FullName()) }) {
		return 0, nil
	}
	done := map[*ir.Node]bool{}
	for {
		c.Check()
		if c.Search().Spend(regions.WorkOfWalk(g)) != nil {
			return changes, nil
		}
		ix := regions.NewIndex(c, g)
		i := slices.IndexFunc(g.Nodes, func(n *ir.Node) bool {
			if done[n] {
				return false
			}
			ok, why := is(ix, n)
			if !ok {
				done[n] = true
				if why != "" {
					regions.NoteMiss(c, form, n, "%s", why)
				}
			}
			return ok
		})
		if i < 0 {
			return changes, nil
		}
		n := g.Nodes[i]
		done[n] = true
		name := regions.NameOf(n) // the replacement takes over the name of the node's result
		made, size, m := raiseAround(ix, g, n)
		if m != nil {
			regions.NoteMiss(c, form, n, "%s", m.why)
			continue
		}
		changes++
		c.Note("%s: %d nodes → %s", name, size, made)
		for _, h := range []*half{made.fwd, made.bwd} {
			if h != nil && h.exps == nil {
				c.Note("%s: %s is not an essm.SSM: %s", form, name, h.why)
			} else if h != nil && h.fitted {
				c.Note("%s: the states are fitted to %d taps to within %g; a step takes %d multiplications instead "+
					"of %d",
					name, len(h.taps[0]), fitTol, 4*h.states(), len(h.taps[0]))
			}
		}
		if err := passes.Finish(g); err != nil {
			return changes, err
		}
	}
}

// raiseAround replaces the largest region around an anchor that is a convolution. It returns the number of nodes of the
// region.
func raiseAround(ix *regions.Index, g *ir.Graph, anchor *ir.Node) (made *model, nodes int, _ *miss) {
	best := &miss{stage: -2, why: noSource(ix, anchor)}
	probes := 0
	for _, sink := range ix.Sinks(anchor) {
		ix.Run.Check()
		for _, source := range ix.Sources(sink) {
			if probes >= maxProbes {
				return nil, 0, best
			}
			if !sameSize(source, sink) {
				continue
			}
			r, why := ix.Region(source, sink, anchor)
			if r == nil {
				if best.stage < -1 && why != "" {
					best = &miss{stage: -1, why: why}
				}
				continue
			}
			probes++
			res, m := probe(ix, r)
			if m == nil {
				made, m = buildModel(ix, g, anchor, r, res)
			}
			if m == nil {
				return made, len(r.Nodes), nil
			}
			if m.nearer(best) {
				best = m
			}
		}
	}
	return nil, 0, best
}

// noSource returns why no value can be the sequence that an anchor convolves.
func noSource(ix *regions.Index, anchor *ir.Node) string {
	y := anchor.Outputs[0]
	_, leaves, ok := ix.Upstream(y, nil)
	if !ok {
		return fmt.Sprintf("more than %d nodes lead to it", regions.MaxNodes)
	}
	name := func(v *ir.Value) string {
		if v.Def != nil {
			return v.Def.String()
		}
		return "input " + v.Name
	}
	if len(leaves) == 1 {
		v := leaves[0]
		return fmt.Sprintf("it computes %v from %[3]s, %[2]v; expected as many elements", y.Type, v.Type, name(v))
	}
	var names []string
	for _, v := range leaves[:min(len(leaves), 3)] {
		names = append(names, name(v))
	}
	return fmt.Sprintf("it is computed from %d values (%s); expected one sequence, besides constants", len(leaves),
		strings.Join(names, ", "))
}

// sameSize is a cheap necessary condition for probe.
func sameSize(a, b *ir.Value) bool {
	return regions.IsReal(a.Elem()) && regions.IsReal(b.Elem()) && len(a.Shape()) > 0 && len(b.Shape()) > 0 &&
		a.Shape().Size().Equal(b.Shape().Size())
}

// buildModel replaces the region by operators.
func buildModel(ix *regions.Index, g *ir.Graph, anchor *ir.Node, r *regions.Region, res *response) (*model, *miss) {
	m, miss := res.model(ix.Run, polesOf(ix, r, res))
	if miss != nil {
		return nil, miss
	}
	if anchor.Op.FullName() == "CumSum" {
		if m := m.notDecaying(); m != nil {
			return nil, m
		}
	}
	b := passes.Edit(g)
	b.Scope(anchor.Scope)
	y := res.emit(b, r, m)
	if err := b.Err(); err != nil {
		g.RemoveDead()
		return nil, missf(5, "%v", err)
	}
	if !passes.Replace(g, r.Sink, y) {
		return nil, missf(5, "%s cannot be replaced", r.Sink.Name)
	}
	return m, nil
}

// String describes the model in one line.
func (m *model) String() string {
	one := func(h *half, direction string) string {
		if h.exps == nil {
			return fmt.Sprintf("essm.LongConv %s, %d channels of %d taps", direction, len(h.taps), len(h.taps[0]))
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
