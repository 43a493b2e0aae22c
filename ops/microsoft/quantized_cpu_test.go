package microsoft_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/ref"
)

// onBoth computes one node on the interpreter and on the CPU backend, which must give the same bits and have a kernel
// for it. Inputs with names are inputs of the graph, others are constants.
func onBoth(t *testing.T, op string, names []string, in []*tensor.Tensor, attrs ...ir.Attr) *tensor.Tensor {
	t.Helper()
	opsets := ops.Opsets()
	opsets["com.microsoft"] = 1
	b := ir.NewBuilder("g", ops.Default, opsets)
	args, feed := make([]*ir.Value, len(in)), map[string]tensor.Datum{}
	for i, x := range in {
		switch {
		case x == nil:
		case names[i] == "":
			args[i] = b.Const("c", x)
		default:
			args[i] = b.Input(names[i], ir.Of(x))
			feed[names[i]] = x
		}
	}
	b.Output("y", b.Op("com.microsoft", op, args, attrs...))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	var answers [2]*tensor.Tensor
	for i, backend := range []runtime.Backend{ref.New(), cpu.New()} {
		m, err := runtime.New(g, runtime.Options{Backend: backend, Profile: true})
		if err != nil {
			t.Fatal(err)
		}
		s := m.NewSession()
		out, err := s.Run(context.Background(), feed)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range s.Profile() {
			if i == 1 && p.Form == "eval" {
				t.Fatalf("%s: evaluated, expected kernels", op)
			}
		}
		answers[i] = out["y"].(*tensor.Tensor)
	}
	if !slices.Equal(answers[0].Bytes(), answers[1].Bytes()) {
		t.Fatalf("%s: %s, expected %s", op, answers[1], answers[0])
	}
	return answers[0]
}

func randomBytes[T int8 | uint8](r *rand.Rand, shape ...int) *tensor.Tensor {
	n, _ := tensor.Size(shape)
	v := make([]T, n)
	for i := range v {
		v[i] = T(r.Uint32())
	}
	return tensor.FromSlice(v, shape...)
}

func randomFloats(r *rand.Rand, scale float64, shape ...int) *tensor.Tensor {
	n, _ := tensor.Size(shape)
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(scale * (1 + r.Float64()))
	}
	return tensor.FromSlice(v, shape...)
}

func TestQuantizedProductsOnCPU(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	b := randomBytes[uint8](r, 31, 40)
	onBoth(t, "DynamicQuantizeMatMul", []string{"a", "", "", "", ""},
		[]*tensor.Tensor{randomFloats(r, 1, 2, 9, 31), b, randomFloats(r, 0.01), randomBytes[uint8](r),
			randomFloats(r, 1, 40)})
	onBoth(t, "MatMulIntegerToFloat", []string{"a", "", "s", "", "z", "", ""},
		[]*tensor.Tensor{randomBytes[uint8](r, 9, 31), b, randomFloats(r, 1), randomFloats(r, 0.01, 40),
			randomBytes[uint8](r), randomBytes[uint8](r, 40), nil})
}

// TestQGemm compares each number with plain Go.
func TestQGemm(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const m, k, n = 3, 17, 5
	a, b, zeroB := randomBytes[uint8](r, m, k), randomBytes[int8](r, n, k), randomBytes[int8](r, n)
	scaleA, scaleB, scaleY := randomFloats(r, 0.01), randomFloats(r, 0.01, n), randomFloats(r, 0.1)
	bias := make([]int32, n)
	for i := range bias {
		bias[i] = int32(r.IntN(20000)) - 10000
	}
	in := []*tensor.Tensor{a, scaleA, tensor.Scalar(uint8(120)), b, scaleB, zeroB, tensor.FromSlice(bias, n), scaleY,
		tensor.Scalar(uint8(7))}
	names := []string{"a", "", "", "", "", "", "", "", ""}
	attrs := []ir.Attr{ir.A("alpha", 1.5), ir.A("transB", 1)}
	quantized := tensor.Data[uint8](onBoth(t, "QGemm", names, in, attrs...))
	plain := tensor.Data[float32](onBoth(t, "QGemm", names, in[:7], attrs...))
	for i := range m {
		for j := range n {
			sum := int(bias[j])
			for p := range k {
				sum += (int(tensor.Data[uint8](a)[i*k+p]) - 120) * (int(tensor.Data[int8](b)[j*k+
					p]) - int(tensor.Data[int8](zeroB)[j]))
			}
			want := float64(
				sum) * 1.5 * float64(tensor.Data[float32](scaleA)[0]) * float64(tensor.Data[float32](scaleB)[j])
			if got := float64(plain[i*n+j]); !(math.Abs(got-want) <= 1e-6*math.Abs(want)) {
				t.Errorf("(%d,%d): %g, expected %g", i, j, got, want)
			}
			q := want/float64(tensor.Data[float32](scaleY)[0]) + 7
			if got := float64(quantized[i*n+j]); math.Abs(got-min(max(q, 0), 255)) > 0.51 {
				t.Errorf("(%d,%d): %g, expected %g, rounded", i, j, got, q)
			}
		}
	}
}

func TestMatMulNBitsOnCPU(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, bits := range []int{2, 4, 8} {
		const n, k, block = 21, 70, 32
		const blocks = (k + block - 1) / block
		x := make([]float32, 3*k)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		opsets := ops.Opsets()
		opsets["com.microsoft"] = 1
		for _, zero := range []*tensor.Tensor{nil, randomBytes[uint8](r, n*((blocks*bits+7)/8)),
			randomFloats(r, 3, n*blocks)} {
			b := ir.NewBuilder("g", ops.Default, opsets)
			args := []*ir.Value{b.Input("x", ir.Tensor(tensor.Float32, 3, k)),
				b.Const("w", randomBytes[uint8](r, n, blocks, block*bits/8)),
				b.Const("s", randomFloats(r, 0.01, n*blocks)), nil, nil, b.Const("b", randomFloats(r, 1, n))}
			if zero != nil {
				args[3] = b.Const("z", zero)
			}
			b.Output("y", b.Op("com.microsoft", "MatMulNBits", args, ir.A("K", k), ir.A("N", n), ir.A("bits", bits),
				ir.A("block_size", block)))
			g, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			var answers [2][]float32
			for i, backend := range []runtime.Backend{ref.New(), cpu.New()} {
				m, err := runtime.New(g, runtime.Options{Backend: backend, Profile: true})
				if err != nil {
					t.Fatal(err)
				}
				s := m.NewSession()
				out, err := s.Run(context.Background(), map[string]tensor.Datum{"x": tensor.FromSlice(x, 3, k)})
				if err != nil {
					t.Fatal(err)
				}
				if p := s.Profile(); i == 1 && p[0].Form == "eval" {
					t.Fatalf("%d bits: evaluated", bits)
				}
				answers[i] = tensor.Data[float32](out["y"].(*tensor.Tensor))
			}
			for i, want := range answers[0] {
				if got := answers[1][i]; !(math.Abs(float64(got-want)) <= 2e-5*math.Abs(float64(want))+2e-5) {
					t.Fatalf("%d bits: element %d is %g, expected %g", bits, i, got, want)
				}
			}
		}
	}
}
