package lower

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/essm"
)

// carrying describes the state that passes from chunk to chunk in float64: per direction the real and imaginary parts
// (groups, samples, k), or the single state of a dense system.
type carrying struct {
	groups, width int // width of one part
	parts         int // number of parts, of all directions
	samples       *ir.Value
}

// chunks computes a system in chunks. It returns the output and, if n needs it, the state after the last step.
func (l *lowerer) chunks(n *ir.Node, y *system) []*ir.Value {
	u := n.Inputs[0]
	state := n.In(len(n.Op.In) - 1)
	wantsState := n.Out(1) != nil
	form, steps := l.formOf(y, false), l.chunk
	cell := y.cellOf(form, steps)
	c := l.cut(u, y, form, steps)
	carry := carrying{groups: cell.groups, width: cell.w, parts: y.directions(), samples: c.samples}
	if !y.dense {
		carry.width, carry.parts = cell.w/2, 2*y.directions()
	}
	left := l.left(c, y, cell, form, steps, u.Elem(), carry)
	before := l.between(left, y, carry, steps, l.first(state, y, carry))
	all := before[0]
	if len(before) > 1 {
		all = l.with("Concat", before, ir.A("axis", -1))
	}
	all = l.with("Cast", []*ir.Value{all}, ir.A("to", int(u.Elem())))
	all = l.with("Transpose", []*ir.Value{all}, ir.A("perm", []int64{1, 2, 0, 3}))
	all = l.op("Reshape", all, l.Ints(append(groupShape(y, cell, form), -1, int64(cell.w*y.directions()))...))
	x := l.op("Add", l.op("MatMul", c.v, l.within(y, cell, form, steps, u.Elem())),
		l.op("MatMul", all, l.leaving(y, cell, form, steps, u.Elem())))
	outs := []*ir.Value{l.join(x, c, y, form, steps), nil}
	if wantsState {
		outs[1] = l.final(n, y, cell, form, steps, c, before, carry)
	}
	return outs
}

// groupShape returns the dimensions of groups in the tables: channel and head if several channels share an input.
func groupShape(y *system, c *cell, form groupForm) []int64 {
	if form == headForm && y.c > 1 {
		return []int64{int64(y.c), int64(y.s)}
	}
	return []int64{int64(c.groups)}
}

// table returns a constant (groups…, rest…). f computes its elements from the group and the other indices.
func (l *lowerer) table(name string, elem tensor.DType, y *system, c *cell, form groupForm,
	f func(g int, at []int) float64, rest ...int) *ir.Value {
	shape := append([]int{c.groups}, rest...)
	v := l.fill(name, elem, func(at []int) float64 { return f(at[0], at[1:]) }, shape...)
	if v == failed {
		return failed
	}
	full := make([]int, 0, len(rest)+2)
	for _, d := range groupShape(y, c, form) {
		full = append(full, int(d))
	}
	t, err := v.Const.Reshape(append(full, rest...)...)
	if err != nil {
		l.Fail(err)
		return nil
	}
	v.Const, v.Type = t, ir.Of(t)
	return v
}

// within returns the Toeplitz matrix of each group (groups…, inputs·steps, outputs·steps), gathered from its taps.
func (l *lowerer) within(y *system, c *cell, form groupForm, steps int, elem tensor.DType) *ir.Value {
	tap := func(g, q, p, lag int) float64 { // lag from -(steps-1) to steps-1
		switch {
		case lag >= 0 && y.forward():
			return c.kernel(g, q, p, lag)
		case lag < 0 && y.backward():
			return c.kernel(g, q, p, -lag-1)
		}
		return 0
	}
	lags := 2*steps - 1
	at := make([]int64, steps*steps)
	for j := range steps {
		for t := range steps {
			at[j*steps+t] = int64(t - j + steps - 1)
		}
	}
	index := l.Const("lags", tensor.FromSlice(at, steps, steps))
	groups := groupShape(y, c, form)
	if c.p == 1 && c.q == 1 {
		taps := l.table("taps", elem, y, c, form, func(g int, at []int) float64 { return tap(g, 0, 0, at[0]-steps+1) },
			lags)
		return l.with("Gather", []*ir.Value{taps, index}, ir.A("axis", len(groups)))
	}
	taps := l.table("taps", elem, y, c, form, func(g int, at []int) float64 {
		return tap(g, at[1], at[0], at[2]-steps+1)
	}, c.p, c.q, lags)
	// groups…, inputs, outputs, step in, step out
	m := l.with("Gather", []*ir.Value{taps, index}, ir.A("axis", len(groups)+2))
	k := int64(len(groups))
	perm := []int64{k, k + 2, k + 1, k + 3}
	for i := range k {
		perm = slices.Insert(perm, int(i), i)
	}
	m = l.with("Transpose", []*ir.Value{m}, ir.A("perm", perm))
	return l.op("Reshape", m, l.Ints(append(groups, int64(c.p*steps), int64(c.q*steps))...))
}

// left returns the contribution of each chunk to the state after it, in parts (chunks, groups, samples, width) of
// float64.
func (l *lowerer) left(c chunked, y *system, cell *cell, form groupForm, steps int, elem tensor.DType,
	carry carrying) []*ir.Value {
	w := cell.w
	enter := l.table("enter", elem, y, cell, form, func(g int, at []int) float64 {
		p, j := at[0]/steps, at[0]%steps
		lag := steps - 1 - j
		if backward := at[1] >= w || !y.forward(); backward {
			lag = j
		}
		return cell.enter(g, at[1]%w, p, lag)
	}, cell.p*steps, w*y.directions())
	v := l.op("MatMul", c.v, enter)
	shape := l.with("Concat", []*ir.Value{l.Ints(int64(cell.groups)), c.samples, l.Ints(-1, int64(w*y.directions()))},
		ir.A("axis", 0))
	v = l.op("Reshape", v, shape)
	v = l.with("Transpose", []*ir.Value{v}, ir.A("perm", []int64{2, 0, 1, 3}))
	v = l.with("Cast", []*ir.Value{v}, ir.A("to", int(tensor.Float64)))
	if carry.parts == 1 {
		return []*ir.Value{v}
	}
	sizes := make([]int64, carry.parts)
	for i := range sizes {
		sizes[i] = int64(carry.width)
	}
	return l.several("Split", carry.parts, []*ir.Value{v, l.Ints(sizes...)}, ir.A("axis", -1))
}

// leaving returns the table from the state before a chunk to its outputs: (groups…, width of all directions,
// outputs·steps).
func (l *lowerer) leaving(y *system, cell *cell, form groupForm, steps int, elem tensor.DType) *ir.Value {
	w := cell.w
	return l.table("leave", elem, y, cell, form, func(g int, at []int) float64 {
		q, t := at[1]/steps, at[1]%steps
		lag := t + 1
		if backward := at[0] >= w || !y.forward(); backward {
			lag = steps - 1 - t
		}
		return cell.leave(g, q, at[0]%w, lag)
	}, w*y.directions(), cell.q*steps)
}

// first returns the state before the first chunk, in parts (groups, samples, width).
func (l *lowerer) first(state *ir.Value, y *system, carry carrying) []*ir.Value {
	out := make([]*ir.Value, carry.parts)
	if state == nil {
		shape := l.with("Concat", []*ir.Value{l.Ints(int64(carry.groups)), carry.samples, l.Ints(int64(carry.width))},
			ir.A("axis", 0))
		zero := l.with("ConstantOfShape", []*ir.Value{shape}, ir.A("value", tensor.FromSlice([]float64{0}, 1)))
		for i := range out {
			out[i] = zero
		}
		return out
	}
	all := int64(y.heads() * y.k)
	v := l.with("Cast", []*ir.Value{state}, ir.A("to", int(tensor.Float64)))
	parts := []*ir.Value{v}
	if !y.dense {
		parts = l.several("Split", 2, []*ir.Value{v, l.Ints(all, all)}, ir.A("axis", 1))
	}
	for i, p := range parts {
		p = l.op("Reshape", p, l.Ints(-1, int64(carry.groups), int64(carry.width)))
		out[i] = l.with("Transpose", []*ir.Value{p}, ir.A("perm", []int64{1, 0, 2}))
	}
	return out
}

// between runs the recurrence from chunk to chunk, both directions in one Scan. It returns the state before each chunk.
func (l *lowerer) between(left []*ir.Value, y *system, carry carrying, steps int, first []*ir.Value) []*ir.Value {
	prefix := l.Unique("carry")
	b := l.Sub("carry")
	part := ir.Tensor(tensor.Float64, carry.groups, ir.Unknown, carry.width)
	var state, in []*ir.Value
	for i := range left {
		state = append(state, b.Input(fmt.Sprint(prefix, ".state", i), part))
	}
	for i := range left {
		in = append(in, b.Input(fmt.Sprint(prefix, ".in", i), part))
	}
	op := func(name string, in ...*ir.Value) *ir.Value { return b.Op("", name, slices.Clone(in)) }
	var next []*ir.Value
	if y.dense {
		k := y.k
		x := make([]float64, 0, carry.groups*k*k)
		for g := range carry.groups {
			m := y.power(g, steps)
			for j := range k { // transposed: states are rows
				for i := range k {
					x = append(x, m[i*k+j])
				}
			}
		}
		power := l.number("power", tensor.Float64, x, carry.groups, k, k)
		for i, z := range state {
			next = append(next, op("Add", op("MatMul", z, power), in[i]))
		}
	} else {
		re, im := make([]float64, len(y.a)), make([]float64, len(y.a))
		for i, a := range y.a {
			z := essm.Pow(a, float64(steps))
			re[i], im[i] = real(z), imag(z)
		}
		pr := l.number("power_re", tensor.Float64, re, carry.groups, 1, carry.width)
		pi := l.number("power_im", tensor.Float64, im, carry.groups, 1, carry.width)
		for i := 0; i < len(state); i += 2 {
			zr, zi := state[i], state[i+1]
			next = append(next,
				op("Add", op("Sub", op("Mul", pr, zr), op("Mul", pi, zi)), in[i]),
				op("Add", op("Add", op("Mul", pr, zi), op("Mul", pi, zr)), in[i+1]))
		}
	}
	for _, v := range next {
		b.Output("", v)
	}
	for _, v := range state {
		b.Output("", op("Identity", v))
	}
	body, err := b.Build()
	if err != nil {
		l.Fail(err)
		return left
	}
	directions := make([]int64, len(left))
	for i := range directions {
		if !y.forward() || i >= len(left)/y.directions() {
			directions[i] = 1
		}
	}
	out := l.several("Scan", 2*len(left), append(slices.Clone(first), left...), ir.A("body", body),
		ir.A("num_scan_inputs", len(left)),
		ir.A("scan_input_directions", directions), ir.A("scan_output_directions", directions))
	return slices.Clone(out[len(left):])
}

// final returns the state after the last step in the layout of the operators. It computes the last chunk, up to that
// step.
func (l *lowerer) final(n *ir.Node, y *system, cell *cell, form groupForm, steps int, c chunked, before []*ir.Value,
	carry carrying) *ir.Value {
	elem := n.Inputs[0].Elem()
	w := cell.w
	// the index of the last step within its chunk
	last := l.op("Mod", l.op("Sub", c.length, l.Ints(1)), l.Ints(int64(steps)))
	// The inputs of the chunk, (groups…, samples, inputs·steps).
	in := int64(y.s)
	if form != headForm {
		in = int64(cell.groups)
	}
	shape := l.with("Concat", []*ir.Value{l.Ints(in), c.samples, l.Ints(-1, int64(cell.p*steps))}, ir.A("axis", 0))
	v := l.with("Gather", []*ir.Value{l.op("Reshape", c.v, shape), l.Const("last", tensor.Scalar(int64(-1)))},
		ir.A("axis", 2))
	groups := groupShape(y, cell, form)
	axis := int64(len(groups)) + 1
	ends := l.table("ends", elem, y, cell, form, func(g int, at []int) float64 {
		lag := steps - 1 - at[1]
		if lag < 0 {
			return 0
		}
		return cell.enter(g, at[2], at[0], lag)
	}, cell.p, 2*steps-1, w)
	from := l.op("Sub", l.Ints(int64(steps-1)), last)
	ends = l.op("Slice", ends, from, l.op("Add", from, l.Ints(int64(steps))), l.Ints(axis))
	ends = l.op("Reshape", ends, l.Ints(append(groups, int64(cell.p*steps), int64(w))...))
	sum := l.op("MatMul", v, ends)
	shape = l.with("Concat", []*ir.Value{l.Ints(int64(cell.groups)), c.samples, l.Ints(int64(w))}, ir.A("axis", 0))
	sum = l.with("Cast", []*ir.Value{l.op("Reshape", sum, shape)}, ir.A("to", int(tensor.Float64)))
	entering := make([]*ir.Value, len(before))
	for i, b := range before {
		entering[i] = l.with("Gather", []*ir.Value{b, l.Const("last", tensor.Scalar(int64(-1)))}, ir.A("axis", 0))
	}
	var parts []*ir.Value
	if y.dense {
		k := y.k
		x := make([]float64, 0, steps*carry.groups*k*k)
		for t := range steps {
			for g := range carry.groups {
				m := y.power(g, t+1)
				for j := range k {
					for i := range k {
						x = append(x, m[i*k+j])
					}
				}
			}
		}
		powers := l.number("powers", tensor.Float64, x, steps, carry.groups, k, k)
		power := l.op("Squeeze", l.with("Gather", []*ir.Value{powers, last}, ir.A("axis", 0)), l.Ints(0))
		parts = []*ir.Value{l.op("Add", l.op("MatMul", entering[0], power), sum)}
	} else {
		pow := func(name string, imaginary bool) *ir.Value {
			p := l.fill(name, tensor.Float64, func(at []int) float64 {
				z := essm.Pow(y.a[at[1]*carry.width+at[3]], float64(at[0]+1))
				if imaginary {
					return imag(z)
				}
				return real(z)
			}, steps, carry.groups, 1, carry.width)
			return l.op("Squeeze", l.with("Gather", []*ir.Value{p, last}, ir.A("axis", 0)), l.Ints(0))
		}
		pr, pi := pow("powers_re", false), pow("powers_im", true)
		s := l.several("Split", 2, []*ir.Value{sum, l.Ints(int64(carry.width), int64(carry.width))}, ir.A("axis", -1))
		zr, zi := entering[0], entering[1]
		parts = []*ir.Value{
			l.op("Add", l.op("Sub", l.op("Mul", pr, zr), l.op("Mul", pi, zi)), s[0]),
			l.op("Add", l.op("Add", l.op("Mul", pr, zi), l.op("Mul", pi, zr)), s[1]),
		}
	}
	for i, p := range parts {
		p = l.with("Transpose", []*ir.Value{p}, ir.A("perm", []int64{1, 0, 2}))
		parts[i] = l.op("Reshape", p, l.Ints(-1, int64(y.heads()*y.k)))
	}
	v = parts[0]
	if len(parts) > 1 {
		v = l.with("Concat", parts, ir.A("axis", 1))
	}
	return l.with("Cast", []*ir.Value{v}, ir.A("to", int(elem)))
}
