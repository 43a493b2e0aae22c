package raise_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/passes/lower"
)

// again lowers a graph of one operator to versions of ai.onnx. It holds the answers, and that the operator is read again.
func again(t *testing.T, l layer, op string, versions ...int) {
	t.Helper()
	g := l.graph(t)
	binds := []map[string]int64{{"B": 2, "L": 1}, {"B": 1, "L": 2}, {"B": 1, "L": 16}, {"B": 2, "L": 45}}
	for _, version := range versions {
		out, _, err := lower.Lower(g, lower.Options{Opset: version})
		if err != nil {
			t.Fatal(err)
		}
		if count(out, op) != 0 {
			t.Fatalf("version %d: %s is left", version, op)
		}
		agree(t, g, out, 5e-6, binds...)
		r := raised(t, out)
		if len(r.Nodes) != 1 || count(r, op) != 1 {
			t.Errorf("version %d: it has %d nodes", version, len(r.Nodes))
		}
		agree(t, g, r, 1e-9, binds...)
	}
}

// TestExportedSoftmaxConv has states that decay and that grow, in both directions, with and without a window.
func TestExportedSoftmaxConv(t *testing.T) {
	const features, states = 3, 4
	for _, direction := range []string{"forward", "bidirectional"} {
		for _, window := range []int{0, 1, 20} {
			t.Run(fmt.Sprint(direction, window), func(t *testing.T) {
				l := newLayer()
				r := rand.New(rand.NewPCG(1, 2))
				number := func(name string, f func(i int) float64) *ir.Value {
					x := make([]float64, features*states)
					for i := range x {
						x[i] = f(i)
					}
					return l.Const(name, tensor.FromSlice(x, features, states))
				}
				normal := func(int) float64 { return r.NormFloat64() }
				re, im := make([]float64, features*states), make([]float64, features*states)
				for i := range re {
					re[i], im[i] = 0.8*r.NormFloat64(), 5*r.Float64()
				}
				in := []*ir.Value{l.Input("u", ir.Tensor(tensor.Float32, "B", "L", features)),
					number("a_re", func(i int) float64 { return 0.1 * re[i] }), number("a_im", func(i int) float64 { return 0.1 * im[i] }),
					number("re", func(i int) float64 { return re[i] }), number("im", func(i int) float64 { return im[i] }),
					number("w_re", normal), number("w_im", normal)}
				if direction == "bidirectional" {
					in = append(in, number("later_re", normal), number("later_im", normal))
				}
				l.Output("y", l.Op("essm", "SoftmaxConv", in, ir.A("direction", direction), ir.A("window", window)))
				again(t, l, "essm.SoftmaxConv", 13, 17, 22)
			})
		}
	}
}

func TestExportedSubsetProducts(t *testing.T) {
	for size := 2; size < 7; size++ {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			l := newLayer()
			u := l.Input("u", ir.Tensor(tensor.Float32, "B", "L", 3))
			l.Output("y", l.Op("essm", "SubsetProducts", []*ir.Value{u}, ir.A("size", size)))
			again(t, l, "essm.SubsetProducts", 13, 17, 22)
		})
	}
}

// TestExportedContinuousConv has every activation, norms, and lengths of training.
func TestExportedContinuousConv(t *testing.T) {
	const inputs, outputs, first, second = 2, 3, 5, 4
	for i, activation := range []string{"sine", "relu", "leaky_relu", "swish"} {
		for _, train := range []int{0, 9} {
			t.Run(fmt.Sprint(activation, train), func(t *testing.T) {
				l := newLayer()
				r := rand.New(rand.NewPCG(1, uint64(i)))
				number := func(name string, shape ...int) *ir.Value {
					x := tensor.New(tensor.Float64, shape...)
					for i := range x.Len() {
						tensor.Data[float64](x)[i] = r.NormFloat64()
					}
					return l.Const(name, x)
				}
				in := []*ir.Value{l.Input("v", ir.Tensor(tensor.Float32, "B", "L", inputs)), number("w1", first),
					number("b1", first), number("w2", second, first), number("b2", second),
					number("w3", inputs*outputs, second), number("b3", inputs*outputs)}
				if i%2 == 1 {
					in = append(in, number("norm1", 2, first), number("norm2", 2, second))
				}
				l.Output("y", l.Op("essm", "ContinuousConv", in, ir.A("activation", activation), ir.A("train_length", train)))
				again(t, l, "essm.ContinuousConv", 18, 22)
			})
		}
	}
}
