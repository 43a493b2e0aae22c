package recurrence

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// Parallel recognizes recurrences with varying coefficients that are computed for all steps at once.
var Parallel = &passes.Pass{
	Name: "raise-parallel",
	Doc: "Scans by rounds or by halves (associative scans), and running sums of weighted numbers or of logarithms, " +
		"which compute h[t] = f[t]·h[t-1] + v[t] for all steps at once → essm.GatedScan, or essm.SelectiveScan for " +
		"Mamba's coefficients. They are recognized by their numbers, whatever their operators.",
	After: []passes.Reason{
		{Pass: "canonicalize", Why: "it reads coefficients without operators that change nothing"},
		{Pass: "cse", Why: "sequences are told to be equal by their values"},
	},
	Run: func(c *passes.Context, g *ir.Graph) (int, error) {
		return raiseParallel(c, g, "recurrence in parallel", (*parallel).raiseGated)
	},
}

// raiseParallel raises recurrences that it finds in the parts of a graph, and records why other parts stay.
func raiseParallel(c *passes.Context, g *ir.Graph, form string,
	raise func(p *parallel, g *ir.Graph, ix *regions.Index) (note string, err error)) (int, error) {
	changes := 0
	signs := 0
	for _, n := range g.Nodes {
		signs += ofSteps(n)
	}
	if signs < minOfSteps {
		return 0, nil
	}
	type part struct {
		last  *ir.Node
		axis  int
		steps string
	}
	done := map[part]bool{}
	misses := map[*ir.Node]error{} // the first of each part, whose axis has the most operators
	for {
		c.Check()
		if c.Search().Spend(regions.WorkOfWalk(g)) != nil {
			return changes, nil
		}
		ix := regions.NewIndex(c, g)
		made := ""
		for _, k := range findKeys(ix) {
			if c.Search().Spend(regions.WorkOfWalk(g)) != nil {
				return changes, nil
			}
			for _, p := range findParallels(ix, k) {
				at := part{p.last(), k.axis, k.steps.String()}
				if done[at] || made != "" {
					continue
				}
				err := error(nil)
				if why := p.skip(); why != "" {
					err = errors.New(why)
				} else {
					made, err = raise(p, g, ix)
				}
				if made == "" {
					done[at] = true
					if misses[at.last] == nil && err != nil {
						misses[at.last] = err
					}
				}
			}
			if made != "" {
				break
			}
		}
		if err := passes.Finish(g); err != nil {
			return changes, err
		}
		if made == "" {
			break
		}
		changes++
		c.Note("%s: %s", form, made)
	}
	if len(misses) == 0 {
		return changes, nil
	}
	ix := regions.NewIndex(c, g)
	for _, k := range findKeys(ix) { // values of parts that were examined before others were raised
		for _, p := range findParallels(ix, k) {
			if n := p.last(); misses[n] != nil {
				regions.NoteMiss(c, form, n, "%v", misses[n])
				delete(misses, n)
			}
		}
	}
	return changes, nil
}

// sequences are the numbers of the leaves in one trial.
type sequences struct {
	x     [][]float64
	shape [][]int
}

// first runs a part on numbers that can serve as logarithms and as factors, and calls see with each value and its
// axis of time.
func (p *parallel) first(bind map[string]int64, see func(v *ir.Value, x []float64, shape []int, axis int,
	in *sequences) bool) error {
	bind = maps.Clone(bind)
	for name := range bind { // one sample is enough to find a guess
		if !slices.Contains(p.steps.Symbols(), name) {
			bind[name] = 1
		}
	}
	steps, err := p.steps.Eval(bind)
	if err != nil {
		return fmt.Errorf("its number of steps %v is not known", p.steps)
	}
	in := &sequences{x: make([][]float64, len(p.leaves)), shape: make([][]int, len(p.leaves))}
	scale := min(1, 500/float64(max(steps, 1))) // keeps sums of logarithms in float64's range
	return p.trial(regions.Constants(p.run, bind), func(i int, shape []int) []float64 {
		in.x[i], in.shape[i] = drawn(uint64(i), shape, -0.95*scale, -0.05*scale), shape
		return in.x[i]
	}, func(v *ir.Value, t *tensor.Tensor) bool {
		shape := t.Shape()
		if p.axis >= len(shape) || shape[p.axis] != int(steps) || !regions.IsReal(v.Elem()) {
			return true
		}
		x, err := t.Float64s()
		return err != nil || see(v, x, shape, p.axis, in)
	})
}

// raiseGated replaces the last value of a part that is a recurrence over two of its leaves.
func (p *parallel) raiseGated(g *ir.Graph, ix *regions.Index) (string, error) {
	if p.gated == 0 {
		return "", nil
	}
	binds := p.binds(ix)
	var found *guess
	var nearest *guess
	var miss *fault
	err := p.first(binds[0], func(h *ir.Value, x []float64, shape []int, axis int, in *sequences) bool {
		hs := rowsAlong(x, shape, axis)
		if len(hs.base) == 0 || hs.steps < 2 {
			return true
		}
		leaves := make([]*rows, len(p.leaves))
		for i := range leaves {
			if len(in.shape[i]) > 0 {
				leaves[i] = rowsLike(in.x[i], in.shape[i], shape, axis)
			}
		}
		probe := &rows{x: hs.x, base: hs.base[:1], stride: hs.stride, steps: hs.steps}
		first := make([]float64, len(hs.base))
		for _, back := range []bool{false, true} {
			for f := range leaves {
				for v := range leaves {
					if f == v || leaves[f] == nil || leaves[v] == nil {
						continue
					}
					for form := range 4 {
						gs := guess{h, f, v, form&1 != 0, form&2 != 0, back, axis}
						bad := gs.holds(probe, leaves[f], leaves[v], first)
						if bad == nil {
							if bad = gs.holds(hs, leaves[f], leaves[v], first); bad == nil {
								found = &gs
								continue
							}
						}
						if miss == nil || bad.steps >= miss.steps && bad.steps > 0 {
							nearest, miss = &gs, bad
						}
					}
				}
			}
		}
		return true
	})
	if err != nil {
		return "", fmt.Errorf("it cannot be evaluated: %w", err)
	}
	if found == nil {
		if nearest == nil || miss.steps == 0 {
			return "", p.unlike()
		}
		return "", fmt.Errorf("%s is %s up to step %d, where it is %.6g, expected %.6g", nearest.h.Name,
			nearest.describe(p), miss.steps, miss.got, miss.want)
	}
	var state *firstState
	for i := range 2 { // with other numbers each time: what stays the same is constant
		st, err := p.confirm(found, binds[i%len(binds)], uint64(i))
		if err != nil {
			return "", err
		}
		if i > 0 && !st.equal(state) {
			return "", errors.New("its first state depends on the number of steps, or on an input that is not one " +
				"state for each sample")
		}
		state = st
	}
	return p.emitGated(g, found, state)
}

// unlike reports that no value of a part is a recurrence.
func (p *parallel) unlike() error {
	if len(p.leaves) < 2 {
		return fmt.Errorf("it depends only on %s, and is not a sum of exponentials of it; expected factors and inputs",
			p.leaves[0].Name)
	}
	names := make([]string, 0, 3)
	for _, v := range p.leaves[:min(3, len(p.leaves))] {
		names = append(names, v.Name)
	}
	return fmt.Errorf("no value after it is h[t] = f[t]·h[t-1] + v[t] over steps of two of its %d inputs (%s …) or "+
		"of their exponentials",
		len(p.leaves), strings.Join(names, ", "))
}

func (gs *guess) describe(p *parallel) string {
	name := func(i int, exp bool) string {
		if exp {
			return "exp(" + p.leaves[i].Name + ")"
		}
		return p.leaves[i].Name
	}
	before := "h[t-1]"
	if gs.backward {
		before = "h[t+1]"
	}
	return fmt.Sprintf("h[t] = %s[t]·%s + %s[t]", name(gs.f, gs.expF), before, name(gs.v, gs.expV))
}

// firstState is the state before the first step: zeros, constants, or a leaf.
type firstState struct {
	x    []float64 // constants, for one sample; nil for zeros or a leaf
	leaf int       // -1 for none
	exp  bool
}

func (s *firstState) equal(o *firstState) bool {
	return s.leaf == o.leaf && s.exp == o.exp && len(s.x) == len(o.x) &&
		slices.EqualFunc(s.x, o.x, func(a, b float64) bool {
			return math.Abs(a-b) <= exactTol*max(math.Abs(a), math.Abs(b))
		})
}

// confirm checks a guess at numbers of other sizes: factors near 1, so that the first step affects the last one, and
// inputs of any sign, which differ between trials. It returns the state before the first step.
func (p *parallel) confirm(gs *guess, bind map[string]int64, trial uint64) (*firstState, error) {
	steps, err := p.steps.Eval(bind)
	if err != nil {
		return nil, err
	}
	in := &sequences{x: make([][]float64, len(p.leaves)), shape: make([][]int, len(p.leaves))}
	fill := func(i int, shape []int) []float64 {
		seed := uint64(100+i) + 1000*trial
		in.shape[i] = shape
		switch {
		case i == gs.f:
			x := drawn(seed, shape, -3/float64(steps), 0.5/float64(steps))
			if !gs.expF { // of both signs
				sign := drawn(seed+50, shape, -1, 3)
				for j := range x {
					x[j] = math.Copysign(math.Exp(x[j]), sign[j])
				}
			}
			in.x[i] = x
		case i == gs.v && !gs.expV:
			in.x[i] = drawn(seed, shape, -2, 2)
		case i == gs.v:
			in.x[i] = drawn(seed, shape, -2, 1)
		default:
			in.x[i] = drawn(seed, shape, 0.1, 1)
		}
		return in.x[i]
	}
	var state *firstState
	var bad error
	seen := false
	err = p.trial(regions.Constants(p.run, bind), fill, func(v *ir.Value, t *tensor.Tensor) bool {
		if v != gs.h {
			return true
		}
		seen = true
		x, err := t.Float64s()
		if err != nil {
			bad = err
			return false
		}
		shape := t.Shape()
		if gs.axis >= len(shape) || shape[gs.axis] != int(steps) {
			bad = fmt.Errorf("%s has the shape %v where there are %d steps", v.Name, shape, steps)
			return false
		}
		hs := rowsAlong(x, shape, gs.axis)
		f, w := rowsLike(in.x[gs.f], in.shape[gs.f], shape, gs.axis),
			rowsLike(in.x[gs.v], in.shape[gs.v], shape, gs.axis)
		if f == nil || w == nil {
			bad = fmt.Errorf("%s has the shape %v, which its inputs do not have", v.Name, shape)
			return false
		}
		first := make([]float64, len(hs.base))
		if fault := gs.holds(hs, f, w, first); fault != nil {
			bad = fmt.Errorf("%s is %s up to step %d, where it is %.6g, expected %.6g", v.Name, gs.describe(p),
				fault.steps, fault.got, fault.want)
			return false
		}
		state, bad = p.stateOf(gs, first, shape, in)
		return false
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("it cannot be evaluated: %w", err)
	case bad != nil:
		return nil, bad
	case !seen:
		return nil, fmt.Errorf("%s was not computed", gs.h.Name)
	}
	return state, nil
}

// stateOf finds the source of the states before the first step of all rows.
func (p *parallel) stateOf(gs *guess, first []float64, shape []int, in *sequences) (*firstState, error) {
	if !slices.ContainsFunc(first, func(x float64) bool { return x != 0 }) {
		return &firstState{leaf: -1}, nil
	}
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-7*max(math.Abs(a), math.Abs(b)) }
	one := slices.Clone(shape)
	one[gs.axis] = 1
	for i, x := range in.x {
		for _, like := range [][]int{one, slices.Delete(slices.Clone(shape), gs.axis, gs.axis+1)} {
			if i == gs.f || i == gs.v || !slices.Equal(in.shape[i], like) {
				continue
			}
			for _, exp := range []bool{false, true} {
				if slices.EqualFunc(first, x, func(a, b float64) bool {
					if exp {
						b = math.Exp(b)
					}
					return near(a, b)
				}) {
					return &firstState{leaf: i, exp: exp}, nil
				}
			}
		}
	}
	if gs.axis == 0 || shape[0] < 2 {
		return nil, errors.New("its first state is neither zero nor a sequence of samples")
	}
	per := len(first) / shape[0]
	for i, x := range first {
		if !near(x, first[i%per]) {
			return nil, errors.New("its first state is neither constant nor an input")
		}
	}
	return &firstState{x: first[:per], leaf: -1}, nil
}

// emitGated replaces a value that is a recurrence.
func (p *parallel) emitGated(g *ir.Graph, gs *guess, st *firstState) (string, error) {
	b := passes.Edit(g)
	b.Scope(gs.h.Def.Scope)
	w := &varying{run: p.run, backward: gs.backward}
	parts := [2]*ir.Value{p.leaves[gs.f], p.leaves[gs.v]}
	full := slices.IndexFunc(parts[:], func(v *ir.Value) bool { return v.Shape().Equal(gs.h.Shape()) })
	if full < 0 {
		return "", fmt.Errorf("neither %s %v nor %s %v has the shape %v of %s", parts[0].Name, parts[0].Type,
			parts[1].Name, parts[1].Type, gs.h.Shape(), gs.h.Name)
	}
	for i, exp := range [2]bool{gs.expF, gs.expV} {
		v := parts[i]
		if exp && regions.IsOp(v, "Log") {
			v, exp = v.Def.In(0), false
		}
		if exp {
			v = b.Op("", "Exp", []*ir.Value{v})
		}
		if !v.Shape().Equal(gs.h.Shape()) {
			v = b.Op("", "Expand", []*ir.Value{v, b.Op("", "Shape", []*ir.Value{parts[full]})})
		}
		parts[i] = v
	}
	if err := b.Err(); err != nil {
		return "", err
	}
	w.decay, w.enter, w.result = along{parts[0], gs.axis}, along{parts[1], gs.axis}, along{gs.h, gs.axis}
	p.readBy(g, w)
	if err := w.check(p.steps); err != nil {
		return "", err
	}
	size := int64(1)
	for i, d := range gs.h.Shape() {
		if k, ok := d.Known(); ok && i > 0 && i != gs.axis {
			size *= k
		}
	}
	switch {
	case st.x != nil:
		samples := b.Op("", "Shape", []*ir.Value{parts[full]}, ir.A("start", 0), ir.A("end", 1))
		w.initial = b.Op("", "Expand", []*ir.Value{regions.Typed(b, "first", gs.h.Elem(), st.x, 1, int(size)),
			b.Op("", "Concat", []*ir.Value{samples, b.Ints(size)}, ir.A("axis", 0))})
	case st.leaf >= 0 && gs.axis == 0:
		return "", errors.New("its first state is not zero, and steps are before samples")
	case st.leaf >= 0:
		v := p.leaves[st.leaf]
		if st.exp {
			v = b.Op("", "Exp", []*ir.Value{v})
		}
		w.initial = b.Op("", "Reshape", []*ir.Value{v, b.Ints(-1, size)})
	}
	y := w.emit(b)
	if err := b.Err(); err != nil {
		return "", err
	}
	name, op := gs.h.Def.String(), w.op()
	if !passes.Replace(g, w.result.v, y) {
		return "", fmt.Errorf("%s cannot be replaced", w.result.v.Name)
	}
	return fmt.Sprintf("%s and what leads to it from %s and %s → %s", name, p.leaves[gs.f].Name, p.leaves[gs.v].Name,
		op), nil
}

// readBy finds the product of all states with one vector per step, if the states have no other use.
func (p *parallel) readBy(g *ir.Graph, w *varying) {
	h := w.result.v
	uses := g.Uses()
	if len(h.Shape()) != 4 || w.result.time != 1 || len(uses[h]) != 1 || uses[h][0].Node == nil {
		return
	}
	n := uses[h][0].Node
	// only returns the only reader of v, if it has the given name.
	only := func(v *ir.Value, name string) *ir.Node {
		if u := uses[v]; len(u) == 1 && u[0].Node != nil && u[0].Node.Op.FullName() == name && u[0].Index == 0 {
			return u[0].Node
		}
		return nil
	}
	lastAxis := func(n *ir.Node, input, rank int) bool {
		x, ok := ops.ConstInts(n.In(input))
		if !ok || len(x) != 1 {
			return false
		}
		a, err := ops.Axis(x[0], rank)
		return err == nil && a == rank-1
	}
	switch n.Op.FullName() {
	case "MatMul":
		column := n.In(1)
		if n.In(0) != h || !regions.IsOp(column, "Unsqueeze") || len(column.Shape()) != 4 ||
			!lastAxis(column.Def, 1, 4) {
			return
		}
		sq := only(n.Outputs[0], "Squeeze")
		if sq == nil || !lastAxis(sq, 1, 4) {
			return
		}
		w.read, w.result = along{column.Def.In(0), 1}, along{sq.Outputs[0], 1}
	case "Mul":
		other := n.In(0)
		if other == h {
			other = n.In(1)
		}
		if !regions.IsOp(other, "Unsqueeze") || len(other.Shape()) != 4 {
			return
		}
		at, ok := ops.ConstInts(other.Def.In(1))
		if !ok || len(at) != 1 || at[0] != 2 && at[0] != -2 {
			return
		}
		sum := only(n.Outputs[0], "ReduceSum")
		if sum == nil || sum.Attrs.Int("keepdims", 1) != 0 || !lastAxis(sum, 1, 4) {
			return
		}
		w.read, w.result = along{other.Def.In(0), 1}, along{sum.Outputs[0], 1}
	}
	if s := w.read.v.Shape(); w.read.v == nil || len(s) != 3 || !s[2].Equal(h.Shape()[3]) {
		w.read, w.result = along{}, along{h, 1}
	}
}
