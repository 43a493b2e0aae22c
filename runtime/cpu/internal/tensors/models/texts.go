package models

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/lowering"
)

// texts returns the function that reads the strings of a value.
func texts(v *lowering.Value) func(f *lowering.Frame) ([]string, bool) {
	return func(f *lowering.Frame) ([]string, bool) {
		t, ok := f.Datum(v).(*tensor.Tensor)
		if !ok || t.DType() != tensor.String {
			return nil, false
		}
		return t.Strings(), true
	}
}
