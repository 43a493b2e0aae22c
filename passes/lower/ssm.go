package lower

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// lowerSystem lowers an SSM or a DenseSSM.
func lowerSystem(l *lowerer, n *ir.Node) []*ir.Value {
	at := 9 // index of D
	if n.Op.Name == "DenseSSM" {
		at = 5
	}
	y := systemOf(n)
	var outs []*ir.Value
	switch {
	case y == nil || !y.stable(l.chunk):
		outs = l.recurrence(n)
	case y.window > 0:
		outs = l.convolution(n, y)
	default:
		outs = l.chunks(n, y)
	}
	if d := n.In(at); d != nil && outs[0] != nil {
		outs[0] = l.op("Add", outs[0], l.direct(n.In(0), d))
	}
	return outs
}

// direct computes D u for a diagonal D (C,S,m) or a full D (C,S,m,h).
func (l *lowerer) direct(u, d *ir.Value) *ir.Value {
	if len(d.Shape()) == 4 {
		return l.headLinear(u, d)
	}
	return l.headScale(u, d)
}

// chunkSteps is the number of steps of a chunk in exported files.
const chunkSteps = 64

// formOf chooses the kind of groups by the number of multiplications per step.
func (l *lowerer) formOf(y *system, keepsInput bool) groupForm {
	taps := l.chunk
	if y.window > 0 {
		taps = y.window * y.directions()
	}
	switch {
	case y.dense && keepsInput:
		return inputForm
	case y.dense:
		return headForm
	case keepsInput:
		return stateForm
	}
	p, q, d := 1, 1, 2*y.directions()
	if y.complexIn {
		p = 2
	}
	if y.complexOut {
		q = 2
	}
	head := y.m*(y.h*taps+d*y.k) + y.h*d*y.k
	state := y.k * (q*(p*taps+d) + p*d + p*y.h + q*y.m)
	if head <= state {
		return headForm
	}
	return stateForm
}

// chunked is a sequence cut into chunks, (groups, samples·chunks, inputs·steps), with the sizes that join needs.
type chunked struct {
	v       *ir.Value
	samples *ir.Value // int64[1]
	length  *ir.Value // int64[1]
}

// cut pads a sequence to whole chunks and arranges it by groups.
func (l *lowerer) cut(u *ir.Value, y *system, form groupForm, steps int) chunked {
	shape := l.op("Shape", u)
	samples := l.with("Gather", []*ir.Value{shape, l.Ints(0)}, ir.A("axis", 0))
	length := l.with("Gather", []*ir.Value{shape, l.Ints(1)}, ir.A("axis", 0))
	rest := l.op("Mod", l.op("Sub", l.Ints(0), length), l.Ints(int64(steps)))
	pads := l.with("Concat", []*ir.Value{l.Ints(0, 0, 0, 0), rest, l.Ints(0)}, ir.A("axis", 0))
	padded := l.op("Pad", u, pads)
	s, h, t := int64(y.s), int64(y.h), int64(steps)
	parts := l.op("Reshape", padded, l.Ints(0, -1, t, s, h)) // samples, chunks, steps, heads, inputs
	c := chunked{samples: samples, length: length}
	if form == headForm {
		x := l.with("Transpose", []*ir.Value{parts}, ir.A("perm", []int64{3, 0, 1, 4, 2}))
		c.v = l.op("Reshape", x, l.Ints(s, -1, h*t))
		return c
	}
	x := l.with("Transpose", []*ir.Value{parts}, ir.A("perm", []int64{3, 4, 0, 1, 2}))
	x = l.op("Reshape", x, l.Ints(s, h, -1))
	product := func(imaginary bool) *ir.Value {
		b := l.headMatrix("B", u.Elem(), y, y.in, y.k, y.h, imaginary)
		if form == inputForm {
			v := l.op("Reshape", l.op("MatMul", b, x), l.Ints(int64(y.heads()), int64(y.k), -1, t))
			v = l.with("Transpose", []*ir.Value{v}, ir.A("perm", []int64{0, 2, 1, 3}))
			return l.op("Reshape", v, l.Ints(int64(y.heads()), -1, int64(y.k)*t))
		}
		return l.op("Reshape", l.op("MatMul", b, x), l.Ints(int64(y.heads()*y.k), -1, t))
	}
	c.v = product(false)
	if y.complexIn {
		c.v = l.with("Concat", []*ir.Value{c.v, product(true)}, ir.A("axis", -1))
	}
	return c
}

// headMatrix returns a constant with the real or imaginary part of B or C, (S,r,q), or (C,S,r,q) with several channels.
func (l *lowerer) headMatrix(name string, elem tensor.DType, y *system, z []complex128, r, q int,
	imaginary bool) *ir.Value {
	x := component(z, imaginary)
	if y.c > 1 {
		return l.number(name, elem, x, y.c, y.s, r, q)
	}
	return l.number(name, elem, x, y.s, r, q)
}

// join rearranges the groups' outputs (groups, samples·chunks, outputs·steps) to a sequence.
func (l *lowerer) join(x *ir.Value, c chunked, y *system, form groupForm, steps int) *ir.Value {
	ch, s, m, k, t := int64(y.c), int64(y.s), int64(y.m), int64(y.k), int64(steps)
	if form == stateForm {
		part := func(v *ir.Value, imaginary bool) *ir.Value {
			v = l.op("Reshape", v, l.Ints(ch*s, k, -1))
			return l.op("MatMul", l.number("C", x.Elem(), component(y.out, imaginary), int(ch*s), int(m), int(k)), v)
		}
		if y.complexOut {
			p := l.several("Split", 2, []*ir.Value{x, l.Ints(t, t)}, ir.A("axis", -1))
			x = l.op("Sub", part(p[0], false), part(p[1], true))
		} else {
			x = part(x, false)
		}
		shape := l.with("Concat", []*ir.Value{l.Ints(ch, s, m), c.samples, l.Ints(-1, t)}, ir.A("axis", 0))
		x = l.op("Reshape", x, shape)
		x = l.with("Transpose", []*ir.Value{x}, ir.A("perm", []int64{3, 4, 5, 0, 1, 2}))
	} else {
		shape := l.with("Concat", []*ir.Value{l.Ints(ch, s), c.samples, l.Ints(-1, m, t)}, ir.A("axis", 0))
		x = l.op("Reshape", x, shape)
		x = l.with("Transpose", []*ir.Value{x}, ir.A("perm", []int64{2, 3, 5, 0, 1, 4}))
	}
	shape := l.with("Concat", []*ir.Value{c.samples, l.Ints(-1, ch*s*m)}, ir.A("axis", 0))
	x = l.op("Reshape", x, shape)
	return l.op("Slice", x, l.Ints(0), c.length, l.Ints(1))
}
