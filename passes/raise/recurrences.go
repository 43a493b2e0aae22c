package raise

import "github.com/essmc/essmc/passes"

// The passes that recognize recurrences, and the passes that recognize other layers.
var (
	recurrences = []*passes.Pass{RaiseScan, RaiseLoop, RaiseUnrolled, RaiseParallelSystem, RaiseStep}
	layers      = []*passes.Pass{Integers, passes.Fold, passes.Canonicalize, passes.CSE, RaiseSelective, RaiseParallel,
		RaiseActivation, RaiseNorm, RaiseLinear, RaiseLayout, RaiseReverse}
)
