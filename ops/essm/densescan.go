package essm

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// DenseScan runs a recurrence with a full matrix over time.
var DenseScan = ops.Register(&ir.Op{
	Domain: "essm", Name: "DenseScan",
	Doc: `The states of a system with full matrices, per head (docs/math.md, Full matrices). Forward:
x[t] = Ā x[t-1] + Γ v[t]. Backward: x[t] = Ā x[t+1] + Γ v[t+1]. Bidirectional: the sum of both. A window ℓ cuts off the
lags from ℓ on. Only forward scans have a state, in the type of v or in float64. It holds x after the last step, and with
a window the last ℓ inputs v, oldest first. Forms: scan, chunked, fft, direct.`,
	In:    ops.Sig("v:T[B,L,N]", "abar:float64[C,S,n,n]", "gamma:float64[C,S,n,n]", "state:Z[B,Z]?"),
	Out:   ops.Sig("x:T[B,L,N]", "state_out:Z[B,Z]?"),
	Attrs: scanAttrs,
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		b, err := ops.Bind(n)
		if err != nil {
			return nil, err
		}
		return scanTypes(n, b, DenseState(n))
	},
	Eval: evalDenseScan,
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		z, _ := DenseState(n).Known()
		return alongScan(n, in, n.Attrs.Str("direction", Forward), n.Attrs.Int("window", 0), z, len(n.Outputs))
	},
	Gradient: gradDenseScan,
	Linear:   linearSystem([]int{2}, 3, []int{0, 3}),
	Tol:      ir.Long,
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		per := ops.DimAt(n.In(1), 3, bind)
		return ir.Work{Flops: 4 * per * ops.Count(n.In(0), bind), Bytes: ops.BytesOf(n, bind)}
	},
})

// DenseState returns the number of scalars of a DenseScan's state, per sample.
func DenseState(n *ir.Node) ir.Dim {
	s := n.In(1).Shape()
	if len(s) != 4 {
		return ir.Unknown
	}
	return s[0].Mul(s[1]).Mul(s[2]).Mul(ir.Const(1 + n.Attrs.Int("window", 0)))
}

// denseRun is one evaluation of a DenseScan.
type denseRun struct {
	batch, length, heads, n, window int
	direction                       string
	abar, gamma, v, z, past, x      []float64
}

func evalDenseScan(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	v := ops.Tensor(in, 0)
	ch, s, n, _, err := rank4(ops.Tensor(in, 1), "abar")
	if err != nil {
		return nil, err
	}
	if v.Dim(2) != ch*s*n {
		return nil, fmt.Errorf("input has %d features, the system has %d states", v.Dim(2), ch*s*n)
	}
	attrs := c.Node.Attrs
	r := &denseRun{batch: v.Dim(0), length: v.Dim(1), heads: ch * s, n: n, window: int(attrs.Int("window", 0)),
		direction: attrs.Str("direction", Forward), abar: ops.F64(c, in, 1), gamma: ops.F64(c, in, 2),
		v: ops.F64(c, in, 0)}
	all := r.heads * n
	r.x = ops.Make[float64](c, len(r.v))
	r.z, r.past = ops.Make[float64](c, r.batch*all), ops.Make[float64](c, r.batch*r.window*all)
	if st := ops.Tensor(in, 3); st != nil {
		size := all * (1 + r.window)
		if st.Dim(1) != size {
			return nil, fmt.Errorf("state: expected %d numbers per sample, found %d", size, st.Dim(1))
		}
		flat := ops.F64(c, in, 3)
		for i := range ops.Each(c, r.batch) {
			ops.Put(c, r.z[i*all:(i+1)*all], flat[i*size:])
			ops.Put(c, r.past[i*r.window*all:(i+1)*r.window*all], flat[i*size+all:])
		}
	}
	for h := range ops.Each(c, r.heads) {
		mark := c.Charged()
		switch c.Kernel {
		case FormChunked:
			r.blocks(c, h, 64)
		case FormDirect:
			r.convolve(c, h, convDirect)
		case FormFFT:
			r.convolve(c, h, convFFT)
		default:
			r.scan(c, h)
		}
		c.Discharge(mark)
	}
	t, err := ops.Real(c, v.DType(), r.x, v.Shape()...)
	if err != nil || c.Node.Out(1) == nil {
		return []tensor.Datum{t, nil}, err
	}
	var state []float64
	for i := range r.batch {
		c.Step(1)
		state = ops.Append(c, state, r.z[i*all:(i+1)*all]...)
		for t := r.length - r.window; t < r.length; t++ {
			c.Step(1)
			for h := range ops.Each(c, r.heads) {
				state = ops.Append(c, state, r.input(i, t, h)...)
			}
		}
	}
	st, err := ops.Real(c, stateType(ops.Tensor(in, 3), v), state, r.batch, all*(1+r.window))
	return []tensor.Datum{t, st}, err
}

// input returns head h of v at step t, which may be before the first step.
func (r *denseRun) input(sample, t, h int) []float64 {
	src, at := r.v, sample*r.length+t
	if t < 0 {
		src, at = r.past, sample*r.window+r.window+t
	}
	at = (at*r.heads + h) * r.n
	return src[at : at+r.n]
}

func (r *denseRun) out(sample, t, h int) []float64 {
	at := ((sample*r.length+t)*r.heads + h) * r.n
	return r.x[at : at+r.n]
}

// addProduct adds sign·M u to y.
func addProduct(c *ir.EvalCtx, y, m, u []float64, sign float64) {
	n := len(u)
	for i := range len(y) {
		c.Step(1)
		s := 0.0
		for j, v := range ops.All(c, u) {
			s += m[i*n+j] * v
		}
		y[i] += sign * s
	}
}

func (r *denseRun) matrices(h int) (abar, gamma []float64) {
	n2 := r.n * r.n
	return r.abar[h*n2 : (h+1)*n2], r.gamma[h*n2 : (h+1)*n2]
}

func (r *denseRun) scan(c *ir.EvalCtx, h int) {
	abar, gamma := r.matrices(h)
	cut := gamma // Ā^ℓ Γ
	for range ops.Each(c, r.window) {
		cut = matMul(c, abar, cut, r.n, r.n, r.n)
	}
	for i := range r.batch {
		c.Step(1)
		if r.direction != Backward {
			z := r.z[(i*r.heads+h)*r.n : (i*r.heads+h+1)*r.n]
			for t := range r.length {
				c.Step(1)
				next := ops.Make[float64](c, r.n)
				addProduct(c, next, abar, z, 1)
				addProduct(c, next, gamma, r.input(i, t, h), 1)
				if r.window > 0 {
					addProduct(c, next, cut, r.input(i, t-r.window, h), -1)
				}
				ops.Put(c, z, next)
				for j, y := range ops.All(c, next) {
					r.out(i, t, h)[j] += y
				}
			}
		}
		if r.direction != Forward {
			z := ops.Make[float64](c, r.n)
			for t := r.length - 2; t >= 0; t-- {
				next := ops.Make[float64](c, r.n)
				addProduct(c, next, abar, z, 1)
				addProduct(c, next, gamma, r.input(i, t+1, h), 1)
				if r.window > 0 && t+1+r.window < r.length {
					addProduct(c, next, cut, r.input(i, t+1+r.window, h), -1)
				}
				z = next
				for j, y := range ops.All(c, next) {
					r.out(i, t, h)[j] += y
				}
			}
		}
	}
}

// convolve computes head h as a convolution with the matrix-valued kernel.
func (r *denseRun) convolve(c *ir.EvalCtx, h int, conv convolution) {
	abar, gamma := r.matrices(h)
	taps := r.length
	if r.window > 0 {
		taps = r.window
	}
	kernel := denseKernel(c, abar, gamma, r.n, taps)
	keep := r.window
	for i := range r.batch {
		c.Step(1)
		free := append([]float64(nil), r.z[(i*r.heads+h)*r.n:(i*r.heads+h+1)*r.n]...)
		for row := range r.n {
			c.Step(1)
			mark := c.Charged()
			x := ops.Make[complex128](c, keep+r.length)
			for col := range r.n {
				c.Step(1)
				begin := c.Charged()
				v := ops.Make[complex128](c, keep+r.length)
				for t := -keep; t < r.length; t++ {
					c.Step(1)
					v[keep+t] = complex(r.input(i, t, h)[col], 0)
				}
				conv(c, x, v, pair(c, kernel[(row*r.n+col)*taps:(row*r.n+col+1)*taps], nil), r.direction)
				c.Discharge(begin)
			}
			for t := range ops.Each(c, r.length) {
				r.out(i, t, h)[row] += real(x[keep+t])
			}
			c.Discharge(mark)
		}
		if r.direction != Forward {
			continue
		}
		for t := range r.length {
			c.Step(1)
			if keep == 0 { // the response to the state before the first step
				next := ops.Make[float64](c, r.n)
				addProduct(c, next, abar, free, 1)
				free = next
				for j, y := range ops.All(c, free) {
					r.out(i, t, h)[j] += y
				}
			}
			ops.Put(c, r.z[(i*r.heads+h)*r.n:(i*r.heads+h+1)*r.n], r.out(i, t, h))
		}
	}
}

// blocks computes head h chunk by chunk, by the kernel inside a chunk and powers of Ā between chunks.
func (r *denseRun) blocks(c *ir.EvalCtx, h, size int) {
	if r.window > 0 {
		r.convolve(c, h, convDirect)
		return
	}
	abar, gamma := r.matrices(h)
	powers := denseKernel(c, abar, identity(c, r.n), r.n, size+1)
	kernel := denseKernel(c, abar, gamma, r.n, size)
	m := ops.Make[float64](c, r.n*r.n)
	at := func(k []float64, taps, t int) []float64 {
		for i := range ops.Each(c, len(m)) {
			m[i] = k[i*taps+t]
		}
		return m
	}
	for i := range r.batch {
		c.Step(1)
		if r.direction != Backward {
			z := r.z[(i*r.heads+h)*r.n : (i*r.heads+h+1)*r.n]
			for lo := 0; lo < r.length; lo += size {
				hi := min(lo+size, r.length)
				var last []float64
				for t := lo; t < hi; t++ {
					last = ops.Make[float64](c, r.n)
					addProduct(c, last, at(powers, size+1, t-lo+1), z, 1)
					for q := lo; q <= t; q++ {
						addProduct(c, last, at(kernel, size, t-q), r.input(i, q, h), 1)
					}
					for j, y := range ops.All(c, last) {
						r.out(i, t, h)[j] += y
					}
				}
				ops.Put(c, z, last)
			}
		}
		if r.direction != Forward {
			z := ops.Make[float64](c, r.n)
			for hi := r.length; hi > 0; hi = (hi - 1) / size * size {
				lo := (hi - 1) / size * size
				for t := lo; t < hi; t++ {
					y := ops.Make[float64](c, r.n)
					addProduct(c, y, at(powers, size+1, hi-t-1), z, 1)
					for q := t + 1; q < hi; q++ {
						addProduct(c, y, at(kernel, size, q-t-1), r.input(i, q, h), 1)
					}
					for j := range ops.Each(c, len(y)) {
						r.out(i, t, h)[j] += y[j]
					}
				}
				next := ops.Make[float64](c, r.n)
				addProduct(c, next, at(powers, size+1, hi-lo), z, 1)
				for q := lo; q < hi; q++ {
					addProduct(c, next, at(kernel, size, q-lo), r.input(i, q, h), 1)
				}
				z = next
			}
		}
	}
}
