package recurrence

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/eval"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// trial runs a part on chosen numbers. fill returns the numbers of a leaf. see is called with each value of the part
// once it is computed, and returns false if it needs no more.
func (p *parallel) trial(e *eval.Constants, fill func(leaf int, shape []int) []float64,
	see func(v *ir.Value, t *tensor.Tensor) bool) error {
	left := map[*ir.Value]int{}
	for _, n := range p.nodes {
		for _, v := range n.Inputs {
			left[v]++
		}
	}
	env := map[*ir.Value]tensor.Datum{}
	var held int64
	defer func() { e.Budget.Release(held) }()
	keep := func(v *ir.Value, d tensor.Datum) error {
		size := ops.SizeOf(d)
		if err := e.Budget.Take(size); err != nil {
			return err
		}
		held += size
		env[v] = d
		return nil
	}
	for i, v := range p.leaves {
		shape, ok := regions.Dims(v.Shape(), e.Bind)
		if !ok {
			return fmt.Errorf("the shape %v of %s is not known", v.Shape(), v.Name)
		}
		size, err := tensor.Size(shape)
		if err != nil || size > regions.MaxElements {
			return fmt.Errorf("%s has %d elements, more than are tried", v.Name, size)
		}
		if err := e.Budget.Spend(regions.WorkPerElement * int64(size)); err != nil {
			return err
		}
		if err := keep(v, tensor.FromSlice(fill(i, shape), shape...)); err != nil {
			return err
		}
	}
	late := map[*ir.Value]bool{}
	for _, v := range p.late {
		late[v] = true
	}
	for _, n := range p.nodes {
		p.run.Check()
		if t, ok := e.Shape(n); ok {
			if err := keep(n.Outputs[0], t); err != nil {
				return err
			}
			continue
		}
		in := make([]tensor.Datum, len(n.Inputs))
		for i, v := range n.Inputs {
			switch {
			case v == nil:
			case v.Const != nil:
				in[i] = eval.Widen(v.Const)
			case env[v] == nil:
				return fmt.Errorf("%s was not computed", v.Name)
			default:
				in[i] = env[v]
			}
		}
		out, err := e.Node(n, in)
		if err != nil {
			return err
		}
		for i, v := range n.Outputs {
			if v == nil {
				continue
			}
			if err := keep(v, out[i]); err != nil {
				return err
			}
			if t, ok := out[i].(*tensor.Tensor); ok && late[v] && !see(v, t) {
				return nil
			}
		}
		for _, v := range n.Inputs {
			if left[v]--; left[v] == 0 && env[v] != nil {
				size := ops.SizeOf(env[v])
				e.Budget.Release(size)
				held -= size
				delete(env, v)
			}
		}
	}
	return nil
}

// rows are the elements of a sequence as rows along time: row i starts at base[i], with the given stride.
type rows struct {
	x      []float64
	base   []int
	stride int
	steps  int
}

func (r *rows) at(row, step int) float64 { return r.x[r.base[row]+step*r.stride] }

// rowsAlong returns the rows of a tensor along an axis.
func rowsAlong(x []float64, shape []int, axis int) *rows {
	return rowsLike(x, shape, shape, axis)
}

// rowsLike returns the rows of a tensor that is broadcast to a shape. It returns nil if that is impossible, or if
// the tensor lacks steps.
func rowsLike(x []float64, shape, like []int, axis int) *rows {
	off := len(like) - len(shape)
	if off < 0 || axis < off || shape[axis-off] != like[axis] {
		return nil
	}
	own := ops.Strides(shape)
	at := make([]int, len(like)) // strides in x
	count := 1
	for i, d := range like {
		if i >= off && shape[i-off] != 1 {
			if shape[i-off] != d {
				return nil
			}
			at[i] = own[i-off]
		}
		if i != axis {
			count *= d
		}
	}
	r := &rows{x: x, base: make([]int, 0, count), stride: at[axis], steps: like[axis]}
	index := make([]int, len(like))
	for range count {
		base := 0
		for i, k := range index {
			base += k * at[i]
		}
		r.base = append(r.base, base)
		for i := len(like) - 1; i >= 0; i-- {
			if i == axis {
				continue
			}
			if index[i]++; index[i] < like[i] {
				break
			}
			index[i] = 0
		}
	}
	return r
}

// drawn returns numbers from lo to hi that depend only on a seed.
func drawn(seed uint64, shape []int, lo, hi float64) []float64 {
	r := rand.New(rand.NewPCG(seed, 7))
	n := 1
	for _, d := range shape {
		n *= d
	}
	x := make([]float64, n)
	for i := range x {
		x[i] = lo + (hi-lo)*r.Float64()
	}
	return x
}

// binds returns numbers for the symbols of a part's leaves: for two lengths if the length is open.
func (p *parallel) binds(ix *regions.Index) []map[string]int64 {
	var shape ir.Shape
	for _, v := range p.leaves {
		shape = append(shape, v.Shape()...)
	}
	var names []string
	for _, list := range []ir.Shape{shape, {p.steps}} {
		for _, d := range list {
			names = append(names, d.Symbols()...)
		}
	}
	for _, v := range ix.G.Inputs {
		for _, d := range v.Shape() {
			names = append(names, d.Symbols()...)
		}
	}
	slices.Sort(names)
	first, second := map[string]int64{}, map[string]int64{}
	open := false
	for i, n := range slices.Compact(names) {
		first[n] = int64(2 + i%2)
		second[n] = first[n]
		if slices.Contains(p.steps.Symbols(), n) {
			first[n], second[n] = 19, 44
			open = true
		}
	}
	if open {
		return []map[string]int64{first, second}
	}
	return []map[string]int64{first}
}

// guess is a hypothesis: a value h of the part is the recurrence h[t] = f[t] h[t-1] + v[t] over two of its leaves, or
// over their exponentials.
type guess struct {
	h          *ir.Value
	f, v       int // leaves
	expF, expV bool
	backward   bool // h[t] = f[t] h[t+1] + v[t]
	axis       int  // of time, in h
}

// A fault is the point at which a guess fails.
type fault struct {
	steps     int // number of correct steps before it
	got, want float64
}

// exactTol is the maximum error of one step, relative to the largest state of its row.
const exactTol = 1e-9

// holds compares h with the recurrence, and returns the first fault, or nil. first receives (h[0] - v[0])/f[0] for each
// row: the states before the first step.
func (g *guess) holds(h, f, v *rows, first []float64) *fault {
	var worst *fault
	num := func(exp bool, x float64) float64 {
		if exp {
			return math.Exp(x)
		}
		return x
	}
	for i := range h.base {
		step := func(t int) int {
			if g.backward {
				return h.steps - 1 - t
			}
			return t
		}
		peak := 0.0
		for t := range h.steps {
			peak = max(peak, math.Abs(h.at(i, t)))
		}
		for t := range h.steps {
			at := step(t)
			in := num(g.expV, v.at(i, at))
			if t == 0 {
				first[i] = (h.at(i, at) - in) / num(g.expF, f.at(i, at))
				if math.Abs(h.at(i, at)-in) <= exactTol*math.Abs(in) {
					first[i] = 0
				}
				continue
			}
			want := num(g.expF, f.at(i, at))*h.at(i, step(t-1)) + in
			if got := h.at(i, at); !(math.Abs(got-want) <= exactTol*(peak+math.Abs(in))) {
				if worst == nil || t-1 < worst.steps {
					worst = &fault{t - 1, got, want}
				}
				break
			}
		}
	}
	return worst
}
