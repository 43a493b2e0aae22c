package recurrence

import (
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

// convolver has the lengths and the transform of a convolution over whole sequences, for one sequence or for several
// adjacent features.
type convolver struct {
	info   *record.RecurrenceInfo
	length int // steps of the sequence
	past   int // inputs before the first step
	taps   int // of the kernel
	fft    *kernel.FFT
	beside *kernel.Convolution
	made   bool // the transform's tables
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

// setupBeside is setup, for a transform of several features if fft is set.
func (v *convolver) setupBeside(info *record.RecurrenceInfo, length int, history, fft bool) {
	v.setup(info, length, history, false)
	if fft {
		v.beside = kernel.NewConvolution(v.past+length+v.taps, info.N)
	}
}

// Finishes is false: a scan computes the state after the last step.
func (v *convolver) Finishes() bool { return false }

// tables returns the size of the transform's tables, in bytes.
func (v *convolver) tables() int64 {
	if v.fft == nil {
		return 0
	}
	return v.fft.Bytes()
}

// fillTables computes the transform's tables. It returns false if there is no transform, or if the run was stopped.
func (v *convolver) fillTables(w *record.Workspace) bool {
	if v.fft != nil && !v.made {
		v.made = v.fft.Prepare(w.Halted)
	}
	return v.made
}

// spectrum sets dst to the transform of a kernel: forward in time, mirrored, or both, by the direction.
func (v *convolver) spectrum(dst, k, tmp []float32, w *record.Workspace) {
	v.fft.ForwardRing(dst, k[:v.taps], v.info.Direction != essm.Backward, v.info.Direction != essm.Forward, tmp,
		w.Halted)
}

// inverse adds the sequence of a spectrum to y, without the part for inputs before the first step.
func (v *convolver) inverse(y, spec, tmp []float32, w *record.Workspace) {
	v.fft.Inverse(y, spec, v.past, true, tmp, w.Halted)
}

// direct adds to y the convolution of a kernel with col, which holds the past and the sequence. rev is scratch of taps
// numbers.
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

// correlate is kernel.Correlate in pieces of some tenths of a millisecond. It returns early when the run is stopped.
func correlate(s *record.Sequence, y, v, k []float32, lag int) {
	piece := max(1, (1<<19)/max(1, len(k)))
	for lo := 0; lo < len(y) && !s.Stopped(); lo += piece {
		kernel.Correlate(y[lo:min(lo+piece, len(y))], v, k, lag+lo)
	}
}
