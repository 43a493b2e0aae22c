package raise_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// benchLayers returns layers of 16 channels and 4096 steps as exporters write them.
func benchLayers(t testing.TB) map[string]*ir.Graph {
	const h, length = 16, 4096
	s := newSystem(h, 16, 9)
	out := map[string]*ir.Graph{}
	l := newLayer()
	x := l.Input("x", ir.Tensor(tensor.Float32, "B", h, length))
	k := l.realKernel(s, l.op("Range", l.scalar(0), l.scalar(length), l.scalar(1)))
	w := l.op("Unsqueeze", l.op("Slice", k, -1, -length-1, 1, -1), 1)
	l.Output("y", l.causal(x, w, h, length))
	out["conv"] = l.graph(t)

	l = newLayer()
	x = l.Input("x", ir.Tensor(tensor.Float32, "B", h, length))
	v, bins := spectrum(s.kernel(length), h, length, 2*length, false)
	l.Output("y", l.transformed(x, l.floats("s", v, h, bins, 2), length, 2*length, false, true))
	out["dft"] = l.graph(t)

	l = newLayer()
	x = l.Input("x", ir.Tensor(tensor.Float32, "B", h, length))
	l.Output("y", l.op("MatMul", x, l.floats("m", toeplitz(s.kernel(length)[:length], length), length, length)))
	out["toeplitz"] = l.graph(t)
	return out
}

// BenchmarkRaised runs each layer as written and as raised, both after all passes, on the CPU backend.
func BenchmarkRaised(b *testing.B) {
	for name, g := range benchLayers(b) {
		written, up := g.Clone(), raised(b, g)
		for form, g := range map[string]*ir.Graph{"written": written, "raised": up} {
			if err := passes.Optimize(g); err != nil {
				b.Fatal(err)
			}
			m, err := runtime.New(g, runtime.Options{Backend: cpu.New()})
			if err != nil {
				b.Fatal(err)
			}
			x := tensor.New(tensor.Float32, 1, 16, 4096)
			for i := range x.Len() {
				tensor.Data[float32](x)[i] = float32(i%17) / 17
			}
			b.Run(fmt.Sprintf("%s/%s", name, form), func(b *testing.B) {
				s := m.NewSession()
				for b.Loop() {
					if _, err := s.Run(context.Background(), map[string]tensor.Datum{"x": x}); err != nil {
						b.Fatal(err)
					}
				}
			})
			m.Close()
		}
	}
}
