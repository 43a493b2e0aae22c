package lower

import (
	"math"
	"math/cmplx"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/essm"
)

// system is a discrete state-space system with constant parameters, as in a node of SSM or DenseSSM: c·s heads with k
// states, h inputs and m outputs each.
type system struct {
	c, s, k, h, m int
	dense         bool
	direction     string
	window        int
	a, b          []complex128 // diagonal: λΔ and b, (c·s, k)
	abar, gamma   []float64    // dense: (c·s, k, k)
	in, out       []complex128 // B (c·s, k, h), C (c·s, m, k)
	complexIn     bool
	complexOut    bool
}

// heads returns the number of heads of all channels.
func (y *system) heads() int { return y.c * y.s }

// systemOf reads a node. It returns nil if a parameter is not a constant.
func systemOf(n *ir.Node) *system {
	y := &system{dense: n.Op.Name == "DenseSSM", direction: n.Attrs.Str("direction", essm.Forward),
		window: int(n.Attrs.Int("window", 0))}
	ok := true
	get := func(i int) []float64 {
		v := n.In(i)
		if v == nil {
			return nil
		}
		if v.Const == nil {
			ok = false
			return nil
		}
		x, err := v.Const.Float64s()
		ok = ok && err == nil
		return x
	}
	join := func(re, im []float64) []complex128 {
		z := make([]complex128, len(re))
		for i := range re {
			z[i] = complex(re[i], 0)
			if im != nil {
				z[i] = complex(re[i], im[i])
			}
		}
		return z
	}
	in, out := 5, 6
	if y.dense {
		in, out = 3, 4
		y.abar, y.gamma = get(1), get(2)
		y.in, y.out = join(get(3), nil), join(get(4), nil)
	} else {
		y.a, y.b = join(get(1), get(2)), join(get(3), get(4))
		y.in, y.out = join(get(5), get(7)), join(get(6), get(8))
		y.complexIn, y.complexOut = n.In(7) != nil, n.In(8) != nil
	}
	if !ok {
		return nil
	}
	shape := n.In(in).Const.Shape()
	y.c, y.s, y.k, y.h = shape[0], shape[1], shape[2], shape[3]
	y.m = n.In(out).Const.Shape()[2]
	return y
}

func (y *system) forward() bool  { return y.direction != essm.Backward }
func (y *system) backward() bool { return y.direction != essm.Forward }

// directions returns the number of directions.
func (y *system) directions() int {
	if y.direction == essm.Bidirectional {
		return 2
	}
	return 1
}

// groupForm is the part of a system that is one group.
type groupForm int

const (
	stateForm groupForm = iota // one state, between the products with B and with C
	headForm                   // one head, including B and C
	inputForm                  // one head of a dense system after the product with B, including C
)

// cell is one group of the system: p inputs, q outputs, and w numbers that pass from chunk to chunk in each direction.
type cell struct {
	groups, p, q, w int
	kernel          func(g, q, p, lag int) float64 // effect of an input on an output lag steps later
	enter           func(g, w, p, lag int) float64 // effect of an input on the passed numbers lag steps later
	leave           func(g, q, w, lag int) float64 // effect of the passed numbers on an output lag steps later
}

// sizes returns a cell without its functions.
func (y *system) sizes(form groupForm) *cell {
	c := &cell{groups: y.heads(), p: y.h, q: y.m, w: 2 * y.k}
	if y.dense {
		c.w = y.k
	}
	switch form {
	case inputForm:
		c.p = y.k
	case stateForm:
		c.groups, c.p, c.q, c.w = len(y.a), 1, 1, 2
		if y.complexIn {
			c.p = 2
		}
		if y.complexOut {
			c.q = 2
		}
	}
	return c
}

// cellOf returns the system as a cell, for lags up to most.
func (y *system) cellOf(form groupForm, most int) *cell {
	if y.dense {
		return y.denseCell(form, most)
	}
	c := y.sizes(form)
	power := make([][]complex128, len(y.a)) // by state, then lag
	for i, a := range y.a {
		power[i] = make([]complex128, most+1)
		for lag := range power[i] {
			power[i][lag] = essm.Pow(a, float64(lag))
		}
	}
	part := func(z complex128, second bool) float64 {
		if second {
			return imag(z)
		}
		return real(z)
	}
	if form == stateForm {
		gain := func(g, p int) complex128 {
			if p == 1 {
				return y.b[g] * 1i
			}
			return y.b[g]
		}
		c.kernel = func(g, q, p, lag int) float64 { return part(gain(g, p)*power[g][lag], q == 1) }
		c.enter = func(g, w, p, lag int) float64 { return part(gain(g, p)*power[g][lag], w == 1) }
		c.leave = func(g, q, w, lag int) float64 {
			z := power[g][lag]
			if w == 1 {
				z *= 1i
			}
			return part(z, q == 1)
		}
		return c
	}
	gain := func(g, i, p int) complex128 { return y.b[g*y.k+i] * y.in[(g*y.k+i)*y.h+p] }
	read := func(g, q, i int) complex128 { return y.out[(g*y.m+q)*y.k+i] }
	c.kernel = func(g, q, p, lag int) float64 {
		sum := 0.0
		for i := range y.k {
			if y.complexOut || y.complexIn {
				sum += real(read(g, q, i) * gain(g, i, p) * power[g*y.k+i][lag])
			} else {
				sum += real(read(g, q, i)) * real(gain(g, i, p)*power[g*y.k+i][lag])
			}
		}
		return sum
	}
	c.enter = func(g, w, p, lag int) float64 {
		i := w % y.k
		return part(gain(g, i, p)*power[g*y.k+i][lag], w >= y.k)
	}
	c.leave = func(g, q, w, lag int) float64 {
		i := w % y.k
		z := read(g, q, i) * power[g*y.k+i][lag]
		if w >= y.k {
			z *= 1i
		}
		return real(z)
	}
	return c
}

// denseCell is cellOf for systems with full matrices.
func (y *system) denseCell(form groupForm, most int) *cell {
	k := y.k
	state := make([][][]float64, y.heads()) // Āˡ by head and lag
	kernel := make([][][]float64, y.heads())
	enter := make([][][]float64, y.heads())
	c := y.sizes(form)
	p := c.p
	for g := range y.heads() {
		abar, gain := y.abar[g*k*k:(g+1)*k*k], y.gamma[g*k*k:(g+1)*k*k]
		if form != inputForm {
			gain = product(gain, component(y.in[g*k*y.h:(g+1)*k*y.h], false), k, k, y.h)
		}
		out := component(y.out[g*y.m*k:(g+1)*y.m*k], false)
		pow := make([]float64, k*k)
		for i := range k {
			pow[i*k+i] = 1
		}
		for range most + 1 {
			state[g] = append(state[g], product(out, pow, y.m, k, k))
			e := product(pow, gain, k, k, p)
			enter[g] = append(enter[g], e)
			kernel[g] = append(kernel[g], product(out, e, y.m, k, p))
			pow = product(abar, pow, k, k, k)
		}
	}
	c.kernel = func(g, q, i, lag int) float64 { return kernel[g][lag][q*p+i] }
	c.enter = func(g, w, i, lag int) float64 { return enter[g][lag][w*p+i] }
	c.leave = func(g, q, w, lag int) float64 { return state[g][lag][q*k+w] }
	return c
}

// power returns Āᵗ of a dense system's head in row-major order.
func (y *system) power(g, t int) []float64 {
	k := y.k
	out := make([]float64, k*k)
	for i := range k {
		out[i*k+i] = 1
	}
	for range t {
		out = product(y.abar[g*k*k:(g+1)*k*k], out, k, k, k)
	}
	return out
}

// component returns the real or the imaginary parts of z.
func component(z []complex128, imaginary bool) []float64 {
	x := make([]float64, len(z))
	for i, c := range z {
		x[i] = real(c)
		if imaginary {
			x[i] = imag(c)
		}
	}
	return x
}

// product returns the product of an (r, k) and a (k, q) matrix.
func product(a, b []float64, r, k, q int) []float64 {
	out := make([]float64, r*q)
	for i := range r {
		for l := range k {
			for j := range q {
				out[i*q+j] += a[i*k+l] * b[l*q+j]
			}
		}
	}
	return out
}

// stable reports whether all powers of the system up to the chunk's length are in the range of float32.
func (y *system) stable(steps int) bool {
	for _, a := range y.a {
		if z := cmplx.Abs(essm.Pow(a, float64(steps))); z > 1e6 || math.IsNaN(z) {
			return false
		}
	}
	return true
}

// number returns a constant of type elem with the given numbers.
func (l *lowerer) number(name string, elem tensor.DType, x []float64, shape ...int) *ir.Value {
	t, err := tensor.FromFloat64s(elem, x, shape...)
	if err != nil {
		l.Fail(err)
		return failed
	}
	return l.Const(name, t)
}

// fill returns a constant whose elements f computes from their indices.
func (l *lowerer) fill(name string, elem tensor.DType, f func(at []int) float64, shape ...int) *ir.Value {
	size, err := tensor.Size(shape)
	if err != nil {
		l.Fail(err)
		return failed
	}
	x, at := make([]float64, size), make([]int, len(shape))
	for i := range x {
		x[i] = f(at)
		for d := len(at) - 1; d >= 0; d-- {
			if at[d]++; at[d] < shape[d] {
				break
			}
			at[d] = 0
		}
	}
	return l.number(name, elem, x, shape...)
}
