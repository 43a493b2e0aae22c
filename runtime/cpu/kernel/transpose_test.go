package kernel

import (
	"fmt"
	"math"
	"testing"
)

func TestTranspose(t *testing.T) { eachVariant(t, testTranspose) }

func testTranspose(t *testing.T) {
	r := newRand()
	for _, rows := range sizes {
		for _, cols := range sizes {
			ldx, ldy, off := cols+r.IntN(3), rows+r.IntN(3), r.IntN(8)
			x, y := random(r, off+max(0, rows-1)*ldx+cols)[off:], make([]float32, off+cols*ldy+9)
			for i := range y {
				y[i] = guard
			}
			if cols > 2 {
				x[1], x[2] = float32(math.NaN()), float32(math.Inf(-1))
			}
			want := make([]float32, len(y))
			copy(want, y)
			for i := range rows {
				for j := range cols {
					want[off+j*ldy+i] = x[i*ldx+j]
				}
			}
			Transpose(y[off:], ldy, x, ldx, rows, cols)
			for i := range want {
				if math.Float32bits(y[i]) != math.Float32bits(want[i]) {
					t.Fatalf("%d × %d: element %d is %g, expected %g", rows, cols, i-off, y[i], want[i])
				}
			}
		}
	}
}

func BenchmarkTranspose(b *testing.B) {
	for _, s := range [][2]int{{16, 4096}, {4096, 16}, {512, 512}} {
		b.Run(fmt.Sprintf("%dx%d", s[0], s[1]), func(b *testing.B) {
			x, y := random(newRand(), s[0]*s[1]), make([]float32, s[0]*s[1])
			b.SetBytes(int64(8 * len(x)))
			for b.Loop() {
				Transpose(y, s[0], x, s[1], s[0], s[1])
			}
		})
	}
}
