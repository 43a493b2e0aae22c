package backendtest

import (
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/ref"
)

// quantize checks that QuantizeLinear divides in the type of its scale, also where float16 graphs are computed in float32:
// quotients that round to a half in float16 show it.
func (s *suite) quantize(t *testing.T) {
	const n = 1 << 12
	for _, elem := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
		t.Run(elem.String(), func(t *testing.T) {
			b := ir.NewBuilder("quantize", ops.Default, ops.Opsets())
			x := b.Input("x", ir.Tensor(elem, n))
			scale, err := tensor.FromFloat64s(elem, []float64{0.0137})
			if err != nil {
				t.Fatal(err)
			}
			b.Output("y", b.Op("", "QuantizeLinear",
				[]*ir.Value{x, b.Const("scale", scale), b.Const("zero", tensor.Scalar(uint8(128)))}))
			g, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			v := make([]float64, n)
			for i := range v {
				v[i] = 3 * (float64(i)/n - 0.5)
			}
			in, err := tensor.FromFloat64s(elem, v, n)
			if err != nil {
				t.Fatal(err)
			}
			answer := func(m *runtime.Model) []uint8 {
				return tensor.Data[uint8](s.mustRun(t, m.NewSession(), Data{"x": in})["y"].(*tensor.Tensor))
			}
			m, err := runtime.New(g, runtime.Options{Backend: ref.New()})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			want, got := answer(m), answer(s.model(t, g, runtime.Options{}))
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("%v: found %d, expected %d", v[i], got[i], want[i])
				}
			}
		})
	}
}
