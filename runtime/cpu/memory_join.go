package cpu

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/lowering"
)

// A kernel that joins tensors finds its inputs in its result, where nobody else reads them later: their writers put them
// there (see record.TensorKernel.Joins).

// inside is the place of a value in the memory of another one.
type inside struct {
	val int // the other value
	at  int // in float32
}

// join moves inputs of kernels that join into the memory of the results. It returns their places there.
func (p *intervals) join(d *binding, units []*unit, lives []lowering.Life, extents []extent) map[int]inside {
	moved := map[int]inside{}
	if p.plain {
		return moved
	}
	sharing := make([]int, len(p.all)) // values with the interval
	for _, at := range p.of {
		d.Steps().Step(20)
		sharing[at]++
	}
	gone := map[int]bool{} // intervals
	for i, u := range units {
		d.Steps().Step(10)
		if u.kernel == nil || u.kernel.joins == nil || u.epilogue != nil {
			continue
		}
		s := u.steps[0]
		y := s.Out[0]
		to, ok := p.of[y.ID]
		if !ok || p.all[to].val != y.ID || extents[y.ID].rows > 0 {
			continue
		}
		var times map[*lowering.Value]int // how often each is read
		if len(s.In) > 16 {
			times = make(map[*lowering.Value]int)
			for _, x := range s.In {
				d.Steps().Step(100)
				times[x]++
			}
		}
		for k, x := range s.In {
			d.Steps().Step(100)
			at, ok := p.of[x.ID]
			if !ok || sharing[at] > 1 || gone[at] || p.all[at].val != x.ID || lives[x.ID].Last != i || extents[x.ID].rows > 0 ||
				u.kernel.joins[k]%4 > 0 || times[x] > 1 || times == nil && count(s.In, x) > 1 || !d.IsFloat32(x) && tensor.ByteSize(d.DType(x), d.numbers(x))%4 > 0 {
				continue
			}
			moved[x.ID] = inside{y.ID, u.kernel.joins[k] / 4}
			gone[at] = true
			p.all[to].First = min(p.all[to].First, p.all[at].First)
			p.all[to].Last = max(p.all[to].Last, p.all[at].Last)
		}
	}
	kept := p.all[:0]
	for at, v := range p.all {
		d.Steps().Step(20)
		if !gone[at] {
			kept = append(kept, v)
		}
	}
	p.all = kept
	return moved
}

// numbers returns the number of elements of v.
func (d *binding) numbers(v *lowering.Value) int {
	n, _ := tensor.Size(d.Shape(v))
	return n
}

// count returns how often v is in all.
func count(all []*lowering.Value, v *lowering.Value) (n int) {
	for _, w := range all {
		if w == v {
			n++
		}
	}
	return n
}
