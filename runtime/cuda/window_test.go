package cuda_test

import (
	"context"
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cuda"
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/emu"
	"github.com/essmc/essmc/runtime/ref"
)

// windowed is layered in the forward direction with windows, which forget steps before the given number.
func windowed(t testing.TB, window int64) *ir.Graph {
	t.Helper()
	const width = 8
	b := ir.NewBuilder("windowed", ops.Default, ops.Opsets())
	b.Graph().Meta = map[string]string{ir.MetaTime: "L", ir.MetaBatch: "B"}
	wave := func(dtype tensor.DType, from, by float64, shape ...int) *ir.Value {
		n, _ := tensor.Size(shape)
		v := make([]float64, n)
		for i := range v {
			v[i] = from + by*math.Cos(1.7*float64(i))
		}
		if dtype == tensor.Float64 {
			return b.Const("a", tensor.FromSlice(v, shape...))
		}
		w := make([]float32, n)
		for i := range w {
			w[i] = float32(v[i])
		}
		return b.Const("w", tensor.FromSlice(w, shape...))
	}
	y := b.Input("x", ir.Tensor(tensor.Float32, "B", "L", width))
	for i := range 2 {
		in := []*ir.Value{y, wave(tensor.Float64, -0.03, 0.02, 1, 2, 4), wave(tensor.Float64, 0.2, 1, 1, 2, 4),
			wave(tensor.Float64, 1, 0.1, 1, 2, 4), wave(tensor.Float64, 0, 0.2, 1, 2, 4),
			wave(tensor.Float32, 0, 0.3, 1, 2, 4, 4), wave(tensor.Float32, 0, 0.3, 1, 2, 4, 4)}
		s := b.Ops("essm", "SSM", 1, in, ir.A("window", window+int64(i)))[0]
		y = b.Op("", "Add", []*ir.Value{b.Op("", "Tanh", []*ir.Value{s}), y})
	}
	b.Output("y", y)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// crossings notes the greatest copy between the host and the device.
type crossings struct {
	driver.Driver
	most int
}

func (c *crossings) CopyToDevice(dst driver.Ptr, src []byte, s driver.Stream) error {
	c.most = max(c.most, len(src))
	return c.Driver.CopyToDevice(dst, src, s)
}

func (c *crossings) CopyToHost(dst []byte, src driver.Ptr, s driver.Stream) error {
	c.most = max(c.most, len(dst))
	return c.Driver.CopyToHost(dst, src, s)
}

// Streams through windows give the answers of whole sequences, in steps and in chunks shorter and longer than the window, one
// by one and side by side. The last inputs, which the state holds, stay on the device.
func TestWindowStreams(t *testing.T) {
	hurry(t)
	ctx := context.Background()
	for _, window := range []int64{1, 7, 40} {
		g := windowed(t, window)
		truth, err := runtime.New(g, runtime.Options{Backend: ref.New(), Precision: tensor.Float64})
		if err != nil {
			t.Fatal(err)
		}
		d := emu.New(emu.Options{Seed: uint64(window)})
		c := &crossings{Driver: d}
		m := load(t, c, cuda.Options{}, g, runtime.Options{})
		const streams = 3
		chunks := []int{1, 5, 1, 18, 5, 1, 18, 1, 5, 18, 1}
		total := 0
		for _, n := range chunks {
			total += n
		}
		var all [streams]*runtime.Stream
		var in, want [streams][]float64
		for i := range all {
			if all[i], err = m.NewStream(1); err != nil {
				t.Fatal(err)
			}
			x := waves(1, total, float64(i))
			out, err := truth.NewSession().Run(ctx, x)
			if err != nil {
				t.Fatal(err)
			}
			in[i], _ = x["x"].(*tensor.Tensor).Float64s()
			want[i], _ = out["y"].(*tensor.Tensor).Float64s()
		}
		at := 0
		for k, n := range chunks {
			if k == len(chunks)/2 { // all shapes are bound, and their constants are there
				c.most = 0
			}
			var steps []runtime.StreamStep
			for i := range all {
				x := make([]float32, n*8)
				for j := range x {
					x[j] = float32(in[i][8*at+j])
				}
				steps = append(steps, runtime.StreamStep{Stream: all[i], In: data{"x": tensor.FromSlice(x, 1, n, 8)}, Out: data{}})
			}
			if k%2 == 0 {
				err = m.StepMany(ctx, steps)
			} else {
				for i := range steps {
					if err == nil {
						err = all[i].Step(ctx, steps[i].In, steps[i].Out)
					}
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range steps {
				got, _ := s.Out["y"].(*tensor.Tensor).Float64s()
				for j, y := range got {
					if off := math.Abs(y - want[i][8*at+j]); off > 1e-5 {
						t.Fatalf("window %d, stream %d, step %d: found %v, expected %v", window, i, at+j/8, y, want[i][8*at+j])
					}
				}
			}
			at += n
		}
		most := c.most
		state, err := all[0].State()
		if err != nil {
			t.Fatal(err)
		}
		bytes := 0
		for _, s := range state {
			bytes += len(s.Bytes())
		}
		if inputs := 4 * 8 * 18 * streams; most > inputs || window == 40 && bytes < 2*inputs {
			t.Errorf("window %d: a step copies %d bytes at once, the inputs have %d, and the state of a stream %d", window, most, inputs, bytes)
		}
		if err := truth.Close(); err != nil {
			t.Error(err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		for _, f := range d.Close() {
			t.Error(f)
		}
	}
}
