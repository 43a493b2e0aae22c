package raise

import "github.com/essmc/essmc/passes"

// The passes that recognise recurrences, and those that put layers back together, with their orders.
var (
	recurrences      = []*passes.Pass{RaiseScan, RaiseLoop, RaiseUnrolled}
	layers           []*passes.Pass
	recurrenceOrders []passes.Order
	layerOrders      []passes.Order
)
