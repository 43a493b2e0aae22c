package fft

import (
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"sync"
	"testing"
)

// naive computes the definition, with exact reduction of the angle.
func naive(x []complex128) []complex128 {
	n := len(x)
	y := make([]complex128, n)
	for k := range y {
		for j, v := range x {
			y[k] += v * cmplx.Rect(1, -2*math.Pi*float64(j*k%n)/float64(n))
		}
	}
	return y
}

func noise(r *rand.Rand, n int) []complex128 {
	x := make([]complex128, n)
	for i := range x {
		x[i] = complex(r.NormFloat64(), r.NormFloat64())
	}
	return x
}

// distance returns the largest difference, relative to the largest value.
func distance(a, b []complex128) float64 {
	var d, scale float64
	for i := range a {
		d, scale = max(d, cmplx.Abs(a[i]-b[i])), max(scale, cmplx.Abs(b[i]))
	}
	return d / max(scale, 1e-300)
}

// TestAgainstDefinition checks every length up to 200, and long ones of all kinds: powers of two, smooth, prime, twice
// a prime.
func TestAgainstDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	lengths := []int{256, 1000, 1001, 1021, 1024, 1331, 2000, 2017, 2042, 2187, 3125}
	for n := 1; n <= 200; n++ {
		lengths = append(lengths, n)
	}
	for _, n := range lengths {
		p, x := New(n, nil), noise(r, n)
		want := naive(x)
		got := append([]complex128(nil), x...)
		p.Forward(got, nil)
		if d := distance(got, want); !(d <= 1e-13) {
			t.Errorf("length %d: forward is off by %g", n, d)
		}
		p.Inverse(got, nil)
		if d := distance(got, x); !(d <= 1e-14) {
			t.Errorf("length %d: inverse of forward is off by %g", n, d)
		}
		re := make([]float64, n)
		for i, v := range x {
			re[i] = real(v)
			x[i] = complex(re[i], 0)
		}
		want = naive(x)[:n/2+1]
		half := make([]complex128, n/2+1)
		p.Real(half, re, nil)
		if d := distance(half, want); !(d <= 1e-13) {
			t.Errorf("length %d: real is off by %g", n, d)
		}
		back := make([]float64, n)
		p.InverseReal(back, half, nil)
		for i := range re {
			if !(math.Abs(back[i]-re[i]) <= 1e-13) {
				t.Fatalf("length %d: inverse real of real: element %d is %g, expected %g", n, i, back[i], re[i])
			}
		}
	}
}

// TestLong checks long lengths by a few terms of the definition, and by a round trip.
func TestLong(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{16384, 16000, 16411, 65536, 60060, 65537} {
		p, x := New(n, nil), noise(r, n)
		y := append([]complex128(nil), x...)
		p.Forward(y, nil)
		scale := math.Sqrt(float64(n))
		for _, k := range []int{0, 1, n / 3, n / 2, n - 1} {
			var want complex128
			for j, v := range x {
				want += v * root(int(int64(j)*int64(k)%int64(n)), n)
			}
			if d := cmplx.Abs(y[k]-want) / scale; !(d <= 1e-12) {
				t.Errorf("length %d: term %d is off by %g", n, k, d)
			}
		}
		p.Inverse(y, nil)
		if d := distance(y, x); !(d <= 1e-14) {
			t.Errorf("length %d: inverse of forward is off by %g", n, d)
		}
	}
}

func TestRoot(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5, 6, 7, 8, 12, 1000, 1 << 20} {
		for k := 0; k < n; k += max(1, n/1000) {
			if d := cmplx.Abs(root(k, n) - cmplx.Rect(1, -2*math.Pi*float64(k)/float64(n))); !(d <= 2e-15) {
				t.Errorf("root %d of %d is off by %g", k, n, d)
			}
		}
	}
	if root(1, 4) != -1i || root(1, 2) != -1 || root(0, 1) != 1 {
		t.Errorf("found %v, %v, %v", root(1, 4), root(1, 2), root(0, 1))
	}
}

// TestConcurrent checks that results do not depend on the cache, whose plans goroutines share.
func TestConcurrent(t *testing.T) {
	var group sync.WaitGroup
	want := make([][]complex128, 60)
	for n := range want {
		want[n] = noise(rand.New(rand.NewPCG(uint64(n), 5)), n+1)
		New(n+1, nil).Forward(want[n], nil)
	}
	for range 4 {
		group.Go(func() {
			for n := range want {
				x := noise(rand.New(rand.NewPCG(uint64(n), 5)), n+1)
				Of(n+1, nil).Forward(x, nil)
				for i := range x {
					if x[i] != want[n][i] {
						t.Errorf("length %d: element %d differs", n+1, i)
						return
					}
				}
			}
		})
	}
	group.Wait()
	if len(cache.plans) > cachedPlans || cache.points > cachedPoints {
		t.Errorf("the cache holds %d plans of %d points", len(cache.plans), cache.points)
	}
	Of(1<<20, nil)
	if n := cache.plans[len(cache.plans)-1].n; n == 1<<20 {
		t.Error("the cache holds a plan that is larger than it should")
	}
}

func BenchmarkForward(b *testing.B) {
	for _, n := range []int{1000, 1024, 2000, 4096, 16000, 16384, 16411} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p, x := New(n, nil), noise(rand.New(rand.NewPCG(1, 2)), n)
			y := make([]complex128, n)
			for b.Loop() {
				copy(y, x)
				p.Forward(y, nil)
			}
		})
		b.Run(fmt.Sprintf("real/%d", n), func(b *testing.B) {
			p, x, y := New(n, nil), make([]float64, n), make([]complex128, n/2+1)
			for i := range x {
				x[i] = float64(i % 7)
			}
			for b.Loop() {
				p.Real(y, x, nil)
			}
		})
	}
}
