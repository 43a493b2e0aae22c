package cpu

import (
	"fmt"
	"strings"
	"unsafe"

	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/lowering"
)

// Lowered returns the steps of the program as text; for the shapes of b, if it is not nil, with regions,
// implementations, and the places of values.
func (p *program) Lowered(b *runtime.Binding) (string, error) {
	if b == nil {
		return p.String(), nil
	}
	x, err := p.Bind(*b)
	if err != nil {
		return "", err
	}
	defer x.Close()
	e := x.(*executable)
	if err := e.Refusal(); err != nil {
		return "", err
	}
	return e.d.Text(e.notes()), nil
}

// notes returns the units, the implementations of steps and the places of values, for the text. Offsets are in bytes.
func (e *executable) notes() *lowering.Notes {
	n := &lowering.Notes{}
	unitOf, index := map[*lowering.Step]*unit{}, map[*lowering.Step]int{}
	made := map[*lowering.Value]*unit{}
	for i, u := range e.units {
		n.Units = append(n.Units, lowering.Unit{Title: e.title(i), Steps: u.steps})
		for j, s := range u.steps {
			unitOf[s], index[s] = u, j
			for _, v := range s.Out {
				made[v] = u
			}
		}
	}
	n.Step = func(s *lowering.Step) string { return unitOf[s].way(s, index[s]) }
	n.Value = func(v *lowering.Value) string {
		if u := made[v]; u.region != nil {
			if where := u.region.where(v.ID); where != "" {
				return where
			}
		}
		return e.where(v)
	}
	n.Within = func(s *lowering.Step, k int) *lowering.Notes {
		if u := unitOf[s]; k < len(u.subs) && u.subs[k] != nil {
			return u.subs[k].notes()
		}
		return nil
	}
	return n
}

// title describes a region, or a kernel with an epilogue; "" for other units.
func (e *executable) title(i int) string {
	u := e.units[i]
	g := u.region
	if g == nil {
		if len(u.steps) > 1 {
			return "one kernel"
		}
		return ""
	}
	var parts []string
	for _, st := range e.stretches {
		if st.from <= i && i < st.to {
			parts = append(parts, fmt.Sprintf("in chunks of %d steps with units %d to %d", st.chunk, st.from, st.to-1))
		}
	}
	if g.samples > 1 {
		parts = append(parts, fmt.Sprintf("%d samples together", g.samples))
	}
	if g.ahead {
		parts = append(parts, fmt.Sprintf("its back pass in unit %d", i-1))
	}
	region := fmt.Sprintf("region of %d × %d, tiles of %d", g.batch, g.length, g.tile)
	return strings.Join(append([]string{region}, parts...), ", ")
}

// where returns the place of a value inside of a region: "scratch+OFFSET", "ring", or "kernel" for a value between
// fused steps; "" for a value in a buffer.
func (g *region) where(val int) string {
	for _, v := range g.between {
		if v == val {
			return "kernel"
		}
	}
	said := func(p place) string {
		switch {
		case p.val != val:
		case p.local:
			return fmt.Sprintf("scratch+%d", 4*p.off)
		case p.ring != nil:
			return "ring"
		}
		return ""
	}
	for i := range g.calls {
		if s := said(g.calls[i].out); s != "" {
			return s
		}
	}
	if c := g.recurrence; c != nil {
		return said(c.x) + said(c.xi)
	}
	return ""
}

// where returns the place of a value in the arena; "" for one that is not there.
func (e *executable) where(v *lowering.Value) string {
	t := e.PlaceOf(v)
	if t == nil || len(t.Bytes()) == 0 || len(e.Memory) == 0 {
		return ""
	}
	at := fmt.Sprintf("arena+%d", uintptr(unsafe.Pointer(&t.Bytes()[0]))-uintptr(unsafe.Pointer(&e.Memory[0])))
	if rows := e.extents[v.ID].rows; rows > 0 {
		at += fmt.Sprintf(" (%d steps)", rows)
	}
	return at
}
