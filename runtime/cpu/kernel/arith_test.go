package kernel

import (
	"math"
	"testing"
)

func TestReductions(t *testing.T) { eachVariant(t, testReductions) }

func testReductions(t *testing.T) {
	r := newRand()
	for _, n := range append([]int{39, 40, 64, 71, 9001}, sizes...) {
		x := random(r, n)
		sum, top := 0.0, math.Inf(-1)
		for _, v := range x {
			sum += float64(v)
			top = max(top, float64(v))
		}
		if got := Sum(x); !(math.Abs(got-sum) <= 1e-4) {
			t.Errorf("sum of %d: %g, expected %g", n, got, sum)
		}
		if got := Greatest(x); float64(got) != top {
			t.Errorf("greatest of %d: %g, expected %g", n, got, top)
		}
		y := make([]float32, n)
		want, logs, total := make([]float64, n), make([]float64, n), 0.0
		for i, v := range x {
			want[i] = math.Exp(float64(v) - top)
			total += want[i]
		}
		for i := range want {
			want[i] /= total
			logs[i] = math.Log(want[i])
		}
		Softmax(y, x)
		near(t, "softmax", y, want, 1e-6)
		LogSoftmax(y, x)
		near(t, "log softmax", y, logs, 1e-5)
		for i := range x { // wherever a NaN stands, it is found
			if n > 100 && i%97 != 0 {
				continue
			}
			keep := x[i]
			x[i] = float32(math.NaN())
			if got := Greatest(x); got == got {
				t.Fatalf("greatest of %d with NaN at %d: %g", n, i, got)
			}
			x[i] = keep
		}
	}
}
