package cpu

import (
	"fmt"
	"slices"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// choices returns the choices made for recurrences, other operators of several forms, and loops, and the choices for
// products in low precision, both in the order of steps. Choices in subgraphs follow the step that they belong to.
func (d *binding) choices() (forms, products []choice) {
	seen := map[*ir.Node]bool{}
	for _, u := range d.units() {
		for _, s := range u.steps {
			if c, ok := numbersChoice(u, s); ok && !seen[s.Source] {
				seen[s.Source] = true
				forms = append(forms, c)
			}
		}
		if g := u.region; g != nil {
			if g.recurrence != nil {
				forms = append(forms, g.recurrence.choice)
			}
			for _, s := range u.steps {
				if record.Of(s).Lowered != nil {
					products = append(products, lowChoice(s, g.batch*g.length))
				}
			}
		}
		if k, ok := u.streaming.(record.Formed); ok {
			forms = append(forms, chooseForm(d.p.Config.Kernel, d.p.costs, u.steps[0], k))
		}
		if record.Named(u.steps[0].Node.Op).Program == record.Iterations {
			forms = append(forms, d.loopChoice(u))
		}
		if u.kernel == nil {
			continue
		}
		for _, sub := range u.kernel.subs {
			if sub != nil {
				f, p := sub.choices()
				forms, products = append(forms, f...), append(products, p...)
			}
		}
	}
	return forms, products
}

// numbersChoice returns how a step runs whose operator has a kernel that is recognised by the numbers of constants, where
// parameters take their place.
func numbersChoice(u *unit, s *lowering.Step) (c choice, ok bool) {
	why := record.Named(s.Source.Op).Numbers
	if why == "" || !slices.ContainsFunc(s.In, func(v *lowering.Value) bool { return v != nil && v.Settled != nil }) {
		return c, false
	}
	c = choice{Node: s.Source.String(), Op: s.Source.Op.FullName(), Form: "body", Why: why + "; here parameters take their place"}
	if u.evaluated() {
		c.Form = "eval"
	}
	return c, true
}

// loopChoice returns how a Loop or Scan runs: "program", or "eval" if it is evaluated as package ops defines it.
func (d *binding) loopChoice(u *unit) choice {
	s := u.steps[0]
	c := choice{Node: s.Source.String(), Op: s.Source.Op.FullName(), Form: "eval",
		Why: "the body, or the types of its inputs, do not fit a program, so it is evaluated operator by operator"}
	l := d.Body(s)
	if l == nil || u.kernel == nil {
		return c
	}
	c.Form = "program"
	var why []string
	switch l.Trip {
	case -1:
		why = append(why, "the number of iterations shows in the run")
	case 1:
		why = append(why, "1 iteration")
	default:
		why = append(why, fmt.Sprintf("%d iterations", l.Trip))
	}
	if n := len(l.Stages); n > 1 {
		why = append(why, fmt.Sprintf("the first %d with other shapes", n-1))
	}
	if n := len(l.Stages); n > 0 {
		parts, evaluated := d.sub(l.Stages[n-1]).units(), 0
		for _, u := range parts {
			if u.evaluated() {
				evaluated++
			}
		}
		what := fmt.Sprintf("a body of %d steps", len(parts))
		switch {
		case l.Open():
			what += ", bound when an iteration shows their shapes, and kept for those that come back"
		case evaluated > 0:
			what += fmt.Sprintf(", %d of them evaluated in float64", evaluated)
		}
		why = append(why, what)
	}
	c.Why = strings.Join(why, "; ")
	return c
}

// evaluated reports whether the unit has no kernel.
func (u *unit) evaluated() bool {
	return u.region == nil && u.streaming == nil && u.kernel == nil
}

// lowChoice returns the precision of a step's products over a number of rows.
func lowChoice(s *lowering.Step, rows int) runtime.Choice {
	l := record.Of(s).Lowered
	c := runtime.Choice{Node: s.Source.String(), Op: s.Node.Op.FullName(), Form: "float32", Why: l.Why,
		Cost: runtime.Estimate{Work: ir.Work{Flops: 2 * int64(rows) * l.Weights}}}
	if l.Why == "" {
		c.Form, c.Why = l.P.Name, fmt.Sprintf("matrices of %d × %d", l.M, l.K)
	}
	return c
}
