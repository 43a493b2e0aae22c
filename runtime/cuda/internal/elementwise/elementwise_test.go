package elementwise_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/cuda"
	"github.com/essmc/essmc/runtime/cuda/emu"
	"github.com/essmc/essmc/runtime/ref"
)

// gated builds a gate of several elementwise steps. One result is read twice, and one is a condition. If all is set,
// the results in between are outputs, too, so that nothing is fused.
func gated(t *testing.T, d tensor.DType, all bool) *ir.Graph {
	t.Helper()
	b := ir.NewBuilder("g", ops.Default, ops.Opsets())
	x := b.Input("x", &ir.TensorType{Elem: d, Shape: ir.Shape{ir.Sym("B"), ir.Sym("L"), ir.Const(12)}})
	w := b.Input("w", &ir.TensorType{Elem: d, Shape: ir.Shape{ir.Const(12)}})
	op := func(name string, in ...*ir.Value) *ir.Value {
		v := b.Op("", name, in)
		if all {
			b.Output("", v)
		}
		return v
	}
	h := op("Add", x, w)
	s := op("Sigmoid", h)
	g := op("Mul", h, s)
	c := op("Less", g, x)
	y := b.Op("", "Where", []*ir.Value{c, op("Tanh", g), op("Exp", op("Neg", op("Abs", g)))})
	b.Output("y", y)
	graph, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return graph
}

// TestFusion checks that a chain is one launch, has the answer of the interpreter, and the same bits as the separate
// steps.
func TestFusion(t *testing.T) {
	for _, d := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16} {
		r := rand.New(rand.NewPCG(1, 2))
		in := map[string]tensor.Datum{}
		for name, shape := range map[string][]int{"x": {3, 17, 12}, "w": {12}} {
			n, _ := tensor.Size(shape)
			v := make([]float64, n)
			for i := range v {
				v[i] = r.NormFloat64()
			}
			x, err := tensor.FromFloat64s(d, v, shape...)
			if err != nil {
				t.Fatal(err)
			}
			in[name] = x
		}
		var bits [2][]byte
		for i, all := range []bool{false, true} {
			drv := emu.New(emu.Options{})
			b, err := cuda.New(drv, cuda.Options{})
			if err != nil {
				t.Fatal(err)
			}
			g := gated(t, d, all)
			m, err := runtime.New(g, runtime.Options{Backend: b})
			if err != nil {
				t.Fatal(err)
			}
			out, err := m.NewSession().Run(context.Background(), in)
			if err != nil {
				t.Fatal(err)
			}
			launches := int64(0)
			for _, k := range drv.Counters().Kernels {
				launches += k.Launches
			}
			if want := map[bool]int64{false: 1, true: 9}[all]; launches != want {
				t.Errorf("%v: %d launches, expected %d", d, launches, want)
			}
			bits[i] = out["y"].(*tensor.Tensor).Bytes()
			if !all && d == tensor.Float32 {
				truth, err := runtime.New(g, runtime.Options{Backend: ref.New(), Precision: tensor.Float64})
				if err != nil {
					t.Fatal(err)
				}
				want, err := truth.NewSession().Run(context.Background(), in)
				if err != nil {
					t.Fatal(err)
				}
				if diff := backendtest.Diff(out["y"], want["y"], ir.Rounding); diff != "" {
					t.Error(diff)
				}
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
			for _, f := range drv.Findings() {
				t.Error(f)
			}
		}
		if !bytes.Equal(bits[0], bits[1]) {
			t.Errorf("%v: the steps by themselves have another answer", d)
		}
	}
}
