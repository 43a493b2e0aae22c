package recurrence

import (
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

// dplrEnd computes the state after the last step in strides of many steps. A stride multiplies the state by one
// matrix, and its inputs by another; all strides of a feature share them. The first steps, fewer than a stride, run
// singly.
type dplrEnd struct {
	c      *dplr
	length int
	across []float64 // by feature: the matrix of a state over a stride, on real parts before imaginary ones
	give   []float32 // by feature and number of the state: the contribution of a stride's inputs, oldest first
}

// dplrStride is the number of steps of a stride.
const dplrStride = 128

func (e *dplrEnd) strides() int { return e.length / dplrStride }

func (e *dplrEnd) bytes() int64 {
	if e.strides() == 0 {
		return 0
	}
	size := int64(2 * e.c.n)
	return int64(e.c.N) * size * (8*size + 4*dplrStride)
}

func (e *dplrEnd) prepare() {
	if e.strides() > 0 {
		size := 2 * e.c.n
		e.across, e.give = make([]float64, e.c.N*size*size), make([]float32, e.c.N*size*dplrStride)
	}
}

func (e *dplrEnd) scratch() int { return 2 * e.c.n }

func (e *dplrEnd) fill(w *record.Workspace) {
	if e.strides() == 0 {
		return
	}
	n, size := e.c.n, 2*e.c.n
	z, low := make([]float64, size), make([]float64, e.c.rank)
	for i := 0; i < e.c.N && !w.Stopped(); i++ {
		across, give := e.across[i*size*size:(i+1)*size*size], e.give[i*size*dplrStride:(i+1)*size*dplrStride]
		e.c.response(i, dplrStride, z, low, func(k int, _, _ []float64) bool {
			for r, x := range z {
				give[r*dplrStride+dplrStride-1-k] = float32(x)
			}
			return true
		})
		d := &e.c.heads[i]
		for j := 0; j < size && !w.Stopped(); j++ {
			clear(z)
			z[j] = 1
			d.Project(low, z[:n], z[n:])
			for range dplrStride {
				d.Advance(z[:n], z[n:], low, 0, 0)
			}
			for r, x := range z {
				across[r*size+j] = x
			}
		}
	}
}

func (e *dplrEnd) run(j int, s *record.Sequence, inputs []float32, state []float64, tmp []float32) {
	n, all, size := e.c.n, e.c.N*e.c.n, 2*e.c.n
	z, next, low := state[:size], state[size:2*size], state[2*size:2*size+e.c.rank]
	clear(z)
	if s.Z != nil {
		copy(z, s.Z[j*n:(j+1)*n])
		copy(z[n:], s.Z[all+j*n:all+(j+1)*n])
	}
	d := &e.c.heads[j]
	d.Project(low, z[:n], z[n:])
	at := len(inputs) % dplrStride
	for _, u := range inputs[:at] {
		d.Advance(z[:n], z[n:], low, float64(u), 0)
	}
	for ; at < len(inputs) && !s.Stopped(); at += dplrStride {
		given := tmp[:size]
		kernel.Dots(given, e.give[j*size*dplrStride:(j+1)*size*dplrStride], inputs[at:at+dplrStride])
		for i, x := range given {
			next[i] = float64(x)
		}
		kernel.MatVec(next, e.across[j*size*size:(j+1)*size*size], z)
		z, next = next, z
	}
	copy(s.Next[j*n:(j+1)*n], z[:n])
	copy(s.Next[all+j*n:all+(j+1)*n], z[n:])
}

// zero reports whether all numbers are 0.
func zero(v []float64) bool {
	for _, x := range v {
		if x != 0 {
			return false
		}
	}
	return true
}
