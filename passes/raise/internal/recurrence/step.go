package recurrence

import (
	"fmt"
	"math/cmplx"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise/internal/linear"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// Step recognizes models that compute one step of a diagonal system.
var Step = &passes.Pass{
	Name: "raise-step",
	Doc: "One step z' = a·z + B·u, y = C·z' + D·u with constants, of a state that is an input of the graph and " +
		"comes back as an output → essm.Scan over one step, with projections. The coefficients decay, and nothing " +
		"else reads the state.",
	After: []passes.Reason{
		regions.AfterUpgrade,
		regions.AfterShapes,
		{Pass: "raise-parallel-system", Why: "a recurrence over all steps is more than one of its steps"},
	},
	Before: []passes.Reason{
		regions.BeforeFoldRecurrences,
		regions.BeforeFuse,
	},
	Run: func(c *passes.Context, g *ir.Graph) (int, error) {
		if len(g.Inputs) < 2 || len(g.Outputs) < 2 || !slices.ContainsFunc(g.Inputs, func(v *ir.Value) bool {
			return slices.ContainsFunc(g.Outputs, func(o *ir.Value) bool { return mayFollow(v, o) })
		}) || c.Search().Spend(regions.WorkOfWalk(g)) != nil {
			return 0, nil
		}
		f := newStepFinder(c, g)
		done := map[string]bool{}
		var misses []*oneStep
		for _, v := range slices.Clone(g.Inputs) {
			c.Check()
			s := f.find(v)
			if s == nil {
				continue
			}
			if s.why == nil {
				var made *raised
				made, s.why = s.raise(g)
				if err := passes.Finish(g); err != nil {
					return len(done), err
				}
				if s.why == nil {
					c.Note("step: %s computes the next state of input %s by a linear recurrence, %v", s.node, v.Name,
						made.plan)
					done[s.next.Name] = true
				}
				if c.Search().Spend(regions.WorkOfWalk(g)) != nil {
					break
				}
				f = newStepFinder(c, g)
			}
			if s.why != nil && s.plain() {
				misses = append(misses, s)
			}
		}
		for _, s := range misses {
			// An input is not a state if a raised step reads it, or if the next state is computed from it in another
			// way.
			if left := f.find(s.state); !done[s.next.Name] && left != nil && (left.why == nil || left.plain()) {
				c.Note("step: %s left as it is: as the next state of input %s: %v", s.node, s.state.Name, s.why)
			}
		}
		return len(done), nil
	},
}

// maxStepNodes is the maximum number of nodes between a state and the next one.
const maxStepNodes = 256

// Range of the coefficients of a step. A coefficient of 1 is a connection around a layer and not a decay, and C
// cannot be determined for one near 0.
const leastRate, largestRate = 1e-6, 1 - 1e-9

// oneStep is a step of a recurrence in a graph.
type oneStep struct {
	run         *passes.Context
	state, next *ir.Value
	parts       map[*ir.Value]bool // next is made of these by moving elements
	whole       []*ir.Node         // from the parts to next
	inner       map[*ir.Node]bool  // from the state to the parts
	sources     []*ir.Value        // read by the inner nodes, besides the state and constants
	added       int                // number of values that are added to the state
	results     []*ir.Value        // of the new state, read by nodes outside the step
	node        string             // the node that computes next
	why         error              // why it is not raised
}

// raise replaces the step by a scan.
func (s *oneStep) raise(g *ir.Graph) (*raised, error) {
	d := &draft{run: s.run, node: s.next.Def, next: []*ir.Value{s.next}, initial: []*ir.Value{s.state},
		final: []*ir.Value{s.next}, outputs: s.results}
	d.states = []stepValue{{s.state, s.state.Shape()}}
	for _, v := range s.sources {
		d.inputs = append(d.inputs, stepValue{v, v.Shape()})
		if v.Elem() != s.state.Elem() {
			return nil, fmt.Errorf("%s is of %v, and the state of %v", v.Name, v.Elem(), s.state.Elem())
		}
	}
	cells, err := d.cells()
	if err != nil {
		return nil, err
	}
	var sys *system
	var at *cell
	for _, c := range cells {
		if sys, err = c.read(); err == nil {
			at = c
			break
		}
	}
	if sys == nil {
		return nil, err
	}
	pace := ir.NewPacer(d.run.Check)
	if err := sys.decays(pace); err != nil {
		return nil, err
	}
	if err := sys.fromNext(pace); err != nil {
		return nil, err
	}
	b := passes.Edit(g)
	b.Scope(s.next.Def.Scope)
	for i, v := range s.sources {
		time := at.inputs[i].batch + 1
		d.in = append(d.in, sequence{v: b.Op("", "Unsqueeze", []*ir.Value{v, b.Ints(int64(time))}), time: time})
	}
	for _, o := range sys.outputs {
		d.out = append(d.out, sequence{time: o.at.batch + 1})
	}
	made, err := d.build(g, b, at, sys)
	if err != nil {
		return nil, err
	}
	var results []*ir.Value
	for i, v := range made.outputs {
		results = append(results, b.Op("", "Squeeze", []*ir.Value{v, b.Ints(int64(d.out[i].time))}))
	}
	if err := b.Err(); err != nil {
		return nil, err
	}
	for i, v := range s.results {
		passes.Replace(g, v, results[i])
	}
	passes.Replace(g, s.next, made.final[0])
	return made, nil
}

// decays returns nil if the system is diagonal, its coefficients decay, and an input reaches every state.
func (s *system) decays(pace *ir.Pacer) error {
	for _, at := range components(s.a, pace) {
		a, ok := asEigenvalue(s.a, at)
		switch r := cmplx.Abs(a); {
		case !ok:
			return fmt.Errorf("its elements %v depend on each other in the next state, expected elements or pairs of "+
				"them that depend on themselves only", at[:min(len(at), 4)])
		case r > largestRate:
			return fmt.Errorf("element %d of it is multiplied by %.6g in a step, expected a decay: less than 1", at[0],
				r)
		case r < leastRate:
			return fmt.Errorf("element %d of it does not reach the next state", at[0])
		case !slices.ContainsFunc(at, func(i int) bool { return len(s.b[i]) > 0 }):
			return fmt.Errorf("no input reaches element %d of the next state", at[0])
		}
	}
	return nil
}

// fromNext rewrites the outputs, which are functions of the state before the step, as functions of the state after
// it.
func (s *system) fromNext(pace *ir.Pacer) error {
	inverse := make([][]linear.Term, s.n)
	for _, at := range components(s.a, pace) {
		a, _ := asEigenvalue(s.a, at)
		q := 1 / a
		if len(at) == 1 {
			inverse[at[0]] = []linear.Term{{At: int32(at[0]), Coef: real(q)}}
			continue
		}
		// The component is a rotation (p, -r; r, p) in either order; its inverse has the same form.
		r := 0.0
		for _, t := range s.a[at[1]] {
			if int(t.At) == at[0] {
				r = t.Coef
			}
		}
		n := real(a)*real(a) + r*r
		p, r := real(a)/n, r/n
		inverse[at[0]] = []linear.Term{{At: int32(at[0]), Coef: p}, {At: int32(at[1]), Coef: r}}
		inverse[at[1]] = []linear.Term{{At: int32(at[0]), Coef: -r}, {At: int32(at[1]), Coef: p}}
	}
	reads := false
	for i := range s.outputs {
		o := &s.outputs[i]
		for r := range o.in {
			c, d := map[int32]float64{}, map[int32]float64{}
			largest := 0.0
			add := func(row []linear.Term) {
				for _, t := range row {
					c[t.At] += t.Coef
				}
			}
			add(o.next[r])
			for _, p := range o.prev[r] {
				for _, t := range inverse[p.At] {
					c[t.At] += p.Coef * t.Coef
				}
			}
			// Only terms that were functions of the state before the step bring inputs along.
			for _, t := range o.next[r] {
				c[t.At] -= t.Coef
			}
			for _, t := range o.in[r] {
				d[t.At] += t.Coef
				largest = max(largest, abs(t.Coef))
			}
			for j, x := range c {
				for _, t := range s.b[j] {
					d[t.At] -= x * t.Coef
					largest = max(largest, abs(x*t.Coef))
				}
				o.bias[r] -= x * s.bias[j]
			}
			add(o.next[r])
			o.next[r], o.prev[r], o.in[r] = sortedTerms(c, 0), nil, sortedTerms(d, 1e-13*largest)
			reads = reads || len(o.next[r]) > 0
		}
	}
	if !reads {
		return errNoResult
	}
	return nil
}

func abs(x float64) float64 { return max(x, -x) }

// sortedTerms lists the terms that are larger than least, by basis element.
func sortedTerms(m map[int32]float64, least float64) []linear.Term {
	var out []linear.Term
	for at, x := range m {
		if abs(x) > least {
			out = append(out, linear.Term{At: at, Coef: x})
		}
	}
	slices.SortFunc(out, func(a, b linear.Term) int { return int(a.At) - int(b.At) })
	return out
}
