package kernel

import (
	"math"
	"testing"
)

func TestWinograd(t *testing.T) { eachVariant(t, testWinograd) }

// testWinograd computes rows of tiles of a convolution, and compares them with sums.
func testWinograd(t *testing.T) {
	r := newRand()
	for tiles := range 20 {
		width, n := WinogradWidth(WinogradOut*WinogradWidth(tiles)+2), WinogradWidth(tiles)
		x, w := random(r, WinogradIn*width+1), random(r, 9)
		keep := x[WinogradIn*width]
		var filter [WinogradProducts]float32
		WinogradFilter(&filter, w)
		columns := make([]float32, WinogradIn*width)
		WinogradColumns(columns, width, x, width, width)
		factors := random(r, WinogradProducts*n+1)
		last := factors[WinogradProducts*n]
		WinogradTiles(factors, n, columns, width, tiles, WinogradIn)
		if factors[WinogradProducts*n] != last || x[WinogradIn*width] != keep {
			t.Fatalf("%d tiles: wrote behind the end", tiles)
		}
		for i, f := range filter {
			for j := range n {
				factors[i*n+j] *= f
			}
		}
		sums := make([]float32, WinogradOut*WinogradIn*n)
		WinogradColumnSums(sums, WinogradIn*n, factors, WinogradIn*n, WinogradIn*n)
		y := random(r, WinogradOut*WinogradOut*n+1)
		last = y[WinogradOut*WinogradOut*n]
		WinogradTileSums(y, WinogradOut*n, sums, n, tiles, WinogradOut, 0.5)
		if y[WinogradOut*WinogradOut*n] != last {
			t.Fatalf("%d tiles: wrote behind the end", tiles)
		}
		for row := range WinogradOut {
			want := make([]float64, WinogradOut*tiles)
			for col := range want {
				want[col] = 0.5
				for i := range 3 {
					for j := range 3 {
						want[col] += float64(w[3*i+j]) * float64(x[(row+i)*width+col+j])
					}
				}
			}
			near(t, "winograd", y[row*WinogradOut*n:], want, 1e-5)
		}
	}
}

func TestFinite(t *testing.T) { eachVariant(t, testFinite) }

func testFinite(t *testing.T) {
	r := newRand()
	for n := range 40 {
		x := random(r, n+1)
		x[n] = float32(math.NaN())
		if !Finite(x[:n]) {
			t.Fatalf("%d numbers are not finite", n)
		}
		for i := range n {
			keep := x[i]
			for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				if x[i] = float32(v); Finite(x[:n]) {
					t.Fatalf("%d numbers with %g at %d are finite", n, v, i)
				}
			}
			x[i] = math.MaxFloat32
			if !Finite(x[:n]) {
				t.Fatalf("%d numbers with the largest at %d are not finite", n, i)
			}
			x[i] = keep
		}
	}
}

func TestCopyRows(t *testing.T) { eachVariant(t, testCopyRows) }

func testCopyRows(t *testing.T) {
	r := newRand()
	for _, n := range sizes {
		for rows := range 4 {
			ldd, lds := n+r.IntN(3), n+r.IntN(3)
			src, dst := random(r, rows*lds+1), random(r, rows*ldd+1)
			want := make([]float64, len(dst))
			for i, v := range dst {
				want[i] = float64(v)
				if row, col := i/max(1, ldd), i%max(1, ldd); row < rows && col < n {
					want[i] = float64(src[row*lds+col])
				}
			}
			CopyRows(dst, ldd, src, lds, n, rows)
			near(t, "rows", dst, want, 0)
		}
	}
}

func TestPanelsProduct(t *testing.T) { eachVariant(t, testPanelsProduct) }

func testPanelsProduct(t *testing.T) {
	r := newRand()
	for _, k := range []int{0, 1, 5, 33} {
		for _, rows := range []int{0, 1, 6, 12, 29} {
			for n := range 100 {
				ldw, ldy := k+r.IntN(3), n+r.IntN(3)
				w, y, tiles := random(r, rows*ldw+1), random(r, rows*ldy+1), make([]float32, rows*k)
				Tiles(tiles, w, ldw, rows, k)
				want, panels := make([]float64, len(y)), random(r, PanelsSpan(n)*k)
				for i, v := range y {
					want[i] = float64(v)
				}
				for c := range n {
					first := c / PanelsWidth() * PanelsWidth()
					width := min(PanelsWidth(), PanelsSpan(n)-first)
					for i := range rows {
						s := 0.0
						for p := range k {
							s += float64(w[i*ldw+p]) * float64(panels[first*k+p*width+c-first])
						}
						want[i*ldy+c] = s
					}
				}
				PanelsProduct(y, ldy, tiles, rows, k, panels, n)
				near(t, "products", y, want, 1e-4)
			}
		}
	}
}
