package cpu

import (
	"context"
	"fmt"
	"testing"

	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// cached is a loop of attention over rows that it appends to two caches.
const cached = `g (float[N,64] a, float[64,64] w, int64 m) => (kn, vn, s) <int64[1] axis = {0}> {
	kn, vn, s = Loop (m, "", a, a) <body: graph = step (int64 t, bool cond, float[] k, float[] v) => (bool cond, float[] k2, float[] v2, float[1,64] o) {
		l = ReduceMean <keepdims: int = 1> (k, axis)
		n = MatMul (l, w)
		k2 = Concat <axis: int = 0> (k, n)
		h = Tanh (n)
		v2 = Concat <axis: int = 0> (v, h)
		b = Transpose <perm: ints = [1, 0]> (k2)
		c = MatMul (n, b)
		p = Softmax (c)
		o = MatMul (p, v2)
	}>
}`

// TestGrowingLoop checks a loop whose shapes change, from run to run, also where memory is scarce.
func TestGrowingLoop(t *testing.T) {
	g, r := Parse(t, cached), NewGen(3)
	w := r.Floats(0.1, 64, 64)
	for _, limit := range []int64{0, 180_000} {
		m, err := runtime.New(g, runtime.Options{Backend: New(), Threads: 2, MaxMemory: limit})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		s := m.NewSession()
		for i, c := range []struct{ rows, m int }{{1, 3}, {1, 9}, {2, 4}, {1, 9}, {3, 40}, {1, 0}, {2, 41}, {3, 40}} {
			name := fmt.Sprintf("limit %d, run %d, %d rows, %d iterations", limit, i, c.rows, c.m)
			in := map[string]tensor.Datum{"a": r.Floats(1, c.rows, 64), "w": w, "m": Number(int64(c.m))}
			out, err := s.Run(context.Background(), in)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			CloseTo(t, name, out, Truth(t, g, in), 1e-5)
			if s.Memory() > limit && limit > 0 {
				t.Errorf("%s: holds %d bytes", name, s.Memory())
			}
		}
	}
}

// TestGrowingLoopAppends checks that caches grow where they are, and that a run of known shapes makes nothing but its
// outputs.
func TestGrowingLoopAppends(t *testing.T) {
	p, err := New().Compile(Parse(t, cached), runtime.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	r := NewGen(3)
	in := []tensor.Datum{r.Floats(1, 1, 64), r.Floats(0.1, 64, 64), Number(50)}
	b := runtime.Binding{Dims: map[string]int64{"N": 1}}
	for _, d := range in {
		b.Inputs = append(b.Inputs, ir.Of(d.(*tensor.Tensor)))
	}
	x, err := p.Bind(b)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	run := func() {
		if err := x.Run(context.Background(), in, make([]tensor.Datum, 3)); err != nil {
			t.Fatal(err)
		}
	}
	if run(); testing.AllocsPerRun(10, run) > 40 { // one in each of 50 iterations would be more
		t.Errorf("%v allocations", testing.AllocsPerRun(10, run))
	}
	found := 0
	for _, u := range x.(*executable).units {
		for _, sub := range u.subs {
			if sub.Appends(1, 1) && sub.Appends(2, 2) {
				found++
			}
			if sub.Appends(2, 1) || sub.Appends(1, 2) {
				t.Error("an output that continues another input appends")
			}
		}
	}
	if found != 50 {
		t.Errorf("%d bodies append, expected 50", found)
	}
}
