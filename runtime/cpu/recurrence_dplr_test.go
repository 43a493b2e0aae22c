package cpu

import (
	"testing"

	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
)

// TestDPLRForm checks that a long sequence is convolved, too, where its state is given but nobody reads the last one.
func TestDPLRForm(t *testing.T) {
	info := record.RecurrenceInfo{N: 128, States: 32, Rank: 1, Direction: essm.Forward, PerHead: 1, VIm: -1, XIm: -1, StateOut: -1,
		Beside: true}
	for _, length := range []int{1024, 4096} {
		p := problem{&info, DefaultCosts(), 1, length, 64}
		if fft, scan := p.estimate(essm.FormFFT).Time, p.estimate(essm.FormScan).Time; fft >= scan {
			t.Errorf("%d steps: fft is estimated at %v, scan at %v", length, fft, scan)
		}
	}
}
