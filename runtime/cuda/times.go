package cuda

import (
	"context"
	"time"

	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/lowering"
)

// times are the measured times of an executable: for each unit, and for the copies between host and device.
type times struct {
	steps  []runtime.StepTime
	at     map[*unit]int // index in steps
	copies [2]int        // index in steps: to the device, and to the host; -1 if there are none
	events []driver.Event
}

// newTimes creates the events: one before each command of the longest segment, and one after it.
func (e *executable) newTimes() (*times, error) {
	t := &times{at: map[*unit]int{}, copies: [2]int{-1, -1}}
	most := 0
	for _, c := range e.segments {
		if len(c.list) > 0 {
			most = max(most, len(c.list)+1)
		}
		for i := range c.list {
			if x := &c.list[i]; x.memory != nil {
				k := way(x.toDevice)
				if t.copies[k] < 0 {
					t.copies[k] = len(t.steps)
					name := [2]string{"to the device", "to the host"}[k]
					t.steps = append(t.steps, runtime.StepTime{Name: name, Op: "copy", Form: "crossing"})
				}
			}
		}
	}
	for _, u := range e.plan.units {
		t.at[u] = len(t.steps)
		t.steps = append(t.steps, runtime.StepTime{Name: u.name(), Op: u.op(), Form: u.form(), Values: lowering.Sources(u.steps)})
	}
	v := e.p.v
	err := v.do(func() error {
		for range most {
			x, err := v.drv.CreateEvent(true)
			if err != nil {
				return e.failed(nil, err)
			}
			t.events = append(t.events, x)
		}
		return nil
	})
	return t, err
}

func way(toDevice bool) int {
	if toDevice {
		return 0
	}
	return 1
}

// measured gives the stream its commands with events between them.
func (e *executable) measured(ctx context.Context, c *commands) error {
	v := e.p.v
	return v.do(func() error {
		for i := range c.list {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := v.drv.Record(e.times.events[i], e.stream); err != nil {
				return e.failed(nil, err)
			}
			if err := e.command(&c.list[i]); err != nil {
				return err
			}
		}
		if err := v.drv.Record(e.times.events[len(c.list)], e.stream); err != nil {
			return e.failed(nil, err)
		}
		return nil
	})
}

// read adds the times of a finished segment.
func (t *times) read(v *device, c *commands) error {
	return v.do(func() error {
		for i := range c.list {
			ms, err := v.drv.Elapsed(t.events[i], t.events[i+1])
			if err != nil {
				return err
			}
			x := &c.list[i]
			k := t.at[x.unit]
			if x.memory != nil {
				k = t.copies[way(x.toDevice)]
			}
			t.steps[k].Time += time.Duration(float64(ms) * float64(time.Millisecond))
		}
		return nil
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
