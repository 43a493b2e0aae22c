package device

import (
	"fmt"
	"slices"
	"strings"

	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/lowering"
)

// Explain lists the forms of recurrences and convolutions, the precision of products where it is an option, how
// loops and branches run, which nodes the host computes and why, and the copies that this costs.
func (p *program) Explain(b runtime.Binding) (all []runtime.Choice, err error) {
	defer runtime.Ended(&err)
	err = p.with(b, nil, func(d *lowering.Binding) error {
		return d.Build(func() error {
			plan, err := p.b.newPlan(d, p.b.Fallback, nil)
			if err == nil {
				all = plan.choices()
			}
			return err
		})
	})
	return all, err
}

func (p *plan) choices() (all []runtime.Choice) {
	for _, u := range p.units {
		s := u.steps[0]
		if u.work != nil {
			for _, f := range []Form{u.work.Form, u.work.Products} {
				if f.Name == "" {
					continue
				}
				c := runtime.Choice{Node: s.Source.String(), Op: s.Source.Op.FullName(), Form: f.Name, Why: f.Why}
				for _, o := range f.Not {
					c.Others = append(c.Others, runtime.Alternative{Form: o.Name, Why: o.Why})
				}
				all = append(all, c)
			}
			continue
		}
		c := runtime.Choice{Node: s.Source.String(), Op: s.Source.Op.FullName(), Form: "host", Why: u.why}
		if u.control != nil {
			c.Form, c.Why = "program", "the host decides what runs, and the device computes it"
		}
		if n := p.crossed(u); n != "" {
			c.Why += "; " + n
		}
		all = append(all, c)
		for _, sub := range u.subs {
			if sub != nil {
				all = append(all, sub.choices()...)
			}
		}
	}
	return all
}

// crossed lists the values that are copied for a unit on the host.
func (p *plan) crossed(u *unit) string {
	var in, out []string
	for _, c := range u.crossings {
		in = append(in, fmt.Sprintf("%s (%d bytes)", c.v.Name, p.bytes(c.v)))
	}
	for _, s := range p.segments {
		for _, it := range s.items {
			if it.toDevice && slices.Contains(u.steps[0].Out, it.v) {
				out = append(out, fmt.Sprintf("%s (%d bytes)", it.v.Name, p.bytes(it.v)))
			}
		}
	}
	var parts []string
	if in != nil {
		parts = append(parts, "copied to the host: "+strings.Join(in, ", "))
	}
	if out != nil {
		parts = append(parts, "copied to the device: "+strings.Join(out, ", "))
	}
	return strings.Join(parts, "; ")
}

// Lowered returns the program as text. If b is not nil, the text has shapes, units and offsets.
func (p *program) Lowered(b *runtime.Binding) (text string, err error) {
	if b == nil {
		return p.String(), nil
	}
	defer runtime.Ended(&err)
	err = p.with(*b, nil, func(d *lowering.Binding) error {
		return d.Build(func() error {
			plan, err := p.b.newPlan(d, p.b.Fallback, nil)
			if err == nil {
				n, cost := plan.total()
				text = fmt.Sprintf("%d launches, %d floating-point operations; %d bytes on the device, %d on the host\n", n,
					cost.Flops, plan.memory.arena, plan.memory.places+plan.memory.staging) + d.Text(plan.notes())
			}
			return err
		})
	})
	return text, err
}

func (p *plan) notes() *lowering.Notes {
	of := map[*lowering.Step]*unit{}
	n := &lowering.Notes{
		Step: func(s *lowering.Step) string {
			u := of[s]
			if u == nil || u.fusion != "" {
				return ""
			}
			text := u.form()
			if c := p.crossed(u); u.work == nil && c != "" {
				text += "; " + c
			}
			return text
		},
		Value: func(v *lowering.Value) string {
			x := p.b.Uses(v)
			if x == 0 {
				return ""
			}
			if at, ok := p.memory.offsets[x]; ok {
				return fmt.Sprint(at)
			}
			return ""
		},
		Within: func(s *lowering.Step, k int) *lowering.Notes {
			if u := of[s]; u != nil && k < len(u.subs) && u.subs[k] != nil {
				return u.subs[k].notes()
			}
			return nil
		},
	}
	for _, u := range p.units {
		x := lowering.Unit{Steps: u.steps}
		if u.fusion != "" {
			x.Title = u.fusion + ": " + u.form()
		}
		for _, s := range u.steps {
			of[s] = u
		}
		n.Units = append(n.Units, x)
	}
	return n
}
