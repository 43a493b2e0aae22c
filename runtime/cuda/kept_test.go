package cuda_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cuda"
	"github.com/essmc/essmc/runtime/cuda/driver"
)

// follower is a graph that takes its states s and r with each number of N samples: y = 2x + s, next = y + x, and then r' = op r.
func follower(t *testing.T, op string) *ir.Graph {
	t.Helper()
	b := ir.NewBuilder("follower", ops.Default, map[string]int{"test": 1, "": ops.Opsets()[""]})
	b.Graph().Meta = map[string]string{ir.MetaBatch: "N"}
	vector := ir.Tensor(tensor.Float32, "N")
	x, s, r := b.Input("x", vector), b.Input("s", vector), b.Input("r", vector)
	apply := func(op string, in ...*ir.Value) *ir.Value { return b.Apply(testOps[op], 1, in, nil)[0] }
	y := apply("Sum", apply("Double", x), s)
	b.Output("y", apply("Sum", y, r))
	b.Output("next", apply("Sum", y, x))
	b.Output("then", apply(op, r))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A step of 64 streams takes the calls of one: a launch brings the states of all of them, and one takes them back, by a table of
// addresses that is copied there.
func TestManyStreams(t *testing.T) {
	const streams = 64
	ctx := context.Background()
	n := tested()
	m := load(t, n, cuda.Options{}, follower(t, "Shift"), runtime.Options{Carry: map[string]string{"s": "next", "r": "then"}})
	var steps []runtime.StreamStep
	for i := range streams {
		s, err := m.NewStream(1)
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, runtime.StreamStep{Stream: s, In: data{"x": floats(float32(i))}, Out: data{}})
	}
	calls := func(step func() error) (all []string) {
		t.Helper()
		for range 3 { // the first one binds, the second one records a graph
			from := len(n.calls)
			if err := step(); err != nil {
				t.Fatal(err)
			}
			all = slices.Concat(n.calls[from:], []string{"graph"}, n.last)
		}
		return all
	}
	one := calls(func() error { return steps[0].Stream.Step(ctx, steps[0].In, data{}) })
	many := calls(func() error { return m.StepMany(ctx, steps) })
	if !slices.Equal(one, many) {
		t.Errorf("one stream: %v\n%d streams: %v", one, streams, many)
	}
	if want := []string{"CopyToDevice", "Launch", "LaunchGraph", "Synchronize", "Launch", "Synchronize", "graph"}; !slices.Equal(
		many[:min(len(want), len(many))], want) {
		t.Errorf("found the calls %v, expected %v", many, want)
	}
	for i := range streams {
		x := float32(i)
		s := 9 * x // three steps of next = 3x + s
		if i == 0 {
			s = 0
		}
		state, err := steps[i].Stream.State()
		if err != nil || tensor.Data[float32](state["s"])[0] != s {
			t.Fatalf("stream %d: found %s (%v), expected %v", i, state["s"], err, s)
		}
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// States of streams stay on the device from step to step, whoever steps them: one by one, or many at once. Snapshots and
// states hold them, and a step that fails leaves them.
func TestStream(t *testing.T) {
	ctx := context.Background()
	for _, op := range []string{"Shift", "Same", "None"} { // in kernels, as a view, and on the host
		n := tested()
		g := follower(t, op)
		m := load(t, n, cuda.Options{Fallback: "cpu"}, g, runtime.Options{Carry: map[string]string{"s": "next", "r": "then"}})
		const streams = 5
		var all [streams]*runtime.Stream
		var s, r, count [streams]float32
		for i := range all {
			var err error
			if all[i], err = m.NewStream(1); err != nil {
				t.Fatal(err)
			}
		}
		check := func(i int, x float32, out data) {
			t.Helper()
			y := 2*x + s[i]
			want := y + r[i]
			s[i] = y + x
			switch op {
			case "Shift":
				r[i] += 3
			case "None":
				r[i]++
			}
			count[i]++
			if got := tensor.Data[float32](out["y"].(*tensor.Tensor)); !slices.Equal(got, []float32{want}) {
				t.Fatalf("%s, stream %d: found %v, expected %v", op, i, got, want)
			}
		}
		for round := range 6 {
			var steps []runtime.StreamStep
			for i := range all {
				x := float32(round + 10*i)
				if (i+round)%3 == 0 {
					out := data{}
					if err := all[i].Step(ctx, data{"x": floats(x)}, out); err != nil {
						t.Fatal(err)
					}
					check(i, x, out)
					continue
				}
				steps = append(steps, runtime.StreamStep{Stream: all[i], In: data{"x": floats(x)}, Out: data{}})
			}
			if err := m.StepMany(ctx, steps); err != nil {
				t.Fatal(err)
			}
			for _, step := range steps {
				i := slices.Index(all[:], step.Stream)
				check(i, float32(round+10*i), step.Out)
			}
		}
		// the state belongs to the stream, and moves with it
		state, err := all[1].State()
		if err != nil || tensor.Data[float32](state["s"])[0] != s[1] || tensor.Data[float32](state["r"])[0] != r[1] {
			t.Errorf("%s: found %v (%v), expected %v, %v", op, state, err, s[1], r[1])
		}
		snapshot, err := all[1].Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if err := all[2].Restore(snapshot); err != nil {
			t.Fatal(err)
		}
		s[2], r[2] = s[1], r[1]
		cancelled, cancel := context.WithCancel(ctx)
		plain := n.kernels["test_Sum"]
		n.kernels["test_Sum"] = func(n *null, params []byte, grid driver.Dim) error {
			cancel()
			return fmt.Errorf("no sum: %w", fail("Launch", driver.InvalidValue, ""))
		}
		if err := all[2].Step(cancelled, data{"x": floats(1)}, data{}); err == nil {
			t.Error("the step fails")
		}
		n.kernels["test_Sum"] = plain
		out := data{}
		if err := all[2].Step(ctx, data{"x": floats(7)}, out); err != nil {
			t.Fatal(err)
		}
		check(2, 7, out)
		if err := all[3].Reset(); err != nil {
			t.Fatal(err)
		}
		s[3], r[3] = 0, 0
		if err := all[3].SetState(map[string]*tensor.Tensor{"r": tensor.FromSlice([]float32{4}, 1)}); err != nil {
			t.Fatal(err)
		}
		r[3] = 4
		if err := all[3].Step(ctx, data{"x": floats(1)}, out); err != nil {
			t.Fatal(err)
		}
		check(3, 1, out)
		if err := all[4].Close(); err != nil {
			t.Error(err)
		}
		if op == "Shift" { // only x is copied there, and only y is copied back
			before := [2]int{n.count("CopyToDevice"), n.count("CopyToHost")}
			if err := all[0].Step(ctx, data{"x": floats(1)}, out); err != nil {
				t.Fatal(err)
			}
			before[0]++ // the addresses of states
			if after := [2]int{n.count("CopyToDevice"), n.count("CopyToHost")}; after != before {
				t.Errorf("copies outside of graphs: %v, %v", before, after)
			}
			if copies := n.ran("CopyToDevice"); copies != 1 {
				t.Errorf("a step copies %d values to the device", copies)
			}
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if err := all[0].Close(); err != nil {
			t.Error(err)
		}
		if l := n.leaks(); l != nil {
			t.Errorf("%s: not given back: %v", op, l)
		}
	}
}
