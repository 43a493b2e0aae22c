package kernel

import (
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
)

// For the tests of elementwise kernels.
var (
	EachPart = eachPart
	Divider  = divider
	RowMajor = rowMajor
	Signed   = signed
)

// BoundOf returns the bound of an operation that is computed as it is.
func BoundOf(op scalar.Op) (ulps, loss float64, ok bool) {
	if o := operations[op]; o != nil {
		return o.ulps, o.loss, true
	}
	return 0, 0, false
}

// Known reports whether kernels compute with a type.
func Known(t tensor.DType) bool {
	_, ok := domainOf(t)
	return ok
}
