package device

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/lowering"
)

// segment is work that a stream does in order, without the host in between.
type segment struct {
	// enter are the values that are copied from the host's memory to pinned memory before the segment; leave are
	// copied back after it. Values that already are in pinned memory are not copied.
	enter, leave []*lowering.Value
	items        []item
	faults       bool // its units can report faults; the last item copies them to the host
}

// item is one operation of a stream.
type item struct {
	unit *unit
	work *Work // of the unit; nil for a copy between host and device
	crossing
	faults bool // copies all faults to the host
}

// mover tracks the values of a plan unit by unit: on which side they are, and how long.
type mover struct {
	*plan
	device map[*lowering.Value]bool // by root: it is in the memory of the device
	host   map[*lowering.Value]bool // it is in the memory of the host
	made   map[*lowering.Value]int  // the host unit that evaluates it
	open   *segment
	now    int // the current unit
}

// move finds the copies between host and device, divides the units into segments, and finds the lifetimes of values
// on each side.
func (p *plan) move() {
	m := &mover{plan: p, device: map[*lowering.Value]bool{}, host: map[*lowering.Value]bool{},
		made: map[*lowering.Value]int{}, open: &segment{}}
	p.memory.init()
	for _, v := range p.d.Program.Inputs {
		m.host[v] = true
	}
	for i, u := range p.units {
		if m.now = i; u.work != nil {
			m.onDevice(u)
		} else {
			m.onHost(u)
		}
	}
	m.now = len(p.units)
	direct := p.d.Direct()
	for i, v := range p.d.Program.Outputs {
		if direct[i] && !m.host[v] {
			m.toHost(v, nil)
			m.host[v] = true
		}
	}
	m.close()
}

// close ends a segment.
func (m *mover) close() {
	if m.open.faults {
		m.open.items = append(m.open.items, item{faults: true})
	}
	m.segments = append(m.segments, m.open)
	m.open = &segment{}
}

// onDevice adds a unit of the device.
func (m *mover) onDevice(u *unit) {
	own := map[*lowering.Value]bool{}
	for _, s := range u.steps {
		for _, v := range s.Out {
			own[v] = v != nil
		}
	}
	used := map[*lowering.Value]bool{} // by root
	u.uses(func(x Buffer) {
		if x == 0 {
			return
		}
		switch k := m.b.Memory(x); {
		case k.Value != nil:
			used[k.Value] = true
		case k.Scratch > 0:
			m.memory.scratch(x, k.Scratch, m.now)
		case k.Zeros > 0:
			m.zeros(x, k.Zeros, u)
		case k.Fault != "":
			m.fault(x, k.Fault, u)
		}
	})
	views := map[*lowering.Value]bool{}
	for v := range own {
		if root := m.b.Root(v); root != v && !own[root] {
			views[root] = true
		}
	}
	for _, s := range u.steps {
		for _, v := range s.In {
			if v == nil || own[v] || m.d.Fixed(v) != nil {
				continue
			}
			if root := m.b.Root(v); (used[root] || views[root]) && !m.device[root] {
				m.toDevice(v, root, u)
			}
		}
	}
	for v := range used {
		if m.d.Fixed(v) == nil {
			m.device[v] = true
			m.memory.touch(v, m.now)
		}
	}
	for v := range views {
		m.memory.touch(v, m.now)
	}
	for i := range u.work.Work {
		m.open.items = append(m.open.items, item{unit: u, work: &u.work.Work[i]})
	}
}

// fault adds a number by which a unit reports that it cannot compute its inputs. All of them are cleared at the
// start of a run.
func (m *mover) fault(x Buffer, message string, u *unit) {
	l := &m.memory
	if slices.ContainsFunc(l.faults, func(f fault) bool { return f.buffer == x }) {
		return
	}
	if len(l.faults) == 0 {
		l.clear = &Work{Kind: Fill, Dst: x}
		m.open.items = append(m.open.items, item{unit: u, work: l.clear})
	}
	l.faults = append(l.faults, fault{x, u, message})
	l.clear.Bytes = faultBytes * len(l.faults)
	m.open.faults = true
}

// zeros adds memory of a unit that must be zero. All such memory is cleared together, at the start of a run.
func (m *mover) zeros(x Buffer, bytes int, u *unit) {
	l := &m.memory
	if slices.ContainsFunc(l.zeros, func(z zeros) bool { return z.buffer == x }) {
		return
	}
	at := 0
	if n := len(l.zeros); n == 0 {
		l.clearZeros = &Work{Kind: Fill, Dst: x}
		m.open.items = append(m.open.items, item{unit: u, work: l.clearZeros})
	} else {
		at = l.zeros[n-1].end()
	}
	z := zeros{x, at, bytes}
	l.zeros = append(l.zeros, z)
	l.clearZeros.Bytes = z.end()
}

// toDevice adds a copy of a value from the host.
func (m *mover) toDevice(v, root *lowering.Value, u *unit) {
	m.device[root] = true
	m.b.Begin(nil)
	if m.b.Buffer(root); m.b.Uses(root) == 0 { // no elements
		m.b.Keep()
		return
	}
	m.b.Keep()
	m.memory.touch(root, m.now)
	m.cross(v)
	m.open.enter = append(m.open.enter, v)
	m.open.items = append(m.open.items, item{unit: u, crossing: crossing{v, true}})
}

// toHost adds a copy of a value from the device.
func (m *mover) toHost(v *lowering.Value, u *unit) {
	root := m.b.Root(v)
	if m.bytes(v) == 0 { // nothing to copy, but the host reads a tensor
		if !elsewhere(m.d, v) {
			m.memory.hold(v, m.now)
		}
		return
	}
	if !m.device[root] { // a view of an input
		m.toDevice(root, root, u)
	}
	m.memory.touch(root, m.now)
	m.cross(v)
	m.open.leave = append(m.open.leave, v)
	m.open.items = append(m.open.items, item{unit: u, crossing: crossing{v, false}})
}

// cross assigns pinned host memory to v.
func (m *mover) cross(v *lowering.Value) {
	if elsewhere(m.d, v) {
		m.memory.stage(v, m.bytes(v))
		return
	}
	if from, ok := m.made[v]; ok {
		m.memory.hold(v, from)
	}
	m.memory.hold(v, m.now)
}

func (p *plan) bytes(v *lowering.Value) int {
	n, _ := tensor.Size(p.d.Shape(v))
	return tensor.ByteSize(p.d.DType(v), n)
}

// onHost adds a unit of the host, and ends the segment before it.
func (m *mover) onHost(u *unit) {
	s := u.steps[0]
	for v := range s.Reads {
		if m.d.Fixed(v) != nil || !m.d.Placed(v) {
			continue
		}
		if !m.host[v] {
			m.toHost(v, u)
			m.host[v] = true
			u.crossings = append(u.crossings, crossing{v, false})
		}
		if m.memory.held[v] != nil {
			m.memory.hold(v, m.now)
		}
	}
	m.hosts = append(m.hosts, m.now)
	m.close()
	for _, v := range s.Out {
		if v == nil || m.d.Fixed(v) != nil || !m.d.Placed(v) {
			continue
		}
		m.host[v] = true
		switch {
		case elsewhere(m.d, v):
		case u.control != nil: // writes directly to its results
			m.memory.hold(v, m.now)
		default:
			m.made[v] = m.now
		}
	}
}
