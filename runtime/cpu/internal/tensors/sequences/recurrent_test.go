package sequences_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

var recurrentGates = map[string]int{"LSTM": 4, "GRU": 3, "RNN": 1}

// TestRecurrent compares recurrent layers, with all options of the standard, with the evaluation.
func TestRecurrent(t *testing.T) {
	r := NewGen(31)
	activations := map[string][][]string{
		"LSTM": {nil, {"HardSigmoid", "ScaledTanh", "Softsign"}, {"Sigmoid", "Elu", "Affine"},
			{"Sigmoid", "Softplus", "LeakyRelu"}},
		"GRU": {nil, {"HardSigmoid", "Softsign"}, {"Sigmoid", "ThresholdedRelu"}},
		"RNN": {nil, {"Relu"}, {"Affine"}, {"Softplus"}},
	}
	sizes := []struct{ length, batch, inputs, hidden int }{{1, 1, 5, 8}, {7, 3, 4, 5}, {5, 2, 3, 17}, {6, 9, 9, 12},
		{40, 5, 2, 3}, {130, 1, 3, 4}, {0, 2, 3, 4}, {3, 0, 3, 4}}
	for op, gates := range recurrentGates {
		for i, c := range sizes {
			for j := range 8 {
				direction := []string{"forward", "reverse", "bidirectional"}[(i+j)%3]
				dirs := 1 + (i+j)%3/2
				attrs := []ir.Attr{ir.A("hidden_size", c.hidden), ir.A("direction", direction)}
				x, state := []int{c.length, c.batch, c.inputs}, []int{dirs, c.batch, c.hidden}
				if j&1 != 0 {
					attrs = append(attrs, ir.A("layout", 1))
					x, state = []int{c.batch, c.length, c.inputs}, []int{c.batch, dirs, c.hidden}
				}
				if j&2 != 0 {
					attrs = append(attrs, ir.A("clip", 0.7))
				}
				if j >= 4 && op == "GRU" {
					attrs = append(attrs, ir.A("linear_before_reset", 1))
				}
				if j == 5 && op == "LSTM" {
					attrs = append(attrs, ir.A("input_forget", 1))
				}
				if f := activations[op][(i+j)%len(activations[op])]; f != nil {
					var names []string
					for range dirs {
						names = append(names, f...)
					}
					attrs = append(attrs, ir.A("activations", names), ir.A("activation_alpha", []float64{0.3, 0.8}),
						ir.A("activation_beta", []float64{0.4}))
				}
				in := []Operand{Given(r.Floats(1, x...)), Fixed(r.Floats(0.5, dirs, gates*c.hidden, c.inputs)),
					Fixed(r.Floats(0.5, dirs, gates*c.hidden, c.hidden)),
					Fixed(r.Floats(1, dirs, 2*gates*c.hidden)), {}, Given(r.Floats(1, state...))}
				if j%3 != 0 {
					lens := tensor.New(tensor.Int32, c.batch)
					for b := range tensor.Data[int32](lens) {
						tensor.Data[int32](lens)[b] = int32(r.IntN(c.length + 1))
					}
					in[4] = Given(lens)
				}
				if op == "LSTM" {
					if in = append(in, Given(r.Floats(1, state...))); j%4 != 1 {
						in = append(in, Fixed(r.Floats(1, dirs, 3*c.hidden)))
					}
				}
				on.Node(t, op, map[string]int{"LSTM": 3, "GRU": 2, "RNN": 2}[op], in, attrs...)
				on.Node(t, op, 1, in[:3], attrs...)
			}
		}
	}
}

// TestRecurrentInputs checks that NaN stays in its sample, and that wrong lengths return an error.
func TestRecurrentInputs(t *testing.T) {
	r := NewGen(32)
	for op, gates := range recurrentGates {
		w := []Operand{Fixed(r.Floats(0.5, 1, gates*4, 3)), Fixed(r.Floats(0.5, 1, gates*4, 4)), {}}
		x := r.Floats(1, 5, 8, 3)
		tensor.Data[float32](x)[2*24+3*3] = float32(math.NaN())
		on.Node(t, op, 2, append([]Operand{Given(x)}, w...))
		g := Parse(t, fmt.Sprintf(
			`g (float[5,8,3] x, int32[8] lens) => (y) <float[1,%d,3] w = {%s}, float[1,%d,4] r = {%s}> { y = %s <hidden_size: int = 4> (x, w, r, "", lens) }`,
			gates*4, manyZeros(gates*12), gates*4, manyZeros(gates*16), op))
		m, err := runtime.New(g, runtime.Options{Backend: cpu.New()})
		if err != nil {
			t.Fatal(err)
		}
		s := m.NewSession()
		for _, n := range []int32{6, -1} {
			lens := tensor.New(tensor.Int32, 8)
			tensor.Data[int32](lens)[5] = n
			if _, err := s.Run(context.Background(), map[string]tensor.Datum{"x": x, "lens": lens}); err == nil {
				t.Errorf("%s: a length of %d is taken", op, n)
			}
		}
		in, out := map[string]tensor.Datum{"x": x, "lens": tensor.FromSlice([]int32{1, 5, 0, 3, 5, 2, 4, 5}, 8)},
			map[string]tensor.Datum{}
		if n := testing.AllocsPerRun(5, func() {
			if err := s.RunInto(context.Background(), in, out); err != nil {
				t.Fatal(err)
			}
		}); n > 4 { // workers start
			t.Errorf("%s: %v allocations", op, n)
		}
	}
}

func manyZeros(n int) string {
	s := "0"
	for range n - 1 {
		s += ", 0"
	}
	return s
}
