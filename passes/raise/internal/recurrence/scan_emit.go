package recurrence

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/passes/raise/internal/linear"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// sequence relates the tensor of all steps to that of one step. It has the step's axes, and time inserted at axis time.
// If kept is set, the step has an axis of size 1 there.
type sequence struct {
	v        *ir.Value // the sequence; nil if it must be made
	time     int
	kept     bool
	reversed bool // the recurrence starts at the last step of the sequence
}

// full returns the axis of the sequence for axis i of a step.
func (q sequence) full(i int) int {
	if !q.kept && i >= q.time {
		return i + 1
	}
	return i
}

// order lists the sequence's axes in the order (samples, time, features…).
func (q sequence) order(s slot) []int64 {
	var out []int64
	if s.batch >= 0 {
		out = append(out, int64(q.full(s.batch)))
	}
	out = append(out, int64(q.time))
	for i := range s.shape {
		if i != s.batch && !(q.kept && i == q.time) {
			out = append(out, int64(q.full(i)))
		}
	}
	return out
}

// recurrence is a system with the sequences and states that it runs on.
type recurrence struct {
	plan    *plan
	cell    *cell
	inputs  []sequence   // one for each input of the cell
	outputs []sequence   // one for each output
	initial []*ir.Value  // one for each state; nil for zeros
	final   []bool       // whether each final state is wanted
	elem    tensor.DType // of sequences and states
}

// emitter builds the operators of a recurrence.
type emitter struct {
	*recurrence
	b        *ir.Builder
	u        *ir.Value // inputs (samples, time, h)
	re, im   *ir.Value // states after each step, (samples, time, heads·width)
	init     *ir.Value
	last     *ir.Value
	pos      map[int]position
	features int // heads·width
}

// emit builds a scan (diagonal or dense) with its projections. It returns the outputs and the wanted final states.
func (r *recurrence) emit(b *ir.Builder) (outputs, final []*ir.Value) {
	e := &emitter{recurrence: r, b: b, pos: r.plan.positions(), features: r.plan.heads * r.plan.width}
	e.input()
	e.start()
	e.scan()
	for i := range r.outputs {
		outputs = append(outputs, e.output(i))
	}
	at := 0
	for i, s := range r.cell.states {
		var v *ir.Value
		if r.final[i] {
			v = e.lastState(s, at)
		}
		final = append(final, v)
		at += s.size()
	}
	return outputs, final
}

func (e *emitter) op(domain, name string, in []*ir.Value, attrs ...ir.Attr) *ir.Value {
	return e.b.Op(domain, name, in, attrs...)
}

func (e *emitter) constant(name string, x []float64, shape ...int) *ir.Value {
	return e.b.Const(name, tensor.FromSlice(x, shape...))
}

// input arranges the inputs as (samples, time, features).
func (e *emitter) input() {
	var parts []*ir.Value
	for i, q := range e.inputs {
		s := e.cell.inputs[i]
		v := regions.Transposed(e.b, q.v, q.order(s))
		if s.batch < 0 {
			v = e.op("", "Unsqueeze", []*ir.Value{v, e.b.Ints(0)})
		}
		if len(v.Shape()) != 3 {
			v = e.op("", "Reshape", []*ir.Value{v, e.b.Ints(0, 0, int64(s.size()))})
		}
		if q.reversed {
			v = regions.Reversed(e.b, v, 1)
		}
		parts = append(parts, v)
	}
	e.u = parts[0]
	if len(parts) > 1 {
		e.u = e.op("", "Concat", parts, ir.A("axis", -1))
	}
}

// start arranges the initial states as the scan expects them.
func (e *emitter) start() {
	if !slices.ContainsFunc(e.initial, func(v *ir.Value) bool { return v != nil }) {
		return
	}
	var parts []*ir.Value
	from := map[int]int64{} // from a state's number to its column
	width := int64(0)
	at := 0
	for i, s := range e.cell.states {
		n := s.size()
		if v := e.initial[i]; v != nil {
			order := []int64{}
			if s.batch >= 0 {
				order = append(order, int64(s.batch))
			}
			for k := range s.shape {
				if k != s.batch {
					order = append(order, int64(k))
				}
			}
			v = regions.Transposed(e.b, v, order)
			if s.batch < 0 {
				v = e.op("", "Reshape", []*ir.Value{v, e.b.Ints(1, int64(n))})
			} else if len(v.Shape()) != 2 {
				v = e.op("", "Reshape", []*ir.Value{v, e.b.Ints(0, int64(n))})
			}
			parts = append(parts, v)
			for k := range n {
				e.plan.pace.Step(2)
				from[at+k] = width + int64(k)
			}
			width += int64(n)
		}
		at += n
	}
	all := parts[0]
	if len(parts) > 1 {
		all = e.op("", "Concat", parts, ir.A("axis", -1))
	}
	halves := 2
	if e.plan.dense {
		halves = 1
	}
	columns := make([]int64, halves*e.features)
	for i := range columns {
		columns[i] = width // a column of zeros
	}
	for k, p := range e.pos {
		e.plan.pace.Step(2)
		if c, ok := from[k]; ok {
			i := p.head*e.plan.width + p.col
			if p.imag {
				i += e.features
			}
			columns[i] = c
		}
	}
	if slices.Contains(columns, width) {
		all = e.op("", "Pad", []*ir.Value{all, e.b.Ints(0, 0, 0, 1)})
	}
	e.init = picked(e.b, all, columns)
}

// picked gathers columns of a matrix. It returns the matrix itself if they are all columns in order.
func picked(b *ir.Builder, v *ir.Value, columns []int64) *ir.Value {
	same := true
	for i, c := range columns {
		same = same && c == int64(i)
	}
	if w, ok := v.Shape()[1].Known(); same && ok && w == int64(len(columns)) {
		return v
	}
	return b.Op("", "Gather", []*ir.Value{v, b.Ints(columns...)}, ir.A("axis", 1))
}

// blocks returns the block-diagonal matrix (1, heads, rows, width) or (1, heads, width, cols) that fill sets.
func (e *emitter) blocks(name string, rows, cols int,
	fill func(set func(head, r, c int, x float64))) (*ir.Value, bool) {
	m := make([]float64, e.plan.heads*rows*cols)
	some := false
	fill(func(head, r, c int, x float64) {
		m[(head*rows+r)*cols+c] += x
		some = some || x != 0
	})
	return e.constant(name, m, 1, e.plan.heads, rows, cols), some
}

// scan builds the recurrence.
func (e *emitter) scan() {
	p, s := e.plan, e.plan.sys
	h := s.h / p.heads
	project := func(name string, imag bool) *ir.Value {
		w, _ := e.blocks(name, p.width, h, func(set func(int, int, int, float64)) {
			for k, at := range e.pos {
				if p.pace.Step(1 + len(s.b[k])/16); at.imag == imag {
					for _, t := range s.b[k] {
						set(at.head, at.col, int(t.At)%h, t.Coef)
					}
				}
			}
		})
		v := e.op("essm", "HeadLinear", []*ir.Value{e.u, w})
		bias, some := make([]float64, e.features), false
		for k, at := range e.pos {
			if p.pace.Step(1); at.imag == imag && s.bias[k] != 0 {
				bias[at.head*p.width+at.col], some = s.bias[k], true
			}
		}
		if some {
			v = e.op("", "Add", []*ir.Value{v, regions.Typed(e.b, name+".bias", e.elem, bias, len(bias))})
		}
		return v
	}
	if p.dense {
		abar, _ := e.blocks("abar", p.width, p.width, func(set func(int, int, int, float64)) {
			for k, at := range e.pos {
				p.pace.Step(1 + len(s.a[k])/4)
				for _, t := range s.a[k] {
					set(at.head, at.col, e.pos[int(t.At)].col, t.Coef)
				}
			}
		})
		gamma, _ := e.blocks("gamma", p.width, p.width, func(set func(int, int, int, float64)) {
			for h := range p.heads {
				for i := range p.width {
					set(h, i, i, 1)
				}
			}
		})
		out := e.scanOp("DenseScan", 1, []*ir.Value{project("B", false), abar, gamma, e.init})
		e.re, e.last = out[0], out[1]
		return
	}
	re, im := p.logs()
	dims := []int{1, p.heads, p.width}
	ones, zeros := slices.Repeat([]float64{1}, e.features), make([]float64, e.features)
	in := []*ir.Value{project("B_re", false), e.constant("a_re", re, dims...), e.constant("a_im", im, dims...),
		e.constant("b_re", ones, dims...), e.constant("b_im", zeros, dims...), nil, e.init}
	outs := 1
	if p.isComplex {
		in[5] = project("B_im", true)
		outs = 2
	}
	out := e.scanOp("Scan", outs, in)
	e.re, e.last = out[0], out[len(out)-1]
	if p.isComplex {
		e.im = out[1]
	}
}

// scanOp adds a scan. The last result is the final state, or nil if it is not wanted.
func (e *emitter) scanOp(name string, outs int, in []*ir.Value) []*ir.Value {
	for in[len(in)-1] == nil {
		in = in[:len(in)-1]
	}
	if !slices.Contains(e.final, true) {
		return append(e.b.Ops("essm", name, outs, in), nil)
	}
	if name == "Scan" {
		out := e.b.Ops("essm", name, 3, in)
		if outs == 1 {
			out[1].Def.Outputs[1] = nil
		}
		return slices.Concat(out[:outs], out[2:])
	}
	return e.b.Ops("essm", name, 2, in)
}

// read computes C x for rows over states, or nil if no row reads a state. re and im are states (…, features).
func (e *emitter) read(name string, rows [][]linear.Term, re, im *ir.Value) *ir.Value {
	p := e.plan
	heads, m := p.heads, len(rows)/p.heads
	matrix := func(name string, imag bool) (*ir.Value, bool) {
		return e.blocks(name, m, p.width, func(set func(int, int, int, float64)) {
			for r, row := range rows {
				for _, t := range row {
					if at, ok := e.pos[int(t.At)]; ok && at.imag == imag {
						x := t.Coef
						if imag { // y = Re(C z)
							x = -x
						}
						set(at.head, r%m, at.col, x)
					}
				}
			}
		})
	}
	if heads*m != len(rows) {
		return nil
	}
	cRe, some := matrix(name+"_re", false)
	if im == nil {
		if !some {
			return nil
		}
		return e.op("essm", "HeadLinear", []*ir.Value{re, cRe})
	}
	cIm, someIm := matrix(name+"_im", true)
	if !some && !someIm {
		return nil
	}
	return e.op("", "Sub", []*ir.Value{e.op("essm", "HeadLinear", []*ir.Value{re, cRe}),
		e.op("essm", "HeadLinear", []*ir.Value{im, cIm})})
}

// output builds output i in the form that its reader expects.
func (e *emitter) output(i int) *ir.Value {
	o, q := e.plan.sys.outputs[i], e.outputs[i]
	var y *ir.Value
	add := func(v *ir.Value) {
		switch {
		case v == nil:
		case y == nil:
			y = v
		default:
			y = e.op("", "Add", []*ir.Value{y, v})
		}
	}
	add(e.read("C", o.next, e.re, e.im))
	add(e.direct(o.in))
	add(e.delayed(o.prev))
	if y == nil { // a constant at every step
		y = e.op("essm", "HeadLinear", []*ir.Value{e.u,
			e.constant("zero", make([]float64, len(o.in)*e.plan.sys.h), 1, 1, len(o.in), e.plan.sys.h)})
	}
	if slices.ContainsFunc(o.bias, func(x float64) bool { return x != 0 }) {
		y = e.op("", "Add", []*ir.Value{y, regions.Typed(e.b, "bias", e.elem, o.bias, len(o.bias))})
	}
	if q.reversed {
		y = regions.Reversed(e.b, y, 1)
	}
	return e.arranged(y, o.at, q)
}

// arranged returns a sequence (samples, time, features) with the axes of slot and sequence.
func (e *emitter) arranged(y *ir.Value, s slot, q sequence) *ir.Value {
	rest := []int64{}
	for i, d := range s.shape {
		if i != s.batch && !(q.kept && i == q.time) {
			rest = append(rest, int64(d))
		}
	}
	switch {
	case s.batch < 0:
		y = e.op("", "Squeeze", []*ir.Value{y, e.b.Ints(0)})
		if len(rest) != 1 {
			y = e.op("", "Reshape", []*ir.Value{y, e.b.Ints(append([]int64{0}, rest...)...)})
		}
	case len(rest) != 1:
		y = e.op("", "Reshape", []*ir.Value{y, e.b.Ints(append([]int64{0, 0}, rest...)...)})
	}
	return regions.Transposed(e.b, y, regions.InverseOrder(q.order(s)))
}

// direct computes D u with a diagonal D if possible, else by heads if D is block-diagonal, else with the whole matrix.
func (e *emitter) direct(rows [][]linear.Term) *ir.Value {
	h, heads := e.plan.sys.h, e.plan.heads
	some, diagonal, byHead := false, len(rows) == h, len(rows)%heads == 0
	for r, row := range rows {
		for _, t := range row {
			some = true
			diagonal = diagonal && int(t.At) == r
			byHead = byHead && r*heads/len(rows) == int(t.At)*heads/h
		}
	}
	if !some {
		return nil
	}
	if diagonal {
		d := make([]float64, h)
		for r, row := range rows {
			for _, t := range row {
				d[r] = t.Coef
			}
		}
		return e.op("essm", "HeadScale", []*ir.Value{e.u, e.constant("D", d, 1, heads, h/heads)})
	}
	if !byHead {
		heads = 1
	}
	m, q := len(rows)/heads, h/heads
	d := make([]float64, heads*m*q)
	for r, row := range rows {
		for _, t := range row {
			d[r*q+int(t.At)%q] = t.Coef
		}
	}
	return e.op("essm", "HeadLinear", []*ir.Value{e.u, e.constant("D", d, 1, heads, m, q)})
}

// delayed computes C times the state before each step.
func (e *emitter) delayed(rows [][]linear.Term) *ir.Value {
	y := e.read("C_prev", rows, e.re, e.im)
	if y == nil {
		return nil
	}
	if e.init == nil {
		y = e.op("", "Pad", []*ir.Value{y, e.b.Ints(0, 1, 0, 0, 0, 0)})
	} else {
		first := e.op("", "Unsqueeze", []*ir.Value{e.init, e.b.Ints(1)})
		re, im := first, (*ir.Value)(nil)
		if !e.plan.dense {
			n := int64(e.features)
			re = e.op("", "Slice", []*ir.Value{first, e.b.Ints(0), e.b.Ints(n), e.b.Ints(2)})
			if e.im != nil {
				im = e.op("", "Slice", []*ir.Value{first, e.b.Ints(n), e.b.Ints(2 * n), e.b.Ints(2)})
			}
		}
		y = e.op("", "Concat", []*ir.Value{e.read("C_first", rows, re, im), y}, ir.A("axis", 1))
	}
	return e.op("", "Slice", []*ir.Value{y, e.b.Ints(0), e.b.Ints(-1), e.b.Ints(1)})
}

// lastState returns the final value of a state whose elements start at index at.
func (e *emitter) lastState(s slot, at int) *ir.Value {
	columns := make([]int64, s.size())
	for k := range columns {
		p := e.pos[at+k]
		columns[k] = int64(p.head*e.plan.width + p.col)
		if p.imag {
			columns[k] += int64(e.features)
		}
	}
	v := picked(e.b, e.last, columns)
	rest := []int64{}
	for _, d := range s.rest() {
		rest = append(rest, int64(d))
	}
	if s.batch < 0 {
		return e.op("", "Reshape", []*ir.Value{v, e.b.Ints(rest...)})
	}
	if len(rest) != 1 {
		v = e.op("", "Reshape", []*ir.Value{v, e.b.Ints(append([]int64{0}, rest...)...)})
	}
	back := make([]int64, len(s.shape))
	k := int64(1)
	for i := range s.shape {
		if i == s.batch {
			continue
		}
		back[i] = k
		k++
	}
	return regions.Transposed(e.b, v, back)
}
