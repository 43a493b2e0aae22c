package std

import (
	"fmt"
	"math/bits"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/fft"
)

// DFT is the discrete Fourier transform, of any length.
var (
	DFT = dftOp(20, ops.Sig("input:T1", "dft_length:T2?", "axis:int64?"))
	// Before version 20 the axis was an attribute.
	_ = dftOp(17, ops.Sig("input:T1", "dft_length:T2?"), intAttr("axis", 1, "the axis"))
)

func dftOp(since int, in []ir.Param, attrs ...ir.AttrSpec) *ir.Op {
	o := &ir.Op{
		Name: "DFT", Since: since,
		Doc: "Discrete Fourier transform over one axis of input, whose last axis holds real and imaginary parts (2) " +
			"or real numbers (1). Its length is dft_length, with zeros for missing elements. If onesided is set, the " +
			"signal is real, and only the first half of the spectrum is written or, for the inverse, read.",
		In: in, Out: ops.Sig("output:T1"), Elems: map[string][]tensor.DType{"T2": indexTypes},
		Attrs: append([]ir.AttrSpec{intAttr("inverse", 0,
			"whether the transform is the inverse, with the factor 1/length"),
			intAttr("onesided", 0, "whether the spectrum is given by its first half")}, attrs...),
		Infer: inferShape(inferDFT), Eval: evalDFT,
		Along: alongKeep(func(n *ir.Node, axis, rank int) bool {
			a, ok, err := constDFTAxis(n, rank)
			return err != nil || !ok || axis == a || axis == rank-1
		}),
		Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
			x, out := ops.Count(n.In(0), bind), ops.Count(n.Outputs[0], bind)
			a, ok, _ := constDFTAxis(n, len(n.In(0).Shape()))
			length := int64(1024)
			if ok {
				length = max(ops.DimAt(n.In(0), a, bind), ops.DimAt(n.Outputs[0], a, bind))
			}
			return workOf(n, bind, 5*max(x, out)/2*int64(bits.Len64(uint64(max(length, 1)))))
		},
		Linear: ops.LinearFirst, Tol: ir.Long,
	}
	o.Gradient = gradDFT
	if since < 20 {
		o.Body, o.Gradient = dftWithAxis, nil
	}
	return ops.Register(o)
}

// dftWithAxis is the body of versions with the axis as an attribute. It converts that to an input.
func dftWithAxis(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
	axis := b.Const("axis", tensor.FromSlice([]int64{getInt(n, "axis")}))
	var length *ir.Value
	if len(in) > 1 {
		length = in[1]
	}
	return []*ir.Value{attr(b, "DFT", []*ir.Value{in[0], length, axis}, ir.A("inverse", getInt(n, "inverse")),
		ir.A("onesided", getInt(n, "onesided")))}
}

// constDFTAxis returns the axis if it is known when the graph is built.
func constDFTAxis(n *ir.Node, rank int) (axis int, ok bool, err error) {
	given := int64(-2)
	switch {
	case n.Op.Since < 20:
		given = getInt(n, "axis")
	case n.In(2) != nil:
		v, known := ops.ConstInts(n.In(2))
		if !known || len(v) != 1 {
			return 0, false, nil
		}
		given = v[0]
	}
	axis, err = dftAxis(given, rank)
	return axis, err == nil, err
}

func dftAxis(given int64, rank int) (int, error) {
	a, err := ops.Axis(given, rank)
	if err == nil && a == rank-1 {
		err = fmt.Errorf("axis %d is the last one, which has real and imaginary parts", given)
	}
	return a, err
}

func inferDFT(n *ir.Node, in ir.Shape) (ir.Shape, error) {
	if len(in) < 2 {
		return nil, fmt.Errorf("input: expected at least two axes, found %v", in)
	}
	last := len(in) - 1
	if parts, ok := in[last].Known(); ok && parts != 1 && parts != 2 {
		return nil, fmt.Errorf("input: expected 1 or 2 for its last axis, found %v", in)
	}
	axis, ok, err := constDFTAxis(n, len(in))
	if err != nil {
		return nil, err
	}
	out := append(in[:last:last], ir.Const(2))
	inverse, onesided := getInt(n, "inverse") != 0, getInt(n, "onesided") != 0
	if inverse && onesided {
		out[last] = ir.Const(1)
	}
	if !ok {
		for i := range last {
			out[i] = ir.Unknown
		}
		return out, nil
	}
	length := in[axis]
	if n.In(1) != nil {
		length = ir.Unknown
		if d, ok := ops.DimsOf(n.In(1)); ok && len(d) == 1 {
			length = d[0]
		}
	} else if inverse && onesided {
		length = in[axis].Sub(ir.Const(1)).Mul(ir.Const(2))
	}
	if out[axis] = length; onesided && !inverse {
		out[axis] = length.FloorDiv(ir.Const(2)).Add(ir.Const(1))
	}
	return out, nil
}

func evalDFT(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	x, err := need(in, 0, "input")
	if err != nil {
		return nil, err
	}
	n, rank := c.Node, x.Rank()
	given := int64(-2)
	if n.Op.Since < 20 {
		given = getInt(n, "axis")
	} else if ops.Tensor(in, 2) != nil {
		if given, err = scalarInt(c, in, 2, "axis"); err != nil {
			return nil, err
		}
	}
	axis, err := dftAxis(given, rank)
	if err != nil {
		return nil, err
	}
	parts := x.Dim(rank - 1)
	if parts != 1 && parts != 2 {
		return nil, fmt.Errorf("input: expected 1 or 2 for its last axis, found %s", x)
	}
	inverse, onesided := getInt(n, "inverse") != 0, getInt(n, "onesided") != 0
	length := int64(x.Dim(axis))
	if inverse && onesided {
		length = 2 * (length - 1)
	}
	if ops.Tensor(in, 1) != nil {
		if length, err = scalarInt(c, in, 1, "dft_length"); err != nil {
			return nil, err
		}
	}
	if length < 1 || length > ops.MaxElems {
		return nil, fmt.Errorf("length is %d, expected 1 to %d", length, ops.MaxElems)
	}
	shape := append([]int{}, x.Shape()...)
	shape[axis], shape[rank-1] = int(length), 2
	switch {
	case inverse && onesided:
		shape[rank-1] = 1
	case onesided:
		shape[axis] = int(length)/2 + 1
	}
	if _, err := ops.Elems(shape); err != nil {
		return nil, err
	}
	v := ops.F64(c, in, 0)
	y := ops.Make[float64](c, product(shape))
	c.Charge(fft.Bytes(int(length)))
	t := transform{plan: fft.Of(int(length), c.Step), inverse: inverse, onesided: onesided, parts: parts}
	outer, d, inner := splitAt(x.Shape()[:rank-1], axis)
	for o := range outer {
		c.Step(1)
		for i := range ops.Each(c, inner) {
			t.line(c, y[(o*shape[axis]*inner+i)*shape[rank-1]:], v[(o*d*inner+i)*parts:], shape[axis], d, inner)
		}
	}
	return ops.One(ops.Real(c, x.DType(), y, shape...))
}

// transform computes lines of a tensor, with reused buffers.
type transform struct {
	plan              *fft.Plan
	inverse, onesided bool
	parts             int
	real              []float64
	z                 []complex128
}

// line transforms d numbers in src, step numbers apart (of the given number of parts), to count numbers in dst,
// likewise.
func (t *transform) line(c *ir.EvalCtx, dst, src []float64, count, d, step int) {
	n := t.plan.Len()
	if t.real == nil {
		t.real, t.z = ops.Make[float64](c, n), ops.Make[complex128](c, n)
	}
	z := t.z
	switch {
	case t.inverse && t.onesided:
		z = z[:n/2+1]
		t.load(c, z, src, d, step)
		t.plan.InverseReal(t.real, z, c.Step)
		for k, x := range ops.All(c, t.real) {
			dst[k*step] = x
		}
		return
	case t.inverse:
		t.load(c, z, src, d, step)
		t.plan.Inverse(z, c.Step)
	case t.parts == 1:
		ops.Fill(c, t.real, 0)
		for k := range ops.Each(c, min(d, n)) {
			t.real[k] = src[k*step]
		}
		t.plan.Real(z[:n/2+1], t.real, c.Step)
		if count > n/2+1 {
			for k := n/2 + 1; k < n; k++ {
				c.Step(1)
				z[k] = complex(real(z[n-k]), -imag(z[n-k]))
			}
		}
	default:
		t.load(c, z, src, d, step)
		t.plan.Forward(z, c.Step)
	}
	for k := range ops.Each(c, count) {
		dst[2*k*step], dst[2*k*step+1] = real(z[k]), imag(z[k])
	}
}

// load reads complex numbers. Missing ones are 0.
func (t *transform) load(c *ir.EvalCtx, z []complex128, src []float64, d, step int) {
	ops.Fill(c, z, 0)
	for k := range ops.Each(c, min(d, len(z))) {
		if t.parts == 2 {
			z[k] = complex(src[2*k*step], src[2*k*step+1])
		} else {
			z[k] = complex(src[k*step], 0)
		}
	}
}
