package kernel

import (
	"math"
	"testing"
)

func TestDepth(t *testing.T) { eachVariant(t, testDepth) }

func testDepth(t *testing.T) {
	r := newRand()
	for _, size := range []int{2, 3, 5, 7} {
		for stride := 1; stride <= 2; stride++ {
			for range 400 {
				widest := 70
				if r.IntN(2) == 0 {
					widest = 9 // some rows in one vector
				}
				d := Depth{H: 1 + r.IntN(20), W: 1 + r.IntN(widest), Top: r.IntN(size), Left: r.IntN(size), Size: size, Stride: stride}
				d.Oh = (d.H+d.Top+r.IntN(size)-size)/stride + 1
				d.Ow = (d.W+d.Left+r.IntN(size)-size)/stride + 1
				p := NewDepth(d)
				if p == nil {
					continue
				}
				x, w, all := random(r, d.H*d.W), random(r, size*size), random(r, d.Oh*d.Ow+20)
				want := make([]float64, len(all))
				for i := range want {
					if want[i] = float64(all[i]); i >= d.Oh*d.Ow {
						continue
					}
					want[i] = 0.5
					for k, v := range w {
						row, col := i/d.Ow*stride+k/size-d.Top, i%d.Ow*stride+k%size-d.Left
						if row >= 0 && row < d.H && col >= 0 && col < d.W {
							want[i] += float64(v) * float64(x[row*d.W+col])
						}
					}
				}
				p.Run(all, x, w, 0.5)
				near(t, "depth", all, want, 2e-5)
				testLargest(t, p, x, all)
			}
		}
	}
}

// testLargest compares the largest numbers of windows of x, some of them infinite or NaN, in y and the numbers behind.
func testLargest(t *testing.T, d *Depth, x, y []float32) {
	t.Helper()
	compareLargest(t, d, x, y)
	for i := range x {
		switch {
		case i%61 == 60:
			x[i] = float32(math.NaN())
		case i%17 == 16:
			x[i] = float32(math.Inf(i%2*2 - 1))
		}
	}
	compareLargest(t, d, x, y)
	for i := range x {
		x[i] = float32(math.Inf(-1))
	}
	compareLargest(t, d, x, y)
}

func compareLargest(t *testing.T, d *Depth, x, y []float32) {
	t.Helper()
	want := append([]float32(nil), y...)
	for i := range d.Oh * d.Ow {
		want[i] = float32(math.Inf(-1))
		for k := range d.Size * d.Size {
			row, col := i/d.Ow*d.Stride+k/d.Size-d.Top, i%d.Ow*d.Stride+k%d.Size-d.Left
			if row >= 0 && row < d.H && col >= 0 && col < d.W {
				want[i] = max(want[i], x[row*d.W+col])
			}
		}
	}
	d.Largest(y, x)
	for i, v := range want {
		if y[i] != v && (y[i] == y[i] || v == v) {
			t.Fatalf("%+v: largest %d: expected %v, found %v", *d, i, v, y[i])
		}
	}
}
