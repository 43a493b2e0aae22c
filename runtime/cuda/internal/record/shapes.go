package record

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/lowering"
)

// Declared returns the declared element type of a value, or tensor.Invalid if v is nil or not a tensor.
func Declared(v *ir.Value) tensor.DType {
	if v == nil {
		return tensor.Invalid
	}
	return v.Elem()
}

// Float reports whether kernels compute with a type as floating-point numbers.
func Float(t tensor.DType) bool {
	return t == tensor.Float32 || t == tensor.Float64 || t == tensor.Float16 || t == tensor.BFloat16
}

// Size returns the number of elements of a shape.
func Size(shape []int) int {
	n, _ := tensor.Size(shape)
	return n
}

// Around returns the sizes before, along and after an axis.
func Around(shape []int, axis int) (outer, n, inner int) {
	outer, inner = lowering.Runs(shape, axis)
	return outer, shape[axis], inner
}
