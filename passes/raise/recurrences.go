package raise

import "github.com/essmc/essmc/passes"

// The passes that recognise recurrences, and those that put layers back together, with their orders.
var (
	recurrences, layers           []*passes.Pass
	recurrenceOrders, layerOrders []passes.Order
)
