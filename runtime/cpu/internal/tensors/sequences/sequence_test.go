package sequences_test

import (
	"context"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

// TestSequenceInsert checks that sequences made of one sequence do not share later items, with each other or with the
// caller's.
func TestSequenceInsert(t *testing.T) {
	g := Parse(t, `g (seq(float[2]) s, float[2] x) => (a, b, an, bn, c) <int64 m = {5}> {
		a = SequenceInsert (s, x)
		y = Neg (x)
		b = SequenceInsert (s, y)
		an, bn, c = Loop (m, "", a, a, s) <body: graph = step (int64 t, bool cond, seq(float[2]) p, seq(float[2]) q, seq(float[2]) r) => (bool cond, seq(float[2]) p2, seq(float[2]) q2, seq(float[2]) p) {
			f = Cast <to: int = 1> (t)
			u = Mul (x, f)
			p2 = SequenceInsert (p, u)
			v = Neg (u)
			q2 = SequenceInsert (p2, v)
		}>
	}`)
	r := NewGen(5)
	items := append(make([]tensor.Datum, 0, 8), r.Floats(1, 2), r.Floats(1, 2))
	in := map[string]tensor.Datum{"s": &tensor.Sequence{Items: items}, "x": r.Floats(1, 2)}
	want := Truth(t, g, in)
	m, err := runtime.New(g, runtime.Options{Backend: cpu.New()})
	if err != nil {
		t.Fatal(err)
	}
	s := m.NewSession()
	for range 3 {
		got, err := s.Run(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		for name := range want {
			CompareDatum(t, name, got[name], want[name])
		}
		if items[:3][2] != nil {
			t.Fatal("the caller's memory is written to")
		}
	}
}

// TestSequenceShapes checks that tensors made of sequences have known shapes if the items have, so that later steps run
// in kernels.
func TestSequenceShapes(t *testing.T) {
	g := Parse(t, `g (float[L,2,3] x, float[2,3] h) => (y, z, n) <int64 zero = {0}, float[3,4] w = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2}> {
		parts = SplitToSequence <keepdims: int = 0> (x)
		m = SequenceLength (parts)
		e = SequenceEmpty ()
		one = SequenceConstruct (h)
		hn, all, some = Loop (m, "", h, e, one) <body: graph = step (int64 t, bool cond, float[] p, seq(float[]) s, seq(float[]) u) => (bool cond, float[] k, seq(float[]) s2, seq(float[]) u2) {
			v = SequenceAt (parts, t)
			a = Add (p, v)
			k = Tanh (a)
			s2 = SequenceInsert (s, k)
			u1 = SequenceInsert (u, a)
			u2 = SequenceInsert (u1, v)
		}>
		c = ConcatFromSequence <axis: int = 1, new_axis: int = 1> (all)
		y = MatMul (c, w)
		less = SequenceErase (some)
		d = ConcatFromSequence <axis: int = -1> (less)
		z = Relu (d)
		n = SequenceLength (less)
	}`)
	in := map[string]tensor.Datum{"x": NewGen(6).Floats(1, 5, 2, 3), "h": NewGen(7).Floats(1, 2, 3)}
	want := Truth(t, g, in)
	m, err := runtime.New(g, runtime.Options{Backend: cpu.New(), Profile: true})
	if err != nil {
		t.Fatal(err)
	}
	s := m.NewSession()
	got, err := s.Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	for name := range want {
		CompareDatum(t, name, got[name], want[name])
	}
	for _, p := range s.Profile() {
		if p.Form == "eval" && slices.Contains([]string{"Add", "Tanh", "MatMul", "Relu", "SequenceLength", "Loop"},
			p.Op) {
			t.Errorf("%s is evaluated", p.Name)
		}
	}
}

// TestSequenceOfDifferentItems checks that items of different shapes have no known shape.
func TestSequenceOfDifferentItems(t *testing.T) {
	for _, body := range []string{`v = Concat <axis: int = 0> (p, p)  q = SequenceInsert (s, v)`,
		`v = Relu (p)  r = SequenceInsert (s, v)  z = Concat <axis: int = 0> (p, p)  q = SequenceInsert (r, z)`,
		`b = Add (p, x)  v = Tanh (b)  q = SequenceInsert (s, v)`} {
		for _, start := range []string{"e = SequenceEmpty ()", "e = SequenceConstruct (a)"} {
			g := Parse(t, `g (float[1,3] a, float[2,3] x, int64 m) => (y, first, all) <int64 zero = {0}> {
				`+start+`
				y, all = Loop (m, "", a, e) <body: graph = step (int64 t, bool cond, float[] p, seq(float[]) s) => (bool cond, float[] v, seq(float[]) q) { `+body+` }>
				f = SequenceAt (all, zero)
				first = Relu (f)
			}`)
			in := map[string]tensor.Datum{"a": NewGen(6).Floats(1, 1, 3), "x": NewGen(7).Floats(1, 2, 3),
				"m": Number(4)}
			want, got := Truth(t, g, in), Run(t, g, runtime.Options{Backend: cpu.New()}, in)
			for name := range want {
				CompareDatum(t, name, got[name], want[name])
			}
		}
	}
}
