package runtime_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/ref"
)

// follower takes chunks of two steps, and its state with each: what is left over of the chunks before.
func follower(t testing.TB) *ir.Graph {
	t.Helper()
	g, err := irtext.Parse([]byte(`<ir_version: 10, opset_import: ["" : 24], metadata_props: ["essmc.batch": "B"]>
		g (float[B,2] x, float[1,B,2] s) => (float[B,2] y, float[1,B,2] next) <int64[1] zero = {0}, float half = {0.5}> {
			h = Mul (s, half)
			u = Unsqueeze (x, zero)
			next = Add (h, u)
			y = Squeeze (next, zero)
		}`), "text", ops.Default, irtext.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A model that takes its state with each chunk is a stream as the caller says, with all that streams have.
func TestCarry(t *testing.T) {
	g, ctx := follower(t), context.Background()
	for _, b := range []runtime.Backend{ref.New(), cpu.New()} {
		m := model(t, g, runtime.Options{Backend: b, Carry: map[string]string{"s": "next"}})
		s, other := stream(t, m, 2), stream(t, m, 2)
		if _, ok := g.Meta[ir.MetaCarry]; ok || len(s.Inputs()) != 1 || len(s.Outputs()) != 1 {
			t.Fatalf("found inputs %v, outputs %v; the graph says %v", s.Inputs(), s.Outputs(), g.Meta)
		}
		x := tensor.FromSlice([]float32{1, 2, 3, 4}, 2, 2)
		step := func(s *runtime.Stream) []float32 {
			out := data{}
			if err := s.Step(ctx, data{"x": x}, out); err != nil {
				t.Fatal(err)
			}
			return tensor.Data[float32](out["y"].(*tensor.Tensor))
		}
		step(s)
		snapshot, err := s.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		want := step(s)
		if !slices.Equal(want, []float32{1.5, 3, 4.5, 6}) || s.Steps() != 2 {
			t.Errorf("found %v after %d chunks", want, s.Steps())
		}
		if err := other.Restore(snapshot); err != nil {
			t.Fatal(err)
		}
		all := []runtime.StreamStep{{Stream: other, In: data{"x": x}, Out: data{}},
			{Stream: stream(t, m, 2), In: data{"x": x}, Out: data{}}}
		if err := m.StepMany(ctx, all); err != nil {
			t.Fatal(err)
		}
		if got := tensor.Data[float32](all[0].Out["y"].(*tensor.Tensor)); !slices.Equal(got, want) {
			t.Errorf("restored: expected %v, found %v", want, got)
		}
		plain := model(t, g, runtime.Options{Backend: b})
		if _, err := plain.NewStream(1); !errors.Is(err, runtime.ErrStream) {
			t.Errorf("without a word: %v", err)
		}
		if a, _ := m.Hash(); true {
			if b, _ := plain.Hash(); a == b {
				t.Error("what is carried does not count in the model's hash")
			}
		}
	}
	for pair, want := range map[[2]string]string{
		{"z", "next"}: `option Carry: the model has no input "z" that could be its state`,
		{"s", "z"}:    `option Carry: the model has no output "z" that could be passed to input "s"`,
	} {
		_, err := runtime.New(g, runtime.Options{Backend: ref.New(), Carry: map[string]string{pair[0]: pair[1]}})
		if !errors.Is(err, runtime.ErrOption) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: found %v", pair, err)
		}
	}
	m := model(t, g, runtime.Options{Backend: ref.New(), Carry: map[string]string{"s": "y"}})
	if _, err := m.NewStream(1); !errors.Is(err, runtime.ErrStream) ||
		!strings.Contains(err.Error(), "but output y, which should be passed to it") {
		t.Errorf("a state of another shape: %v", err)
	}
}
