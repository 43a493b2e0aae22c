package cpu

import (
	"cmp"
	"fmt"
	"math"
	"strconv"

	"github.com/essmc/essmc/runtime/cpu/kernel"
)

// CostsVersion changes with what Costs mean, or when kernels have become so much faster that older measurements mislead.
const CostsVersion = 2

// Costs are the constants of the model by which the backend chooses forms: what work takes on one core of one machine, with
// one variant of the kernels. They decide between forms, and nothing else; MeasureCosts finds them.
type Costs struct {
	Scan float64 `json:"scan_ns"` // nanoseconds per step of one complex state: real inputs and outputs, no window
	// ComplexScan is Scan of all others, which have no kernels of their own.
	ComplexScan float64 `json:"complex_scan_ns"`
	FFT         float64 `json:"fft_ns"`        // nanoseconds per number and radix-2 step of a real transform
	Pass        float64 `json:"pass_ns"`       // nanoseconds per float32 that is written to memory and read again
	Call        float64 `json:"call_ns"`       // nanoseconds that a form which goes over whole sequences takes for each, however short
	Direct      float64 `json:"direct_gflops"` // correlation, float32
	Output      float64 `json:"output_ns"`     // nanoseconds that a correlation takes for each of its numbers, however few taps there are
	Dense       float64 `json:"dense_gflops"`  // matrix by vector, float64
	Gemm        float64 `json:"gemm_gflops"`   // matrix by matrix, float32; tells how fast the machine is, since no form avoids those
}

// DefaultCosts are used where a machine has not been measured.
func DefaultCosts() Costs {
	if kernel.Variant() == kernel.Generic {
		return Costs{Scan: 2.7, ComplexScan: 4, FFT: 1.1, Pass: 0.3, Call: 250, Direct: 3.7, Output: 9, Dense: 4.1, Gemm: 8}
	}
	return Costs{Scan: 0.4, ComplexScan: 4, FFT: 0.16, Pass: 0.25, Call: 250, Direct: 3.7, Output: 9, Dense: 6.2, Gemm: 93}
}

// Check reports a constant that no machine has.
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

// fields lists the constants of c with the range that they can be in.
func (c *Costs) fields() []costField {
	return []costField{
		{"scan_ns", &c.Scan, 1e-3, 1e4}, {"complex_scan_ns", &c.ComplexScan, 1e-3, 1e4}, {"fft_ns", &c.FFT, 1e-3, 1e4}, {"pass_ns", &c.Pass, 1e-3, 1e4}, {"call_ns", &c.Call, 1, 1e8},
		{"direct_gflops", &c.Direct, 1e-3, 1e5}, {"output_ns", &c.Output, 1e-3, 1e4}, {"dense_gflops", &c.Dense, 1e-3, 1e5}, {"gemm_gflops", &c.Gemm, 1e-3, 1e5},
	}
}

// tidy rounds the constants to three digits and keeps them in their ranges.
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
