package cpu

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
)

// TestLoopForms checks how loops run. The suite for backends checks their answers.
func TestLoopForms(t *testing.T) {
	for _, c := range backendtest.LoopCases() {
		m, err := runtime.New(Parse(t, c.Text), runtime.Options{Backend: New(), Profile: true})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		s := m.NewSession()
		if _, err := s.Run(context.Background(), c.In); err != nil {
			t.Fatal(err)
		}
		for _, p := range s.Profile() {
			if (p.Op == "Loop" || p.Op == "Scan") && (p.Form == "eval") != c.Evaluated {
				t.Errorf("%s: %s runs as %s", c.Name, p.Name, p.Form)
			}
		}
	}
}

// TestLoopsAllocateNothing checks that loops with fixed shapes do not allocate.
func TestLoopsAllocateNothing(t *testing.T) {
	for _, c := range backendtest.LoopCases() {
		if !slices.Contains([]string{"recurrence of 7", "exchanged values", "kept and constant values", "loops within",
			"first iteration of another shape"}, c.Name) && !strings.HasPrefix(c.Name, "scan of 6") {
			continue
		}
		g := Parse(t, c.Text)
		m, err := runtime.New(g, runtime.Options{Backend: New(), Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		s, out := m.NewSession(), map[string]tensor.Datum{}
		run := func() {
			if err := s.RunInto(context.Background(), c.In, out); err != nil {
				t.Fatal(err)
			}
		}
		if run(); testing.AllocsPerRun(10, run) != 0 {
			t.Errorf("%s: %v allocations", c.Name, testing.AllocsPerRun(10, run))
		}
	}
}

// TestLoopReadsSequences checks that subgraphs read sequences in the layout of the graph, also if the program has
// another one.
func TestLoopReadsSequences(t *testing.T) {
	g := Parse(t, `g (float[B,2,L] x, bool c) => (y, z, s) <float[2,2,3] w = {0.3, -0.2, 0.5, 0.1, 0.7, -0.4, 0.2, 0.6, -0.3, 0.8, -0.5, 0.4}, int64 m = {2}> {
		a = Conv <pads: ints = [2, 0]> (x, w)
		r = Relu (a)
		b = Conv <pads: ints = [2, 0]> (r, w)
		y, s = Loop (m, "", b) <body: graph = step (int64 t, bool cond, float[B,2,L] p) => (bool cond, float[B,2,L] q, float[B,2,L] o) {
			u = Mul (p, r)
			q = Tanh (u)
			o = Add (q, b)
		}>
		z = If (c) <then_branch: graph = then () => (float[B,2,L] k1) { k1 = Sub (a, b) }, else_branch: graph = else () => (float[B,2,L] k2) { k2 = Add (r, b) }>
	}`)
	for _, length := range []int{5, 3000} {
		in := map[string]tensor.Datum{"x": NewGen(2).Floats(1, 2, 2, length), "c": Flag(length > 5)}
		CloseTo(t, fmt.Sprint(length), Run(t, g, runtime.Options{Backend: New(), Threads: 2}, in), Truth(t, g, in),
			1e-5)
	}
}

// TestLoopExplained tests the reasons that Explain returns for loops.
func TestLoopExplained(t *testing.T) {
	want := map[string]string{
		"recurrence of 7":                     "7 iterations; a body of 2 steps",
		"no trip count":                       "the number of iterations shows in the run; a body of ",
		"first iteration of another shape":    "5 iterations; the first 1 with other shapes; a body of ",
		"growing value, 6":                    ", bound when an iteration shows their shapes",
		"strings":                             "operator by operator",
		"loops within":                        "3 iterations; a body of ",
		"early exit, 0 of 9, true":            "the number of iterations shows in the run",
		"scan of 1":                           "1 iteration; a body of ",
		"scan of 0, scan_input_axes: ints = ": "0 iterations",
	}
	for _, c := range backendtest.LoopCases() {
		for name, why := range want {
			if c.Name != name && !strings.HasPrefix(c.Name, name+"[") {
				continue
			}
			m, err := runtime.New(Parse(t, c.Text), runtime.Options{Backend: New()})
			if err != nil {
				t.Fatal(err)
			}
			dims := map[string]int64{"L": 7, "B": 2, "N": 2}
			if strings.HasPrefix(name, "scan") {
				a, b := c.In["a"].(*tensor.Tensor), c.In["b"].(*tensor.Tensor)
				dims = map[string]int64{"N": int64(a.Dim(0)), "I": int64(b.Dim(0)), "J": int64(b.Dim(1)),
					"K": int64(b.Dim(2))}
			}
			all, err := m.Explain(dims)
			if err != nil {
				t.Fatal(err)
			}
			if len(all) == 0 || !strings.Contains(all[0].Why, why) {
				t.Errorf("%s: found %v, expected %q", c.Name, all, why)
			}
			delete(want, name)
		}
	}
	if len(want) > 0 {
		t.Errorf("no case for %v", want)
	}
}
