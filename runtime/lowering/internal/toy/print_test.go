package toy_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	_ "github.com/essmc/essmc/ops/std"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/lowering/internal/toy"
)

var update = flag.Bool("update", false, "write the golden files anew")

// A program, and a plan with the places of values: steps that follow from shapes, loops in loops, branches, several
// values of one name, an input that is absent, small constants and large ones.
func TestText(t *testing.T) {
	g, err := backendtest.ParseGraph(`g (float[N,3] x, int64 m, float[N,1,3] e, optional(float[3]) o) => (hn, s, y, there, x)
	<int64 one = {1}, int64[1] zero = {0}, float[3] c = {0.123456789, 2, -3}, float[3,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}> {
		shape = Shape (x)
		e1 = Reshape (e, shape)
		y = Add (e1, c)
		there = OptionalHasElement (o)
		hn, s = Loop (m, "", y) <body: graph = outer (int64 t, bool cond, float[N,3] h) => (bool cond, float[N,3] k, float[N,3] z) {
			a = MatMul (h, w)
			n = Add (t, one)
			b, z0 = Loop (n, "", a) <body: graph = inner (int64 i, bool c1, float[N,3] p) => (bool c1, float[N,3] q, float[N,3] zi) {
				r = Mul (p, h)
				q0 = Add (r, a)
				q = MeanVarianceNormalization <axes: ints = [0, 1]> (q0)
				zi = MeanVarianceNormalization <axes: ints = [1]> (q)
			}>
			odd = Equal (t, one)
			k = If (odd) <then_branch: graph = then () => (float[N,3] k1) { k1 = Tanh (b) }, else_branch: graph = else () => (float[N,3] k2) {
				u = Add (b, h)
				k2 = LeakyRelu <alpha: float = 0.3> (u)
			}>
			z = ReduceSum <keepdims: int = 0> (z0, zero)
		}>
	}`)
	if err != nil {
		t.Fatal(err)
	}
	m, err := runtime.New(g, runtime.Options{Backend: toy.New()})
	if err != nil {
		t.Fatal(err)
	}
	program, err := m.Lowered(nil)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := m.Lowered(map[string]int64{"N": 4})
	if err != nil {
		t.Fatal(err)
	}
	hold(t, "testdata/lowered.txt", "program\n"+program+"\nplan for N=4\n"+plan)
}

func hold(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	a, b := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			t.Fatalf("%s:%d: found\n%s\nexpected\n%s\n-update writes it", file, i+1, a[i], b[i])
		}
	}
	t.Fatalf("%s: %d lines, expected %d; -update writes it", file, len(a), len(b))
}
