package audio

import (
	"fmt"
	"math"
)

// MaxRate is the highest sampling rate, in Hz.
const MaxRate = 1 << 24

// Constants of the filter: zero crossings on each side, and where it cuts off, relative to the lower of the two rates.
const (
	crossings = 6
	rolloff   = 0.99
	maxTable  = 1 << 18 // numbers of a table; filters that need more are computed for each output
)

// Resampler changes the sampling rate of a signal, as torchaudio.functional.resample does by default: a sinc filter
// with a Hann window. With o and n the rates divided by their greatest common divisor, and b = 0.99·min(o, n), output j
// is
//
//	y[j] = Σ_i x[i]·(b/o)·h(b·(i/o - j/n)),  h(t) = cos²(πt/12)·sin(πt)/(πt) for |t| < 6, 0 elsewhere, h(0) = 1
//
// with x[i] = 0 outside of the signal. It is immutable.
type Resampler struct {
	from, to int // o and n
	width    int // inputs before and after the time of an output that may count
	table    []float64
}

// NewResampler returns a resampler between two rates in Hz.
func NewResampler(from, to int) (*Resampler, error) {
	if from < 1 || to < 1 || from > MaxRate || to > MaxRate {
		return nil, fmt.Errorf("sampling rates: expected 1 to %d Hz, found %d and %d", MaxRate, from, to)
	}
	d := gcd(from, to)
	r := &Resampler{from: from / d, to: to / d}
	r.width = int(math.Ceil(crossings * float64(r.from) / (rolloff * float64(min(r.from, r.to)))))
	if taps := int64(2*r.width + 1); taps*int64(r.to) <= maxTable {
		r.table = make([]float64, 0, taps*int64(r.to))
		for phase := range r.to {
			first := r.first(phase)
			for k := range int(taps) {
				r.table = append(r.table, r.weight(first+k, phase))
			}
		}
	}
	return r, nil
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// first returns the first input that may count for an output below n.
func (r *Resampler) first(phase int) int {
	return int(int64(phase)*int64(r.from)/int64(r.to)) - r.width
}

// weight returns the weight of input i in an output below n.
func (r *Resampler) weight(i, phase int) float64 {
	base := rolloff * float64(min(r.from, r.to))
	t := (float64(i)/float64(r.from) - float64(phase)/float64(r.to)) * base
	if math.Abs(t) >= crossings {
		return 0
	}
	h := 1.0
	if t != 0 {
		h = math.Sin(math.Pi*t) / (math.Pi * t)
	}
	c := math.Cos(math.Pi * t / (2 * crossings))
	return h * c * c * base / float64(r.from)
}

// Len returns the number of outputs for n inputs: n·to/from, rounded up.
func (r *Resampler) Len(n int) int {
	return int((int64(n)*int64(r.to) + int64(r.from) - 1) / int64(r.from))
}

// Apply returns the first outputs for a signal, at most limit.
func (r *Resampler) Apply(x []float32, limit int) []float32 {
	n := min(r.Len(len(x)), limit)
	if r.from == r.to {
		return x[:n:n]
	}
	y, taps := make([]float32, n), 2*r.width+1
	for j := range y {
		block, phase := j/r.to, j%r.to
		offset := block * r.from
		first := r.first(phase)
		sum := 0.0
		for k := max(0, -first-offset); k < taps; k++ {
			i := first + k
			if i+offset >= len(x) {
				break
			}
			w := 0.0
			if r.table != nil {
				w = r.table[phase*taps+k]
			} else {
				w = r.weight(i, phase)
			}
			sum += float64(w * float64(x[i+offset]))
		}
		y[j] = float32(sum)
	}
	return y
}
