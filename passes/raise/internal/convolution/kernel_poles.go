package convolution

import (
	"iter"
	"math/cmplx"
	"slices"
	"sync"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

const (
	// poleTol is the maximum error of one exponential as a fit to a row from which a pole is read. tableTol is the
	// maximum for a window, where the poles are refined: a table computed by an exporter has float32's rounding
	// errors.
	poleTol, tableTol = 1e-9, 1e-5
	// poleTables is the maximum number of values before a kernel in which poles are searched. The nearest ones come
	// first.
	poleTables = 8
)

// poleSource returns sets of candidate poles of a channel's kernel. It takes the work of reading them from a tally,
// and records in the bits of read which tables it has read. It may be called concurrently.
type poleSource func(channel int, work *tally, read *uint) iter.Seq[[]complex128]

// poles describes where the poles of kernels may be known from.
type poles struct {
	of     poleSource
	tables []func() poleTable
	sure   bool             // they are valid beyond the window
	known  [][][]complex128 // per channel, all sets of candidates, once it is clear that none of them fits
}

// poleTable is a table of powers from which a kernel is computed.
type poleTable struct {
	x     []float64
	shape []int
	work  int64 // of computing it
}

// polesOf reads poles from the computation of a kernel. Before the sum over states there is often a table with a row
// of steps for each state. Each row is one exponential, so its pole can be read exactly, whatever the number and
// decay of the states. poles returns nil if there is no such table.
//
// Which tables are computed depends on the channels, so each is computed within a budget of its own, and its work is
// charged with that of the channels that read it.
func polesOf(ix *regions.Index, r *regions.Region, res *response) *poles {
	out := &poles{}
	tol := tableTol
	if out.sure = res.anySize; out.sure {
		tol = poleTol
	}
	_, left := ix.Run.Search().Left()
	room := regions.MaxElements * 2
	for _, v := range tablesOf(ix, r, res) {
		size, err := v.Shape().Size().Eval(res.bind)
		if room -= int(size); err != nil || room < 0 {
			break
		}
		out.tables = append(out.tables, sync.OnceValue(func() poleTable {
			b := ir.NewBudget(regions.MaxMemory, left)
			t, err := regions.ConstantsWithin(ix.Run, b, res.bind).Tensor(v)
			if err != nil {
				return poleTable{work: b.Spent()}
			}
			x, err := t.Float64s()
			if err != nil || !slices.Contains(t.Shape(), res.length) {
				return poleTable{work: b.Spent()}
			}
			return poleTable{x, t.Shape(), b.Spent()}
		}))
	}
	if len(out.tables) == 0 {
		return nil
	}
	// read returns the poles in one table for a channel.
	read := func(t poleTable, c int, work *tally) (sets [][]complex128) {
		if t.x == nil {
			return nil
		}
		time := slices.Index(t.shape, res.length)
		matched := false
		for a, d := range t.shape { // each axis that may be the axis of channels
			if a != time && d == res.n && res.n > 1 {
				matched = true
				if set, ok := readPoles(t.x, t.shape, time, a, c, tol, work); ok {
					sets = append(sets, set)
				}
			}
		}
		if !matched { // all channels have the same
			if set, ok := readPoles(t.x, t.shape, time, -1, 0, tol, work); ok {
				sets = append(sets, set)
			}
		}
		return sets
	}
	out.known = make([][][]complex128, res.n)
	out.of = func(c int, work *tally, tables *uint) iter.Seq[[]complex128] {
		return func(yield func([]complex128) bool) {
			if out.known[c] != nil {
				for _, set := range out.known[c] {
					if !yield(set) {
						return
					}
				}
				return
			}
			var sets [][]complex128
			for i, t := range out.tables {
				*tables |= 1 << i
				for _, set := range read(t(), c, work) {
					n := len(sets)
					if sets = addSet(sets, set); len(sets) > n && !yield(sets[n]) {
						return
					}
				}
			}
			// Unions of two sets: a table of sines lacks the states with frequency 0.
			var pairs [][]complex128
			for i, s := range sets {
				for _, t := range sets[:i] {
					pairs = addSet(pairs, slices.Concat(s, t))
				}
			}
			slices.SortStableFunc(pairs, func(a, b []complex128) int { return len(a) - len(b) })
			out.known[c] = append(sets, pairs...)
			for _, set := range pairs {
				if !yield(set) {
					return
				}
			}
		}
	}
	return out
}

// addSet adds the distinct poles of a set, if the set is new and not too large.
func addSet(sets [][]complex128, set []complex128) [][]complex128 {
	var out []complex128
	for _, p := range set {
		if !slices.ContainsFunc(out, func(q complex128) bool { return cmplx.Abs(p-q) < 1e-12 }) {
			out = append(out, p)
		}
	}
	if len(out) == 0 || len(out) > maxPoles || slices.ContainsFunc(sets,
		func(s []complex128) bool { return sameSet(s, out) }) {
		return sets
	}
	return append(sets, out)
}

func sameSet(a, b []complex128) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(p complex128) bool {
		return !slices.ContainsFunc(b, func(q complex128) bool { return cmplx.Abs(p-q) < 1e-12 })
	})
}

// tablesOf lists values from which the region's constants are computed that have a row of as many steps as the
// response for more states than channels. The last computed comes first.
func tablesOf(ix *regions.Index, r *regions.Region, res *response) []*ir.Value {
	var out []*ir.Value
	walk := regions.WalkFrom()
	for _, n := range r.Nodes {
		walk.Add(n.Inputs...)
	}
	for v := range walk.Values() {
		if v.Def == nil || !ix.IsFixed(v) {
			continue
		}
		if shape, ok := regions.Dims(v.Shape(), res.bind); ok && regions.IsReal(v.Elem()) && len(shape) > 1 {
			size, steps := 1, 0
			for _, d := range shape {
				size *= d
				if d == res.length {
					steps++
				}
			}
			if steps == 1 && size > res.n*res.length && size <= regions.MaxElements &&
				size/res.length <= res.n*4*maxPoles {
				out = append(out, v)
			}
		}
		if n := v.Def; n.Op.Domain != "" || n.Op.Name != "Shape" && n.Op.Name != "Size" {
			walk.Add(n.Inputs...)
		}
	}
	slices.SortFunc(out, func(a, b *ir.Value) int { return ix.Position[b.Def] - ix.Position[a.Def] })
	// Values that only rearrange others add nothing.
	out = slices.DeleteFunc(out, func(v *ir.Value) bool {
		o := regions.Origin(v)
		return o != v && slices.Contains(out, o)
	})
	return out[:min(len(out), poleTables)]
}

// readPoles reads the poles of rows along axis time: of those at one index of another axis, or of all rows if axis < 0.
// It returns false unless each row is one exponential, or 0.
func readPoles(x []float64, shape []int, time, axis, at int, tol float64, work *tally) (poles []complex128, ok bool) {
	strides := ops.Strides(shape)
	row := make([]float64, shape[time])
	outer := slices.Clone(shape)
	outer[time] = 1
	first := 0
	if axis >= 0 {
		outer[axis] = 1
		first = at * strides[axis]
	}
	if size, err := tensor.Size(outer); err != nil || size > 2*maxPoles {
		return nil, false
	}
	ok = true
	ops.Walk(nil, outer, strides, first, func(offset int) {
		if !ok {
			return
		}
		for t := range row {
			row[t] = x[offset+t*strides[time]]
		}
		var p complex128
		if p, ok = onePole(row, tol, work); ok && p != 0 {
			poles = append(poles, p)
		}
	})
	return poles, ok && len(poles) > 0
}

// onePole returns the pole of a row that is one exponential, or one and its conjugate, up to tol. It returns 0 for a
// row of zeros.
func onePole(k []float64, tol float64, work *tally) (complex128, bool) {
	norm, _ := norms(k)
	if norm == 0 {
		return 0, true
	}
	if !work.take(workOfPencil(8) + 2*workOfFit(len(k), 2)) {
		return 0, false
	}
	p, ok := newPencil(k, 8)
	if !ok {
		return 0, false
	}
	for r := 1; r <= 2 && r <= len(p.s); r++ {
		poles, ok := p.poles(r)
		if !ok || len(poles) != 1 || poles[0] == 0 {
			continue
		}
		e, ok := amplitudes(k, poles)
		if !ok {
			continue
		}
		if miss := residual(k, e); miss > tol*norm && miss < 1e-2*norm {
			if e, ok = refine(k, e, 4, work); !ok {
				continue
			}
		}
		if residual(k, e) <= tol*norm {
			return e.pole[0], true
		}
	}
	return 0, false
}
