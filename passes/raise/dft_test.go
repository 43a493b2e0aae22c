package raise_test

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/dsp/fourier"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	_ "github.com/essmc/essmc/ops/microsoft" // for its transforms
	"github.com/essmc/essmc/passes/passtest"
)

// spectrum returns the transform of kernels (h, length) padded to n, as (h, bins, 2), with n bins if full, else n/2+1.
func spectrum(k []float64, h, length, n int, full bool) ([]float64, int) {
	bins := n/2 + 1
	if full {
		bins = n
	}
	fft := fourier.NewCmplxFFT(n)
	var out []float64
	for i := range h {
		z := make([]complex128, n)
		for t := range length {
			z[t] = complex(k[i*length+t], 0)
		}
		z = fft.Coefficients(nil, z)
		for _, c := range z[:bins] {
			out = append(out, real(c), imag(c))
		}
	}
	return out, bins
}

// product computes the complex product of two values whose last axis holds real and imaginary part, as dynamo writes
// it.
func (l layer) product(a, b *ir.Value) *ir.Value {
	part := func(v *ir.Value, i int) *ir.Value { return l.op("Slice", v, i, i+1, -1) }
	ar, ai, br, bi := part(a, 0), part(a, 1), part(b, 0), part(b, 1)
	re := l.op("Sub", l.op("Mul", ar, br), l.op("Mul", ai, bi))
	im := l.op("Add", l.op("Mul", ar, bi), l.op("Mul", ai, br))
	return l.op("Concat", re, im, ir.A("axis", -1))
}

// transformed computes y = irfft(rfft(x, n)·s)[:length] for x of shape (B, h, length), as dynamo writes it. axisInput
// selects DFT-20 and later.
func (l layer) transformed(x, s *ir.Value, length, n int, full, axisInput bool) *ir.Value {
	one := 1
	if full {
		one = 0
	}
	dft := func(v *ir.Value, attrs ...ir.Attr) *ir.Value {
		in := []any{v}
		if axisInput {
			in = append(in, nil, l.scalar(2))
		} else {
			attrs = append(attrs, ir.A("axis", 2))
		}
		for _, a := range attrs {
			in = append(in, a)
		}
		return l.op("DFT", in...)
	}
	f := dft(l.op("Unsqueeze", l.op("Pad", x, []int64{0, 0, 0, 0, 0, int64(n - length)}), -1), ir.A("onesided", one))
	y := dft(l.product(f, s), ir.A("inverse", 1), ir.A("onesided", one))
	if full {
		y = l.op("Slice", y, 0, 1, -1)
	}
	return l.op("Slice", l.op("Squeeze", y, -1), 0, length, 2)
}

func needOp(t *testing.T, domain, name string) {
	t.Helper()
	if ops.Default.Resolve(domain, name, max(1, ops.Opsets()[domain])) == nil {
		t.Fatalf("there is no operator %s in domain %q", name, domain)
	}
}

func TestTransform(t *testing.T) {
	needOp(t, "", "DFT")
	const h, length, n = 3, 100, 200
	k := newSystem(h, 2, 6).kernel(length)
	for _, full := range []bool{false, true} {
		for _, axisInput := range []bool{true, false} {
			l := newLayer()
			if !axisInput {
				opsets := ops.Opsets()
				opsets[""] = 17
				l = layer{ir.NewBuilder("layer", ops.Default, opsets)}
			}
			x := l.Input("x", ir.Tensor(tensor.Float32, "B", h, length))
			v, bins := spectrum(k, h, length, n, full)
			y := l.transformed(x, l.floats("s", v, h, bins, 2), length, n, full, axisInput)
			l.Output("y", l.op("Add", y, l.op("Mul", x, l.floats("d", []float64{1, 2, 3}, h, 1))))
			g, err := l.Build()
			if err != nil {
				t.Fatal(err)
			}
			r := raised(t, g)
			t.Log(passtest.Notes(r))
			if count(r, "essm.SSM") != 1 || count(r, "DFT", "Mul", "Slice", "Pad") != 0 {
				t.Errorf("full %v, axis as input %v: got %d essm.SSM, and %d of what it is to replace", full, axisInput,
					count(r, "essm.SSM"), count(r, "DFT", "Mul", "Slice", "Pad"))
			}
			agree(t, g, r, 5e-6)
		}
	}
}

// TestTransformWraps tests a transform that is too short. It wraps around, so that its result looks ahead.
func TestTransformWraps(t *testing.T) {
	needOp(t, "", "DFT")
	const h, length = 3, 100
	l := newLayer()
	x := l.Input("x", ir.Tensor(tensor.Float32, "B", h, length))
	v, bins := spectrum(newSystem(h, 2, 6).kernel(length), h, length, 120, false)
	l.Output("y", l.transformed(x, l.floats("s", v, h, bins, 2), length, 120, false, true))
	g := l.graph(t)
	r := raised(t, g)
	t.Log(passtest.Notes(r))
	if !slices.ContainsFunc(r.Nodes, func(n *ir.Node) bool { return n.Attrs.Str("direction", "") == "backward" }) {
		t.Errorf("nothing looks ahead: %v", passtest.Notes(r))
	}
	agree(t, g, r, 5e-6)
}

// TestMicrosoftTransform tests the operators of ONNX Runtime.
func TestMicrosoftTransform(t *testing.T) {
	needOp(t, "com.microsoft", "Rfft")
	needOp(t, "com.microsoft", "ComplexMul")
	const h, length, n = 3, 128, 256
	k := newSystem(h, 2, 6).kernel(length)
	v, bins := spectrum(k, h, length, n, false)
	opsets := ops.Opsets()
	opsets["com.microsoft"] = 1
	l := layer{ir.NewBuilder("layer", ops.Default, opsets)}
	x := l.Input("x", ir.Tensor(tensor.Float32, "B", h, length))
	attrs := []any{ir.A("normalized", 0), ir.A("onesided", 1), ir.A("signal_ndim", 1)}
	f := l.op("ms.Rfft", append([]any{l.op("Pad", x, []int64{0, 0, 0, 0, 0, n - length})}, attrs...)...)
	p := l.op("ms.ComplexMul", f, l.floats("s", v, 1, h, bins, 2))
	y := l.op("ms.Irfft", append([]any{p}, attrs...)...)
	l.Output("y", l.op("Slice", l.op("Div", y, 256.0), 0, length, 2))
	g := l.graph(t)
	r := raised(t, g)
	t.Log(passtest.Notes(r))
	if count(r, "essm.SSM") != 1 || len(r.Nodes) != 3 {
		t.Errorf("got %d essm.SSM and %d nodes", count(r, "essm.SSM"), len(r.Nodes))
	}
	agree(t, g, r, 5e-6)
}

// toeplitz returns the matrix m with (x m)[t] = Σ k[j] x[t-j].
func toeplitz(k []float64, length int) []float64 {
	m := make([]float64, length*length)
	for from := range length {
		for to := from; to < length; to++ {
			m[from*length+to] = k[to-from]
		}
	}
	return m
}

func TestToeplitz(t *testing.T) {
	const h, length = 3, 96
	s := newSystem(1, 2, 8).kernel(length)
	l := newLayer()
	x := l.Input("x", ir.Tensor(tensor.Float32, "B", h, length))
	l.Output("y", l.op("MatMul", x, l.floats("m", toeplitz(s, length), length, length)))
	g := l.graph(t)
	r := raised(t, g)
	t.Log(passtest.Notes(r))
	if count(r, "essm.SSM") != 1 || count(r, "MatMul") != 0 {
		t.Errorf("got %d essm.SSM, %d MatMul", count(r, "essm.SSM"), count(r, "MatMul"))
	}
	agree(t, g, r, 2e-6)

	// A product from the left, (B, L, h), with a matrix that looks both ways.
	l = newLayer()
	x = l.Input("x", ir.Tensor(tensor.Float32, "B", length, h))
	m := toeplitz(s, length)
	for i := range length {
		for j := range length {
			if i > j {
				m[i*length+j] = math.Exp(-0.1 * float64(i-j))
			}
		}
	}
	l.Output("y", l.op("MatMul", l.floats("m", m, length, length), x))
	g = l.graph(t)
	r = raised(t, g)
	t.Log(passtest.Notes(r))
	if count(r, "essm.SSM") != 2 || count(r, "MatMul", "Transpose") != 0 {
		t.Errorf("got %d essm.SSM, %d MatMul", count(r, "essm.SSM"), count(r, "MatMul"))
	}
	agree(t, g, r, 2e-6)
}
