package device

import (
	"time"

	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/lowering"
)

// times are the measured times of an executable: for each unit, and for the copies between host and device.
type times struct {
	steps  []runtime.StepTime
	at     map[*unit]int    // index in steps
	copies map[WorkKind]int // index in steps: to the device, and to the host
}

func (e *executable) newTimes() *times {
	t := &times{at: map[*unit]int{}, copies: map[WorkKind]int{}}
	for _, c := range e.segments {
		for i := range c.list {
			k := c.list[i].Kind
			if name := map[WorkKind]string{ToDevice: "to the device", ToHost: "to the host"}[k]; name != "" {
				if _, ok := t.copies[k]; !ok {
					t.copies[k] = len(t.steps)
					t.steps = append(t.steps, runtime.StepTime{Name: name, Op: "copy", Form: "crossing"})
				}
			}
		}
	}
	for _, u := range e.plan.units {
		t.at[u] = len(t.steps)
		t.steps = append(t.steps, runtime.StepTime{Name: u.name(), Op: u.op(), Form: u.form(),
			Values: lowering.Sources(u.steps)})
	}
	return t
}

// read adds the times of a finished segment.
func (t *times) read(c *commands) error {
	if t == nil {
		return nil
	}
	return c.Times(func(i int, d time.Duration) {
		x := &c.list[i]
		k, ok := t.copies[x.Kind]
		if !ok {
			k = t.at[x.unit]
		}
		t.steps[k].Time += d
	})
}

// host adds the time of a unit on the host.
func (t *times) host(u *unit, d time.Duration) {
	if t != nil {
		t.steps[t.at[u]].Time += d
	}
}

// end counts a run.
func (t *times) end() {
	if t == nil {
		return
	}
	for i := range t.steps {
		t.steps[i].Calls++
	}
}

// Profile returns the times of units and of copies. The times of subgraphs are included in their step's.
func (e *executable) Profile() []runtime.StepTime {
	if e.times == nil {
		return nil
	}
	return e.times.steps
}
