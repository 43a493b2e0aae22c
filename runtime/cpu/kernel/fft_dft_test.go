package kernel

import (
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"
)

// lengths are all up to 200, and long ones of all kinds: powers of two, smooth, prime, twice a prime.
func lengths() []int {
	all := []int{256, 512, 1000, 1001, 1021, 1024, 2000, 2042, 2187, 4096, 16000, 16384, 16411}
	for n := 1; n <= 200; n++ {
		all = append(all, n)
	}
	return all
}

// exact is the transform in float64: by the definition where that is short, else by the algorithm that TestTransformed
// holds against it, or by a chirp.
func exact(x []complex128, inverse bool) []complex128 {
	n := len(x)
	in := make([]complex128, n)
	for i, v := range x {
		if in[i] = v; inverse {
			in[i] = cmplx.Conj(v)
		}
	}
	var y []complex128
	if _, ok := factors(n); ok {
		y = transformed(in, nil)
	} else if n < 3000 {
		y = defined(in)
	} else {
		y = chirped(in)
	}
	if inverse {
		for i, v := range y {
			y[i] = cmplx.Conj(v) / complex(float64(n), 0)
		}
	}
	return y
}

func defined(x []complex128) []complex128 {
	n := len(x)
	y, w := make([]complex128, n), make([]complex128, n)
	for k := range w {
		w[k] = unit64(k, n)
	}
	for k := range y {
		for j, v := range x {
			y[k] += v * w[j*k%n]
		}
	}
	return y
}

func chirped(x []complex128) []complex128 {
	n, m := len(x), smooth(2*len(x)-1)
	a, b := make([]complex128, m), make([]complex128, m)
	for j := range n {
		w := unit64(j*j%(2*n), 2*n)
		a[j], b[j] = x[j]*w, cmplx.Conj(w)
		if j > 0 {
			b[m-j] = b[j]
		}
	}
	a, b = transformed(a, nil), transformed(b, nil)
	for i := range a {
		a[i] = cmplx.Conj(a[i] * b[i])
	}
	a = transformed(a, nil)
	for k := range n {
		a[k] = cmplx.Conj(a[k]) / complex(float64(m), 0) * unit64(k*k%(2*n), 2*n)
	}
	return a[:n]
}

func TestTransformed(t *testing.T) {
	r := newRand()
	for _, n := range []int{1, 2, 7, 60, 143, 256, 997} {
		x := make([]complex128, n)
		for i := range x {
			x[i] = complex(r.NormFloat64(), r.NormFloat64())
		}
		want := defined(x)
		for i, v := range exact(x, false) {
			if !(cmplx.Abs(v-want[i]) <= 1e-12*float64(n)) {
				t.Fatalf("length %d: term %d is %v, expected %v", n, i, v, want[i])
			}
		}
		for i, v := range chirped(x) {
			if !(cmplx.Abs(v-want[i]) <= 1e-12*float64(n)) {
				t.Fatalf("length %d by a chirp: term %d is %v, expected %v", n, i, v, want[i])
			}
		}
	}
}

// guarded is n numbers of a slice that is not aligned, between NaNs.
func guarded(n int) (all, inner []float32) {
	all = make([]float32, n+34)
	for i := range all {
		all[i] = float32(math.NaN())
	}
	return all, all[17 : 17+n : 17+n]
}

func checkGuards(t *testing.T, what string, all []float32) {
	t.Helper()
	for i, v := range all {
		if (i < 17 || i >= len(all)-17) && v == v {
			t.Fatalf("%s: wrote %g beyond its slice, at %d", what, v, i-17)
		}
	}
}

// relative is the greatest error over the greatest number.
func relative(got []float32, want []complex128, real1 bool) float64 {
	worst, top := 0.0, 1e-30
	for i, w := range want {
		g := complex(float64(got[i%len(got)]), 0)
		if real1 {
			w = complex(real(w), 0)
		} else {
			g = complex(float64(got[2*i]), float64(got[2*i+1]))
		}
		d := cmplx.Abs(g - w)
		if d != d {
			return math.Inf(1)
		}
		worst, top = max(worst, d), max(top, cmplx.Abs(w))
	}
	return worst / top
}

// TestDFT checks every kind of transform against float64, with rows enough for eight side by side and some more.
func TestDFT(t *testing.T) { eachVariant(t, testDFT) }

func testDFT(t *testing.T) {
	r := newRand()
	for _, n := range lengths() {
		rows := 10
		if n > 200 {
			rows = 1
			if n < 3000 {
				rows = 9
			}
		}
		for _, kind := range []string{"complex", "inverse", "real", "full", "back"} {
			testKind(t, r, n, rows, kind)
		}
	}
}

func testKind(t *testing.T, r *rand.Rand, n, rows int, kind string) {
	t.Helper()
	const most = 5e-7
	d := NewDFT(n, kind == "real" || kind == "full" || kind == "back")
	d.Prepare(nil)
	b := &Rows{Count: rows, Terms: n, Have: n}
	inWidth, outWidth := 2*n, 2*n
	inverse := kind == "inverse" || kind == "back"
	switch kind {
	case "real":
		b.Terms, inWidth, outWidth = n/2+1, n, 2*(n/2+1)
	case "full":
		inWidth = n
	case "back":
		b.Have, inWidth, outWidth = n/2+1, 2*(n/2+1), n
	}
	b.SrcStride, b.DstStride = inWidth+3, outWidth+1
	_, b.Src = guarded(rows*b.SrcStride - 3)
	for i := range b.Src {
		b.Src[i] = float32(r.NormFloat64())
	}
	dstAll, dst := guarded(rows*b.DstStride - 1)
	b.Dst = dst
	tmpAll, tmp := guarded(d.Scratch())
	if inverse {
		d.Inverse(b, tmp)
	} else {
		d.Forward(b, tmp)
	}
	what := fmt.Sprintf("length %d, %s", n, kind)
	checkGuards(t, what, dstAll)
	checkGuards(t, what+": scratch", tmpAll)
	for i := range rows {
		if i > 0 && i < 7 {
			continue // as any of the eight
		}
		src, got := b.Src[i*b.SrcStride:][:inWidth], dst[i*b.DstStride:][:outWidth]
		x := make([]complex128, n)
		for j := range x {
			switch {
			case kind == "real" || kind == "full":
				x[j] = complex(float64(src[j]), 0)
			case kind == "back" && j > n/2:
				x[j] = cmplx.Conj(x[n-j])
			default:
				x[j] = complex(float64(src[2*j]), float64(src[2*j+1]))
				if kind == "back" && 2*j%n == 0 {
					x[j] = complex(real(x[j]), 0)
				}
			}
		}
		want := exact(x, inverse)
		if kind != "back" {
			want = want[:b.Terms]
		}
		if e := relative(got, want, kind == "back"); e > most {
			t.Fatalf("%s: row %d is off by %.3g", what, i, e)
		} else if n >= 1000 && i == 0 {
			t.Logf("%s: off by %.2g", what, e)
		}
	}
}

func BenchmarkDFT(b *testing.B) {
	const rows = 64
	for _, n := range []int{128, 256, 512, 1000, 1024, 2000, 4096, 16000, 16384, 16411, 65536} {
		for _, full := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d/full=%v", n, full), func(b *testing.B) {
				d := NewDFT(n, true)
				d.Prepare(nil)
				terms := n/2 + 1
				if full {
					terms = n
				}
				r := &Rows{Src: random(newRand(), rows*n), SrcStride: n, Dst: make([]float32, rows*2*terms),
					DstStride: 2 * terms, Count: rows, Terms: terms, Have: n}
				tmp := make([]float32, d.Scratch())
				for b.Loop() {
					d.Forward(r, tmp)
				}
				b.ReportMetric(b.Elapsed().Seconds()*1e6/float64(b.N)/rows, "µs/row")
				b.ReportMetric(2.5*float64(n)*math.Log2(float64(n))*rows*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}

// stopAt stops at the n-th look.
func stopAt(n int) Stop {
	return func() bool { n--; return n < 0 }
}

// Long work looks at whether to stop, and a plan whose tables were not finished can make them later.
func TestStop(t *testing.T) {
	for _, c := range []struct {
		n    int
		real bool
	}{{1 << 19, false}, {1 << 20, true}, {1<<17 - 1, false}} {
		looks := 0
		looked := func() Stop { looks = 0; return func() bool { looks++; return false } }
		d := NewDFT(c.n, c.real)
		bytes := d.Bytes()
		if d.Prepare(stopAt(0)) || d.Prepare(stopAt(1)) {
			t.Fatalf("%d: tables were made, though stopped", c.n)
		}
		if !d.Prepare(looked()) || looks < 2 {
			t.Fatalf("%d: %d looks while tables are made", c.n, looks)
		}
		held := int64(len(d.forward.re)+len(d.forward.im)+len(d.inverse.im)) * 4
		for u := d.t; u != nil; {
			for _, p := range u.passes {
				held += int64(cap(p.w)+cap(p.eight)) * 4
			}
			k := u.chirp
			if u = nil; k != nil {
				held += int64(cap(k.c.re)+cap(k.c.im)+cap(k.freqs.re)+cap(k.freqs.im)) * 4
				u = k.inner
			}
		}
		if held > bytes || d.t.chirp == nil && held < bytes*9/10 {
			t.Errorf("%d: tables of %d bytes, said were %d", c.n, held, bytes)
		}
		in, terms := 2, c.n
		if c.real {
			in, terms = 1, c.n/2+1
		}
		rows := func(stop Stop) *Rows {
			return &Rows{Dst: make([]float32, 2*terms), Src: make([]float32, in*c.n), DstStride: 2 * terms,
				SrcStride: in * c.n, Count: 1, Terms: terms, Have: c.n, Stop: stop}
		}
		tmp := make([]float32, d.Scratch())
		d.Forward(rows(looked()), tmp)
		if looks < 3 {
			t.Errorf("%d: %d looks in a transform", c.n, looks)
		}
		r := rows(stopAt(0))
		r.Src[1] = 1
		if d.Forward(r, tmp); r.Dst[len(r.Dst)-4] != 0 {
			t.Errorf("%d: computed, though stopped", c.n)
		}
	}
}
