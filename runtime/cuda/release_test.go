package cuda_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cuda"
	"github.com/essmc/essmc/runtime/cuda/emu"
)

// layered is a graph of two state-space layers, in two launches and more each, with weights and tables.
func layered(t testing.TB) *ir.Graph {
	const width = 8
	b := ir.NewBuilder("layered", ops.Default, ops.Opsets())
	wave := func(by float64, shape ...int) *ir.Value {
		n, _ := tensor.Size(shape)
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(by * math.Cos(1.7*float64(i)))
		}
		return b.Const("w", tensor.FromSlice(v, shape...))
	}
	wide := func(from, by float64) *ir.Value {
		v := make([]float64, width)
		for i := range v {
			v[i] = from + by*float64(i)
		}
		return b.Const("a", tensor.FromSlice(v, 1, 1, width))
	}
	y := b.Input("x", ir.Tensor(tensor.Float32, "B", "L", width))
	for range 2 {
		in := []*ir.Value{y, wide(-0.01, -0.02), wide(0, 0.1), wide(1, 0.1), wide(0, 0), wave(0.3, 1, 1, width, width),
			wave(0.3, 1, 1, width, width)}
		s := b.Ops("essm", "SSM", 1, in, ir.A("direction", essm.Bidirectional))[0]
		y = b.Op("", "Add", []*ir.Value{b.Op("", "Tanh", []*ir.Value{s}), y})
	}
	b.Output("y", y)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func waves(samples, steps int, phase float64) data {
	v := make([]float32, samples*steps*8)
	for i := range v {
		v[i] = float32(math.Sin(phase + 0.37*float64(i)))
	}
	return data{"x": tensor.FromSlice(v, samples, steps, 8)}
}

// Memory that sessions and programs free goes back to the driver, except for the part that the pool keeps.
func TestFreed(t *testing.T) {
	const rest = 64 << 10
	ctx := context.Background()
	d := emu.New(emu.Options{})
	b := cuda.Kept(backend(t, d, cuda.Options{}), rest)
	g := layered(t)
	first, err := runtime.New(g, runtime.Options{Backend: b})
	if err != nil {
		t.Fatal(err)
	}
	run := func(m *runtime.Model, steps int) *runtime.Session {
		t.Helper()
		s := m.NewSession()
		if _, err := s.Run(ctx, waves(1, steps, 0)); err != nil {
			t.Fatal(err)
		}
		return s
	}
	closes := func(s interface{ Close() error }) {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	small := run(first, 3)
	start := d.Held(0) // weights, and the arena of a short sequence
	for _, steps := range []int{300, 700} {
		var all []*runtime.Session
		for range 4 {
			all = append(all, run(first, steps))
		}
		if most := d.Held(0); most < start+4*2*32*uint64(steps) {
			t.Errorf("%d steps: %d bytes are held by sessions, %d before them", steps, most, start)
		}
		for _, s := range all {
			closes(s)
		}
		// Tables of shapes remain as well: here the tables of powers, for each length.
		if now := d.Held(0); now > start+rest+16<<10 {
			t.Errorf("%d steps: %d bytes are held when sessions are closed, %d before them", steps, now, start)
		}
	}
	before := d.Held(0)
	second, err := runtime.New(g, runtime.Options{Backend: b})
	if err != nil {
		t.Fatal(err)
	}
	run(second, 900)
	closes(second) // with its session
	if now := d.Held(0); now > max(before, start+rest+16<<10) {
		t.Errorf("%d bytes are held when a model is closed, %d before it", now, before)
	}
	closes(small)
	closes(first)
	if now := d.Held(0); now != 0 {
		t.Errorf("%d bytes are held when all is closed", now)
	}
	for _, f := range d.Close() {
		t.Error(f)
	}
}

// Programs of one device share kernels of equal text: the last program that uses one gives it back.
func TestModules(t *testing.T) {
	n := tested()
	b := backend(t, n, cuda.Options{})
	in := data{"x": numbers(6, 1), "z": numbers(6, 2)}
	open := func(text string) *runtime.Model {
		t.Helper()
		m, err := runtime.New(chain(t, text, "y"), runtime.Options{Backend: b})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := m.NewSession().Run(context.Background(), in); err != nil {
				t.Fatal(err)
			}
		}
		return m
	}
	holds := func(loaded, unloaded int) {
		t.Helper()
		if l, u := n.count("LoadModule"), n.count("UnloadModule"); l != loaded || u != unloaded {
			t.Errorf("%d kernels were compiled and %d given back, expected %d and %d", l, u, loaded, unloaded)
		}
	}
	one := open("a = Double x; y = Sum a z")
	holds(2, 0)
	two := open("a = Sum x z; b = Double a; y = Shift b")
	holds(3, 0)
	three := open("a = Double x; y = Sum a z")
	holds(3, 0)
	for _, c := range []struct {
		m        *runtime.Model
		unloaded int
	}{{one, 0}, {two, 1}, {three, 3}} {
		if err := c.m.Close(); err != nil {
			t.Error(err)
		}
		holds(3, c.unloaded)
	}
	four := open("y = Double x") // the device is opened anew
	holds(4, 3)
	if err := four.Close(); err != nil {
		t.Error(err)
	}
	holds(4, 4)
	if l := n.leaks(); l != nil {
		t.Errorf("not given back: %v", l)
	}
}

// Concurrent sessions, whose launches interleave in an order of the seed, have bitwise the same answers as when they
// run alone.
func TestSideBySide(t *testing.T) {
	hurry(t)
	const sessions, runs = 3, 4
	g := layered(t)
	input := func(k, r int) data { return waves(1+k%2, 70+40*k, float64(10*k+r%2)) }
	want := map[string][]byte{}
	seeds := uint64(3)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds + 1 {
		d := emu.New(emu.Options{Seed: seed})
		m := load(t, d, cuda.Options{}, g, runtime.Options{})
		answer := func(s *runtime.Session, k, r int) []byte {
			out, err := s.Run(context.Background(), input(k, r))
			if err != nil {
				t.Error(err)
				return nil
			}
			return out["y"].(*tensor.Tensor).Bytes()
		}
		key := func(k, r int) string { return fmt.Sprint(k, " ", r%2) }
		if seed == 0 { // without other sessions
			for k := range sessions {
				s := m.NewSession()
				for r := range 2 {
					want[key(k, r)] = answer(s, k, r)
				}
			}
		} else {
			var wait sync.WaitGroup
			start := make(chan struct{})
			for k := range sessions {
				s := m.NewSession()
				wait.Go(func() {
					<-start
					for r := range runs {
						if got := answer(s, k, r); !bytes.Equal(got, want[key(k, r)]) {
							t.Errorf("seed %d, session %d, run %d: the answer is not that of a session alone", seed, k, r)
						}
					}
				})
			}
			close(start)
			wait.Wait()
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		for _, f := range d.Close() {
			t.Error(f)
		}
	}
}
