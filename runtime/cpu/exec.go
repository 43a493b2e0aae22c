package cpu

import (
	"context"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// frame is the part of an executable that holds its values.
type frame = lowering.Frame

// executable runs a program for one set of shapes.
type executable struct {
	frame
	root      *executable // of a subgraph: the one whose workers it uses
	p         *program
	d         *binding
	units     []*unit
	stretches []stretch
	extents   []extent // per value: what its buffer holds of its sequence
	arena     []float32
	times     []runtime.StepTime
	// Sizes of a worker's memory.
	scratch, rowArgs, states int

	refills []func() // compute again what the executable keeps of settled values
	fills   uint64   // the content that this follows from: runtime.Constants.Fills

	pool
}

// newExecutable plans memory and allocates it. A subgraph has a root. A loop's body that is bound during the run has its
// arena from late.
func newExecutable(d *binding, units []*unit, root *executable, late *nester) (*executable, error) {
	e := &executable{
		frame: d.NewFrame(root != nil), root: root, p: d.p, d: d, units: units, stretches: d.stretches(units),
		fills: d.p.Config.Constants.Fills(),
	}
	e.extents = d.extents(units, e.stretches)
	if !d.p.plain {
		runAhead(units, e.stretches)
	}
	plan := planMemory(d, units, e.stretches, e.extents)
	scratch, args, states := 0, 1, 0
	var extra int64
	for _, u := range units {
		d.Steps().Step(50 * len(u.steps))
		if k := u.kernel; k != nil {
			scratch = max(scratch, k.scratch)
			if err := e.bindSubgraphs(u); err != nil {
				return nil, err
			}
			for _, sub := range u.subs {
				if sub != nil {
					scratch, args, states = max(scratch, sub.scratch), max(args, sub.rowArgs), max(states, sub.states)
				}
			}
			extra += k.tables
		}
		if u.streaming != nil {
			extra += u.streaming.Bytes()
		}
		if g := u.region; g != nil {
			scratch = max(scratch, g.scratch)
			if g.pipeline != nil {
				extra += g.pipeline.bytes(g.batch)
			}
			for _, c := range g.calls {
				args = max(args, len(c.in))
			}
			if c := g.recurrence; c != nil {
				states = max(states, c.Size)
				extra += int64(g.batch)*(int64(c.Size)*8+counterBytes) + c.tables() + c.stateBytes(d)
			}
		}
	}
	threads := max(1, d.p.Config.Threads)
	if root != nil {
		threads = 0
	}
	e.scratch, e.rowArgs, e.states = scratch, args, states
	need := extra + int64(threads)*(int64(scratch)*4+int64(states)*8)
	if late == nil {
		need += plan.bytes
	}
	if err := e.Hold(need, "the plan of graph "+d.p.Graph.Name); err != nil {
		return nil, err
	}
	if late == nil {
		e.arena = floats(d, int(plan.bytes/4))
	} else {
		var err error
		if e.arena, err = late.arena(d, int(plan.bytes/4)); err != nil {
			return nil, err
		}
	}
	e.Memory = arenaBytes(e.arena)
	for _, v := range d.p.Values {
		d.Steps().Step(100)
		if plan.off[v.ID] < 0 || d.Fixed(v) != nil {
			continue
		}
		if err := e.placeIn(v, plan.off[v.ID]); err != nil {
			return nil, err
		}
	}
	for i, u := range units {
		d.Steps().Step(50)
		if n := u.own(); n > 0 {
			u.temp = e.arena[plan.temp[i] : plan.temp[i]+n : plan.temp[i]+n]
		}
		if u.kernel != nil {
			for _, v := range u.steps[0].Out {
				if d.Steps().Step(20); v != nil && d.Shape(v) != nil && !d.Placed(v) {
					if err := e.PlaceText(v); err != nil {
						return nil, err
					}
				}
			}
			if u.kernel.control != nil {
				e.attachControl(u)
			}
			if u.kernel.refill != nil {
				e.refills = append(e.refills, u.kernel.refill)
			}
		}
		if u.streaming != nil {
			u.streaming.Attach(e)
		}
		g := u.region
		if g == nil {
			continue
		}
		g.e = e
		e.refills = append(e.refills, g.refills...)
		if g.pipeline != nil {
			g.pipeline.attach(d, g.batch)
		}
		if c := g.recurrence; c != nil {
			c.holdState(e)
			c.prepare()
			e.refills = append(e.refills, c.refill)
			c.progress = make([]counter, g.batch)
			c.z = make([]float64, g.batch*c.Size)
			if n := c.edgeStates(); n > 0 {
				c.edges = unsafe.Slice((*float64)(unsafe.Pointer(&u.temp[0])), n)
			}
		}
	}
	e.setup(e, threads, scratch, states, args)
	if d.p.Config.Profile {
		for _, u := range units {
			e.times = append(e.times, u.label())
		}
	}
	return e, nil
}

// placeIn gives v the memory of the arena from number off on.
func (e *executable) placeIn(v *lowering.Value, off int) error {
	shape := e.d.Shape(v)
	if e.extents[v.ID].rows > 0 { // nobody sees it as a tensor
		shape = []int{e.d.bufferSize(v, e.extents)}
	}
	size, _ := tensor.Size(shape)
	t, err := tensor.FromBytesParts(e.d.Steps().Pause, e.d.DType(v), shape,
		e.Memory[4*off:][:tensor.ByteSize(e.d.DType(v), size)])
	if err != nil { // not of zeros
		return err
	}
	e.Place(v, t)
	return nil
}

// floats makes n numbers that start at a cache line, for an executable of d.
func floats(d *binding, n int) []float32 {
	if n == 0 {
		return nil
	}
	b := tensor.AlignedParts(4*n, d.Steps().Pause)
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), n)
}

// arenaBytes gives the memory of numbers.
func arenaBytes(v []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 4*len(v))
}

// label names a unit in profiles.
func (u *unit) label() runtime.StepTime {
	s := u.steps[0]
	t := runtime.StepTime{Name: s.Source.String(), Op: s.Source.Op.FullName(), Form: "eval",
		Values: lowering.Sources(u.steps)}
	switch {
	case u.region != nil && u.region.recurrence != nil:
		t.Name, t.Op, t.Form = u.region.node.String(), u.region.node.Op.FullName(), u.region.recurrence.choice.Form
	case u.region != nil:
		t.Form = WayRow
	case u.streaming != nil:
		t.Form = WayStreaming
		if k, ok := u.streaming.(record.Formed); ok {
			t.Form = k.Form()
		}
	case u.kernel != nil && u.kernel.subs != nil:
		t.Form = WayProgram
	case u.kernel != nil:
		t.Form = WayTensor
	}
	if len(u.steps) > 1 {
		t.Name = fmt.Sprintf("%s (%d steps)", t.Name, len(u.steps))
	}
	return t
}

// ArenaBytes is the working memory between runs.
func (e *executable) ArenaBytes() int64 { return e.Held() }

// Profile returns the times of the units. The times of subgraphs' units replace their step's.
func (e *executable) Profile() []runtime.StepTime {
	var all []runtime.StepTime
	for i, t := range e.times {
		inner := slices.Clone(e.units[i].past)
		for _, sub := range e.units[i].subs {
			if sub != nil {
				inner = addTimes(inner, sub.Profile())
			}
		}
		for _, s := range inner {
			t.Time -= s.Time
		}
		all = append(append(all, t), inner...)
	}
	return all
}

// Close releases the working memory.
func (e *executable) Close() error {
	e.release()
	e.frame, e.arena, e.workers, e.units, e.refills = frame{}, nil, nil, nil, nil
	return nil
}

// Run computes the outputs.
func (e *executable) Run(ctx context.Context, in, out []tensor.Datum) (err error) {
	e.ctx, e.err = ctx, nil
	e.stop.Store(false)
	defer runtime.Ended(&err)
	defer func() {
		e.halt()
		e.End()
		e.ctx = nil
	}()
	if err := e.Begin(ctx, in, out); err != nil {
		return err
	}
	e.refill()
	for i := range e.times {
		e.times[i].Calls++
	}
	strips := e.stretches
	for i := 0; i < len(e.units); i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(strips) > 0 && strips[0].from == i {
			if err := strips[0].run(e); err != nil {
				return err
			}
			i = strips[0].to - 1
			strips = strips[1:]
			continue
		}
		if err := e.timed(i, wholeUnit, 0, 0); err != nil {
			return err
		}
	}
	return e.Finish(out)
}

// refill computes again what the executable keeps of settled values, if their content has changed.
func (e *executable) refill() {
	n := e.p.Config.Constants.Fills()
	if n == e.fills {
		return
	}
	for _, f := range e.refills {
		f()
	}
	e.fills = n
}

// timed runs a part of a unit; an error names its node.
func (e *executable) timed(i int, part func(e *executable, u *unit, from, to int) error, from, to int) (err error) {
	u := e.units[i]
	var start time.Time
	if e.times != nil {
		start = time.Now()
	}
	defer func() {
		if v := recover(); v != nil {
			err = u.steps[0].Recovered(v)
		}
		if e.times != nil {
			e.times[i].Time += time.Since(start)
		}
	}()
	return u.steps[0].Failure(e.ctx, part(e, u, from, to))
}

// wholeUnit runs a unit from the first step to the last.
func wholeUnit(e *executable, u *unit, _, _ int) error {
	if g := u.stage(); g != nil {
		if err := g.Start(); err != nil {
			return err
		}
		_, length := g.Grid()
		if err := g.Steps(0, length); err != nil {
			return err
		}
		g.Finish()
		return nil
	}
	if u.kernel != nil {
		return u.kernel.run(e, u)
	}
	return e.Evaluate(e.ctx, u.steps[0])
}

// Parallel hands out the work items of a task to the workers, and waits.
func (e *executable) Parallel(t record.Task, items int) error {
	return e.shared().run(t, nil, items)
}

// tiles does the same for the tiles of a pass.
func (e *executable) tiles(p tilePass, items int) error {
	return e.shared().run(nil, p, items)
}

// shared returns the pool that the executable uses; for a subgraph, the model's.
func (e *executable) shared() *pool { return &e.top().pool }
