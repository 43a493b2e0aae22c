package backendtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
)

// LoopCase is a graph with loops, with inputs.
type LoopCase struct {
	Name string
	Text string // in ONNX's textual syntax, without its header
	In   Data
	// Evaluated is set if the lowering makes no program of the outermost loop.
	Evaluated bool
}

// ParseGraph reads a graph in ONNX's textual syntax, without its header.
func ParseGraph(text string) (*ir.Graph, error) {
	return irtext.Parse([]byte(`<ir_version: 10, opset_import: ["" : 24]>`+text), "text", ops.Default, irtext.Options{})
}

// numbers makes random inputs.
type numbers struct{ *rand.Rand }

func newNumbers(seed uint64) numbers { return numbers{rand.New(rand.NewPCG(seed, 17))} }

func (r numbers) floats(scale float64, shape ...int) *tensor.Tensor {
	t := tensor.New(tensor.Float32, shape...)
	v := tensor.Data[float32](t)
	for i := range v {
		v[i] = float32(scale * r.NormFloat64())
	}
	return t
}

// LoopCases returns loops of all kinds: with shapes that stay, change once or change always, with early ends, nested,
// and with values that are kept, exchanged, scanned and collected.
func LoopCases() []LoopCase {
	r := newNumbers(3)
	var all []LoopCase
	add := func(name, text string, in Data) *LoopCase {
		all = append(all, LoopCase{Name: name, Text: text, In: in})
		return &all[len(all)-1]
	}
	// A recurrence over the steps of x, with captured or constant weights.
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
		add(fmt.Sprintf("recurrence of %d", l), recurrence, Data{"x": r.floats(1, l, 2, 3), "h0": r.floats(1, 2, 5)})
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
			add(fmt.Sprintf("early exit, %d of %d, %v", i, m, c), exit,
				Data{"a": tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3), "m": tensor.Scalar(m),
					"c0": tensor.Scalar(c), "limit": tensor.Scalar(float32(3000))})
		}
	}
	add("no trip count", `g (float[4] a, float limit) => (an, s) {
		an, s = Loop ("", "", a) <body: graph = step (int64 t, bool cond, float[4] p) => (bool more, float[4] q, float[4] z) {
			q = Add (p, p)
			z = Neg (p)
			top = ReduceMax <keepdims: int = 0> (q)
			more = Less (top, limit)
		}>
	}`, Data{"a": tensor.FromSlice([]float32{1, 2, 3, 4}, 4), "limit": tensor.Scalar(float32(1e5))})
	add("exchanged values", `g (float[3] a, float[3] b) => (an, bn) <int64 m = {7}> {
		an, bn = Loop (m, "", a, b) <body: graph = step (int64 t, bool cond, float[3] p, float[3] q) => (bool cond, float[3] q, float[3] s) {
			s = Add (p, q)
		}>
	}`, Data{"a": r.floats(1, 3), "b": r.floats(1, 3)})
	add("kept and constant values", `g (float[3] a, float[3] b) => (an, bn, cn, zs) <float[3] k = {1, 2, 3}, int64 m = {4}> {
		an, bn, cn, zs = Loop (m, "", a, b, b) <body: graph = step (int64 t, bool cond, float[3] p, float[3] q, float[3] o) => (bool cond, float[3] s, float[3] r, float[3] k, float[3] k) {
			s = Mul (p, q)
			r0 = Identity (q)
			r = Identity (r0)
		}>
	}`, Data{"a": r.floats(1, 3), "b": r.floats(1, 3)})
	add("first iteration of another shape", `g (float[1,4] a, float[3,4] x) => (an, s) <int64 m = {5}> {
		an, s = Loop (m, "", a) <body: graph = step (int64 t, bool cond, float[] p) => (bool cond, float[] q, float[] z) {
			y = Add (p, x)
			q = Tanh (y)
			z = Relu (q)
		}>
	}`, Data{"a": r.floats(1, 1, 4), "x": r.floats(1, 3, 4)})
	for _, m := range []int64{0, 1, 2, 3, 6} {
		add(fmt.Sprintf("growing value, %d", m), `g (float[N,4] a, float[3,4] x, int64 m) => (an, bn, s) {
			an, bn, s = Loop (m, "", a, x) <body: graph = step (int64 t, bool cond, float[] p, float[] o) => (bool cond, float[] q, float[] d, float[] z) {
				q = Concat <axis: int = 0> (p, o)
				e = ReduceMean <keepdims: int = 1> (q)
				f = Add (o, e)
				d = Tanh (f)
				z = Relu (d)
			}>
		}`, Data{"a": r.floats(1, 2, 4), "x": r.floats(1, 3, 4), "m": tensor.Scalar(m)})
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
		}`, Data{"x": r.floats(1, 3, 4), "m": tensor.Scalar(m)})
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
	}`, Data{"x": r.floats(0.5, 2, 3), "m": tensor.Scalar(int64(4)), "w": r.floats(0.5, 3, 3)})
	for _, m := range []int64{0, 1, 9} {
		add(fmt.Sprintf("growing value, bound anew, %d", m), `g (float[N,100] a, float[100,100] w, int64 m) => (an, bn, s) {
			an, bn, s = Loop (m, "", a, a) <body: graph = step (int64 t, bool cond, float[] p, float[] o) => (bool cond, float[] q, float[] d, float[] z) {
				e = MatMul (o, w)
				d = Tanh (e)
				q = Concat <axis: int = 0> (p, d)
				z = ReduceMean <keepdims: int = 0> (q)
			}>
		}`, Data{"a": r.floats(1, 2, 100), "w": r.floats(0.1, 100, 100), "m": tensor.Scalar(m)})
	}
	for _, m := range []int64{0, 1, 2, 9} {
		// k is read before and behind the Concat that continues it; two values change places; a sequence keeps each of
		// them; the last value grows by itself, so that half of it is copied.
		add(fmt.Sprintf("caches, %d", m), `g (float[N,33] a, float[33,33] w, int64 m) => (kn, un, vn, xn, sn, o) <int64[2] shape = {1, 33}> {
			e = SequenceEmpty ()
			kn, un, vn, xn, sn, o = Loop (m, "", a, a, w, a, e) <body: graph = step (int64 t, bool cond, float[] k, float[] u, float[] v, float[] x, seq(float[]) s) =>
					(bool cond, float[] k2, float[] v, float[] u2, float[] x2, seq(float[]) s2, float[] z) {
				n = MatMul (k, w)
				h = Tanh (n)
				l = ReduceMean <keepdims: int = 1> (h)
				f = Expand (l, shape)
				k2 = Concat <axis: int = 0> (k, f)
				b = Transpose <perm: ints = [1, 0]> (k2)
				c = MatMul (f, b)
				p = Softmax (c)
				d = MatMul (p, k2)
				u2 = Concat <axis: int = 0> (u, d)
				x2 = Concat <axis: int = 0> (x, x)
				q = SequenceInsert (s, k)
				s2 = SequenceInsert (q, k2)
				y = Add (d, k)
				z = ReduceMax <keepdims: int = 0> (y)
			}>
		}`, Data{"a": r.floats(1, 1, 33), "w": r.floats(0.3, 33, 33), "m": tensor.Scalar(m)})
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
	}`, Data{"a": r.floats(1, 4, 100), "w": r.floats(0.1, 100, 100), "c": tensor.FromSlice([]bool{true, false, true, true}, 4)})
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
	}`, Data{"x": r.floats(0.5, 2, 3), "w": r.floats(0.5, 3, 3)})
	for _, axes := range []string{"",
		", scan_input_axes: ints = [0, -1], scan_input_directions: ints = [0, 1], scan_output_axes: ints = [1, -1, " +
			"0], scan_output_directions: ints = [1, 0, 1]"} {
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
			}`, Data{"a": a, "b": b, "h0": r.floats(1, 2, 3)})
		}
	}
	add("strings", `g (string[N] a, float[N,2] x) => (s, y) {
		s, y = Scan <num_scan_inputs: int = 2, body: graph = step (string t, float[2] v) => (string u, float[2] w) {
			u = Identity (t)
			w = Neg (v)
		}> (a, x)
	}`, Data{"a": tensor.FromStrings([]string{"p", "q"}, 2), "x": r.floats(1, 2, 2)}).Evaluated = true
	add("optional", `g (optional(float[2]) a, float[2] x) => (xn) <int64 m = {3}> {
		an, xn = Loop (m, "", a, x) <body: graph = step (int64 t, bool cond, optional(float[2]) p, float[2] h) => (bool cond, optional(float[2]) p, float[2] k) {
			v = OptionalGetElement (p)
			k = Add (h, v)
		}>
	}`, Data{"a": r.floats(1, 2), "x": r.floats(1, 2)}).Evaluated = true
	add("strings that change places", `g (string[2] a, string[2] b, int64 m) => (an, bn, s, cn) {
		e = SequenceEmpty <dtype: int = 8> ()
		an, bn, s, cn = Loop (m, "", a, b, e, a) <body: graph = step (int64 t, bool cond, string[2] p, string[2] q, seq(string[]) r, string[2] o) => (bool cond, string[2] q2, string[2] p2, seq(string[]) r2, string[2] w) {
			q2 = Identity (q)
			p2 = StringConcat (p, q)
			r1 = SequenceInsert (r, p2)
			r2 = SequenceInsert (r1, p)
			w = StringConcat (o, p)
		}>
	}`, Data{"a": tensor.FromStrings([]string{"p", "q"}, 2), "b": tensor.FromStrings([]string{"r", ""}, 2), "m": tensor.Scalar(int64(4))})
	// What a branch gives lies in the same place in each iteration. A Reshape to a shape that only the run knows shares
	// its strings.
	add("strings of a branch that are kept", `g (string[2] a, string[2] b, int64[2] wide, int64 m) => (s, an)
			<int64 one = {1}> {
		e = SequenceEmpty <dtype: int = 8> ()
		an, s = Loop (m, "", a, e) <body: graph = step (int64 t, bool cond, string[2] p, seq(string[]) r)
				=> (bool cond, string[2] p2, seq(string[]) r2) {
			first = Less (t, one)
			v = If (first) <then_branch: graph = then () => (string[2] x) { x = StringConcat (p, p) },
				else_branch: graph = else () => (string[2] y) { y = StringConcat (p, b) }>
			w = Reshape (v, wide)
			r2 = SequenceInsert (r, w)
			p2 = StringConcat (v, b)
		}>
	}`, Data{"a": tensor.FromStrings([]string{"p", "q"}, 2), "b": tensor.FromStrings([]string{"r", ""}, 2),
		"wide": tensor.FromSlice([]int64{1, 2}, 2), "m": tensor.Scalar(int64(4))})
	add("one value for several outputs", `g (float[3] a, int64 m) => (an, bn, s) {
		an, bn, s = Loop (m, "", a, a) <body: graph = step (int64 t, bool cond, float[3] p, float[3] o) => (bool cond, float[3] q, float[3] q, float[3] q) {
			u = Tanh (p)
			q = Add (u, o)
		}>
	}`, Data{"a": r.floats(1, 3), "m": tensor.Scalar(int64(3))})
	add("sequences of values that are gone", `g (float[N] x, bool c, int64 zero) => (s, y, n, o) {
		a = Neg (x)
		s0 = SequenceConstruct (a, x, a)
		b = Exp (a)
		d = Tanh (b)
		e = Exp (d)
		s = SequenceInsert (s0, e, zero)
		y = SequenceAt (s, zero)
		o = If (c) <then_branch: graph = then () => (seq(float[N]) s1) { f = Abs (e)
			g1 = Exp (f)
			s1 = SequenceInsert (s0, f) }, else_branch: graph = else () => (seq(float[N]) s2) { s2 = Identity (s0) }>
		n = Identity (s0)
	}`, Data{"x": r.floats(1, 5), "c": tensor.Scalar(true), "zero": tensor.Scalar(int64(0))})
	add("a known shape of what nobody knows", `g (float[1,N,3] x, bool[N] c) => (float[2,3] y, float[2,3] z) <int64[1] first = {0}> {
		a = Compress <axis: int = 1> (x, c)
		y = Squeeze (a, first)
		b = Identity (a)
		z = Squeeze (b, first)
	}`, Data{"x": r.floats(1, 1, 3, 3), "c": tensor.FromSlice([]bool{true, false, true}, 3)})
	add("shapes that nobody knows", `g (float[N,3] x, bool[N] c, optional(float[2]) p) => (y, i, z, q) {
		a = Relu (x)
		y = Compress <axis: int = 0> (a, c)
		b = Neg (a)
		i = NonZero (b)
		j = Identity (y)
		z = Exp (j)
		d = Tanh (b)
		e = Exp (d)
		k = ReduceSum <keepdims: int = 0> (e)
		v = OptionalGetElement (p)
		q = Add (v, k)
	}`, Data{"x": r.floats(1, 4, 3), "c": tensor.FromSlice([]bool{true, false, true, true}, 4), "p": r.floats(1, 2)})
	return all
}

// loops runs the loop cases repeatedly, with any number of threads, and random nested loops. Bodies add few rounding
// errors to those of the operators, and nothing amplifies them.
func (s *suite) loops(t *testing.T) {
	for _, c := range LoopCases() {
		s.sub(t, c.Name, func(t *testing.T) { s.loop(t, c.Text, ir.Tolerance{Ulps: 32}, c.In) })
	}
	for seed := range uint64(s.graphs(60)) {
		s.sub(t, fmt.Sprintf("random-%d", seed), func(t *testing.T) {
			w := newNumbers(seed)
			var in []Data
			for _, n := range []int{3, 1} {
				in = append(in, Data{"a": w.floats(1, 2, 3), "b": w.floats(1, 2, 3), "xs": w.floats(1, n, 2, 3),
					"count": tensor.Scalar(int64(1 + w.IntN(3)))})
			}
			s.loop(t, RandomLoops(seed), ir.Tolerance{Ulps: 168}, in...)
		})
	}
	s.sub(t, "grows", s.loopGrows)
	s.sub(t, "ends", s.loopEnds)
	s.sub(t, "errors", s.loopErrors)
}

func (s *suite) loop(t *testing.T, text string, tol ir.Tolerance, inputs ...Data) {
	g, err := ParseGraph(text)
	if err != nil {
		t.Fatal(err)
	}
	first := make([]Data, len(inputs))
	for _, threads := range []int{1, 3} {
		session := s.model(t, g, runtime.Options{Threads: threads}).NewSession()
		for range 3 {
			for i, in := range inputs {
				got := s.mustRun(t, session, in)
				if first[i] == nil {
					want, err := truth(g, in)
					if err != nil {
						t.Fatal(err)
					}
					expect(t, describe(in), got, want, tol)
					first[i] = copyData(got)
					owned(t, describe(in), session, in, got)
					continue
				}
				if err := identical(first[i], got); err != nil {
					t.Errorf("%s: runs with %d threads: %v", describe(in), threads, err)
				}
			}
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// forever is an endless loop that collects its states.
const forever = `g (float[N] a) => (an, s) {
	an, s = Loop ("", "", a) <body: graph = step (int64 t, bool cond, float[N] p) => (bool more, float[N] q, float[N] z) {
		q = Neg (p)
		z = Identity (p)
		top = ReduceMax <keepdims: int = 0> (p)
		more = Equal (top, top)
	}>
}`

// loopRun runs an endless loop.
func (s *suite) loopRun(ctx context.Context, t *testing.T, text string, o runtime.Options) error {
	t.Helper()
	g, err := ParseGraph(text)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.model(t, g, o).NewSession().Run(ctx, Data{"a": newNumbers(1).floats(1, 1000)})
	s.skipRefused(t, err)
	return err
}

// loopGrows checks that an endless loop ends when its output grows too large.
func (s *suite) loopGrows(t *testing.T) {
	var memory *runtime.MemoryError
	err := s.loopRun(context.Background(), t, forever, runtime.Options{Threads: 1, MaxMemory: 1 << 22})
	if !errors.As(err, &memory) || !strings.Contains(err.Error(), "iteration") {
		t.Errorf("found %v, expected the bound of memory", err)
	}
}

// loopEnds checks that an endless loop ends when its context is done.
func (s *suite) loopEnds(t *testing.T) {
	silent := strings.NewReplacer("an, s =", "an =", "(an, s)", "(an)", ", float[N] z)", ")", "z = Identity (p)",
		"").Replace(forever)
	empty := `g (float[N] a) => (an) { an = Loop ("", "", a) <body: graph = step (int64 t, bool cond, float[N] p) => (bool cond, float[N] p) {}> }`
	for _, text := range []string{silent, empty} {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		if err := s.loopRun(ctx, t, text, runtime.Options{Threads: 1}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("found %v, expected the deadline", err)
		}
		cancel()
	}
}

// loopErrors checks that an error in an iteration names the iteration and the node.
func (s *suite) loopErrors(t *testing.T) {
	g, err := ParseGraph(`g (float[3,2] x, int64[N] at) => (y) {
		y = Scan <num_scan_inputs: int = 1, body: graph = step (int64 i) => (float[2] v) {
			v = Gather (x, i)
		}> (at)
	}`)
	if err != nil {
		t.Fatal(err)
	}
	in := Data{"x": newNumbers(1).floats(1, 3, 2), "at": tensor.FromSlice([]int64{0, 1, 7}, 3)}
	_, err = s.model(t, g, runtime.Options{}).NewSession().Run(context.Background(), in)
	s.skipRefused(t, err)
	var node *runtime.NodeError
	if !errors.As(err, &node) || !strings.Contains(err.Error(), "2") || !strings.Contains(err.Error(), "Gather") {
		t.Errorf("found %v", err)
	}
}
