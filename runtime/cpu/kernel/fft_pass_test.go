package kernel

import (
	"math"
	"testing"
)

// TestFFTPass checks passes of each radix against the portable one, at counts around whole vectors; a number that is none
// reaches its own butterfly and no other.
func TestFFTPass(t *testing.T) { eachVariant(t, testFFTPass) }

func testFFTPass(t *testing.T) {
	r := newRand()
	for _, radix := range []int{2, 3, 4, 5, 7, 8, 11, 13} {
		for _, m := range []int{1, 2, 3, 8, 9, 15, 16} {
			for _, s := range []int{1, 5, 8, 9, 15, 16, 20, 33} {
				n := radix * m * s
				p := fftPass{radix: radix, m: m, s: s, w: random(r, 2*(radix-1)*m)}
				if radix == 8 && s == 1 && m >= 8 {
					p.eight = byEight(p.w, m, nil)
				}
				for _, odd := range []float32{0, float32(math.NaN()), float32(math.Inf(1))} {
					src := parts{random(r, n), random(r, n)}
					j, q := m/2, s-1
					if odd != 0 {
						src.re[s*(j+m*(radix-1))+q] = odd
					}
					want := parts{make([]float32, n), make([]float32, n)}
					chosen := variant
					use(Generic)
					p.run(want, src, 1, nil)
					use(chosen)
					reAll, re := guarded(n)
					imAll, im := guarded(n)
					p.run(parts{re, im}, src, 1, nil)
					checkGuards(t, "real parts", reAll)
					checkGuards(t, "imaginary parts", imAll)
					for i := range n {
						own := i%s == q && i/s/radix == j
						for part, got := range [2]float32{re[i], im[i]} {
							w := [2]float32{want.re[i], want.im[i]}[part]
							finite := got-got == 0
							if finite != (w-w == 0) || !finite && (odd == 0 || !own) {
								t.Fatalf("radix %d, m %d, s %d with %g: number %d is %g, expected %g; its butterfly's own: %v", radix, m, s, odd, i, got, w, own)
							}
							if finite && !(math.Abs(float64(got-w)) <= 2e-6*float64(radix)) {
								t.Fatalf("radix %d, m %d, s %d: number %d is %g, expected %g", radix, m, s, i, got, w)
							}
						}
					}
				}
			}
		}
	}
}

// A row with a number that is none does not reach the rows beside it, and fills its own.
func TestDFTNotANumber(t *testing.T) { eachVariant(t, testDFTNotANumber) }

func testDFTNotANumber(t *testing.T) {
	const rows, bad = 17, 3
	for _, n := range []int{5, 16, 37, 60, 128, 1000, 1024} {
		for _, real := range []bool{false, true} {
			d := NewDFT(n, real)
			d.Prepare(nil)
			width := 2 * n
			if real {
				width = n
			}
			r := &Rows{Src: random(newRand(), rows*width), SrcStride: width, Dst: make([]float32, rows*2*n),
				DstStride: 2 * n, Count: rows, Terms: n, Have: n}
			r.Src[bad*width+n/2] = float32(math.NaN())
			d.Forward(r, make([]float32, d.Scratch()))
			for i := range rows {
				nans := 0
				for _, v := range r.Dst[i*2*n : (i+1)*2*n] {
					if v != v {
						nans++
					}
				}
				if i == bad && nans < n || i != bad && nans > 0 {
					t.Fatalf("length %d, real %v: row %d has %d numbers that are none", n, real, i, nans)
				}
			}
		}
	}
}

func TestDFTCache(t *testing.T) {
	if first, again := DFTOf(60, true), DFTOf(60, true); first != again || first == DFTOf(60, false) {
		t.Error("a plan that is there is made again, or one for complex numbers stands for real ones")
	}
	for n := 1; n < 100; n++ {
		DFTOf(n, false)
	}
	if d := DFTOf(cachedPoints/4+4, false); cached(d.n, false) != nil {
		t.Error("the cache holds a plan that is larger than it should")
	}
	points := 0
	for _, d := range dfts.plans {
		points += d.n
	}
	if len(dfts.plans) > cachedPlans || points != dfts.points || points > cachedPoints {
		t.Errorf("the cache holds %d plans of %d points, and counts %d", len(dfts.plans), points, dfts.points)
	}
}
