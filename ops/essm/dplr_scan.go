package essm

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// DPLRScan runs a discrete system with a diagonal plus low-rank matrix over time.
var DPLRScan = ops.Register(&ir.Op{
	Domain: "essm", Name: "DPLRScan",
	Doc: `For each feature a discrete system of one input and one output whose matrix is diagonal plus low rank
(docs/math.md, Diagonal plus low rank): z[t] = f∘z[t-1] - Σ_r g_r Re(Σ h_r∘z[t-1]) + b u[t], y[t] = Re(Σ c∘z[t]), with n
complex states and the rank R. Bidirectional adds Re(Σ later∘x[t]), where x[t] is computed from the last step on as z is,
without the input of step t itself. A window ℓ cuts off the lags from ℓ on. Only forward scans have a state, in the type of
u or in float64. It holds z after the last step, N·n real parts, then as many imaginary parts, and with a window the last ℓ
inputs u, oldest first. Forms: scan, fft, direct.`,
	In: ops.Sig("u:T[B,L,N]", "f_re:float64[N,n]", "f_im:float64[N,n]", "g_re:float64[N,R,n]", "g_im:float64[N,R,n]",
		"h_re:float64[N,R,n]", "h_im:float64[N,R,n]", "b_re:float64[N,n]", "b_im:float64[N,n]", "c_re:float64[N,n]",
		"c_im:float64[N,n]", "later_re:float64[N,n]?", "later_im:float64[N,n]?", "state:Z[B,Z]?"),
	Out:        ops.Sig("y:T[B,L,N]", "state_out:Z[B,Z]?"),
	Elems:      map[string][]tensor.DType{"T": ops.Floats, "Z": ops.Floats},
	Attrs:      dplrAttrs,
	Infer:      func(n *ir.Node) ([]ir.Type, error) { return dplrTypes(n, 11) },
	Eval:       evalDPLRScan,
	Along:      alongDPLR,
	NoGradient: ops.NotYet,
	Linear:     linearSystem([]int{7, 8}, 13, []int{0, 13}, []int{9, 10, 11, 12}),
	Tol:        ir.Long,
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		k := int64(1)
		if n.Attrs.Str("direction", Forward) == Bidirectional {
			k = 2
		}
		rows := ops.DimAt(n.In(0), 0, bind) * ops.DimAt(n.In(0), 1, bind)
		return ir.Work{Flops: k * rows * (16*ops.Count(n.In(1), bind) + 8*ops.Count(n.In(3), bind)),
			Bytes: ops.BytesOf(n, bind)}
	},
})

// dplrRun is one evaluation of a DPLRScan.
type dplrRun struct {
	discrete
	batch, length, window int
	u, past, y            []float64    // (batch, length, heads), (batch, window, heads), as u
	z                     []complex128 // (batch, heads, n)
	low                   []float64    // scratch, a number for each rank
}

func evalDPLRScan(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	u, g := ops.Tensor(in, 0), ops.Tensor(in, 3)
	at := func(i int) []complex128 { return pair(c, ops.F64(c, in, i), ops.F64(c, in, i+1)) }
	r := &dplrRun{discrete: discrete{heads: g.Dim(0), rank: g.Dim(1), n: g.Dim(2), f: at(1), g: at(3), h: at(5),
		b: at(7)},
		batch: u.Dim(0), length: u.Dim(1), window: int(c.Node.Attrs.Int("window", 0)), u: ops.F64(c, in, 0)}
	if u.Dim(2) != r.heads {
		return nil, fmt.Errorf("input has %d features, the system has %d", u.Dim(2), r.heads)
	}
	outputs, later := at(9), []complex128(nil)
	if ops.Tensor(in, 11) != nil {
		later = at(11)
	}
	r.y, r.low = ops.Make[float64](c, len(r.u)), ops.Make[float64](c, r.rank)
	all := r.heads * r.n
	r.z, r.past = ops.Make[complex128](c, r.batch*all), ops.Make[float64](c, r.batch*r.window*r.heads)
	size := 2*all + r.window*r.heads
	if st := ops.Tensor(in, 13); st != nil {
		if st.Dim(1) != size {
			return nil, fmt.Errorf("state: expected %d numbers per sample, found %d", size, st.Dim(1))
		}
		flat := ops.F64(c, in, 13)
		for i := range r.batch {
			c.Step(1)
			s := flat[i*size : (i+1)*size]
			ops.Put(c, r.z[i*all:], pair(c, s[:all], s[all:2*all]))
			ops.Put(c, r.past[i*r.window*r.heads:], s[2*all:])
		}
	}
	for head := range r.heads {
		c.Step(1)
		mark := c.Charged()
		last := r.scan(c, head, outputs)
		switch c.Kernel {
		case FormFFT, FormDirect:
			conv := convolution(convDirect)
			if c.Kernel == FormFFT {
				conv = convFFT
			}
			r.convolve(c, head, outputs, later, conv)
		default:
			if later != nil {
				r.scanBack(c, head, later)
			}
		}
		for i := range r.batch {
			ops.Put(c, r.z[i*all+head*r.n:], last[i*r.n:(i+1)*r.n])
		}
		c.Discharge(mark)
	}
	t, err := ops.Real(c, u.DType(), r.y, u.Shape()...)
	if err != nil || c.Node.Out(1) == nil {
		return []tensor.Datum{t, nil}, err
	}
	var state []float64
	for i := range r.batch {
		c.Step(1)
		re, im := split(c, r.z[i*all:(i+1)*all])
		state = ops.Append(c, ops.Append(c, state, re...), im...)
		for t := r.length - r.window; t < r.length; t++ {
			c.Step(r.heads)
			for head := range r.heads {
				state = ops.Append(c, state, r.input(i, t, head))
			}
		}
	}
	st, err := ops.Real(c, stateType(ops.Tensor(in, 13), u), state, r.batch, size)
	return []tensor.Datum{t, st}, err
}

// input returns feature head of u at step t, which may be before the first step.
func (r *dplrRun) input(sample, t, head int) float64 {
	if t < 0 {
		return r.past[(sample*r.window+r.window+t)*r.heads+head]
	}
	return r.u[(sample*r.length+t)*r.heads+head]
}

// advance replaces z by Ā z + b u.
func (r *dplrRun) advance(c *ir.EvalCtx, head int, z []complex128, u float64) {
	n := r.n
	c.Step(n * (2*r.rank + 2))
	for k := range r.rank {
		r.low[k] = 0
		h := r.h[(head*r.rank+k)*n : (head*r.rank+k+1)*n]
		for j, x := range z {
			r.low[k] += real(h[j] * x)
		}
	}
	for j := range z {
		z[j] = r.f[head*n+j]*z[j] + r.b[head*n+j]*complex(u, 0)
	}
	for k := range r.rank {
		g := r.g[(head*r.rank+k)*n : (head*r.rank+k+1)*n]
		for j := range z {
			z[j] -= g[j] * complex(r.low[k], 0)
		}
	}
}

// read returns Re(Σ c∘z).
func (r *dplrRun) read(c *ir.EvalCtx, head int, out, z []complex128) (y float64) {
	c.Step(r.n)
	for j, x := range z {
		y += real(out[head*r.n+j] * x)
	}
	return y
}

// cut returns Āˡ b, the weight of the input one window ago.
func (r *dplrRun) cut(c *ir.EvalCtx, head int) []complex128 {
	z := ops.Clone(c, r.b[head*r.n:(head+1)*r.n])
	for range r.window {
		r.advance(c, head, z, 0)
	}
	return z
}

// scan adds the outputs of the forward half of a head. It returns the states after the last step.
func (r *dplrRun) scan(c *ir.EvalCtx, head int, out []complex128) (last []complex128) {
	n := r.n
	last = ops.Make[complex128](c, r.batch*n)
	var cut []complex128
	if r.window > 0 {
		cut = r.cut(c, head)
	}
	for i := range r.batch {
		z := last[i*n : (i+1)*n]
		ops.Put(c, z, r.z[(i*r.heads+head)*n:(i*r.heads+head+1)*n])
		for t := range r.length {
			r.advance(c, head, z, r.input(i, t, head))
			if r.window > 0 {
				c.Step(n)
				old := complex(r.input(i, t-r.window, head), 0)
				for j := range z {
					z[j] -= cut[j] * old
				}
			}
			r.y[(i*r.length+t)*r.heads+head] = r.read(c, head, out, z)
		}
	}
	return last
}

// scanBack adds the outputs of the backward half of a head.
func (r *dplrRun) scanBack(c *ir.EvalCtx, head int, out []complex128) {
	var cut []complex128
	if r.window > 0 {
		cut = r.cut(c, head)
	}
	for i := range r.batch {
		z := ops.Make[complex128](c, r.n)
		for t := r.length - 2; t >= 0; t-- {
			r.advance(c, head, z, r.input(i, t+1, head))
			if r.window > 0 && t+1+r.window < r.length {
				c.Step(r.n)
				old := complex(r.input(i, t+1+r.window, head), 0)
				for j := range z {
					z[j] -= cut[j] * old
				}
			}
			r.y[(i*r.length+t)*r.heads+head] += r.read(c, head, out, z)
		}
	}
}

// kernel returns the responses of a head to an input, c Āᵏ b for k below taps.
func (r *dplrRun) kernel(c *ir.EvalCtx, head int, out []complex128, taps int) []complex128 {
	k, z := ops.Make[complex128](c, taps), ops.Clone(c, r.b[head*r.n:(head+1)*r.n])
	for t := range k {
		if t > 0 {
			r.advance(c, head, z, 0)
		}
		k[t] = complex(r.read(c, head, out, z), 0)
	}
	return k
}

// convolve replaces the outputs of a head by convolutions with the kernels of both halves.
func (r *dplrRun) convolve(c *ir.EvalCtx, head int, out, later []complex128, conv convolution) {
	keep, taps := r.window, r.length+r.window
	if r.window > 0 {
		taps = min(taps, r.window)
	}
	first := r.kernel(c, head, out, taps)
	var second []complex128
	if later != nil {
		second = r.kernel(c, head, later, taps)
	}
	for i := range r.batch {
		mark := c.Charged()
		v, x := ops.Make[complex128](c, keep+r.length), ops.Make[complex128](c, keep+r.length)
		for t := -keep; t < r.length; t++ {
			c.Step(1)
			v[keep+t] = complex(r.input(i, t, head), 0)
		}
		conv(c, x, v, first, Forward)
		if later != nil {
			conv(c, x, v, second, Backward)
		}
		z := ops.Clone(c, r.z[(i*r.heads+head)*r.n:(i*r.heads+head+1)*r.n])
		for t := range r.length {
			y := real(x[keep+t])
			if keep == 0 { // the response to the state before the first step
				r.advance(c, head, z, 0)
				y += r.read(c, head, out, z)
			}
			r.y[(i*r.length+t)*r.heads+head] = y
		}
		c.Discharge(mark)
	}
}
