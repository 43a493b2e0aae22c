package device

import (
	"context"
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/lowering"
)

// repeats are the segments of a loop's body that keeps values on the device between iterations: results that are
// inputs of the next iteration, and inputs that do not change. Their memory is not reused in between.
type repeats struct {
	first []*segment // inputs come from the host
	next  []*segment // kept inputs do not
	fetch *segment   // copies the kept results to the host
	out   []int      // the outputs that these are
}

// repeat finds the values that the body of a loop keeps. It runs after move and before place. It keeps a result that
// the device makes and an input that the host does not read; others are copied as in any program.
func (p *plan) repeat(r *lowering.Repeated) {
	d, b, l := p.d, p.b, &p.memory
	x := &repeats{fetch: &segment{}}
	// inputs that remain after the first iteration, and results that leave only at the end
	var stay, gone []*lowering.Value
	var copies []item
	begin := slices.IndexFunc(p.units, func(u *unit) bool { return u.work != nil })
	for _, c := range r.Carried {
		in, out := d.Program.Inputs[c.In], d.Program.Outputs[c.Out]
		if !p.carries(in, out) {
			continue
		}
		from, to := b.Root(out), b.Root(in)
		// The copies run first, so no result may share memory with an input.
		l.lives[from].First, l.lives[to].First = 0, 0
		copies = append(copies, item{unit: p.units[begin], work: &Work{Kind: Copy, Dst: b.Uses(in),
			Src: b.Uses(out), Bytes: p.bytes(in)}})
		stay, gone = append(stay, in), append(gone, out)
		x.out = append(x.out, c.Out)
		x.fetch.leave = append(x.fetch.leave, out)
		x.fetch.items = append(x.fetch.items, item{crossing: crossing{out, false}})
	}
	for _, i := range r.Still {
		if in := d.Program.Inputs[i]; p.enters(in) {
			l.lives[in].First, l.lives[in].Last = 0, len(p.units)
			stay = append(stay, in)
		}
	}
	if stay == nil {
		return
	}
	// also a scan output
	gone = slices.DeleteFunc(gone, func(v *lowering.Value) bool { return count(d.Program.Outputs, v) > 1 })
	for _, s := range p.segments {
		x.first = append(x.first, s.without(nil, gone))
		x.next = append(x.next, s.without(stay, gone))
	}
	x.next[0].items = slices.Concat(copies, x.next[0].items)
	p.repeats = x
}

// carries reports whether in is read and out is made only by the device, both have one type, and out has memory of
// its own at the end of the program.
func (p *plan) carries(in, out *lowering.Value) bool {
	d := p.d
	if !p.enters(in) || slices.Contains(d.Program.Outputs, in) || d.DType(in) != d.DType(out) ||
		!slices.Equal(d.Shape(in), d.Shape(out)) || d.Given(p.b.Root(out)) {
		return false
	}
	return !p.hostReads(in, out) && p.segments[len(p.segments)-1].leaves(out)
}

// hostReads reports whether a unit of the host reads one of the values.
func (p *plan) hostReads(values ...*lowering.Value) bool {
	for _, u := range p.units {
		if u.work != nil {
			continue
		}
		for v := range u.steps[0].Reads {
			if slices.Contains(values, v) {
				return true
			}
		}
	}
	return false
}

// enters reports whether an input of the program is copied to the device.
func (p *plan) enters(in *lowering.Value) bool {
	return slices.ContainsFunc(p.segments, func(s *segment) bool { return slices.Contains(s.enter, in) })
}

func count(list []*lowering.Value, v *lowering.Value) (n int) {
	for _, x := range list {
		if x == v {
			n++
		}
	}
	return n
}

// copies reports whether an item copies a value between host and device.
func (it *item) copies() bool { return it.work == nil && !it.faults }

// leaves reports whether a segment copies v to the host.
func (s *segment) leaves(v *lowering.Value) bool {
	return slices.ContainsFunc(s.items, func(it item) bool { return it.copies() && !it.toDevice && it.v == v })
}

// without returns a segment that does not copy some values.
func (s *segment) without(enter, leave []*lowering.Value) *segment {
	t := *s
	t.enter = slices.DeleteFunc(slices.Clone(s.enter), func(v *lowering.Value) bool { return slices.Contains(enter, v) })
	t.leave = slices.DeleteFunc(slices.Clone(s.leave), func(v *lowering.Value) bool { return slices.Contains(leave, v) })
	t.items = slices.DeleteFunc(slices.Clone(s.items), func(it item) bool {
		return it.copies() && (it.toDevice && slices.Contains(enter, it.v) || !it.toDevice && slices.Contains(leave, it.v))
	})
	return &t
}

// Repeat runs an iteration of a loop.
func (e *executable) Repeat(ctx context.Context, first bool, in, out []tensor.Datum) error {
	if first || e.next == nil {
		return e.run(ctx, in, out, e.segments)
	}
	return e.run(ctx, in, out, e.next)
}

// Fetch copies the results that the last iteration has kept to the host.
func (e *executable) Fetch(ctx context.Context, out []tensor.Datum) error {
	if e.fetch == nil || len(e.fetch.list) == 0 {
		return nil
	}
	err := e.fetch.Issue(ctx, false)
	if waited := e.stream.Synchronize(); err == nil {
		err = waited
	}
	if err != nil {
		return err
	}
	for k, i := range e.plan.repeats.out {
		ops.Put(e.Binding.Steps(), out[i].(*tensor.Tensor).Bytes(), e.reached(e.fetch.leave[k]))
	}
	return nil
}
