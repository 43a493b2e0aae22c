package recurrence

import (
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

// convolver is what convolutions over whole sequences share: how long they are, and the transform.
type convolver struct {
	info   *record.RecurrenceInfo
	length int // steps of the sequence
	past   int // inputs before the first step
	taps   int // of the kernel
	fft    *kernel.FFT
}

func (v *convolver) setup(info *record.RecurrenceInfo, length int, history, fft bool) {
	v.info, v.length = info, length
	if history {
		v.past = info.Window
	}
	v.taps = length + v.past
	if info.Window > 0 {
		v.taps = min(v.taps, info.Window)
	}
	if info.Stateless {
		v.taps = min(v.taps, info.Taps)
	}
	if fft {
		v.fft = kernel.NewFFT(v.past + length + v.taps)
	}
}

// tables is the memory of the transform's own tables.
func (v *convolver) tables() int64 {
	if v.fft == nil {
		return 0
	}
	return v.fft.Bytes()
}

// fillTables makes them; false where there are none, and when the run was stopped.
func (v *convolver) fillTables(w *record.Workspace) bool {
	return v.fft != nil && v.fft.Prepare(w.Halted)
}

// spectrum is the transform of a kernel, with its mirror for what follows a step.
func (v *convolver) spectrum(dst, k, tmp []float32, w *record.Workspace) {
	v.fft.ForwardRing(dst, k[:v.taps], v.info.Direction != essm.Backward, v.info.Direction != essm.Forward, tmp, w.Halted)
}

// inverse adds the sequence of a spectrum to y; the inputs before the first step come first in it.
func (v *convolver) inverse(y, spec, tmp []float32, w *record.Workspace) {
	v.fft.Inverse(y, spec, v.past, true, tmp, w.Halted)
}

// direct adds the convolution of col, the past and the sequence s, with a kernel to y; rev is scratch of taps numbers.
func (v *convolver) direct(s *record.Sequence, y, col, k, rev []float32) {
	k = k[:v.taps]
	if v.info.Direction != essm.Backward {
		rev = rev[:v.taps]
		for j, x := range k {
			rev[v.taps-1-j] = x
		}
		correlate(s, y, col, rev, v.past-(v.taps-1))
	}
	if v.info.Direction != essm.Forward {
		correlate(s, y, col, k, 1)
	}
}

// correlate is kernel.Correlate in pieces of some tenths of a millisecond; it gives up when the run has stopped.
func correlate(s *record.Sequence, y, v, k []float32, lag int) {
	piece := max(1, (1<<19)/max(1, len(k)))
	for lo := 0; lo < len(y) && !s.Stopped(); lo += piece {
		kernel.Correlate(y[lo:min(lo+piece, len(y))], v, k, lag+lo)
	}
}
