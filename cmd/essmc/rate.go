package main

import (
	"github.com/spf13/cobra"

	"github.com/essmc/essmc/cmd/essmc/internal/feed"
	"github.com/essmc/essmc/frontend/open"
)

// mostResampling is the largest factor, and the inverse of the smallest, by which a model is adapted to a recording
// without being asked to. Beyond it the input lacks most of the frequencies that the model was trained for, or has
// others.
const mostResampling = 8

// openFor reads the model, and adapts a model directory that states its sampling rate to the rate of a recording among
// the inputs, unless --resample says how.
func (f *sourceFlags) openFor(cmd *cobra.Command, path string, inputs []string) (*open.Model, error) {
	m, err := f.open(cmd, path)
	if err != nil || m.Config == nil || cmd.Flags().Lookup("resample") == nil || changed(cmd, "resample") {
		return m, err
	}
	file, rate := feed.Recording(inputs)
	want := m.Config.SamplingRate
	if rate == 0 || want == 0 || rate == want || m.Config.Layer.MaxKernelLength > 0 { // which is in steps, at one rate
		return m, nil
	}
	r := float64(want) / float64(rate)
	if r > mostResampling || r < 1.0/mostResampling {
		return m, nil // which the inputs are refused for
	}
	warn(cmd, "%s: is sampled at %d Hz, and the model at %d Hz: it is adapted by --resample %.6g", file, rate, want, r)
	f.resample.value = r
	return f.open(cmd, path)
}
