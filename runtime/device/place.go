package device

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/lowering"
)

// Addresses are multiples of align: on the device, and on the host for values that are copied.
const align = 256

// layout assigns memory to the values of a plan: in the arena of the device, and in pinned host memory.
type layout struct {
	lives     map[*lowering.Value]*span // by root, in the arena
	scratched map[Buffer]*span
	held      map[*lowering.Value]*span // on the host
	order     []*span                   // all spans in order of discovery
	control   []*span                   // of units that run subgraphs

	// staged are inputs and outputs of the caller, whose elements are copied to and from pinned memory.
	staged map[*lowering.Value]int // offset after the values on the host

	faults   []fault
	clear    *Work // sets the zeros
	faultsAt int   // offset of their copies, after the values on the host

	zeros      []zeros
	zeroed     *span // all zeros, or nil
	clearZeros *Work

	offsets map[Buffer]int // in the arena
	arena   int            // bytes of the device
	places  int            // bytes of the host
	staging int            // bytes of the host
}

// span is a request for memory between two units.
type span struct {
	lowering.Interval
	host   bool
	value  *lowering.Value
	buffer Buffer
	unit   *unit // for the memory of a control
	at     int
}

// fault is a number by which a unit reports that it cannot compute its inputs.
type fault struct {
	buffer  Buffer
	unit    *unit
	message string
}

const faultBytes = 4

// zeros is a unit's part of the memory that is cleared at the start of a run.
type zeros struct {
	buffer    Buffer
	at, bytes int
}

// end is the offset of the next one: numbers of 32 bits are aligned.
func (z zeros) end() int { return (z.at + z.bytes + 3) / 4 * 4 }

func (l *layout) init() {
	*l = layout{lives: map[*lowering.Value]*span{}, scratched: map[Buffer]*span{},
		held: map[*lowering.Value]*span{}, staged: map[*lowering.Value]int{}, offsets: map[Buffer]int{}}
}

func (l *layout) add(s *span, unit int) *span {
	s.First, s.Last = unit, unit
	l.order = append(l.order, s)
	return s
}

// touch records that a unit uses the device memory of a value.
func (l *layout) touch(root *lowering.Value, unit int) {
	if l.lives[root] == nil {
		l.lives[root] = l.add(&span{value: root}, unit)
	}
	l.lives[root].Last = max(l.lives[root].Last, unit)
}

// scratch records scratch memory of a unit.
func (l *layout) scratch(x Buffer, bytes, unit int) {
	if l.scratched[x] == nil {
		l.scratched[x] = l.add(&span{buffer: x, Interval: lowering.Interval{Size: bytes}}, unit)
	}
	l.scratched[x].Last = unit
}

// hold records that a unit uses the host memory of a value.
func (l *layout) hold(v *lowering.Value, unit int) {
	if l.held[v] == nil {
		l.held[v] = l.add(&span{value: v, host: true}, unit)
	}
	l.held[v].Last = max(l.held[v].Last, unit)
}

// stage assigns pinned memory to an input or output.
func (l *layout) stage(v *lowering.Value, bytes int) {
	if _, ok := l.staged[v]; !ok {
		l.staged[v] = l.staging
		l.staging += (bytes + align - 1) / align * align
	}
}

// place assigns memory to all spans.
func (p *plan) place() {
	l := &p.memory
	for i, u := range p.units {
		if u.control != nil {
			l.control = append(l.control, l.add(&span{host: true, unit: u,
				Interval: lowering.Interval{Size: u.control.Memory()}}, i))
		}
	}
	faults := &span{Interval: lowering.Interval{Last: len(p.units), Size: faultBytes * len(l.faults)}}
	if len(l.faults) > 0 {
		l.order = append(l.order, faults)
		l.faultsAt = l.staging
		l.staging += (faults.Size + align - 1) / align * align
	}
	if n := len(l.zeros); n > 0 {
		l.zeroed = &span{Interval: lowering.Interval{Last: len(p.units), Size: l.zeros[n-1].end()}}
		l.order = append(l.order, l.zeroed)
	}
	for _, host := range []bool{false, true} {
		var spans []*span
		var all []lowering.Interval
		for _, s := range l.order {
			if s.host != host {
				continue
			}
			if s.value != nil {
				s.Size = p.bytes(s.value)
			}
			spans, all = append(spans, s), append(all, s.Interval)
		}
		at, size := lowering.Place(p.d.Steps(), all, align)
		for i, s := range spans {
			if s.at = at[i]; host {
				continue
			}
			switch {
			case s == faults:
				for k, f := range l.faults {
					l.offsets[f.buffer] = s.at + faultBytes*k
				}
			case s == l.zeroed:
				for _, z := range l.zeros {
					l.offsets[z.buffer] = s.at + z.at
				}
			case s.buffer != 0:
				l.offsets[s.buffer] = s.at
			default:
				l.offsets[p.b.Uses(s.value)] = s.at
			}
		}
		if len(all) == 0 {
			size = 0
		}
		if host {
			l.places = size
		} else {
			l.arena = size
		}
	}
}

// elsewhere reports whether v is in the caller's memory on the host: an input, or an output.
func elsewhere(d *lowering.Binding, v *lowering.Value) bool {
	return d.Given(v) || d.Leaves(v) && d.Placed(v) && d.Fixed(v) == nil
}

// tensorAt returns a tensor over memory, with the type and shape of a span's value.
func (p *plan) tensorAt(s *span, memory []byte) (*tensor.Tensor, error) {
	return tensor.FromBytes(p.d.DType(s.value), p.d.Shape(s.value), memory[s.at:s.at+s.Size])
}
