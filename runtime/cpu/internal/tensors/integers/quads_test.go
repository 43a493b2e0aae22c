package integers

import (
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/runtime/cpu/kernel"
)

func TestByteDifferences(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 300)
	for i := range data {
		data[i] = byte(r.IntN(256))
	}
	for _, signed := range []bool{false, true} {
		for _, zero := range []int{-128, -3, 0, 1, 127, 128, 255} {
			for _, n := range []int{0, 1, 2, 9, 100} {
				b := byteTensor{kernel.Bytes{Data: data, Signed: signed}}
				row, from := make([]int8, n), r.IntN(200)
				more, less, ok := b.differences(row, from, zero)
				wantMore, wantLess, fits := 0, 0, true
				for i := range n {
					v := b.at(from+i) - zero
					fits = fits && v == int(int8(v))
					wantMore, wantLess = wantMore+max(v, 0), wantLess-min(v, 0)
					if row[i] != int8(v) {
						t.Fatalf("signed %v, zero %d: element %d is %d, expected %d", signed, zero, i, row[i], v)
					}
				}
				if more != wantMore || less != wantLess || ok != fits {
					t.Errorf("signed %v, zero %d, %d elements: %d %d %v, expected %d %d %v", signed, zero, n, more, less, ok, wantMore,
						wantLess, fits)
				}
			}
		}
	}
}
