package audio

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ops/fft"
)

// MFCCOptions are the settings of MFCC, named as in torchaudio, with its defaults in place of zeros.
type MFCCOptions struct {
	SampleRate int     // in Hz; 0: 16000
	Count      int     // coefficients (n_mfcc); 0: 40
	FFT        int     // length of a transform (n_fft); 0: 400
	Window     int     // length of the window (win_length); 0: FFT
	Hop        int     // samples between two frames (hop_length); 0: Window/2
	Mels       int     // filters (n_mels); 0: 128
	Low, High  float64 // frequencies of the filters in Hz (f_min, f_max); High 0: half of the sampling rate, rounded down
	Log        bool    // logarithms of the filters instead of decibels (log_mels)
}

// Limits of the settings.
const (
	maxFFT  = 1 << 16
	maxMels = 1 << 12
)

// MFCC computes mel-frequency cepstral coefficients, as torchaudio.transforms.MFCC does with its other settings at
// their defaults. It is immutable. With N = FFT, frame f is the samples from f·Hop on of the signal with N/2 samples
// more at each side, which mirror it (x[-i] = x[i]), times a window w[i] = sin²(πi/Window), with zeros at both sides up
// to N:
//
//	P[f,k] = |Σ_i w[i]·x[f·Hop+i]·exp(-2πi·ik/N)|², k = 0 … N/2, at the frequencies k·⌊SampleRate/2⌋/⌊N/2⌋ Hz
//	M[f,m] = Σ_k P[f,k]·max(0, min((k's frequency - c[m])/(c[m+1]-c[m]), (c[m+2] - k's frequency)/(c[m+2]-c[m+1])))
//	L[f,m] = ln(M[f,m] + 1e-6) with Log; otherwise 10·log10(max(M[f,m], 1e-10)), at least its largest value in the signal less 80
//	C[f,q] = Σ_m L[f,m]·cos(πq(m+½)/Mels)·√(2/Mels), times √½ for q = 0
//
// where the Mels+2 frequencies c are equally spaced on the scale 2595·log10(1 + Hz/700), from Low to High.
type MFCC struct {
	MFCCOptions
	plan   *fft.Plan
	window []float64
	bank   [][]float64 // for each filter the weights of the frequencies from low[m] on
	low    []int
	dct    []float64 // (Count, Mels)
}

// NewMFCC returns the tables of some settings.
func NewMFCC(o MFCCOptions) (*MFCC, error) {
	set := func(v *int, to int) {
		if *v == 0 {
			*v = to
		}
	}
	set(&o.SampleRate, 16000)
	set(&o.Count, 40)
	set(&o.FFT, 400)
	set(&o.Window, o.FFT)
	set(&o.Hop, max(o.Window/2, 1))
	set(&o.Mels, 128)
	if o.High == 0 {
		o.High = float64(o.SampleRate / 2)
	}
	switch {
	case o.SampleRate < 2 || o.SampleRate > MaxRate:
		return nil, fmt.Errorf("MFCC: sampling rate: expected 2 to %d Hz, found %d", MaxRate, o.SampleRate)
	case o.FFT < 2 || o.FFT > maxFFT || o.Window < 1 || o.Window > o.FFT || o.Hop < 1:
		return nil, fmt.Errorf("MFCC: expected transforms of 2 to %d samples, a window of at most as many and a hop of at least 1, found %d, %d and %d",
			maxFFT, o.FFT, o.Window, o.Hop)
	case o.Mels < 1 || o.Mels > maxMels || o.Count < 1 || o.Count > o.Mels:
		return nil, fmt.Errorf("MFCC: expected 1 to %d filters and at most as many coefficients, found %d and %d",
			maxMels, o.Mels, o.Count)
	case !(o.Low >= 0 && o.Low < o.High && o.High <= MaxRate):
		return nil, fmt.Errorf("MFCC: frequencies: expected 0 ≤ low < high, found %v and %v", o.Low, o.High)
	}
	m := &MFCC{MFCCOptions: o, plan: fft.New(o.FFT, nil), window: make([]float64, o.FFT)}
	left := (o.FFT - o.Window) / 2
	for i := range o.Window {
		s := math.Sin(math.Pi * float64(i) / float64(o.Window))
		m.window[left+i] = s * s
	}
	m.filters()
	m.dct = make([]float64, o.Count*o.Mels)
	for q := range o.Count {
		scale := math.Sqrt(2 / float64(o.Mels))
		if q == 0 {
			scale *= math.Sqrt(0.5)
		}
		for k := range o.Mels {
			m.dct[q*o.Mels+k] = scale * math.Cos(math.Pi*float64(q)*(float64(k)+0.5)/float64(o.Mels))
		}
	}
	return m, nil
}

// filters makes the triangles of the filter bank.
func (m *MFCC) filters() {
	mel := func(hz float64) float64 { return 2595 * math.Log10(1+hz/700) }
	low, high := mel(m.Low), mel(m.High)
	corner := make([]float64, m.Mels+2)
	for i := range corner {
		at := low + (high-low)*float64(i)/float64(m.Mels+1)
		corner[i] = 700 * (math.Pow(10, at/2595) - 1)
	}
	bins := m.FFT/2 + 1
	for f := range m.Mels {
		from, weights := 0, []float64(nil)
		for k := range bins {
			hz := float64(k) * float64(m.SampleRate/2) / float64(bins-1)
			w := min((hz-corner[f])/(corner[f+1]-corner[f]), (corner[f+2]-hz)/(corner[f+2]-corner[f+1]))
			if w > 0 {
				if len(weights) == 0 {
					from = k
				}
				weights = append(weights, w)
			}
		}
		m.bank, m.low = append(m.bank, weights), append(m.low, from)
	}
}

// Frames returns the number of frames for n samples, which must be more than FFT/2: (n + 2⌊FFT/2⌋ - FFT)/Hop + 1.
func (m *MFCC) Frames(n int) int { return (n+m.FFT/2*2-m.FFT)/m.Hop + 1 }

// Apply returns the coefficients of a signal as (frames, Count).
func (m *MFCC) Apply(x []float32) ([]float32, error) {
	half := m.FFT / 2
	if len(x) <= half {
		return nil, fmt.Errorf("MFCC: expected more than %d samples, found %d", half, len(x))
	}
	frames := m.Frames(len(x))
	mels := make([]float64, frames*m.Mels)
	in, out := make([]float64, m.FFT), make([]complex128, half+1)
	power := make([]float64, half+1)
	top := math.Inf(-1)
	for f := range frames {
		for i := range in {
			t := f*m.Hop + i - half
			if t < 0 {
				t = -t
			} else if t >= len(x) {
				t = 2*(len(x)-1) - t
			}
			in[i] = m.window[i] * float64(x[t])
		}
		m.plan.Real(out, in, nil)
		for k, z := range out {
			power[k] = float64(real(z)*real(z)) + float64(imag(z)*imag(z))
		}
		for k, weights := range m.bank {
			sum := 0.0
			for i, w := range weights {
				sum += float64(w * power[m.low[k]+i])
			}
			if m.Log {
				sum = math.Log(sum + 1e-6)
			} else {
				sum = 10 * math.Log10(max(sum, 1e-10))
			}
			mels[f*m.Mels+k] = sum
			top = max(top, sum)
		}
	}
	if !m.Log {
		for i, v := range mels {
			mels[i] = max(v, top-80)
		}
	}
	c := make([]float32, 0, frames*m.Count)
	for f := range frames {
		for q := range m.Count {
			sum := 0.0
			for k, w := range m.dct[q*m.Mels : (q+1)*m.Mels] {
				sum += float64(w * mels[f*m.Mels+k])
			}
			c = append(c, float32(sum))
		}
	}
	return c, nil
}
