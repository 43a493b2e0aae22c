//go:build amd64 && !purego

package kernel

import "golang.org/x/sys/cpu"

// int8Bytes says that activations are bytes with int8Offset added, for products on AVX512_VNNI, and not numbers of 16 bits. Sums
// are the same everywhere, so this is no variant.
func int8Bytes() bool { return avx512() && cpu.X86.HasAVX512VNNI }

// int8Panel gives the rows and columns of W that lie side by side in a panel.
func int8Panel() (panel, side int) {
	switch {
	case int8Bytes():
		return widePanel512, 4
	case wide():
		return widePanel, 2
	}
	return 1, 1
}

// gemmInt8Wide is GemmInt8 for panels. K, M and rows are positive.
func gemmInt8Wide(y []float32, ldy int, x []float32, ldx int, rows int, w *Int8, bias []float32) {
	_ = x[(rows-1)*ldx+Int8Words(w.K)-1] // what the kernels read and write, checked here
	_ = y[(rows-1)*ldy+w.M-1]
	for i := 0; i < w.M; i += w.panel {
		n, panel := min(w.panel, w.M-i), &w.data[i*w.groups*4]
		add := zeros[:n]
		if bias != nil {
			add = bias[i : i+n]
		}
		switch {
		case w.init != nil:
			int8VNNI(rows, w.groups, &x[0], ldx, panel, &w.init[i], &w.scale[i], &add[0], &y[i], ldy, n)
		case n == w.panel:
			int8AVX2(rows, 2*w.groups, &x[0], ldx, panel, &w.scale[i], &add[0], &y[i], ldy)
		default: // AVX2 writes whole panels
			var b [widePanel]float32
			copy(b[:], add)
			for r := 0; r < rows; r += widestRows {
				var t [widestRows * widePanel]float32
				h := min(widestRows, rows-r)
				int8AVX2(h, 2*w.groups, &x[r*ldx], ldx, panel, &w.scale[i], &b[0], &t[0], widePanel)
				for q := range h {
					copy(y[(r+q)*ldy+i:(r+q)*ldy+i+n], t[q*widePanel:])
				}
			}
		}
	}
}

// The functions below do as much of their work as whole vectors can, and say how much that is.

// quantizeWide is QuantizeInt8 up to the first vector that it leaves to quantizeInt8; it gives how many come before that.
func quantizeWide(dst, x []float32, n, k int) int {
	if n == 0 || k == 0 || k%16 != 0 || !wide() {
		return 0
	}
	_, _ = dst[n*Int8Words(k)-1], x[n*k-1]
	if int8Bytes() {
		return quantizeUint8AVX2(n, k, &dst[0], &x[0])
	}
	return quantizeInt16AVX2(n, k, &dst[0], &x[0])
}

func largestWide(x []float32) (done int, most uint32) {
	n := len(x) &^ 15
	if n == 0 || !wide() {
		return 0, 0
	}
	return n, largestAVX2(n, &x[0])
}

func roundInt16Wide(y []int16, x []float32, f float32) int {
	n := len(x) &^ 15
	if n == 0 || !wide() {
		return 0
	}
	_ = y[n-1]
	roundInt16AVX2(n, &y[0], &x[0], f)
	return n
}

func roundUint8Wide(y []uint8, x []float32, f float32) int {
	n := len(x) &^ 15
	if n == 0 {
		return 0
	}
	_ = y[n-1]
	roundUint8AVX2(n, &y[0], &x[0], f)
	return n
}
