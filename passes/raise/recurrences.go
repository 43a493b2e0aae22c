package raise

import "github.com/essmc/essmc/passes"

// The passes that recognise recurrences, and those that put layers back together, with their orders.
var (
	recurrences = []*passes.Pass{RaiseScan, RaiseLoop, RaiseUnrolled}
	layers      = []*passes.Pass{passes.Fold, passes.Canonicalize, passes.CSE, RaiseActivation, RaiseNorm, RaiseLinear, RaiseLayout, RaiseReverse}

	recurrenceOrders = []passes.Order{
		{Before: "upgrade", After: "raise-scan", Why: "bodies are read as the newest operators"},
		{Before: "upgrade", After: "raise-loop", Why: "bodies are read as the newest operators"},
		{Before: "upgrade", After: "raise-unrolled", Why: "steps are read as the newest operators"},
		{Before: "raise-loop", After: "fold", Why: "parameters of a recurrence are computed in float64 as it is read; folded, they are rounded"},
		{Before: "raise-unrolled", After: "fold", Why: "parameters of a recurrence are computed in float64 as it is read; folded, they are rounded"},
		{Before: "raise-unrolled", After: "cse", Why: "values that are equal at the first step would make it unlike the others"},
	}
	layerOrders = []passes.Order{
		{Before: "fold", After: "raise-linear", Why: "weights and biases must be constants"},
		{Before: "cse", After: "raise-norm", Why: "exporters subtract the mean once for the variance and once for the result"},
		{Before: "raise-activation", After: "raise-layout", Why: "an activation in one piece moves through a transpose, in pieces it does not"},
		{Before: "raise-layout", After: "raise-reverse", Why: "the scan's projections meet it when transposes are gone, and a system is turned around in one piece"},
		{Before: "raise-norm", After: "raise-linear", Why: "what multiplies and adds behind a norm is the norm's"},
	}
)
