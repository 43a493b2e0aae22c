package microsoft

import (
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/fft"
)

func fftAttrs(ndim ir.AttrSpec) []ir.AttrSpec {
	return []ir.AttrSpec{ndim, ops.IntSpec("normalized", 0, "must be 0"), ops.IntSpec("onesided", 1, "must be 1")}
}

// Rfft is the Fourier transform of real numbers.
var Rfft = ops.Register(&ir.Op{
	Domain: Domain, Name: "Rfft",
	Doc: "The Fourier transform over the last signal_ndim axes of X: the first n/2+1 terms along the last one (of " +
		"size n), all terms along the others, " +
		"real and imaginary parts along a new last axis.",
	In: ops.Sig("X:T"), Out: ops.Sig("Y:T"), Elems: types{"T": real3},
	Attrs: fftAttrs(ops.IntSpec("signal_ndim", 1, "number of transformed axes, 1 to 3")),
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		t, err := fftInput(n, 0)
		if err != nil || t.NoRank {
			return []ir.Type{t}, err
		}
		s := append(slices.Clone(t.Shape), ir.Const(2))
		s[len(t.Shape)-1] = t.Shape[len(t.Shape)-1].FloorDiv(ir.Const(2)).Add(ir.Const(1))
		return []ir.Type{&ir.TensorType{Elem: t.Elem, Shape: s}}, nil
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, nd := ops.Tensor(in, 0), int(ops.Int(c.Node, "signal_ndim"))
		if x.Rank() < nd || slices.Contains(x.Shape()[x.Rank()-nd:], 0) {
			return nil, fmt.Errorf("input 0 (X): expected %d axes to transform, found %s", nd, x)
		}
		v, n := ops.F64(c, in, 0), x.Dim(-1)
		shape := slices.Clone(x.Shape())
		shape[len(shape)-1] = n/2 + 1
		out := append(slices.Clone(shape), 2)
		size, err := ops.Elems(out)
		if err != nil {
			return nil, err
		}
		c.Charge(fft.Bytes(n))
		z, p := ops.Make[complex128](c, size/2), fft.Of(n, c.Step)
		for r := range ops.Each(c, len(v)/n) {
			p.Real(z[r*(n/2+1):(r+1)*(n/2+1)], v[r*n:(r+1)*n], c.Step)
		}
		for i := 2; i <= nd; i++ {
			alongAxis(c, z, shape, len(shape)-i, (*fft.Plan).Forward)
		}
		y := ops.Make[float64](c, size)[:0]
		for _, w := range ops.All(c, z) {
			y = append(y, real(w), imag(w))
		}
		return ops.One(ops.Real(c, x.DType(), y, out...))
	},
	NoGradient: ops.NotYet,
	Linear:     ops.LinearFirst,
	Along:      alongFFT(0), Cost: costFFT, Tol: ir.Long,
})

// Irfft inverts Rfft.
var Irfft = ops.Register(&ir.Op{
	Domain: Domain, Name: "Irfft",
	Doc: "The real numbers whose Rfft X is, over signal_ndim axes before the last, which holds real and imaginary " +
		"parts: 2*(n-1) of them along the last of these " +
		"axes (of size n), as in ONNX Runtime since 1.14; divided by the number of terms.",
	In: ops.Sig("X:T"), Out: ops.Sig("Y:T"), Elems: types{"T": real3},
	Attrs: fftAttrs(ops.Required(ops.IntSpec("signal_ndim", nil, "number of transformed axes, 1 to 3"))),
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		t, err := fftInput(n, 1)
		if err != nil || t.NoRank {
			return []ir.Type{t}, err
		}
		last := len(t.Shape) - 1
		if k, ok := t.Shape[last].Known(); ok && k != 2 {
			return nil, fmt.Errorf("input 0 (X): expected a last axis of size 2, found %v", t)
		}
		s := slices.Clone(t.Shape[:last])
		s[last-1] = s[last-1].Sub(ir.Const(1)).Mul(ir.Const(2))
		return []ir.Type{&ir.TensorType{Elem: t.Elem, Shape: s}}, nil
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, nd := ops.Tensor(in, 0), int(ops.Int(c.Node, "signal_ndim"))
		if x.Rank() < nd+1 || x.Dim(-1) != 2 || x.Dim(-2) < 2 || slices.Contains(x.Shape()[x.Rank()-nd-1:], 0) {
			return nil, fmt.Errorf(
				"input 0 (X): expected %d axes to transform, 2 or more terms along the last, and an axis of 2, found "+
					"%s", nd, x)
		}
		v := ops.F64(c, in, 0)
		z := ops.Make[complex128](c, len(v)/2)
		for i := range ops.Each(c, len(z)) {
			z[i] = complex(v[2*i], v[2*i+1])
		}
		shape := slices.Clone(x.Shape()[:x.Rank()-1])
		for i := 2; i <= nd; i++ {
			alongAxis(c, z, shape, len(shape)-i, (*fft.Plan).Inverse)
		}
		terms := shape[len(shape)-1]
		n := 2 * (terms - 1)
		shape[len(shape)-1] = n
		size, err := ops.Elems(shape)
		if err != nil {
			return nil, err
		}
		c.Charge(fft.Bytes(n))
		y, p := ops.Make[float64](c, size), fft.Of(n, c.Step)
		for r := range ops.Each(c, size/n) {
			p.InverseReal(y[r*n:(r+1)*n], z[r*terms:(r+1)*terms], c.Step)
		}
		return ops.One(ops.Real(c, x.DType(), y, shape...))
	},
	NoGradient: ops.NotYet,
	Linear:     ops.LinearFirst,
	Along:      alongFFT(1), Cost: costFFT, Tol: ir.Long,
})

// fftInput checks a node's attributes and its input, which has extra axes after the transformed ones.
func fftInput(n *ir.Node, extra int) (*ir.TensorType, error) {
	if _, err := ops.Bind(n); err != nil {
		return nil, err
	}
	nd := ops.Int(n, "signal_ndim")
	switch {
	case nd < 1 || nd > 3:
		return nil, fmt.Errorf("signal_ndim: expected 1 to 3, found %d", nd)
	case ops.Int(n, "normalized") != 0:
		return nil, fmt.Errorf("normalized: expected 0, found %d", ops.Int(n, "normalized"))
	case ops.Int(n, "onesided") != 1:
		return nil, fmt.Errorf("onesided: expected 1, found %d", ops.Int(n, "onesided"))
	}
	t, _ := ir.AsTensor(n.In(0).Type)
	if !t.NoRank && len(t.Shape) < int(nd)+extra {
		return nil, fmt.Errorf("input 0 (X): expected %d axes or more, found %v", int(nd)+extra, t)
	}
	return t, nil
}

// alongAxis transforms z, of the given shape, along one axis.
func alongAxis(c *ir.EvalCtx, z []complex128, shape []int, axis int,
	transform func(*fft.Plan, []complex128, fft.Step)) {
	n, inner := shape[axis], 1
	for _, d := range shape[axis+1:] {
		inner *= d
	}
	c.Charge(fft.Bytes(n))
	p, line := fft.Of(n, c.Step), ops.Make[complex128](c, n)
	for start := 0; start < len(z); start += n * inner {
		for j := range inner {
			c.Step(1)
			for i := range ops.Each(c, len(line)) {
				line[i] = z[start+i*inner+j]
			}
			transform(p, line, c.Step)
			for i := range ops.Each(c, len(line)) {
				z[start+i*inner+j] = line[i]
			}
		}
	}
}

// alongFFT returns facts for which time is an axis before those that are transformed.
func alongFFT(extra int) func(*ir.Node, []ir.Fact) []ir.Fact {
	return func(n *ir.Node, in []ir.Fact) []ir.Fact {
		f := in[0]
		f.State = 0
		if !f.Constant() && !f.Global && f.Axis >= len(n.In(0).Shape())-extra-int(ops.Int(n, "signal_ndim")) {
			f = ops.Global(n, in)
		}
		return []ir.Fact{f}
	}
}

func costFFT(n *ir.Node, bind map[string]int64) ir.Work {
	size := ops.Count(n.In(0), bind)
	return ir.Work{Flops: int64(5 * float64(size) * math.Log2(float64(max(size, 2)))), Bytes: ops.BytesOf(n, bind)}
}
