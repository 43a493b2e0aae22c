package cuda_test

import (
	"bytes"
	"context"
	"math"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cuda"
	"github.com/essmc/essmc/runtime/cuda/emu"
	"github.com/essmc/essmc/runtime/ref"
)

// Layers of long sequences have memory that is zero when a run begins; the layers of a graph have theirs side by side. Answers
// are the same from run to run.
func TestLongLayers(t *testing.T) {
	hurry(t)
	ctx := context.Background()
	g := layered(t)
	truth, err := runtime.New(g, runtime.Options{Backend: ref.New(), Precision: tensor.Float64})
	if err != nil {
		t.Fatal(err)
	}
	defer truth.Close()
	d := emu.New(emu.Options{Seed: 5})
	m := load(t, d, cuda.Options{}, g, runtime.Options{})
	s := m.NewSession()
	answers := map[int][]byte{}
	for _, steps := range []int{1100, 900, 1100, 900} {
		in := waves(2, steps, 0.3)
		out, err := s.Run(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		y := out["y"].(*tensor.Tensor)
		if first := answers[steps]; first == nil {
			answers[steps] = bytes.Clone(y.Bytes())
		} else if !bytes.Equal(first, y.Bytes()) {
			t.Errorf("%d steps: the answer differs from run to run", steps)
		}
		all, err := truth.NewSession().Run(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := y.Float64s()
		want, _ := all["y"].(*tensor.Tensor).Float64s()
		most, scale := 0.0, 0.0
		for i, x := range got {
			most, scale = max(most, math.Abs(x-want[i])), max(scale, math.Abs(want[i]))
		}
		if off := most / scale; off > 5e-6 {
			t.Errorf("%d steps: the answer is off by %.3g of the greatest number", steps, off)
		}
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	for _, f := range d.Close() {
		t.Error(f)
	}
}
