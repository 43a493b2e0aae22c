package raise

import "github.com/essmc/essmc/passes"

// convolutions are the passes that recognise long convolutions.
var convolutions []*passes.Pass

var convolutionOrders []passes.Order
