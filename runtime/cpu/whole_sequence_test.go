package cpu

import (
	"context"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// Sequences that grow out of the same one do not see each other's items, nor does the caller's.
func TestSequenceInsert(t *testing.T) {
	g := parse(t, `g (seq(float[2]) s, float[2] x) => (a, b, an, bn, c) <int64 m = {5}> {
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
	r := newGen(5)
	items := append(make([]tensor.Datum, 0, 8), r.floats(1, 2), r.floats(1, 2))
	in := map[string]tensor.Datum{"s": &tensor.Sequence{Items: items}, "x": r.floats(1, 2)}
	want := truth(t, g, in)
	m, err := runtime.New(g, runtime.Options{Backend: New()})
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
			compareDatum(t, name, got[name], want[name])
		}
		if items[:3][2] != nil {
			t.Fatal("the caller's memory is written to")
		}
	}
}
