package cpu

import (
	"cmp"
	"fmt"
	"math"
	"strconv"

	"github.com/essmc/essmc/runtime/cpu/kernel"
)

// CostsVersion is the version of the meaning of Costs. It changes when a constant changes its meaning, or when kernels
// become so much faster that older measurements mislead.
const CostsVersion = 2

// Costs are the constants by which the backend estimates the time of forms: times and rates on one core of one
// machine, with one variant of the kernels. They only affect the choice between forms. MeasureCosts measures them.
type Costs struct {
	// Scan is the time of a step of one complex state with real inputs and outputs and without a window, in nanoseconds. If
	// both have imaginary parts, a step takes half as much again; a step of a real state whose coefficients vary, half.
	Scan float64 `json:"scan_ns"`
	// ComplexScan is the time of a step of any other complex state, in nanoseconds.
	ComplexScan float64 `json:"complex_scan_ns"`
	// FFT is the time of a number in a radix-2 pass of a real transform of a single sequence, in nanoseconds.
	FFT float64 `json:"fft_ns"`
	// Pass is the time to write a float32 to memory and to read it again, in nanoseconds.
	Pass float64 `json:"pass_ns"`
	// Call is the time per sequence of the forms fft and direct that does not depend on the length, in nanoseconds.
	Call float64 `json:"call_ns"`
	// Direct is the rate of correlations in float32, in GFLOP/s.
	Direct float64 `json:"direct_gflops"`
	// Output is the time per output of a correlation that does not depend on the number of taps, in nanoseconds.
	Output float64 `json:"output_ns"`
	// Dense is the rate of products of a matrix and a vector in float64, in GFLOP/s.
	Dense float64 `json:"dense_gflops"`
	// Gemm is the rate of products of two matrices in float32, in GFLOP/s. Only selective scans differ in such products
	// between their forms.
	Gemm float64 `json:"gemm_gflops"`
}

// DefaultCosts returns the constants for a machine that has not been measured.
func DefaultCosts() Costs {
	return costs[kernel.Variant()]
}

// costs has constants for each variant. Those of AVX2 serve for AVX-512 as well, so that both choose alike.
var costs = map[string]Costs{
	kernel.Generic: {Scan: 2.7, ComplexScan: 4, FFT: 1.1, Pass: 0.3, Call: 250, Direct: 3.7, Output: 9, Dense: 4.1, Gemm: 8},
	kernel.AVX2:    vectorCosts,
	kernel.AVX512:  vectorCosts,
}

var vectorCosts = Costs{Scan: 0.4, ComplexScan: 4, FFT: 0.16, Pass: 0.25, Call: 250, Direct: 3.7, Output: 9, Dense: 6.2,
	Gemm: 93}

// Check returns an error that names the first constant out of its range.
func (c Costs) Check() error {
	for _, f := range c.fields() {
		if !(*f.value >= f.low && *f.value <= f.high) { // also for NaN
			return fmt.Errorf("%s: expected %g to %g, found %g", f.name, f.low, f.high, *f.value)
		}
	}
	return nil
}

type costField struct {
	name      string
	value     *float64
	low, high float64
}

// fields returns the constants of c with their ranges.
func (c *Costs) fields() []costField {
	return []costField{
		{"scan_ns", &c.Scan, 1e-3, 1e4}, {"complex_scan_ns", &c.ComplexScan, 1e-3, 1e4}, {"fft_ns", &c.FFT, 1e-3, 1e4},
		{"pass_ns", &c.Pass, 1e-3, 1e4}, {"call_ns", &c.Call, 1, 1e8},
		{"direct_gflops", &c.Direct, 1e-3, 1e5}, {"output_ns", &c.Output, 1e-3, 1e4},
		{"dense_gflops", &c.Dense, 1e-3, 1e5}, {"gemm_gflops", &c.Gemm, 1e-3, 1e5},
	}
}

// tidy rounds the constants to three digits and clamps them to their ranges.
func (c *Costs) tidy() {
	for _, f := range c.fields() {
		v := *f.value
		if math.IsNaN(v) {
			v = f.low
		}
		r, err := strconv.ParseFloat(strconv.FormatFloat(clamp(v, f.low, f.high), 'g', 3, 64), 64)
		if err != nil {
			r = f.low // FormatFloat writes what ParseFloat reads
		}
		*f.value = r
	}
}

func clamp[T cmp.Ordered](v, low, high T) T { return min(max(v, low), high) }
