package cpu

import (
	"context"
	"fmt"
	"testing"

	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime"
)

func convolutionGraph(t testing.TB, batch, length, n, taps int, dir, form string) *ir.Graph {
	t.Helper()
	b := ir.NewBuilder("convolution", ops.Default, ops.Opsets())
	v := b.Input("v", ir.Tensor(tensor.Float32, batch, length, n))
	k := b.Const("k", NewGen(5).Floats(0.1, n, taps))
	b.Output("y", b.Op("essm", "LongConv", []*ir.Value{v, k}, ir.A("direction", dir), ir.A("form", form)))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestConvolutions compares both forms with the interpreter, with numbers of features that are not a multiple of a
// piece.
func TestConvolutions(t *testing.T) {
	for _, form := range []string{essm.FormFFT, essm.FormDirect} {
		for i, dir := range Directions {
			for _, n := range []int{1, 7, 8, 19} {
				for _, length := range []int{1, 2, 33, 600} {
					g := convolutionGraph(t, 1+i, length, n, 1+length/(1+n%3), dir, form)
					in := map[string]tensor.Datum{"v": NewGen(6).Floats(1, 1+i, length, n)}
					got := Run(t, g, runtime.Options{Backend: New(), Threads: 2, Kernel: form}, in)
					CloseTo(t, fmt.Sprint(form, dir, n, length), got, Truth(t, g, in), 2e-6)
					on.Parameters(t, fmt.Sprint(form, dir, n, length), g, in, runtime.Options{Kernel: form})
				}
			}
		}
	}
}

func BenchmarkLongConv(b *testing.B) {
	for _, length := range []int{1024, 4096, 16384} {
		b.Run(fmt.Sprint(length), func(b *testing.B) {
			g := convolutionGraph(b, 1, length, 256, length, "forward", essm.FormFFT)
			p, err := compile(g, runtime.Config{Threads: 1, Kernel: essm.FormFFT})
			if err != nil {
				b.Fatal(err)
			}
			e, err := p.Bind(runtime.Binding{Inputs: []ir.Type{g.Inputs[0].Type}})
			if err != nil {
				b.Fatal(err)
			}
			in, out := []tensor.Datum{NewGen(1).Floats(1, 1, length, 256)},
				[]tensor.Datum{tensor.New(tensor.Float32, 1, length, 256)}
			if err := e.Run(context.Background(), in, out); err != nil { // fills tables
				b.Fatal(err)
			}
			for b.Loop() {
				if err := e.Run(context.Background(), in, out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
