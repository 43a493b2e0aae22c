package cpu

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/ref"
)

// parse reads a graph in ONNX's textual syntax, without its header.
func parse(t testing.TB, text string) *ir.Graph {
	t.Helper()
	g, err := irtext.Parse([]byte(`<ir_version: 10, opset_import: ["" : 24]>`+text), "text", ops.Default, irtext.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// loopCase is a graph with loops, and inputs for it; evaluated says that the outermost loop is left to the evaluation.
type loopCase struct {
	name      string
	text      string
	in        map[string]tensor.Datum
	evaluated bool
}

func flag(b bool) *tensor.Tensor { return tensor.Scalar(b) }

func whole(v ...int64) *tensor.Tensor { return tensor.FromSlice(v, len(v)) }

func number(v int64) *tensor.Tensor { return tensor.Scalar(v) }

func loopCases() []loopCase {
	r := newGen(3)
	var all []loopCase
	add := func(name, text string, in map[string]tensor.Datum) *loopCase {
		all = append(all, loopCase{name: name, text: text, in: in})
		return &all[len(all)-1]
	}
	// A recurrence over the steps of x, whose weights it captures or holds.
	cell := `g (float[L,B,3] x, float[B,5] h0) => (hn, y) <float[3,5] w = {%s}, float[5,5] u = {%s}, int64 zero = {0}, bool yes = {1}> {
		s = Shape (x)
		m = Gather (s, zero)
		hn, y = Loop (m, yes, h0) <body: graph = step (int64 t, bool cond, float[B,5] h) => (bool more, float[B,5] k, float[B,5] z) {
			v = Gather <axis: int = 0> (x, t)
			a = MatMul (v, w)
			b = MatMul (h, u)
			c = Add (a, b)
			k = Tanh (c)
			z = Mul (k, k)
			more = Identity (cond)
		}>
	}`
	numbers := func(n int) string {
		f := make([]string, n)
		for i := range f {
			f[i] = fmt.Sprintf("%.3g", 0.4*r.NormFloat64())
		}
		return strings.Join(f, ", ")
	}
	recurrence := fmt.Sprintf(cell, numbers(15), numbers(25))
	for _, l := range []int{7, 1, 2} {
		add(fmt.Sprintf("recurrence of %d", l), recurrence, map[string]tensor.Datum{"x": r.floats(1, l, 2, 3), "h0": r.floats(1, 2, 5)})
	}
	exit := `g (float[2,3] a, int64 m, bool c0, float limit) => (an, s, i) {
		an, s, i = Loop (m, c0, a) <body: graph = step (int64 t, bool cond, float[2,3] p) => (bool more, float[2,3] q, float[] z, int64 n) {
			q = Add (p, p)
			z = ReduceMax <keepdims: int = 0> (q)
			more = Less (z, limit)
			n = Identity (t)
		}>
	}`
	for i, m := range []int64{9, 3, 0, -4, 100} {
		for _, c := range []bool{true, false} {
			add(fmt.Sprintf("early exit, %d of %d, %v", i, m, c), exit, map[string]tensor.Datum{"a": tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3), "m": number(m), "c0": flag(c), "limit": tensor.Scalar(float32(3000))})
		}
	}
	add("no trip count", `g (float[4] a, float limit) => (an, s) {
		an, s = Loop ("", "", a) <body: graph = step (int64 t, bool cond, float[4] p) => (bool more, float[4] q, float[4] z) {
			q = Add (p, p)
			z = Neg (p)
			top = ReduceMax <keepdims: int = 0> (q)
			more = Less (top, limit)
		}>
	}`, map[string]tensor.Datum{"a": tensor.FromSlice([]float32{1, 2, 3, 4}, 4), "limit": tensor.Scalar(float32(1e5))})
	add("exchanged values", `g (float[3] a, float[3] b) => (an, bn) <int64 m = {7}> {
		an, bn = Loop (m, "", a, b) <body: graph = step (int64 t, bool cond, float[3] p, float[3] q) => (bool cond, float[3] q, float[3] s) {
			s = Add (p, q)
		}>
	}`, map[string]tensor.Datum{"a": r.floats(1, 3), "b": r.floats(1, 3)})
	add("kept and constant values", `g (float[3] a, float[3] b) => (an, bn, cn, zs) <float[3] k = {1, 2, 3}, int64 m = {4}> {
		an, bn, cn, zs = Loop (m, "", a, b, b) <body: graph = step (int64 t, bool cond, float[3] p, float[3] q, float[3] o) => (bool cond, float[3] s, float[3] r, float[3] k, float[3] k) {
			s = Mul (p, q)
			r0 = Identity (q)
			r = Identity (r0)
		}>
	}`, map[string]tensor.Datum{"a": r.floats(1, 3), "b": r.floats(1, 3)})
	add("first iteration of another shape", `g (float[1,4] a, float[3,4] x) => (an, s) <int64 m = {5}> {
		an, s = Loop (m, "", a) <body: graph = step (int64 t, bool cond, float[] p) => (bool cond, float[] q, float[] z) {
			y = Add (p, x)
			q = Tanh (y)
			z = Relu (q)
		}>
	}`, map[string]tensor.Datum{"a": r.floats(1, 1, 4), "x": r.floats(1, 3, 4)})
	for _, m := range []int64{0, 1, 2, 3, 6} {
		add(fmt.Sprintf("growing value, %d", m), `g (float[N,4] a, float[3,4] x, int64 m) => (an, bn, s) {
			an, bn, s = Loop (m, "", a, x) <body: graph = step (int64 t, bool cond, float[] p, float[] o) => (bool cond, float[] q, float[] d, float[] z) {
				q = Concat <axis: int = 0> (p, o)
				e = ReduceMean <keepdims: int = 1> (q)
				f = Add (o, e)
				d = Tanh (f)
				z = Relu (d)
			}>
		}`, map[string]tensor.Datum{"a": r.floats(1, 2, 4), "x": r.floats(1, 3, 4), "m": number(m)})
	}
	for _, m := range []int64{0, 5} {
		add(fmt.Sprintf("sequence, %d", m), `g (float[3,4] x, int64 m) => (sn, hn, i, y) {
			e = SequenceEmpty ()
			f = SequenceEmpty <dtype: int = 7> ()
			hn, i, sn = Loop (m, "", x, f, e) <body: graph = step (int64 t, bool cond, float[3,4] h, seq(int64[]) j, seq(float[]) s) => (bool cond, float[3,4] k, seq(int64[]) l, seq(float[]) u) {
				k = Sin (h)
				v = SequenceInsert (s, k)
				u = SequenceInsert (v, h, t)
				l = SequenceInsert (j, t)
			}>
			o = SequenceInsert (sn, x)
			y = ConcatFromSequence <axis: int = 1> (o)
		}`, map[string]tensor.Datum{"x": r.floats(1, 3, 4), "m": number(m)})
	}
	add("loops and branches within", `g (float[2,3] x, int64 m, float[3,3] w) => (hn, s) <int64 one = {1}, int64[1] zero = {0}> {
		hn, s = Loop (m, "", x) <body: graph = outer (int64 t, bool cond, float[2,3] h) => (bool cond, float[2,3] k, float[2,3] z) {
			a = MatMul (h, w)
			n = Add (t, one)
			b, z0 = Loop (n, "", a) <body: graph = inner (int64 i, bool c, float[2,3] p) => (bool c, float[2,3] q, float[2,3] zi) {
				r = Mul (p, h)
				q0 = Add (r, a)
				q = Tanh (q0)
				zi = Neg (q)
			}>
			odd = Equal (t, one)
			k = If (odd) <then_branch: graph = then () => (float[2,3] k1) { k1 = Tanh (b) }, else_branch: graph = else () => (float[2,3] k2) {
				u = Add (b, h)
				k2 = Sin (u)
			}>
			z = ReduceSum <keepdims: int = 0> (z0, zero)
		}>
	}`, map[string]tensor.Datum{"x": r.floats(0.5, 2, 3), "m": number(4), "w": r.floats(0.5, 3, 3)})
	for _, m := range []int64{0, 1, 9} {
		add(fmt.Sprintf("growing value, bound anew, %d", m), `g (float[N,100] a, float[100,100] w, int64 m) => (an, bn, s) {
			an, bn, s = Loop (m, "", a, a) <body: graph = step (int64 t, bool cond, float[] p, float[] o) => (bool cond, float[] q, float[] d, float[] z) {
				e = MatMul (o, w)
				d = Tanh (e)
				q = Concat <axis: int = 0> (p, d)
				z = ReduceMean <keepdims: int = 0> (q)
			}>
		}`, map[string]tensor.Datum{"a": r.floats(1, 2, 100), "w": r.floats(0.1, 100, 100), "m": number(m)})
	}
	add("shapes that the run knows", `g (float[N,100] a, float[100,100] w, bool[N] c) => (bn, s) <int64 three = {3}, int64 two = {2}> {
		b = Compress <axis: int = 0> (a, c)
		bn, s = Loop (three, "", b) <body: graph = step (int64 t, bool cond, float[] p) => (bool cond, float[] d, float[] z) {
			e = MatMul (p, w)
			d, f = Loop (two, "", e) <body: graph = inner (int64 i, bool more, float[] u) => (bool more, float[] v, float[] y) {
				y = Add (u, p)
				v = Tanh (y)
			}>
			z = ReduceMax <keepdims: int = 0> (f)
		}>
	}`, map[string]tensor.Datum{"a": r.floats(1, 4, 100), "w": r.floats(0.1, 100, 100), "c": tensor.FromSlice([]bool{true, false, true, true}, 4)})
	add("loops within", `g (float[2,3] x, float[3,3] w) => (hn, s) <int64 three = {3}, int64 one = {1}> {
		hn, s = Loop (three, "", x) <body: graph = outer (int64 t, bool cond, float[2,3] h) => (bool cond, float[2,3] k, float[3,2,3] z) {
			a = MatMul (h, w)
			b, z = Loop (three, "", a) <body: graph = inner (int64 i, bool c, float[2,3] p) => (bool c, float[2,3] q, float[2,3] zi) {
				r = Mul (p, h)
				q0 = Add (r, a)
				q = Tanh (q0)
				zi = Neg (q)
			}>
			odd = Equal (t, one)
			k = If (odd) <then_branch: graph = then () => (float[2,3] k1) { k1 = Tanh (b) }, else_branch: graph = else () => (float[2,3] k2) { k2 = Add (b, h) }>
		}>
	}`, map[string]tensor.Datum{"x": r.floats(0.5, 2, 3), "w": r.floats(0.5, 3, 3)})
	for _, axes := range []string{"", ", scan_input_axes: ints = [0, -1], scan_input_directions: ints = [0, 1], scan_output_axes: ints = [1, -1, 0], scan_output_directions: ints = [1, 0, 1]"} {
		for _, steps := range []int{6, 1, 0} {
			a, b := r.floats(1, steps, 2, 3), tensor.New(tensor.Int64, steps, 2, 5)
			if axes != "" {
				b = tensor.New(tensor.Int64, 2, 5, steps)
			}
			for i := range tensor.Data[int64](b) {
				tensor.Data[int64](b)[i] = int64(i)
			}
			add(fmt.Sprintf("scan of %d%s", steps, axes), `g (float[N,2,3] a, int64[I,J,K] b, float[2,3] h0) => (hn, p, q, o) <int64 seven = {7}> {
				hn, p, q, o = Scan <num_scan_inputs: int = 2`+axes+`, body: graph = step (float[2,3] h, float[2,3] u, int64[2,5] v) => (float[2,3] k, float[2,3] y, int64[2,5] z, bool[2,5] w) {
					s = Mul (h, u)
					k = Tanh (s)
					y = Add (k, u)
					w = Less (v, seven)
					z = Where (w, v, seven)
				}> (h0, a, b)
			}`, map[string]tensor.Datum{"a": a, "b": b, "h0": r.floats(1, 2, 3)})
		}
	}
	add("strings", `g (string[N] a, float[N,2] x) => (s, y) {
		s, y = Scan <num_scan_inputs: int = 2, body: graph = step (string t, float[2] v) => (string u, float[2] w) {
			u = Identity (t)
			w = Neg (v)
		}> (a, x)
	}`, map[string]tensor.Datum{"a": tensor.FromStrings([]string{"p", "q"}, 2), "x": r.floats(1, 2, 2)}).evaluated = true
	add("optional", `g (optional(float[2]) a, float[2] x) => (xn) <int64 m = {3}> {
		an, xn = Loop (m, "", a, x) <body: graph = step (int64 t, bool cond, optional(float[2]) p, float[2] h) => (bool cond, optional(float[2]) p, float[2] k) {
			v = OptionalGetElement (p)
			k = Add (h, v)
		}>
	}`, map[string]tensor.Datum{"a": r.floats(1, 2), "x": r.floats(1, 2)}).evaluated = true
	return all
}

// Loops give what the interpreter gives, at any number of threads, again and again.
func TestLoops(t *testing.T) {
	for _, c := range loopCases() {
		t.Run(c.name, func(t *testing.T) {
			g := parse(t, c.text)
			want := truth(t, g, c.in)
			var first map[string]tensor.Datum
			for _, threads := range []int{1, 3} {
				m, err := runtime.New(g, runtime.Options{Backend: New(), Threads: threads, Profile: true})
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				s := m.NewSession()
				for range 3 {
					got, err := s.Run(context.Background(), c.in)
					if err != nil {
						t.Fatal(err)
					}
					for name := range want {
						compareDatum(t, name, got[name], want[name])
					}
					if first == nil {
						first = got
					}
					for name := range want {
						if !sameBits(got[name], first[name]) {
							t.Errorf("%s: runs with %d threads differ", name, threads)
						}
					}
				}
				for _, p := range s.Profile() {
					if (p.Op == "Loop" || p.Op == "Scan") && (p.Form == "eval") != c.evaluated {
						t.Errorf("%s runs as %s", p.Name, p.Form)
					}
				}
			}
		})
	}
}

func compareDatum(t *testing.T, name string, got, want tensor.Datum) {
	t.Helper()
	if d := backendtest.Diff(got, want, cases); d != "" {
		t.Fatalf("%s: %s", name, d)
	}
}

func sameBits(a, b tensor.Datum) bool {
	if s, ok := a.(*tensor.Sequence); ok {
		return slices.EqualFunc(s.Items, b.(*tensor.Sequence).Items, sameBits)
	}
	return tensor.Equal(a.(*tensor.Tensor), b.(*tensor.Tensor))
}

// Loops of fixed shapes allocate nothing.
func TestLoopsAllocateNothing(t *testing.T) {
	for _, c := range loopCases() {
		if !slices.Contains([]string{"recurrence of 7", "exchanged values", "kept and constant values", "loops within", "first iteration of another shape"}, c.name) && !strings.HasPrefix(c.name, "scan of 6") {
			continue
		}
		g := parse(t, c.text)
		m, err := runtime.New(g, runtime.Options{Backend: New(), Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		s, out := m.NewSession(), map[string]tensor.Datum{}
		run := func() {
			if err := s.RunInto(context.Background(), c.in, out); err != nil {
				t.Fatal(err)
			}
		}
		if run(); testing.AllocsPerRun(10, run) != 0 {
			t.Errorf("%s: %v allocations", c.name, testing.AllocsPerRun(10, run))
		}
	}
}

// A loop without end stops when it is told to, and where its output grows too large.
func TestLoopEnds(t *testing.T) {
	forever := `g (float[N] a) => (an, s) {
		an, s = Loop ("", "", a) <body: graph = step (int64 t, bool cond, float[N] p) => (bool more, float[N] q, float[N] z) {
			q = Neg (p)
			z = Identity (p)
			top = ReduceMax <keepdims: int = 0> (p)
			more = Equal (top, top)
		}>
	}`
	in := map[string]tensor.Datum{"a": newGen(1).floats(1, 1000)}
	m, err := runtime.New(parse(t, forever), runtime.Options{Backend: New(), Threads: 1, MaxMemory: 1 << 22})
	if err != nil {
		t.Fatal(err)
	}
	var memory *runtime.MemoryError
	if _, err := m.NewSession().Run(context.Background(), in); !errors.As(err, &memory) || !strings.Contains(err.Error(), "iteration") {
		t.Errorf("found %v, expected the bound of memory", err)
	}
	for _, text := range []string{strings.NewReplacer("an, s =", "an =", "(an, s)", "(an)", ", float[N] z)", ")", "z = Identity (p)", "").Replace(forever),
		`g (float[N] a) => (an) { an = Loop ("", "", a) <body: graph = step (int64 t, bool cond, float[N] p) => (bool cond, float[N] p) {}> }`} {
		m, err := runtime.New(parse(t, text), runtime.Options{Backend: New(), Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		if _, err := m.NewSession().Run(ctx, in); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("found %v, expected the deadline", err)
		}
		cancel()
	}
}

// What is wrong in an iteration is said with its number and node, as the interpreter says it.
func TestLoopErrors(t *testing.T) {
	g := parse(t, `g (float[3,2] x, int64[N] at) => (y) {
		y = Scan <num_scan_inputs: int = 1, body: graph = step (int64 i) => (float[2] v) {
			v = Gather (x, i)
		}> (at)
	}`)
	in := map[string]tensor.Datum{"x": newGen(1).floats(1, 3, 2), "at": whole(0, 1, 7)}
	for _, b := range []runtime.Backend{New(), ref.New()} {
		m, err := runtime.New(g, runtime.Options{Backend: b})
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.NewSession().Run(context.Background(), in)
		var node *runtime.NodeError
		if !errors.As(err, &node) || !strings.Contains(err.Error(), "2") || !strings.Contains(err.Error(), "Gather") {
			t.Errorf("%s: found %v", b.Name(), err)
		}
	}
}

// Sequences that lie in another layout inside the program reach subgraphs as the graph has them.
func TestLoopReadsSequences(t *testing.T) {
	g := parse(t, `g (float[B,2,L] x, bool c) => (y, z, s) <float[2,2,3] w = {0.3, -0.2, 0.5, 0.1, 0.7, -0.4, 0.2, 0.6, -0.3, 0.8, -0.5, 0.4}, int64 m = {2}> {
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
		in := map[string]tensor.Datum{"x": newGen(2).floats(1, 2, 2, length), "c": flag(length > 5)}
		closeTo(t, fmt.Sprint(length), run(t, g, runtime.Options{Backend: New(), Threads: 2}, in), truth(t, g, in), 1e-5)
	}
}

// Explain says how loops run.
func TestLoopExplained(t *testing.T) {
	want := map[string]string{
		"recurrence of 7":                     "7 iterations; a body of 2 steps",
		"no trip count":                       "as many iterations as show when it runs; a body of ",
		"first iteration of another shape":    "5 iterations; the first 1 of other shapes; a body of ",
		"growing value, 6":                    "evaluated in float64",
		"strings":                             "operator by operator",
		"loops within":                        "3 iterations; a body of ",
		"early exit, 0 of 9, true":            "as many iterations as show when it runs",
		"scan of 1":                           "1 iteration; a body of ",
		"scan of 0, scan_input_axes: ints = ": "0 iterations",
	}
	for _, c := range loopCases() {
		for name, why := range want {
			if c.name != name && !strings.HasPrefix(c.name, name+"[") {
				continue
			}
			m, err := runtime.New(parse(t, c.text), runtime.Options{Backend: New()})
			if err != nil {
				t.Fatal(err)
			}
			dims := map[string]int64{"L": 7, "B": 2, "N": 2}
			if strings.HasPrefix(name, "scan") {
				a, b := c.in["a"].(*tensor.Tensor), c.in["b"].(*tensor.Tensor)
				dims = map[string]int64{"N": int64(a.Dim(0)), "I": int64(b.Dim(0)), "J": int64(b.Dim(1)), "K": int64(b.Dim(2))}
			}
			all, err := m.Explain(dims)
			if err != nil {
				t.Fatal(err)
			}
			if len(all) == 0 || !strings.Contains(all[0].Why, why) {
				t.Errorf("%s: found %v, expected %q", c.name, all, why)
			}
			delete(want, name)
		}
	}
	if len(want) > 0 {
		t.Errorf("no case for %v", want)
	}
}
