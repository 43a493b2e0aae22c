package cpu

import (
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/lowering"
)

// Outside of a recurrence, a state is a value in float32 or float64. Per sample it holds the state's numbers and then,
// with a window, the inputs before the next step, oldest first. The recurrence itself computes in float64.

// savedSize returns the size of a sample's state outside of the recurrence, in numbers.
func (c *recurrenceCall) savedSize() int { return c.Saved + c.historySize() }

// historySize returns how many of them are inputs.
func (c *recurrenceCall) historySize() int { return c.Window * c.N * c.parts() }

// stateBytes returns the bytes that holdState allocates.
func (c *recurrenceCall) stateBytes(d *binding) (bytes int64) {
	if v := c.stateVal; v >= 0 && !d.IsFloat32(d.p.Values[v]) {
		bytes += 4 * int64(c.g.batch*c.historySize())
	}
	if v := c.stateOutVal; v >= 0 && !d.IsFloat32(d.p.Values[v]) {
		bytes += 4 * int64(c.N)
	}
	return bytes
}

// holdState allocates the memory for float64 states.
func (c *recurrenceCall) holdState(e *executable) {
	if v := c.stateVal; v >= 0 && !e.d.IsFloat32(e.p.Values[v]) && c.Window > 0 {
		c.past = make([]float32, c.g.batch*c.historySize())
	}
	if v := c.stateOutVal; v >= 0 && !e.d.IsFloat32(e.p.Values[v]) {
		c.row = make([]float32, c.N)
	}
}

// stateSlot is the slot of a state in one of two types.
type stateSlot struct {
	wide  lowering.Slot[float64]
	short lowering.Slot[float32]
}

func stateSlotOf(d *binding, v *lowering.Value) (s stateSlot) {
	if d.IsFloat32(v) {
		s.short = lowering.SlotOf[float32](d.Binding, v)
	} else {
		s.wide = lowering.SlotOf[float64](d.Binding, v)
	}
	return s
}

// history returns the inputs of a sample before the first step.
func (c *recurrenceCall) history(sample int) []float32 {
	if c.past != nil {
		size := c.historySize()
		return c.past[sample*size : (sample+1)*size]
	}
	per := c.savedSize()
	return c.state[0].short.In(&c.g.e.frame)[sample*per+c.Saved : (sample+1)*per]
}

// before returns one part of the i-th oldest input of a sample before the first step.
func (c *recurrenceCall) before(sample, i, part int) []float32 {
	at := (i*c.parts() + part) * c.N
	return c.history(sample)[at : at+c.N]
}

// start sets the states before the first step.
func (c *recurrenceCall) start() {
	for i := range c.progress {
		c.progress[i].n.Store(0)
	}
	for lo, hi := range ops.Blocks(c.g.e.Steps(), len(c.z), 1<<15) {
		clear(c.z[lo:hi])
	}
	if c.stateVal < 0 {
		return
	}
	per := c.savedSize()
	if st := c.state[0].wide.In(&c.g.e.frame); st != nil {
		for b := range c.g.batch {
			ops.Put(c.g.e.Steps(), c.z[b*c.Size:], st[b*per:b*per+c.Saved])
			if c.Window > 0 {
				past := c.history(b)
				for j, v := range st[b*per+c.Saved : (b+1)*per] {
					past[j] = float32(v)
				}
			}
		}
		return
	}
	st := c.state[0].short.In(&c.g.e.frame)
	for b := range c.g.batch {
		z := c.z[b*c.Size : b*c.Size+c.Saved]
		for j, v := range st[b*per : b*per+c.Saved] {
			z[j] = float64(v)
		}
	}
}

// finish writes the states after the last step.
func (c *recurrenceCall) finish() {
	per := c.savedSize()
	parts := [2]place{c.v, c.vi}
	if st := c.state[1].wide.In(&c.g.e.frame); st != nil {
		for b := range c.g.batch {
			copy(st[b*per:b*per+c.Saved], c.z[b*c.Size:])
			for i := range c.Window {
				for p := range c.parts() {
					c.delayed(c.row, parts[p], p, b, c.g.length-c.Window+i, 1)
					at := b*per + c.Saved + (i*c.parts()+p)*c.N
					for j, v := range c.row {
						st[at+j] = float64(v)
					}
				}
			}
		}
		return
	}
	st := c.state[1].short.In(&c.g.e.frame)
	for b := range c.g.batch {
		to := st[b*per : b*per+c.Saved]
		for j, v := range c.z[b*c.Size : b*c.Size+c.Saved] {
			to[j] = float32(v)
		}
		for i := range c.Window {
			for p := range c.parts() {
				at := b*per + c.Saved + (i*c.parts()+p)*c.N
				c.delayed(st[at:at+c.N], parts[p], p, b, c.g.length-c.Window+i, 1)
			}
		}
	}
}
