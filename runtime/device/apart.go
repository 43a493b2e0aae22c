package device

import (
	"slices"

	"github.com/essmc/essmc/runtime/lowering"
)

// Fills with these numbers are orders to a device of tests (Backend.Apart): memory becomes undefined, or must not be
// used.
const (
	Forgotten = 0xfe
	Guarded   = 0xfd
)

// Apart separates all values of executables, for tests. No two share memory, the gaps between them
// are guarded, and when the last unit that uses a value has run, its memory becomes undefined. early ends lives that
// many units too early, and short makes values that many bytes too short, for tests which show that this is found.
func (b *Backend) Apart(early, short int) {
	b.inspect = func(p *plan) { p.apart(early, short) }
}

const guardBytes = 2 * align

func (p *plan) apart(early, short int) {
	l := &p.memory
	if r := p.repeats; r != nil {
		p.forget(r.first, early, len(p.units)-1)
		p.forget(r.next, early, len(p.units)-1)
	} else {
		p.forget(p.segments, early, len(p.units))
	}
	l.arena = 0
	var guards []item
	for _, s := range l.order {
		buffers := p.of(s)
		if s.host || len(buffers) == 0 {
			continue
		}
		for k, x := range buffers {
			l.offsets[x] = l.arena + faultBytes*k
			if s == l.zeroed {
				l.offsets[x] = l.arena + l.zeros[k].at
			}
		}
		size := max(0, s.Size-short)
		next := (size+align-1)/align*align + guardBytes
		l.arena += next
		guards = append(guards, item{work: &Work{Kind: Fill, Dst: buffers[0], DstAt: size, Bytes: next - size,
			Byte: Guarded}, crossing: crossing{v: p.outer(s)}})
	}
	first := p.segments
	if p.repeats != nil {
		first = p.repeats.first
	}
	if len(first) > 0 {
		first[0].items = slices.Concat(guards, first[0].items)
	}
}

// of returns the buffers in a span of the device: several for the units' faults, and for memory that is cleared.
func (p *plan) of(s *span) (all []Buffer) {
	switch {
	case s.host:
	case s == p.memory.zeroed:
		for _, z := range p.memory.zeros {
			all = append(all, z.buffer)
		}
	case s.buffer != 0:
		all = append(all, s.buffer)
	case s.value != nil:
		if x := p.b.Uses(s.value); x != 0 {
			all = append(all, x)
		}
	default:
		for _, f := range p.memory.faults {
			all = append(all, f.buffer)
		}
	}
	return all
}

// outer returns the input or output of the program in whose memory a span is; nil: none. Executables keep states
// elsewhere, and run without the items of these.
func (p *plan) outer(s *span) (v *lowering.Value) {
	for _, x := range slices.Concat(p.d.Program.Inputs, p.d.Program.Outputs) {
		if s.value != nil && p.b.Root(x) == s.value {
			v = x
		}
	}
	return v
}

// forget lets segments forget each value behind the last unit that uses it, up to a unit.
func (p *plan) forget(list []*segment, early, most int) {
	number := map[*unit]int{nil: len(p.units)}
	for i, u := range p.units {
		number[u] = i
	}
	behind := map[*segment]map[int][]item{} // by the place of the item before
	for _, s := range p.memory.order {
		buffers := p.of(s)
		if s.host || len(buffers) == 0 || s.Last > most {
			continue
		}
		var last *segment
		place, now := 0, 0
		for _, c := range list {
			for i, it := range c.items {
				if !it.faults { // copied after everything before them
					now = number[it.unit]
				}
				if now <= s.Last-early {
					last, place = c, i
				}
			}
		}
		if last == nil || s.Size == 0 {
			continue
		}
		if behind[last] == nil {
			behind[last] = map[int][]item{}
		}
		behind[last][place] = append(behind[last][place], item{work: &Work{Kind: Fill, Dst: buffers[0], Bytes: s.Size,
			Byte: Forgotten}, crossing: crossing{v: p.outer(s)}})
	}
	for c, of := range behind {
		var items []item
		for i, it := range c.items {
			items = append(append(items, it), of[i]...)
		}
		c.items = items
	}
}
