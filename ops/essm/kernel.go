package essm

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// maxKernel bounds the elements of one kernel, whose length comes from data.
const maxKernel = ops.MaxElems

func lengthInput(c *ir.EvalCtx, t *tensor.Tensor, per int) (int, error) {
	v, err := ops.Int64s(c, t)
	if err != nil || len(v) != 1 {
		return 0, fmt.Errorf("length: expected one integer, found %s", t)
	}
	if v[0] < 0 || v[0] > int64(maxKernel/max(per, 1)) {
		return 0, fmt.Errorf("length: %d for %d states is out of range", v[0], per)
	}
	return int(v[0]), nil
}

// lastDim replaces the unknown last dimension of the types by the length, where input i is a constant.
func lastDim(n *ir.Node, i int, types []ir.Type) {
	d := ir.Unknown
	if v := n.In(i); v != nil && v.Const != nil {
		if k, err := v.Const.Int64s(); err == nil && len(k) == 1 {
			d = ir.Const(k[0])
		}
	}
	for _, t := range types {
		tt := t.(*ir.TensorType)
		tt.Shape[len(tt.Shape)-1] = d
	}
}

func inferLength(input int) func(n *ir.Node) ([]ir.Type, error) {
	return func(n *ir.Node) ([]ir.Type, error) {
		b, err := ops.Bind(n)
		if err != nil {
			return nil, err
		}
		types, err := b.Outputs(n.Op)
		if err == nil {
			lastDim(n, input, types)
		}
		return types, err
	}
}

// Kernel computes the impulse response of each state.
var Kernel = ops.Register(&ir.Op{
	Domain: "essm", Name: "Kernel",
	Doc: `Impulse response of each state (docs/math.md, Kernel): k[…,j] = b·exp(a·j), j = 0 … length-1. The real part is
enough for real B and C.`,
	In: ops.Sig("a_re:float64[C,S,n]", "a_im:float64[C,S,n]", "b_re:float64[C,S,n]", "b_im:float64[C,S,n]",
		"length:int64[]"),
	Out:   ops.Sig("k_re:float64[C,S,n,_]", "k_im:float64[C,S,n,_]"),
	Infer: inferLength(4),
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		a, b := pair(c, ops.F64(c, in, 0), ops.F64(c, in, 1)), pair(c, ops.F64(c, in, 2), ops.F64(c, in, 3))
		length, err := lengthInput(c, ops.Tensor(in, 4), len(a))
		if err != nil {
			return nil, err
		}
		re, im := ops.Make[float64](c, len(a)*length), ops.Make[float64](c, len(a)*length)
		for i := range len(a) {
			c.Step(1)
			for j := range ops.Each(c, length) {
				z := b[i] * Pow(a[i], float64(j))
				re[i*length+j], im[i*length+j] = real(z), imag(z)
			}
		}
		shape := append(append([]int{}, ops.Tensor(in, 0).Shape()...), length)
		if _, err := tensor.Size(shape); err != nil {
			return nil, err
		}
		return []tensor.Datum{tensor.FromSlice(re, shape...), tensor.FromSlice(im, shape...)}, nil
	},
	GradientBody: bodyKernel,
	Linear:       ops.LinearIn([]int{2, 3}),
	Tol:          ir.Rounding,
})

// DenseKernel computes the impulse response of a system with a full matrix.
var DenseKernel = ops.Register(&ir.Op{
	Domain: "essm", Name: "DenseKernel",
	Doc:   "Impulse response of a system with full matrix: k[…,i,j,t] = (Āᵗ Γ)[i,j], t = 0 … length-1.",
	In:    ops.Sig("abar:float64[C,S,n,n]", "gamma:float64[C,S,n,n]", "length:int64[]"),
	Out:   ops.Sig("k:float64[C,S,n,n,_]"),
	Infer: inferLength(2),
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		return ops.Stated(n, bind, ops.Product(2, ops.Count(n.Outputs[0], bind), ops.DimAt(n.In(0), 3, bind)))
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		t := ops.Tensor(in, 0)
		ch, s, n, _, err := rank4(t, "abar")
		if err != nil {
			return nil, err
		}
		length, err := lengthInput(c, ops.Tensor(in, 2), t.Len())
		if err != nil {
			return nil, err
		}
		abar, gamma := ops.F64(c, in, 0), ops.F64(c, in, 1)
		out := ops.Make[float64](c, len(abar)*length)
		for h := range ops.Each(c, ch*s) {
			mark := c.Charged()
			ops.Put(c, out[h*n*n*length:], denseKernel(c, abar[h*n*n:(h+1)*n*n], gamma[h*n*n:(h+1)*n*n], n, length))
			c.Discharge(mark)
		}
		return ops.One(tensor.FromSlice(out, ch, s, n, n, length), nil)
	},
	NoGradient: ops.NotYet,
	Linear:     ops.LinearIn([]int{1}),
	Tol:        ir.Summing,
})

// denseKernel is Āᵗ Γ for t below length, laid out (row, column, t).
func denseKernel(c *ir.EvalCtx, abar, gamma []float64, n, length int) []float64 {
	out := ops.Make[float64](c, n*n*length)
	p := gamma
	for t := range length {
		c.Step(1)
		for i, v := range ops.All(c, p) {
			out[i*length+t] = v
		}
		p = matMul(c, abar, p, n, n, n)
	}
	return out
}

// LongConv convolves each feature with a long kernel.
var LongConv = ops.Register(&ir.Op{
	Domain: "essm", Name: "LongConv",
	Doc: `Forward: x[t,i] = Σ k[i,j]·v[t-j,i] over lags j from 0. Backward: Σ k[i,j]·v[t+1+j,i]. Bidirectional: the sum of
both (docs/math.md, Directions). Computed directly, or by FFT of length ≥ L+K.`,
	In: ops.Sig("v:T[B,L,N]", "k:W[N,K]"), Out: ops.Sig("x:T[B,L,N]"), Elems: floatElems,
	Attrs: []ir.AttrSpec{
		{Name: "direction", Kind: ir.AttrString, Default: Forward, OneOf: []string{Forward, Backward, Bidirectional},
			Doc: "side of a step that the kernel reads"},
		{Name: "form", Kind: ir.AttrString, Default: FormDirect, OneOf: []string{FormDirect, FormFFT},
			Doc: "algorithm"},
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		v, k := ops.Tensor(in, 0), ops.Tensor(in, 1)
		b, l, n, taps := v.Dim(0), v.Dim(1), v.Dim(2), k.Dim(1)
		if k.Dim(0) != n {
			return nil, fmt.Errorf("kernel has %d features, input has %d", k.Dim(0), n)
		}
		src, ker := ops.F64(c, in, 0), ops.F64(c, in, 1)
		x := ops.Make[float64](c, len(src))
		dir := c.Node.Attrs.Str("direction", Forward)
		conv := convolution(convDirect)
		if c.Node.Attrs.Str("form", FormDirect) == FormFFT {
			conv = convFFT
		}
		col, acc := ops.Make[complex128](c, l), ops.Make[complex128](c, l)
		for i := range b {
			c.Step(1)
			for j := range n {
				c.Step(1)
				mark := c.Charged()
				kj := pair(c, ker[j*taps:(j+1)*taps], nil)
				for t := range ops.Each(c, l) {
					col[t], acc[t] = complex(src[(i*l+t)*n+j], 0), 0
				}
				conv(c, acc, col, kj, dir)
				c.Discharge(mark)
				for t := range ops.Each(c, l) {
					x[(i*l+t)*n+j] = real(acc[t])
				}
			}
		}
		return ops.One(ops.Real(c, v.DType(), x, v.Shape()...))
	},
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		window := int64(0)
		if s := n.In(1).Shape(); len(s) == 2 {
			window, _ = s[1].Known()
		}
		out := alongScan(n, in, n.Attrs.Str("direction", Forward), window, 0, 1)
		if out[0].Back >= ir.Unbounded && in[0].Axis == 1 {
			out[0].Summary = in[0].Summary && in[0].Back >= ir.Unbounded // a kernel alone has no state of fixed size
		}
		return out
	},
	Gradient: gradLongConv,
	Linear:   ops.LinearEach,
	Tol:      ir.Long,
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		l := float64(ops.DimAt(n.In(0), 1, bind))
		points := float64(ops.Count(n.In(0), bind))
		per := 2 * float64(ops.DimAt(n.In(1), 1, bind))
		if n.Attrs.Str("form", FormDirect) == FormFFT {
			per = 10 * math.Log2(2*l+1)
		}
		return ir.Work{Flops: int64(points * per), Bytes: ops.BytesOf(n, bind)}
	},
})

// convolution adds the convolution of v with k to x.
type convolution func(c *ir.EvalCtx, x, v, k []complex128, direction string)

// convDirect is a convolution by its definition.
func convDirect(c *ir.EvalCtx, x, v, k []complex128, direction string) {
	for t := range len(x) {
		c.Step(1)
		var sum complex128
		if direction != Backward {
			for j := 0; j < len(k) && j <= t; j++ {
				c.Step(1)
				sum += k[j] * v[t-j]
			}
		}
		if direction != Forward {
			for j := 0; j < len(k) && t+1+j < len(v); j++ {
				c.Step(1)
				sum += k[j] * v[t+1+j]
			}
		}
		x[t] += sum
	}
}

// convFFT is convDirect by the convolution theorem, both directions in one product. The backward kernel is at the end
// of the circle, reversed.
func convFFT(c *ir.EvalCtx, x, v, k []complex128, direction string) {
	l := len(v)
	taps := min(len(k), l)
	size := powerOfTwo(l + taps)
	a, b := ops.Make[complex128](c, size), ops.Make[complex128](c, size)
	ops.Put(c, a, v)
	for j := range ops.Each(c, taps) {
		if direction != Backward {
			b[j] += k[j]
		}
		if direction != Forward {
			b[size-1-j] += k[j]
		}
	}
	fft(c, a, false)
	fft(c, b, false)
	for i := range ops.Each(c, len(a)) {
		a[i] *= b[i]
	}
	fft(c, a, true)
	for t := range ops.Each(c, len(x)) {
		x[t] += a[t] / complex(float64(size), 0)
	}
}
