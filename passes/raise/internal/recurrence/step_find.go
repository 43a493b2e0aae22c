package recurrence

import (
	"errors"
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise/internal/linear"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// stepFinder looks for inputs of a graph that are states.
type stepFinder struct {
	run     *passes.Context
	g       *ir.Graph
	uses    map[*ir.Value][]ir.Use
	outputs map[*ir.Value]bool
	varies  map[*ir.Value]bool // computed from an input, other than by its shape
}

func newStepFinder(c *passes.Context, g *ir.Graph) *stepFinder {
	f := &stepFinder{run: c, g: g, uses: g.Uses(), outputs: map[*ir.Value]bool{}, varies: map[*ir.Value]bool{}}
	for _, v := range g.Outputs {
		f.outputs[v] = true
	}
	f.varies = f.ahead(g.Inputs, nil)
	return f
}

func isShape(n *ir.Node) bool { return n.Op.OfShapes }

// ahead returns the given values and all that are computed from them. It does not continue past values in end.
func (f *stepFinder) ahead(from []*ir.Value, end map[*ir.Value]bool) map[*ir.Value]bool {
	out := map[*ir.Value]bool{}
	for _, v := range from {
		out[v] = true
	}
	for _, n := range f.g.Nodes {
		if isShape(n) {
			continue
		}
		some := len(n.Subgraphs()) > 0 // they may capture any value
		for _, v := range n.Inputs {
			some = some || v != nil && out[v] && !end[v]
		}
		for _, v := range n.Outputs {
			if some && v != nil {
				out[v] = true
			}
		}
	}
	return out
}

// rearranging are the operators that may be between the parts of a state and the whole.
var rearranging = []string{"Identity", "Concat", "Unsqueeze", "Squeeze", "Reshape", "Transpose", "Flatten"}

// stepwise are linear operators that work at one position, or that move numbers. mixing are linear operators that
// sum over positions. They guide the search for the sources of a step; whether a node is linear, its operator states.
var (
	stepwise = append(slices.Clone(rearranging), "Add", "Sub", "Sum", "Neg", "Mul", "Div", "Slice", "Gather",
		"GatherElements", "GatherND", "Split", "Expand", "Tile", "Pad")
	mixing = []string{"MatMul", "Gemm", "Einsum", "ReduceSum", "ReduceMean"}
	// plainOps are the operators of steps that are near misses: a graph with others is not meant as a linear
	// recurrence.
	plainOps    = slices.Concat(stepwise, mixing, activations)
	activations = []string{"Tanh", "Sigmoid", "Relu", "Exp", "Softplus", "Clip"}
)

// linear reports whether a node is affine in its inputs that vary. Nodes without such inputs are, too.
func (f *stepFinder) linear(n *ir.Node) bool {
	if n.Op.Random || len(n.Subgraphs()) > 0 {
		return false
	}
	in, ok := regions.AffineIn(n, func(v *ir.Value) bool { return f.varies[v] })
	return ok || len(in) == 0
}

// mayFollow reports whether output o may be the next state of input v, by its type.
func mayFollow(v, o *ir.Value) bool {
	_, ok := ir.AsTensor(v.Type)
	return ok && v.Const == nil && v.Elem().IsFloat() && v.Shape() != nil && o.Def != nil &&
		ir.EqualTypes(v.Type, o.Type)
}

// find returns the step whose state is v or, if there is none, the nearest one with the reason. It may be nil.
func (f *stepFinder) find(v *ir.Value) *oneStep {
	follows := func(o *ir.Value) bool { return mayFollow(v, o) }
	if len(f.uses[v]) == 0 || f.outputs[v] || !slices.ContainsFunc(f.g.Outputs, follows) {
		return nil
	}
	var found, miss *oneStep
	reached := f.ahead([]*ir.Value{v}, nil)
	for _, o := range f.g.Outputs {
		if !reached[o] || !mayFollow(v, o) || f.run.Search().Spend(regions.WorkOfWalk(f.g)) != nil {
			continue
		}
		s := &oneStep{run: f.run, state: v, next: o, node: o.Def.String()}
		if s.why = f.read(s); s.why != nil {
			if s.plain() && (miss == nil || len(s.inner) < len(miss.inner)) {
				miss = s
			}
			continue
		}
		if found != nil {
			s.why = fmt.Errorf("output %s would be its next state as well, expected one", found.next.Name)
			return s
		}
		found = s
	}
	if found == nil {
		return miss
	}
	for _, w := range f.g.Inputs {
		if w == v || !mayFollow(w, found.next) || !f.ahead([]*ir.Value{w}, nil)[found.next] {
			continue
		}
		if f.read(&oneStep{run: f.run, state: w, next: found.next}) == nil {
			found.why = fmt.Errorf("input %s would be its state as well, expected one", w.Name)
		}
	}
	return found
}

// plain reports whether a step is near enough for a note: a few plain operators multiply
// the state and add something to it.
func (s *oneStep) plain() bool {
	if s.added == 0 || len(s.inner) > 32 {
		return false
	}
	scaled := false
	for n := range s.inner {
		if !slices.Contains(plainOps, n.Op.FullName()) {
			return false
		}
		if slices.Contains(n.Inputs, s.state) && slices.Contains(activations, n.Op.FullName()) {
			return false // an ordinary input
		}
		scaled = scaled || slices.Contains([]string{"Mul", "Div", "MatMul", "Gemm", "Einsum"}, n.Op.FullName())
	}
	return scaled
}

// read collects the nodes of a step, and checks that nothing else reads the state.
func (f *stepFinder) read(s *oneStep) error {
	s.parts, s.whole = map[*ir.Value]bool{}, nil
	f.takeParts(s, s.next)
	ahead := f.ahead([]*ir.Value{s.state}, s.parts)
	s.inner = map[*ir.Node]bool{}
	walk := regions.WalkFrom()
	addLast := func(values []*ir.Value) { // the last first
		for _, v := range values {
			walk.Add(v)
		}
	}
	for _, n := range f.g.Nodes {
		addLast(slices.DeleteFunc(slices.Clone(n.Outputs), func(v *ir.Value) bool { return !s.parts[v] }))
	}
	var entries []*ir.Value // what is added to the state
	defer func() { s.added = len(entries) }()
	for v := range walk.Values() {
		switch {
		case v == s.state || v.Const != nil || !f.varies[v]:
		case !ahead[v]:
			entries = append(entries, v)
		case v.Def != nil && !s.inner[v.Def]:
			s.inner[v.Def] = true
			addLast(v.Def.Inputs)
		}
		if len(s.inner) > maxStepNodes {
			return fmt.Errorf("more than %d nodes are between them", maxStepNodes)
		}
	}
	for _, n := range regions.InOrder(f.g, s.inner) {
		if !f.linear(n) {
			return linear.ErrNonlinear(n)
		}
	}
	for _, n := range f.g.Nodes {
		if s.inner[n] || isShape(n) {
			continue
		}
		for _, v := range n.Inputs {
			if v != nil && ahead[v] && !s.parts[v] {
				return fmt.Errorf("%v reads %s too, expected the next state only", n, v.Name)
			}
		}
	}
	for _, o := range f.g.Outputs {
		if ahead[o] && !s.parts[o] && o != s.next {
			return fmt.Errorf("output %s reads it, expected the next state only", o.Name)
		}
	}
	if len(entries) == 0 {
		return errors.New("no input of the step is added to it")
	}
	s.sources = f.sourcesOf(entries)
	return f.readResults(s)
}

// assembles reports whether a node is between the parts of the next state and the whole.
func (s *oneStep) assembles(n *ir.Node) bool { return slices.Contains(s.whole, n) }

// takeParts adds the values that v is made of by moving elements.
func (f *stepFinder) takeParts(s *oneStep, v *ir.Value) {
	if v.Def == nil || !slices.Contains(rearranging, v.Def.Op.FullName()) {
		s.parts[v] = true
		return
	}
	s.whole = append(s.whole, v.Def)
	for _, in := range v.Def.Inputs {
		if in != nil && f.varies[in] {
			f.takeParts(s, in)
		}
	}
}

// sourcesOf returns the values from which entries are computed by operators that do not mix positions or, if these
// are several, also by operators that do.
func (f *stepFinder) sourcesOf(entries []*ir.Value) []*ir.Value {
	var out []*ir.Value
	for _, names := range [][]string{stepwise, slices.Concat(stepwise, mixing)} {
		out = out[:0]
		for _, v := range entries {
			for v.Def != nil && slices.Contains(names, v.Def.Op.FullName()) && f.linear(v.Def) {
				var from []*ir.Value
				for _, in := range v.Def.Inputs {
					if in != nil && f.varies[in] && !slices.Contains(from, in) {
						from = append(from, in)
					}
				}
				if len(from) != 1 {
					break
				}
				v = from[0]
			}
			if !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
		if len(out) == 1 {
			break
		}
	}
	return out
}

var errNoResult = errors.New("no result reads the next state, expected y = C·z' + D·u")

// readResults finds the last values that are linear in the next state and the sources.
func (f *stepFinder) readResults(s *oneStep) error {
	known := map[*ir.Value]bool{} // linear only in the sources
	for _, v := range s.sources {
		known[v] = true
	}
	after := map[*ir.Value]bool{} // linear in both
	for v := range s.parts {
		after[v] = true
	}
	member := map[*ir.Node]bool{}
	for _, n := range f.g.Nodes {
		if s.inner[n] || !f.linear(n) {
			continue
		}
		all, some := true, false
		for _, v := range n.Inputs {
			if v != nil && f.varies[v] {
				all, some = all && (known[v] || after[v]), some || after[v]
			}
		}
		if !all {
			continue
		}
		member[n] = some
		for _, v := range n.Outputs {
			if v != nil && some {
				after[v] = true
			} else if v != nil && f.varies[v] {
				known[v] = true
			}
		}
	}
	last := func(v *ir.Value) bool {
		return v != nil && v != s.next && after[v] && (f.outputs[v] ||
			slices.ContainsFunc(f.uses[v], func(u ir.Use) bool {
				return u.Node != nil && !member[u.Node] && !isShape(u.Node)
			}))
	}
	for _, n := range f.g.Nodes {
		// A node that only follows results is left out: it needs no result of its own.
		if member[n] && !s.assembles(n) && !slices.ContainsFunc(n.Inputs, func(v *ir.Value) bool {
			return v != nil && f.varies[v] && !last(v)
		}) {
			member[n] = false
			for _, v := range n.Outputs {
				delete(after, v)
			}
		}
	}
	for _, n := range f.g.Nodes {
		for _, v := range n.Outputs {
			if last(v) {
				s.results = append(s.results, v)
			}
		}
	}
	if len(s.results) == 0 {
		for v := range s.parts {
			if !slices.ContainsFunc(f.uses[v], func(u ir.Use) bool {
				return u.Node != nil && !s.assembles(u.Node) && !isShape(u.Node)
			}) {
				return errNoResult
			}
		}
		return errors.New("its results are not linear in the next state")
	}
	return nil
}
