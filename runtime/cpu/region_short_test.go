package cpu_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models/essm"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// TestShortSequences checks that short sequences that are computed together have bitwise the same answers as
// separate ones, and that a NaN stays in its own sequence.
func TestShortSequences(t *testing.T) {
	const batch, bad = 29, 5
	for _, heads := range []int{1, 2, 8} {
		for _, full := range []bool{false, true} {
			c := essm.Default()
			c.Encoder = essm.Encoder{Type: "linear", DInput: 3}
			c.DModel, c.NLayers, c.Prenorm, c.Norm = 24, 2, heads == 2, "layer"
			c.Layer.Bidirectional, c.Layer.Heads, c.Layer.DState = false, heads, 16
			c.Layer.Dt, c.Layer.D = "per_state", "diagonal"
			if full {
				c.Layer.PostActivation = "full_glu"
			}
			c.Decoder.Type, c.Decoder.Mode, c.Decoder.DOutput = "sequence", "none", 5
			g := network(t, c)
			for _, threads := range []int{1, 3} {
				m, err := runtime.New(g, runtime.Options{Backend: cpu.New(), Threads: threads})
				if err != nil {
					t.Fatal(err)
				}
				s := m.NewSession()
				run := func(x, state *tensor.Tensor) map[string]tensor.Datum {
					t.Helper()
					out, err := s.Run(context.Background(), map[string]tensor.Datum{"input": x, "state_in": state})
					if err != nil {
						t.Fatal(err)
					}
					return out
				}
				for length := 1; length <= 3; length++ {
					in := noise(g, map[string]int64{"B": batch, "L": int64(length)})
					x := in["input"].(*tensor.Tensor)
					tensor.Data[float32](x)[bad*length*3] = float32(math.NaN())
					first := run(x, nil)
					state := first["state_out"].(*tensor.Tensor)
					all := run(x, state)
					for i := range batch {
						alone := run(sample(x, i), sample(state, i))
						for _, name := range []string{"output", "state_out"} {
							got, want := sample(all[name].(*tensor.Tensor), i), alone[name].(*tensor.Tensor)
							if !tensor.Equal(got, want) {
								t.Fatalf("heads %d, full %v, threads %d, length %d: %s of sample %d differs from what it is alone", heads, full, threads, length, name, i)
							}
							if nan := slices.ContainsFunc(tensor.Data[float32](got),
								func(v float32) bool { return v != v }); nan != (i == bad) {
								t.Fatalf("heads %d, length %d: %s of sample %d has NaN: %v", heads, length, name, i,
									nan)
							}
						}
					}
				}
				m.Close()
			}
		}
	}
}

// sample returns a sample of a batch.
func sample(x *tensor.Tensor, i int) *tensor.Tensor {
	v := tensor.Data[float32](x)
	n := len(v) / x.Dim(0)
	return tensor.FromSlice(slices.Clone(v[i*n:(i+1)*n]), append([]int{1}, x.Shape()[1:]...)...)
}
