package convolution

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/essmc/essmc/passes"
)

// TestLeastStates checks that the bound never exceeds the states of a kernel, and that it detects kernels that are
// not sums.
func TestLeastStates(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, length := range []int{24, 100, 512, 2000} {
		for _, n := range []int{1, 7, 40} {
			k := make([]float64, length)
			for range n {
				decay, turn, amp := r.Float64()/20, r.Float64()*3, r.NormFloat64()
				for j := range k {
					k[j] += amp * math.Exp(-decay*float64(j)) * math.Cos(turn*float64(j))
				}
			}
			for j := range k {
				k[j] = float64(float32(k[j]))
			}
			work := tally{ctx: context.Background(), left: fitWork}
			if got := leastStates(k, &work); got > 2*n || n < length/4 && got < 1 {
				t.Errorf("%d taps of %d pairs: at least %d states", length, n, got)
			}
		}
	}
	taps := make([][]float64, 32)
	for c := range taps {
		taps[c] = make([]float64, 512)
		for j := range taps[c] {
			taps[c][j] = r.NormFloat64() * math.Exp(-float64(j)/60)
		}
	}
	f := fitting{run: &passes.Context{}, taps: taps, left: workOfPencilLong}
	if c := f.lost(); c != 0 {
		t.Errorf("channel %d is lost, expected 0", c)
	}
	if spent := workOfPencilLong - f.left; spent > workOfPencilLong/8 {
		t.Errorf("%d operations, expected far fewer than one decomposition takes, %d", spent, workOfPencilLong)
	}
	if _, _, why := fitAll(&passes.Context{}, taps, nil, false); !strings.Contains(why, "independent states") {
		t.Errorf("the reason is %q", why)
	}
}

// workOfPencilLong is the work of one decomposition for 512 taps.
const workOfPencilLong = 25 * 256 * 256 * 256
