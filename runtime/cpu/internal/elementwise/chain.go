package elementwise

import (
	"slices"

	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// chain returns the program as a function of input at.
func (p *program) chain(at int) record.Chain {
	c := record.Chain{Input: at, Links: p.links(at)}
	if len(p.reads) == 1 {
		c.Function = p.unary()
	}
	return c
}

// links returns the instructions as links; nil if one reads more than the result of the one before and an input.
func (p *program) links(at int) (links []record.Link) {
	before := p.registers + slices.Index(p.reads, at) // the register with the result of the link before
	for i := range p.code {
		in := &p.code[i]
		l := record.Link{Step: in.step, Number: in.number, K: in.k, Operand: -1, Unary: in.f1}
		switch {
		case in.f1 != nil && in.args[0] == before:
		case in.arithmetic != nil && slices.Contains(in.args[:2], before):
			other := in.args[1]
			if l.Exchanged = in.args[0] != before; l.Exchanged {
				l.Step, other = in.exchanged, in.args[0]
			}
			if other < p.registers { // another instruction's result
				return nil
			}
			l.Operand, l.F = p.reads[other-p.registers], *in.arithmetic
		default:
			return nil
		}
		links = append(links, l)
		before = in.to
	}
	return links
}

// FusedSteps returns links as steps of a fused kernel; nil if the shape of an operand does not fit.
func FusedSteps(d *lowering.Binding, s *lowering.Step, links []record.Link) (steps []kernel.FusedStep) {
	result := d.Shape(s.Out[0])
	_, width := lowering.Features(result)
	for i := range links {
		l := &links[i]
		f := kernel.FusedStep{Op: l.Step, X: l.Operand}
		switch {
		case l.Step == record.NoStep:
			return nil
		case l.Number:
			f.A = widened(l.K, width)
		case l.Operand < 0:
			f.X, f.B = 0, l.K
		default:
			k := record.Numbers(s, l.Operand)
			switch readKind(s, l.Operand, d.Shape(s.In[l.Operand]), result) {
			case full:
			case repeats:
				f.X, f.A = -1, widened(k, width)
				if s.In[l.Operand].Settled != nil && len(k) != width {
					f.OfA = k
				}
			default:
				return nil
			}
		}
		steps = append(steps, f)
	}
	return steps
}
