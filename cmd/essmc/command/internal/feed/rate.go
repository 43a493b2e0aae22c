package feed

import (
	"math"
	"strconv"
	"strings"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/ir"
)

// SamplingRate returns the sampling rate of the input in Hz from the metadata of a model. It returns 0 if there is
// none.
func SamplingRate(meta map[string]string) float64 {
	rate, err := strconv.ParseFloat(meta[ir.MetaSamplingRate], 64)
	if err != nil || !(rate > 0) || math.IsInf(rate, 0) {
		return 0
	}
	if r, err := strconv.ParseFloat(meta[ir.MetaRate], 64); err == nil && r > 0 {
		rate /= r
	}
	return rate
}

// sameRate reports whether two sampling rates are equal up to the rounding of a resampling factor.
func sameRate(a, b float64) bool { return math.Abs(a-b) <= 1e-3*b }

// Recording returns the first .wav file in specs, with its sampling rate in Hz. The rate is 0 if there is none.
func Recording(specs []string) (file string, rate int) {
	for _, s := range specs {
		_, after, _ := strings.Cut(s, "=")
		for _, file := range []string{s, after} {
			if kindOf(file) != wav {
				continue
			}
			if rate, err := arrays.WavRate(file); err == nil { // errors are reported when the file is read
				return file, rate
			}
		}
	}
	return "", 0
}
