package recurrence

import (
	"fmt"
	"math/cmplx"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise/internal/linear"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// unit is a part of a system's state on which no other part depends: one real number, a pair that is a complex
// number, or, in a dense system, several numbers.
type unit struct {
	at    []int // indices of states
	eigen complex128
}

// plan assigns the units of a system to the heads of a scan. All heads have the same numbers of inputs, outputs and
// units.
type plan struct {
	sys   *system
	dense bool
	// isComplex reports whether some unit is a complex number.
	isComplex bool
	heads     int
	width     int    // states per head: units of a diagonal system, numbers of a dense system
	units     []unit // heads × units, padded with empty ones
	per       int    // units per head

	pace *ir.Pacer // ends the search for a structure with the pass
}

// newPlan finds the structure of a system. keep selects the states whose initial or final values are used. newPlan
// omits a unit without such states if no input reaches it or no output reads it.
func newPlan(run *passes.Context, s *system, keep []bool) (*plan, error) {
	p := &plan{sys: s, pace: ir.NewPacer(run.Check)}
	var units []unit
	for _, at := range components(s.a, p.pace) {
		p.pace.Step(4)
		if !s.matters(at, keep) {
			continue
		}
		u := unit{at: at}
		var ok bool
		if u.eigen, ok = asEigenvalue(s.a, at); !ok {
			p.dense = true
		}
		p.isComplex = p.isComplex || len(at) == 2
		units = append(units, u)
	}
	if p.dense {
		p.isComplex = false
	}
	if len(units) == 0 {
		return nil, fmt.Errorf("its outputs do not depend on a state")
	}
	if err := p.group(run, units); err != nil {
		return nil, err
	}
	if p.size() > linear.MaxElements {
		return nil, linear.ErrTooLarge
	}
	return p, nil
}

// String returns a text such as "real and diagonal, heads × states = 1 × 6".
func (p *plan) String() string {
	kind := "real and diagonal"
	switch {
	case p.dense:
		kind = "with a full matrix"
	case p.isComplex:
		kind = "complex and diagonal"
	}
	return fmt.Sprintf("%s, heads × states = %d × %d", kind, p.heads, p.width)
}

// components lists the sets of states that depend on each other. Each set is sorted, and sets are in the order of their
// first states.
func components(a [][]linear.Term, pace *ir.Pacer) [][]int {
	parent := make([]int, len(a))
	for i := range parent {
		parent[i] = i
	}
	find := func(i int) int {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	for i, row := range a {
		pace.Step(1 + len(row)/4)
		for _, t := range row {
			x, y := find(i), find(int(t.At))
			parent[max(x, y)] = min(x, y)
		}
	}
	var out [][]int
	index := map[int]int{}
	for i := range a {
		pace.Step(2)
		r := find(i)
		if _, ok := index[r]; !ok {
			index[r] = len(out)
			out = append(out, nil)
		}
		out[index[r]] = append(out[index[r]], i)
	}
	return out
}

// asEigenvalue returns the eigenvalue of a component that is one real or one complex number.
func asEigenvalue(a [][]linear.Term, at []int) (complex128, bool) {
	coef := func(i, j int) float64 {
		for _, t := range a[i] {
			if int(t.At) == j {
				return t.Coef
			}
		}
		return 0
	}
	switch len(at) {
	case 1:
		return complex(coef(at[0], at[0]), 0), true
	case 2:
		i, j := at[0], at[1]
		re, im := coef(i, i), coef(j, i)
		return complex(re, im), coef(j, j) == re && coef(i, j) == -im
	}
	return 0, false
}

// matters reports whether a component has an effect: a state of it is kept, or an input reaches it and an output reads
// it.
func (s *system) matters(at []int, keep []bool) bool {
	reached, read := false, false
	in := map[int]bool{}
	for _, i := range at {
		if keep[i] {
			return true
		}
		in[i] = true
		reached = reached || len(s.b[i]) > 0 || s.bias[i] != 0
	}
	for _, o := range s.outputs {
		for _, rows := range [][][]linear.Term{o.next, o.prev} {
			for _, row := range rows {
				for _, t := range row {
					read = read || in[int(t.At)]
				}
			}
		}
	}
	return reached && read
}

// states returns the number of states of a head that the unit takes.
func (p *plan) states(u unit) int {
	if p.dense {
		return len(u.at)
	}
	return 1
}

// size returns the number of elements of the plan's matrices.
func (p *plan) size() int {
	n := p.width * p.heads
	out := n * max(1, p.sys.h/p.heads)
	if p.dense {
		out += 2 * n * p.width
	}
	for _, o := range p.sys.outputs {
		out += n * max(1, len(o.next)/p.heads)
	}
	return out
}

// group finds the largest number of heads for which inputs and outputs divide into equal ranges, such that each unit
// depends on the inputs of one head and only the outputs of that head depend on it.
func (p *plan) group(run *passes.Context, units []unit) error {
	s := p.sys
	owner := make([]int, s.n) // unit of each state
	for i := range owner {
		owner[i] = -1
	}
	for i, u := range units {
		for _, k := range u.at {
			owner[k] = i
		}
	}
	divisor, terms := s.h, len(units)+count(s.b)
	for _, o := range s.outputs {
		terms += count(o.next, o.prev)
		if slices.ContainsFunc(slices.Concat(o.next, o.prev), func(r []linear.Term) bool { return len(r) > 0 }) {
			divisor = gcd(divisor, len(o.next))
		}
	}
	total := 0
	for _, u := range units {
		total += p.states(u)
	}
	for heads := divisor; heads >= 1; heads-- {
		if divisor%heads != 0 {
			continue
		}
		run.Check()
		if err := run.Search().Spend(8 * int64(terms)); err != nil {
			return err
		}
		of, ok := p.assign(units, owner, heads)
		if !ok {
			continue
		}
		byHead := make([][]unit, heads)
		widths := make([]int, heads)
		for i, u := range units {
			p.pace.Step(1)
			byHead[of[i]] = append(byHead[of[i]], u)
			widths[of[i]] += p.states(u)
		}
		width := slices.Max(widths)
		if heads > 1 && heads*width > 2*total {
			continue
		}
		p.heads, p.width = heads, width
		for _, us := range byHead {
			p.per = max(p.per, len(us))
		}
		for _, us := range byHead {
			for len(us) < p.per {
				p.pace.Step(1)
				us = append(us, unit{})
			}
			p.units = append(p.units, us...)
		}
		return nil
	}
	return nil
}

// assign assigns each unit to a head, if possible.
func (p *plan) assign(units []unit, owner []int, heads int) ([]int, bool) {
	s := p.sys
	of := make([]int, len(units))
	for i := range of {
		of[i] = -1
	}
	set := func(u, head int) bool {
		if of[u] >= 0 && of[u] != head {
			return false
		}
		of[u] = head
		return true
	}
	for i, u := range units {
		p.pace.Step(1)
		for _, k := range u.at {
			for _, t := range s.b[k] {
				if !set(i, int(t.At)*heads/s.h) {
					return nil, false
				}
			}
		}
	}
	for _, o := range s.outputs {
		for _, rows := range [][][]linear.Term{o.next, o.prev} {
			for r, row := range rows {
				p.pace.Step(1 + len(row)/16)
				for _, t := range row {
					if u := owner[t.At]; u >= 0 && !set(u, r*heads/len(rows)) {
						return nil, false
					}
				}
			}
		}
	}
	for i := range of {
		of[i] = max(of[i], 0)
	}
	return of, true
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// position is the position of a state's number: column col of head head, in the real or the imaginary part.
type position struct {
	head, col int
	imag      bool
}

// positions returns the position of each state that was not omitted.
func (p *plan) positions() map[int]position {
	out := map[int]position{}
	for h := range p.heads {
		col := 0
		for _, u := range p.units[h*p.per : (h+1)*p.per] {
			for j, k := range u.at {
				if p.pace.Step(2); p.dense {
					out[k] = position{h, col + j, false}
				} else {
					out[k] = position{h, col, j == 1}
				}
			}
			col += p.states(u)
		}
	}
	return out
}

// logs returns the logarithms of the eigenvalues, per head and state. Padding states decay at once.
func (p *plan) logs() (re, im []float64) {
	for range p.heads * p.width {
		re, im = append(re, regions.DeadLog), append(im, 0)
	}
	for h := range p.heads {
		for i, u := range p.units[h*p.per : (h+1)*p.per] {
			if len(u.at) > 0 && u.eigen != 0 {
				z := cmplx.Log(u.eigen)
				re[h*p.width+i], im[h*p.width+i] = real(z), imag(z)
			}
		}
	}
	return re, im
}
