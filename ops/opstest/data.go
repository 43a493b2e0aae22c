package opstest

import (
	"math"

	"github.com/essmc/essmc/ir/tensor"
)

// Unit returns the rounding unit of a float type: half the distance from 1 to the next number.
func Unit(d tensor.DType) float64 {
	switch d {
	case tensor.Float64, tensor.Complex128:
		return 0x1p-53
	case tensor.Float32, tensor.Complex64:
		return 0x1p-24
	case tensor.Float16:
		return 0x1p-11
	case tensor.BFloat16:
		return 0x1p-8
	}
	return 0x1p-4 // float8, float4
}

// Smallest returns the smallest positive number of float16, bfloat16, float32 or float64, and 0 for other types.
func Smallest(d tensor.DType) float64 {
	switch d {
	case tensor.Float64:
		return 0x1p-1074
	case tensor.Float32:
		return 0x1p-149
	case tensor.Float16:
		return 0x1p-24
	case tensor.BFloat16:
		return 0x1p-133
	}
	return 0
}

// Largest returns the largest finite number of float16, bfloat16, float32 or float64, and 0 for other types.
func Largest(d tensor.DType) float64 {
	switch d {
	case tensor.Float64:
		return math.MaxFloat64
	case tensor.Float32:
		return math.MaxFloat32
	case tensor.Float16:
		return 65504
	case tensor.BFloat16:
		return 0x1.fep127
	}
	return 0
}

// Copy copies a datum with its storage.
func Copy(d tensor.Datum) tensor.Datum {
	switch d := d.(type) {
	case *tensor.Tensor:
		return d.Clone()
	case *tensor.Sequence:
		c := &tensor.Sequence{}
		for _, item := range d.Items {
			c.Items = append(c.Items, Copy(item))
		}
		return c
	case *tensor.Optional:
		return &tensor.Optional{Value: Copy(d.Value)}
	}
	return nil
}

// Spoil overwrites all elements of a datum.
func Spoil(d tensor.Datum) {
	switch d := d.(type) {
	case *tensor.Tensor:
		for i := range d.Bytes() {
			d.Bytes()[i] ^= 1
		}
		for i := range d.Strings() {
			d.Strings()[i] += "!"
		}
	case *tensor.Sequence:
		for _, item := range d.Items {
			Spoil(item)
		}
	case *tensor.Optional:
		Spoil(d.Value)
	}
}
