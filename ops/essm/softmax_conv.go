package essm

import (
	"fmt"
	"math/cmplx"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// SoftmaxConv convolves with the kernels of DSS (softmax), which depend on the length of the sequence.
var SoftmaxConv = ops.Register(&ir.Op{
	Domain: "essm", Name: "SoftmaxConv",
	Doc: `For each feature the convolution with a kernel of n states whose powers are normalized over the sequence (docs/math.md,
Softmax kernels): y[t] = Σ K[j] u[t-j] for j below K's length, the number of steps, at most window. a is λΔ. Bidirectional adds
Σ K'[j] u[t+1+j], with later in place of w. The kernel depends on the length, so there is no state. Forms: fft, direct.`,
	In: ops.Sig("u:T[B,L,N]", "a_re:float64[N,n]", "a_im:float64[N,n]", "re:float64[N,n]", "im:float64[N,n]",
		"w_re:float64[N,n]", "w_im:float64[N,n]", "later_re:float64[N,n]?", "later_im:float64[N,n]?"),
	Out:   ops.Sig("y:T[B,L,N]"),
	Elems: map[string][]tensor.DType{"T": ops.Floats},
	Attrs: append([]ir.AttrSpec{{Name: "epsilon", Kind: ir.AttrFloat, Default: 1e-7, Doc: "added to |λ(e^{aL} - 1)|²"}},
		halvesAttrs...),
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		b, err := ops.Bind(n)
		if err != nil {
			return nil, err
		}
		both := n.Attrs.Str("direction", Forward) == Bidirectional
		for _, i := range []int{7, 8} {
			if given := n.In(i) != nil; given != both {
				return nil, fmt.Errorf("%s: expected if and only if the direction is bidirectional", n.Op.In[i].Name)
			}
		}
		if w := n.Attrs.Int("window", 0); w < 0 || w > maxWindow {
			return nil, fmt.Errorf("window: expected 0 to %d, found %d", int64(maxWindow), w)
		}
		return b.Outputs(n.Op)
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		u := ops.Tensor(in, 0)
		batch, length, heads := u.Dim(0), u.Dim(1), u.Dim(2)
		at := func(i int) []complex128 { return pair(c, ops.F64(c, in, i), ops.F64(c, in, i+1)) }
		a, lambda, halves := at(1), at(3), [][]complex128{at(5)}
		if ops.Tensor(in, 7) != nil {
			halves = append(halves, at(7))
		}
		if heads == 0 || len(a)%heads != 0 || ops.Tensor(in, 1).Dim(0) != heads {
			return nil, fmt.Errorf("input has %d features, the system has %d", heads, ops.Tensor(in, 1).Dim(0))
		}
		n, taps := len(a)/heads, length
		if w := int(c.Node.Attrs.Int("window", 0)); w > 0 {
			taps = min(taps, w)
		}
		conv := convolution(convDirect)
		if c.Kernel == FormFFT {
			conv = convFFT
		}
		src, y := ops.F64(c, in, 0), ops.Make[float64](c, u.Len())
		for i := range heads {
			mark := c.Charged()
			var kernels [2][]complex128
			for half, w := range halves {
				k := NewSoftmaxKernel(c, a[i*n:(i+1)*n], lambda[i*n:(i+1)*n], w[i*n:(i+1)*n], taps,
					c.Node.Attrs.Float("epsilon", 1e-7))
				kernels[half] = ops.Make[complex128](c, taps)
				for t := range ops.Costly(c, taps, n) {
					kernels[half][t] = complex(k.At(t), 0)
				}
			}
			for b := range batch {
				col, acc := ops.Make[complex128](c, length), ops.Make[complex128](c, length)
				for t := range ops.Each(c, length) {
					col[t] = complex(src[(b*length+t)*heads+i], 0)
				}
				conv(c, acc, col, kernels[0], Forward)
				if len(halves) > 1 {
					conv(c, acc, col, kernels[1], Backward)
				}
				for t := range ops.Each(c, length) {
					y[(b*length+t)*heads+i] = real(acc[t])
				}
			}
			c.Discharge(mark)
		}
		return ops.One(ops.Real(c, u.DType(), y, u.Shape()...))
	},
	Along:      func(n *ir.Node, in []ir.Fact) []ir.Fact { return []ir.Fact{ops.Global(n, in)} },
	NoGradient: ops.NotYet,
	Linear:     ops.LinearIn([]int{0}, []int{5, 6, 7, 8}),
	Tol:        ir.Long,
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work { // kernels, and transforms
		u, l := ops.Count(n.In(0), bind), ops.DimAt(n.In(0), 1, bind)
		return ops.Stated(n, bind, ops.Product(32, ops.Count(n.In(1), bind), l)+ops.Product(400, u))
	},
})

// SoftmaxKernel is K[k] = Re Σ w (e^{x⁻} - 1) q̄/(|q|² + ε) · e^{a(k - s(L-1))} for k below L, with x⁻ = -a and s = 1
// where Re λ > 0, x⁻ = a and s = 0 elsewhere, and q = (e^{x⁻L} - 1)λ.
type SoftmaxKernel struct {
	a, weights []complex128
	from       []float64 // s(L-1)
}

// NewSoftmaxKernel returns the kernel of L = taps lags, for states of a = λΔ. c may be nil.
func NewSoftmaxKernel(c *ir.EvalCtx, a, lambda, w []complex128, taps int, epsilon float64) SoftmaxKernel {
	k := SoftmaxKernel{a: a, weights: ops.Clone(c, w), from: ops.Make[float64](c, len(a))}
	for j, x := range ops.All(c, a) {
		if real(lambda[j]) > 0 {
			k.from[j], x = float64(taps-1), -x
		}
		q := expm1(x*complex(float64(taps), 0)) * lambda[j]
		size := real(q)*real(q) + imag(q)*imag(q) + epsilon
		k.weights[j] *= expm1(x) * cmplx.Conj(q) / complex(size, 0)
	}
	return k
}

// Block sets to to K[t], K[t+1], …: some tens of lags, since errors add up.
func (k SoftmaxKernel) Block(t int, to []float64) {
	clear(to)
	for j, a := range k.a {
		p, step := k.weights[j]*Pow(a, float64(t)-k.from[j]), Pow(a, 1)
		for i := range to {
			to[i] += real(p)
			p *= step
		}
	}
}

// At returns K[t].
func (k SoftmaxKernel) At(t int) (y float64) {
	for j, a := range k.a {
		y += real(k.weights[j] * Pow(a, float64(t)-k.from[j]))
	}
	return y
}
