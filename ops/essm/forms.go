package essm

import (
	"fmt"
	"math/cmplx"
)

// Recurrence is what decides which forms a recurrence or a long convolution has, on any machine.
type Recurrence struct {
	Given    bool // as a convolution kernel, so there is no recurrence
	LowRank  bool // the matrix is diagonal plus low-rank
	Single   bool // heads have one input and one output
	Unstable bool // an eigenvalue is above 1 in absolute value
}

// OnlyScan is the reason for the recurrence where other forms are not safe.
const OnlyScan = "an eigenvalue is above 1 in absolute value, so only the recurrence is safe"

// Against returns the reason against a form, or "" if there is none.
func (r Recurrence) Against(form string) string {
	switch {
	case r.Given && (form == FormScan || form == FormChunked):
		return "the layer is given as a convolution kernel, without a recurrence"
	case r.LowRank && form == FormChunked:
		return "a diagonal plus low-rank system has no chunked form"
	case r.Single && form == FormChunked:
		return "heads with one input and one output have no chunked form"
	case r.Unstable && form != FormScan:
		return "powers of an eigenvalue above 1 in absolute value overflow"
	}
	return ""
}

// Refused returns the explanation for a form that was requested but is not used.
func Refused(form, why string) string { return fmt.Sprintf("%s was requested, but %s", form, why) }

// UnstableFactor is Unstable for the factor f = exp(a) of the diagonal part of a system whose low-rank part only damps
// the state, as that of S4 does.
func UnstableFactor(f complex128) bool { return cmplx.Abs(f) > 1+1e-12 }
