package device

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/lowering"
)

// smallNumbers is the maximum number of elements of a value that the host computes although the device could:
// counters of loops, and their conditions.
const smallNumbers = 16

// small finds the steps that the host computes before all others: it needs their results and has all their inputs.
// They are integers and bools, such as conditions on the number of the iteration. This avoids copies that would wait
// for the device.
func (p *plan) small(live []*lowering.Step) map[*lowering.Step]bool {
	d := p.d
	there := map[*lowering.Value]bool{} // on the host
	for _, v := range d.Program.Inputs {
		there[v] = true
	}
	able := map[*lowering.Step]bool{}
	for _, s := range live {
		if !p.countable(s, there) {
			continue
		}
		able[s] = true
		for _, v := range s.Out {
			there[v] = true
		}
	}
	wanted, small := map[*lowering.Value]bool{}, map[*lowering.Step]bool{}
	for _, v := range d.Program.Outputs {
		wanted[v] = true
	}
	for i := len(live) - 1; i >= 0; i-- {
		s := live[i]
		for _, v := range s.Out {
			small[s] = small[s] || able[s] && wanted[v]
		}
		if small[s] || len(s.Node.Subgraphs()) > 0 {
			for v := range s.Reads {
				wanted[v] = true
			}
		}
	}
	return small
}

// countable reports whether a step computes a few integers or bools from integers or bools on the host.
func (p *plan) countable(s *lowering.Step, there map[*lowering.Value]bool) bool {
	if s.Node.Op.Eval == nil || s.Node.Op.Random || len(s.Node.Subgraphs()) > 0 || !p.fits(s) {
		return false
	}
	whole := func(v *lowering.Value) bool {
		n, _ := tensor.Size(p.d.Shape(v))
		t := p.d.DType(v)
		return n <= smallNumbers && (t == tensor.Bool || t.IsInt())
	}
	for _, v := range s.In {
		if v != nil && (!whole(v) || !there[v] && p.d.Fixed(v) == nil) {
			return false
		}
	}
	for _, v := range s.Out {
		if v != nil && !whole(v) {
			return false
		}
	}
	return true
}

// counts reports whether a step computes integers or bools from integers or bools, by its declared types. The host
// may compute it if they are few.
func counts(n *ir.Node) bool {
	if n.Op.Eval == nil || n.Op.Random || len(n.Subgraphs()) > 0 {
		return false
	}
	for _, list := range [][]*ir.Value{n.Inputs, n.Outputs} {
		for _, v := range list {
			if v == nil {
				continue
			}
			if t, ok := v.Type.(*ir.TensorType); !ok || t.Elem != tensor.Bool && !t.Elem.IsInt() {
				return false
			}
		}
	}
	return true
}
