package command

import (
	"github.com/spf13/cobra"

	"github.com/essmc/essmc/cmd/essmc/command/internal/feed"
	"github.com/essmc/essmc/frontend/open"
)

// mostResampling is the largest factor, and the inverse of the smallest, by which a model is adapted to a recording
// without --resample. Beyond it, the input lacks most of the frequencies of the training data, or has other ones.
const mostResampling = 8

// openFor reads the model. Without --resample, it adapts a model directory that states its sampling rate to the rate of
// a recording among the inputs.
func (f *sourceFlags) openFor(cmd *cobra.Command, path string, inputs []string) (*open.Model, error) {
	m, err := f.open(cmd, path)
	if err != nil || m.Config == nil || cmd.Flags().Lookup("resample") == nil || changed(cmd, "resample") {
		return m, err
	}
	file, rate := feed.Recording(inputs)
	want := m.Config.Common().SamplingRate
	// a length in steps is valid for one rate only
	if rate == 0 || want == 0 || rate == want || !m.Config.Common().Resamples {
		return m, nil
	}
	r := float64(want) / float64(rate)
	if r > mostResampling || r < 1.0/mostResampling {
		return m, nil // inputs of another rate are refused later
	}
	warn(cmd, "%s: is sampled at %d Hz, and the model at %d Hz: it is adapted by --resample %.6g", file, rate, want, r)
	f.resample.value = r
	return f.open(cmd, path)
}
