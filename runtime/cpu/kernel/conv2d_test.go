package kernel

import (
	"math"
	"testing"
)

func TestPanel(t *testing.T) { eachVariant(t, testPanel) }

func testPanel(t *testing.T) {
	r := newRand()
	for _, k := range sizes {
		src := random(r, 400)
		src[7], src[8] = float32(math.NaN()), float32(math.Inf(-1))
		off := make([]int32, k)
		for i := range off {
			off[i] = int32(r.IntN(300))
		}
		for _, run := range []int{PanelWidth, 4, 1} {
			contiguous := run == PanelWidth
			var index [PanelWidth]int32
			for j := range index {
				index[j] = int32(3 + j)
				if !contiguous {
					index[j] = int32(r.IntN(95))
				}
				if j%run > 0 {
					index[j] = index[j-1] + 1
				}
			}
			all := random(r, k*PanelWidth+3) // three numbers behind it stay
			want := append([]float32(nil), all...)
			for i, o := range off {
				for j, x := range index {
					want[i*PanelWidth+j] = src[o+x]
				}
			}
			Panel(all[:k*PanelWidth], src, NewOffsets(off), &index, contiguous)
			for i, w := range want {
				if all[i] != w && (w == w || all[i] == all[i]) {
					t.Fatalf("k %d, contiguous %v: number %d is %g, expected %g", k, contiguous, i, all[i], w)
				}
			}
		}
	}
}

func TestRunPanel(t *testing.T) { eachVariant(t, testRunPanel) }

func testRunPanel(t *testing.T) {
	r := newRand()
	for _, k := range sizes {
		for _, ld := range []int{PanelWidth, 2 * PanelWidth} {
			src := random(r, 330)
			src[7], src[8] = float32(math.NaN()), float32(math.Inf(-1))
			off := make([]int32, k)
			for i := range off {
				off[i] = int32(r.IntN(200))
			}
			var runs []Run
			for at := 0; at < ld; {
				n := min(1+r.IntN(PanelWidth), ld-at)
				runs = append(runs, Run{From: int32(r.IntN(130 - n)), At: int32(at), N: int32(n)})
				at += n
			}
			for _, slack := range []int{0, 3, PanelWidth} {
				dst := make([]float32, k*ld+slack)
				RunPanel(dst, ld, src, NewOffsets(off), runs)
				for i, o := range off {
					for _, run := range runs {
						for j := range int(run.N) {
							if got, w := dst[i*ld+int(run.At)+j], src[int(o+run.From)+j]; got != w && (w == w || got == got) {
								t.Fatalf("weight %d, position %d: %g, expected %g", i, int(run.At)+j, got, w)
							}
						}
					}
				}
			}
		}
	}
}

func TestPanelProduct(t *testing.T) { eachVariant(t, testPanelProduct) }

func testPanelProduct(t *testing.T) {
	r := newRand()
	for _, k := range sizes {
		for _, rows := range []int{0, 1, 2, 5, 6, 7, 13} {
			for _, n := range []int{1, 7, PanelWidth} {
				ldw, ldy := k+r.IntN(3), n+r.IntN(3)
				w, panel, y := random(r, rows*ldw+1), random(r, k*PanelWidth), random(r, rows*ldy+1)
				want := make([]float64, len(y))
				for i, v := range y {
					want[i] = float64(v)
				}
				for i := range rows {
					for j := range n {
						s := 0.0
						for p := range k {
							s += float64(w[i*ldw+p]) * float64(panel[p*PanelWidth+j])
						}
						want[i*ldy+j] = s
					}
				}
				PanelProduct(y, ldy, w, ldw, rows, k, panel, n)
				near(t, "product", y, want, 1e-4)
			}
		}
	}
}

func TestShiftedProduct(t *testing.T) { eachVariant(t, testShiftedProduct) }

func testShiftedProduct(t *testing.T) {
	r := newRand()
	for _, k := range sizes {
		for _, rows := range []int{0, 1, 2, 5, 6, 7, 12, 13, 25} {
			for _, n := range []int{1, 7, 16, 17, 31, 32, 40, 97} {
				bias := r.IntN(2) == 0
				width, ldy := k, n+r.IntN(3)
				if bias {
					width++
				}
				off := make([]int32, k)
				for i := range off {
					off[i] = int32(r.IntN(200))
				}
				o := NewOffsets(off)
				src := random(r, o.hi+PanelsSpan(n))
				w, y := random(r, rows*width), random(r, rows*ldy+1)
				want := make([]float64, len(y))
				for i, v := range y {
					want[i] = float64(v)
				}
				for i := range rows {
					for j := range n {
						s := 0.0
						for p := range k {
							s += float64(w[i*width+p]) * float64(src[int(off[p])+j])
						}
						if bias {
							s += float64(w[i*width+k])
						}
						want[i*ldy+j] = s
					}
				}
				tiles := make([]float32, len(w))
				Tiles(tiles, w, width, rows, width)
				ShiftedProduct(y, ldy, tiles, rows, bias, src, o, n)
				near(t, "product", y, want, 1e-4)
			}
		}
	}
}

func TestTaps(t *testing.T) { eachVariant(t, testTaps) }

func testTaps(t *testing.T) {
	r := newRand()
	for n := range 75 {
		for _, taps := range []int{0, 1, 2, 9} {
			off := make([]int32, taps)
			far := 0
			for i := range off {
				off[i] = int32(r.IntN(50))
				far = max(far, int(off[i]))
			}
			x, w, all := random(r, n+far), random(r, taps), random(r, n+2)
			want := make([]float64, n+2)
			for i := range want {
				want[i] = float64(all[i])
				if i < n {
					want[i] = 0.5
					for k, o := range off {
						want[i] += float64(w[k]) * float64(x[i+int(o)])
					}
				}
			}
			Taps(all[:n], x, NewOffsets(off), w, 0.5)
			near(t, "taps", all, want, 1e-5)
		}
	}
}

func TestDepthwise(t *testing.T) { eachVariant(t, testDepthwise) }

func testDepthwise(t *testing.T) {
	r := newRand()
	for f := range 75 {
		for _, taps := range []int{0, 1, 3, 4} {
			for _, rows := range []int{0, 1, 5} {
				off := make([]int32, taps)
				for i := range off {
					off[i] = int32(r.IntN(4) * f)
				}
				x, w, bias, all := random(r, (rows+3)*f+1)[1:], random(r, taps*f), random(r, f), random(r, rows*f+2)
				if f > 9 && rows > 1 {
					x[5], x[f+7] = float32(math.NaN()), float32(math.Inf(1))
				}
				if f%3 == 0 {
					bias = nil
				}
				want := make([]float64, len(all))
				for i := range want {
					want[i] = float64(all[i])
					if i < rows*f {
						want[i] = 0
						if bias != nil {
							want[i] = float64(bias[i%f])
						}
						for k, o := range off {
							want[i] += float64(w[k*f+i%f]) * float64(x[i+int(o)])
						}
					}
				}
				Depthwise(all[:rows*f], x, rows, f, NewOffsets(off), w, bias)
				near(t, "depthwise", all, want, 1e-5)
			}
		}
	}
}

func TestPartAndWeave(t *testing.T) { eachVariant(t, testPartAndWeave) }

func testPartAndWeave(t *testing.T) {
	r := newRand()
	for _, n := range sizes {
		all := random(r, 2*n+3)
		if n > 2 {
			all[2], all[5] = float32(math.NaN()), float32(math.Inf(1))
		}
		x := all[1 : 2*n+1]
		even, odd := random(r, n+1), random(r, n+1) // a number behind each stays
		keep := [2]float32{even[n], odd[n]}
		Part(even[:n], odd[:n], x)
		if keep != [2]float32{even[n], odd[n]} {
			t.Fatalf("n %d: wrote behind the end", n)
		}
		same := func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }
		for i := range n {
			if !same(even[i], x[2*i]) || !same(odd[i], x[2*i+1]) {
				t.Fatalf("n %d: pair %d is %g, %g, expected %g, %g", n, i, even[i], odd[i], x[2*i], x[2*i+1])
			}
		}
		back := random(r, 2*n+1)
		last := back[2*n]
		Weave(back[:2*n], even[:n], odd[:n])
		if back[2*n] != last {
			t.Fatalf("n %d: wrote behind the end", n)
		}
		for i, v := range x {
			if !same(back[i], v) {
				t.Fatalf("n %d: number %d is %g, expected %g", n, i, back[i], v)
			}
		}
	}
}
