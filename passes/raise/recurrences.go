package raise

import "github.com/essmc/essmc/passes"

// The passes that recognise recurrences, and those that put layers back together.
var (
	recurrences = []*passes.Pass{RaiseScan, RaiseLoop, RaiseUnrolled}
	layers      = []*passes.Pass{passes.Fold, passes.Canonicalize, passes.CSE, RaiseActivation, RaiseNorm, RaiseLinear, RaiseLayout, RaiseReverse}
)
