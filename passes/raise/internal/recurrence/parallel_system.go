package recurrence

import (
	"errors"
	"fmt"
	"math"
	"math/cmplx"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise/internal/linear"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// ParallelSystem recognizes diagonal systems whose states are computed for all steps at once.
var ParallelSystem = &passes.Pass{
	Name: "raise-parallel-system",
	Doc: "Scans by rounds or by halves (associative scans) that compute z[t] = a·z[t-1] + v[t] with constants a, " +
		"real or as real and imaginary parts → essm.Scan with projections. They are recognized by their numbers, " +
		"whatever their operators.",
	After: []passes.Reason{
		regions.AfterUpgrade,
		regions.AfterShapes,
	},
	Before: []passes.Reason{
		regions.BeforeFoldRecurrences,
		regions.BeforeFuse,
		{Pass: "raise-parallel", Why: "a recurrence with constants is a system"},
	},
	Run: func(c *passes.Context, g *ir.Graph) (int, error) {
		return raiseParallel(c, g, "system in parallel", (*parallel).raiseSystem)
	},
}

// states are values of a part that are the states of a system: its real parts, and its imaginary parts if it has
// any.
type states struct {
	h, leaf  [2]*ir.Value // im is nil if the system is real, and re if both are in one value
	pairs    bool         // the last axis of the leaf separates the real and the imaginary part
	at       [2]int       // of the leaves
	backward bool
	axis     int
	shape    []int // of h, in the trial, without that axis
	bind     map[string]int64
	factors  []complex128 // for each row
}

// tried is a value of a trial that starts like a leaf.
type tried struct {
	v        *ir.Value
	leaf     int
	backward bool
	shape    []int // of the leaf; v has this shape, or one with the axes after time in another form
	rows     *rows
}

// sameSteps reports whether two tensors have the same numbers at each step, in the same order.
func sameSteps(a, b []int, axis int) bool {
	if axis >= len(a) || axis >= len(b) || !slices.Equal(a[:axis+1], b[:axis+1]) {
		return false
	}
	m, errM := tensor.Size(a[axis+1:])
	n, errN := tensor.Size(b[axis+1:])
	return errM == nil && errN == nil && m == n
}

// part returns the rows at one index of the last axis, which is not time and has size 2.
func (r *rows) part(at int) *rows {
	half := *r
	half.base = nil
	for i := at; i < len(r.base); i += 2 {
		half.base = append(half.base, r.base[i])
	}
	return &half
}

// raiseSystem replaces the last values of a part that are states of a system with two of its leaves, or one, as inputs.
func (p *parallel) raiseSystem(g *ir.Graph, ix *regions.Index) (string, error) {
	if !p.mayBeSystem() {
		return "", nil
	}
	binds := p.binds(ix)
	st, err := p.findSystem(binds[0])
	if st == nil || err != nil {
		return "", err
	}
	for _, bind := range binds {
		if err := p.confirmSystem(st, bind); err != nil {
			return "", err
		}
	}
	return p.emitSystem(g, st)
}

// findSystem looks for values of a part that start like its leaves, and continue as a system.
func (p *parallel) findSystem(bind map[string]int64) (*states, error) {
	var found []tried
	var in *sequences
	err := p.first(bind, func(h *ir.Value, x []float64, shape []int, axis int, sq *sequences) bool {
		in = sq
		if len(x) == 0 || shape[axis] < minParallel {
			return true
		}
		for i := range p.leaves {
			if !sameSteps(in.shape[i], shape, axis) {
				continue
			}
			hs, leaf := rowsAlong(x, in.shape[i], axis), rowsAlong(in.x[i], in.shape[i], axis)
			for _, back := range []bool{false, true} {
				at := 0
				if back {
					at = hs.steps - 1
				}
				same := true
				for r := range hs.base {
					a, b := hs.at(r, at), leaf.at(r, at)
					same = same && math.Abs(a-b) <= exactTol*math.Abs(b)
				}
				if same {
					found = append(found, tried{h, i, back, in.shape[i], hs})
				}
			}
		}
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("it cannot be evaluated: %w", err)
	}
	slices.Reverse(found)
	var near error
	steps := 1
	try := func(re tried, im *tried, pairs bool) *states {
		st, bad := p.system(re, im, pairs, in)
		if bad > steps {
			steps = bad
			near = fmt.Errorf("%s is z[t] = a·z[t-1] + %s[t] with a constant a up to step %d only", re.v.Name,
				p.leaves[re.leaf].Name, bad-1)
		}
		return st
	}
	for _, re := range found {
		if st := try(re, nil, false); st != nil {
			return st, nil
		}
		if last := len(re.shape) - 1; last > p.axis && re.shape[last] == 2 {
			if st := try(re, nil, true); st != nil {
				return st, nil
			}
		}
		for _, im := range found {
			if im.leaf <= re.leaf || im.backward != re.backward || !slices.Equal(re.shape, im.shape) {
				continue
			}
			if st := try(re, &im, false); st != nil {
				return st, nil
			}
		}
	}
	if near == nil && p.gated == 0 { // otherwise raise-parallel reports why
		near = errors.New("no value after it starts like one of its inputs and continues as z[t] = a·z[t-1] + v[t]")
	}
	return nil, near
}

// complexAt returns a state or an input as a complex number.
func complexAt(re, im *rows, row, step int) complex128 {
	if im == nil {
		return complex(re.at(row, step), 0)
	}
	return complex(re.at(row, step), im.at(row, step))
}

// system returns the system whose states are re and im. Its factors come from the first steps. If they do not fit
// all steps, it returns the first step where one fails.
func (p *parallel) system(re tried, im *tried, pairs bool, in *sequences) (_ *states, bad int) {
	st := &states{h: [2]*ir.Value{re.v}, leaf: [2]*ir.Value{p.leaves[re.leaf]}, at: [2]int{re.leaf, -1},
		backward: re.backward, axis: p.axis, shape: re.shape}
	vr, hr := rowsAlong(in.x[re.leaf], re.shape, p.axis), re.rows
	var vi, hi *rows
	if pairs {
		st.pairs, st.h[1], st.leaf[1], st.shape = true, st.h[0], st.leaf[0], re.shape[:len(re.shape)-1]
		vr, vi, hr, hi = vr.part(0), vr.part(1), hr.part(0), hr.part(1)
	} else if im != nil {
		vi, hi = rowsAlong(in.x[im.leaf], re.shape, p.axis), im.rows
		st.h[1], st.leaf[1], st.at[1] = im.v, p.leaves[im.leaf], im.leaf
	}
	some := false
	for r := range hr.base {
		step := func(t int) int {
			if re.backward {
				return hr.steps - 1 - t
			}
			return t
		}
		z := func(t int) complex128 { return complexAt(hr, hi, r, step(t)) }
		v := func(t int) complex128 { return complexAt(vr, vi, r, step(t)) }
		a := (z(1) - v(1)) / z(0)
		for t := 2; t < hr.steps; t++ {
			want := a*z(t-1) + v(t)
			if !(cmplx.Abs(z(t)-want) <= regions.ResponseTol*(cmplx.Abs(z(t))+cmplx.Abs(v(t)))) {
				return nil, t
			}
		}
		some = some || cmplx.Abs(a) > 1e-6
		st.factors = append(st.factors, a)
	}
	if !some {
		return nil, 0
	}
	return st, 0
}

// confirmSystem reads a system's factors from impulses, and compares all steps of random inputs with them.
func (p *parallel) confirmSystem(st *states, bind map[string]int64) error {
	_, h, shape, err := p.statesOf(st, bind, false)
	if err != nil {
		return err
	}
	at := 1
	if st.backward {
		at = h[0].steps - 2
	}
	factors := make([]complex128, len(h[0].base))
	for r := range factors {
		factors[r] = complexAt(h[0], h[1], r, at)
	}
	if st.bind == nil {
		st.bind, st.shape, st.factors = bind, shape, factors
		if st.pairs {
			st.shape = shape[:len(shape)-1]
		}
	} else if !slices.Equal(factors, st.factors) {
		return errors.New("its factors depend on the number of steps")
	}
	x, h, shape, err := p.statesOf(st, bind, true)
	if err != nil {
		return err
	}
	vr := rowsAlong(x[0], shape, st.axis)
	var vi *rows
	if st.pairs {
		vr, vi = vr.part(0), vr.part(1)
	} else if st.h[1] != nil {
		vi = rowsAlong(x[1], shape, st.axis)
	}
	for r, a := range factors {
		peak := 0.0
		for t := range vr.steps {
			peak = max(peak, cmplx.Abs(complexAt(h[0], h[1], r, t)))
		}
		z := complex128(0)
		for t := range vr.steps {
			if st.backward {
				t = vr.steps - 1 - t
			}
			z = a*z + complexAt(vr, vi, r, t)
			if got := complexAt(h[0], h[1], r, t); !(cmplx.Abs(got-z) <= regions.ResponseTol*peak) {
				return fmt.Errorf("%s is z[t] = a·z[t-1] + %s[t] up to step %d, where it is %.6g, expected %.6g",
					st.h[0].Name, st.leaf[0].Name, t, got, z)
			}
		}
	}
	return nil
}

// statesOf runs a part on numbers x of a system's leaves, and returns its states h as rows of the given shape. The
// numbers are random or, if they are not, an impulse at the first step of the real part.
func (p *parallel) statesOf(st *states, bind map[string]int64, random bool) (x [2][]float64, h [2]*rows, shape []int,
	err error) {
	var bad error
	var leaf []int
	missing := func() bool { return h[0] == nil || st.h[1] != nil && h[1] == nil }
	err = p.trial(regions.Constants(p.run, bind), func(i int, shape []int) []float64 {
		n, _ := tensor.Size(shape)
		k := slices.Index(st.at[:], i)
		if k < 0 {
			return make([]float64, n)
		}
		if leaf = shape; random {
			x[k] = drawn(uint64(200+i), shape, -1, 1)
			return x[k]
		}
		x[k] = make([]float64, n)
		if r := rowsAlong(x[k], shape, st.axis); k == 0 && r.steps > 0 {
			if st.pairs {
				r = r.part(0)
			}
			for _, at := range r.base {
				if st.backward {
					at += (r.steps - 1) * r.stride
				}
				x[k][at] = 1
			}
		}
		return x[k]
	}, func(v *ir.Value, t *tensor.Tensor) bool {
		for k := range h {
			if v == st.h[k] {
				y, err := t.Float64s()
				if err != nil || !sameSteps(t.Shape(), leaf, st.axis) {
					bad = errors.Join(err, fmt.Errorf("%s has another shape than its input", v.Name))
					return false
				}
				h[k], shape = rowsAlong(y, leaf, st.axis), leaf
			}
		}
		return missing()
	})
	if err == nil {
		err = bad
	}
	if err == nil && (missing() || h[0].steps < 2) {
		err = errors.New("it has too few steps")
	}
	if err == nil && st.pairs {
		h[0], h[1] = h[0].part(0), h[1].part(1)
	}
	return x, h, shape, err
}

// emitSystem replaces states by a scan.
func (p *parallel) emitSystem(g *ir.Graph, st *states) (string, error) {
	if r := st.h[0].Def; r.Op.FullName() == "CumSum" && !slices.ContainsFunc(st.factors,
		func(a complex128) bool { return a != 1 }) {
		return "", nil // a running sum
	}
	shape := st.leaf[0].Shape()
	if st.pairs && len(shape) > 0 {
		shape = shape[:len(shape)-1]
	}
	for k, h := range st.h {
		if h != nil && (len(shape) != len(st.shape) || len(h.Shape()) <= st.axis || h.Shape()[0].IsUnknown() ||
			len(st.leaf[k].Shape()) != len(st.leaf[0].Shape())) {
			return "", fmt.Errorf("the shape of %s is not known", h.Name)
		}
	}
	batch, a, err := p.batchOf(st, shape)
	if err != nil {
		return "", err
	}
	samples := 2
	if batch >= 0 && known(shape[batch]) {
		samples = st.shape[batch]
	}
	cellOf := func(name string) slot {
		s := slices.Delete(slices.Clone(st.shape), st.axis, st.axis+1)
		at := batch
		if batch > st.axis {
			at--
		}
		if at >= 0 {
			s[at] = samples
		}
		return slot{&ir.Value{Name: name}, s, at}
	}
	c := &cell{run: p.run, samples: 1}
	if batch >= 0 {
		c.samples = samples
		if name, ok := shape[batch].Symbol(); ok {
			c.bind = map[string]int64{name: int64(samples)}
		}
	}
	parts := 1
	if st.h[1] != nil {
		parts = 2
	}
	n := len(a)
	b := passes.Edit(g)
	b.Scope(st.h[0].Def.Scope)
	from := st.leaf[0].Name
	if st.pairs {
		if err := st.split(g, b); err != nil {
			return "", err
		}
	} else if st.leaf[1] != nil {
		from += " and " + st.leaf[1].Name
	}
	sys := &system{n: parts * n, h: parts * n, bias: make([]float64, parts*n)}
	d := &draft{run: p.run, node: st.h[0].Def, parallel: true}
	for k := range parts {
		for i, f := range a {
			row := []linear.Term{{At: int32(i), Coef: real(f)}}
			if parts == 2 {
				row = []linear.Term{{At: int32(i), Coef: real(f)}, {At: int32(n + i), Coef: -imag(f)}}
				if k == 1 {
					row = []linear.Term{{At: int32(i), Coef: imag(f)}, {At: int32(n + i), Coef: real(f)}}
				}
			}
			sys.a = append(sys.a, slices.DeleteFunc(row, func(t linear.Term) bool { return t.Coef == 0 }))
			sys.b = append(sys.b, []linear.Term{{At: int32(k*n + i), Coef: 1}})
		}
		o := outputMap{at: cellOf(st.h[k].Name), next: make([][]linear.Term, n), prev: make([][]linear.Term, n),
			in: make([][]linear.Term, n), bias: make([]float64, n)}
		for i := range n {
			o.next[i] = []linear.Term{{At: int32(k*n + i), Coef: 1}}
		}
		sys.outputs = append(sys.outputs, o)
		c.states, c.inputs = append(c.states, cellOf("z")), append(c.inputs, cellOf(st.leaf[k].Name))
		q := sequence{v: st.leaf[k], time: st.axis, reversed: st.backward}
		d.in, d.out = append(d.in, q), append(d.out, sequence{time: st.axis, reversed: st.backward})
		d.initial, d.final = append(d.initial, nil), append(d.final, nil)
		d.results = append(d.results, st.h[k])
	}
	name := st.h[0].Def.String()
	made, err := d.build(g, b, c, sys)
	if err == nil {
		err = b.Err()
	}
	if err != nil {
		return "", err
	}
	for i, v := range d.results {
		passes.Replace(g, v, made.outputs[i])
	}
	return fmt.Sprintf("%s and what leads to it from %s → a linear recurrence, %v", name, from, made.plan), nil
}

// batchOf returns the axis of samples of states of a shape, -1 for none, and the factors of the features of a sample.
func (p *parallel) batchOf(st *states, shape ir.Shape) (batch int, factors []complex128, err error) {
	batch = -1
	for i, d := range shape {
		if known(d) || i == st.axis {
			continue
		}
		if batch >= 0 {
			return 0, nil, fmt.Errorf("the shape %v of %s has two open dimensions besides time", shape, st.h[0].Name)
		}
		batch = i
	}
	if batch < 0 && len(shape) > 2 && st.axis > 0 {
		batch = 0
	}
	factors = p.factorsOf(st, batch)
	if factors == nil && batch == 0 {
		batch = -1
		factors = p.factorsOf(st, batch)
	}
	if factors == nil {
		return 0, nil, errors.New("its factors differ between the samples of a batch")
	}
	return batch, factors, nil
}

// factorsOf returns the factors of the features; nil if they differ between samples.
func (p *parallel) factorsOf(st *states, batch int) []complex128 {
	step := slices.Delete(slices.Clone(st.shape), st.axis, st.axis+1)
	if batch > st.axis {
		batch--
	}
	var out []complex128
	same := true
	eachSample(p.run, step, batch, func(i, sample, feature int) {
		if sample == 0 {
			out = append(out, st.factors[i])
		}
		same = same && st.factors[i] == out[feature]
	})
	if !same {
		return nil
	}
	return out
}

// split makes the real and the imaginary parts of leaf and states separate values, for all their readers.
func (st *states) split(g *ir.Graph, b *ir.Builder) error {
	pair := st.leaf[0].Shape()
	parts := func(v *ir.Value) (out [2]*ir.Value, err error) {
		uses := g.Uses()[v]
		if slices.ContainsFunc(uses, func(u ir.Use) bool { return u.Node == nil }) {
			return out, fmt.Errorf("%s, with real and imaginary parts, is an output of the graph", v.Name)
		}
		sizes := func(shape ir.Shape) (*ir.Value, error) {
			out := make([]int64, len(shape)) // 0 keeps the dimension
			for a := st.axis + 1; a < len(shape); a++ {
				var ok bool
				if out[a], ok = shape[a].Known(); !ok {
					return nil, fmt.Errorf("the shape %v of %s is not known", shape, v.Name)
				}
			}
			return b.Ints(out...), nil
		}
		whole, other := v, !v.Shape().Equal(pair)
		if other {
			to, err := sizes(pair)
			if err != nil {
				return out, err
			}
			whole = b.Op("", "Reshape", []*ir.Value{v, to})
		}
		joined := make([]*ir.Value, 2)
		for k := range out {
			out[k] = b.Op("", "Gather", []*ir.Value{whole, b.Const("part", tensor.Scalar(int64(k)))}, ir.A("axis", -1))
			joined[k] = b.Op("", "Unsqueeze", []*ir.Value{out[k], b.Ints(-1)})
		}
		y := b.Op("", "Concat", joined, ir.A("axis", -1))
		if other {
			to, err := sizes(v.Shape())
			if err != nil {
				return out, err
			}
			y = b.Op("", "Reshape", []*ir.Value{y, to})
		}
		if err := b.Err(); err != nil {
			return out, err
		}
		for _, u := range uses {
			u.Node.Inputs[u.Index] = y
		}
		return out, nil
	}
	h, err := parts(st.h[0])
	if err == nil {
		st.h = h
		st.leaf, err = parts(st.leaf[0])
	}
	if err == nil {
		err = g.Sort()
	}
	return err
}
