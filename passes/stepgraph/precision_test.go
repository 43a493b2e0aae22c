package stepgraph_test

import (
	"context"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes/stepgraph"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/ref"
)

// poles are logarithms of eigenvalues from fast to slow, with and without rotation.
var poles = []complex128{-1e-1, -1e-2 + 0.3i, -1e-3, -1e-4 + 0.01i, -1e-4, -1e-5 + 1e-3i, -1e-5}

// scanGraph returns a Scan with one input per pole, scaled such that a constant input settles at 1.
func scanGraph(t testing.TB) *ir.Graph {
	t.Helper()
	b := ir.NewBuilder("slow", ops.Default, ops.Opsets())
	b.Graph().Meta[ir.MetaTime], b.Graph().Meta[ir.MetaBatch] = "L", "B"
	n := len(poles)
	v := b.Input("v", ir.Tensor(tensor.Float32, "B", "L", n))
	var part [4][]float64
	for _, a := range poles {
		g := 1 - cmplx.Exp(a)
		for i, x := range []float64{real(a), imag(a), real(g), imag(g)} {
			part[i] = append(part[i], x)
		}
	}
	in := []*ir.Value{v}
	for _, p := range part {
		in = append(in, b.Const("p", tensor.FromSlice(p, 1, 1, n)))
	}
	b.Output("x", b.Op("essm", "Scan", in))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestSlowStates feeds single steps and compares the states with the recurrence in float64. Slow states must keep the
// small contributions of single steps.
func TestSlowStates(t *testing.T) {
	steps := 20_000
	if os.Getenv("ESSMC_LONG") != "" {
		steps = 1_000_000
	}
	sg, err := stepgraph.Of(scanGraph(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, backend := range map[string]runtime.Backend{"ref": ref.New(), "cpu": cpu.New()} {
		for _, input := range []string{"constant", "random"} {
			if far := drift(t, sg, backend, input, steps, nil); !(far < 1e-6) {
				t.Errorf("%s, %s input, %d steps: off by %.3g of the largest state", name, input, steps, far)
			}
		}
	}
}

// drift returns the largest difference of a state from the recurrence in float64, relative to the state's largest
// value. round is applied to the state between steps.
func drift(t testing.TB, sg *stepgraph.Graph, backend runtime.Backend, input string, steps int,
	round func([]float64)) float64 {
	t.Helper()
	m, err := runtime.New(sg.Graph, runtime.Options{Backend: backend, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := m.NewSession()
	n := len(poles)
	v, x := tensor.New(tensor.Float32, 1, 1, n), tensor.New(tensor.Float32, 1, 1, n)
	st := sg.States[0]
	before, after := tensor.New(tensor.Float64, 1, 2*n), tensor.New(tensor.Float64, 1, 2*n)
	in, out := map[string]tensor.Datum{"v": v}, map[string]tensor.Datum{"x": x}
	r := rand.New(rand.NewPCG(1, 2))
	z := make([]complex128, n)
	off, scale := make([]float64, n), make([]float64, n)
	for range steps {
		for j := range n {
			u := float32(1)
			if input == "random" {
				u = float32(r.NormFloat64())
			}
			tensor.Data[float32](v)[j] = u
			e := cmplx.Exp(poles[j])
			z[j] = e*z[j] + (1-e)*complex(float64(u), 0)
		}
		in[st.Name], out[st.Next] = before, after
		if err := s.RunInto(context.Background(), in, out); err != nil {
			t.Fatal(err)
		}
		if round != nil {
			round(tensor.Data[float64](after))
		}
		before, after = after, before
		for j, y := range tensor.Data[float32](x) {
			off[j], scale[j] = max(off[j], math.Abs(float64(y)-real(z[j]))), max(scale[j], math.Abs(real(z[j])))
		}
	}
	far := 0.0
	for j := range n {
		far = max(far, off[j]/scale[j])
	}
	return far
}
