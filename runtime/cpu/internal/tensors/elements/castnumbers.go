package elements

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

type castInt interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32
}

type castFloat interface{ float32 | float64 }

// castNumbers casts between integers and floats of 32 and 64 bits. It returns nil for other types.
func castNumbers(d *lowering.Binding, s *lowering.Step) *record.TensorKernel {
	switch d.DType(s.In[0]) {
	case tensor.Bool:
		return castBools(d, s)
	case tensor.Int8:
		return castInts[int8](d, s)
	case tensor.Int16:
		return castInts[int16](d, s)
	case tensor.Int32:
		return castInts[int32](d, s)
	case tensor.Int64:
		return castInts[int64](d, s)
	case tensor.Uint8:
		return castInts[uint8](d, s)
	case tensor.Uint16:
		return castInts[uint16](d, s)
	case tensor.Uint32:
		return castInts[uint32](d, s)
	case tensor.Float32:
		return castFloats[float32](d, s)
	case tensor.Float64:
		return castFloats[float64](d, s)
	}
	return nil
}

// castInts casts integers. Smaller types keep the low bits.
func castInts[X interface {
	castInt
	tensor.Elem
}](d *lowering.Binding, s *lowering.Step) *record.TensorKernel {
	x := lowering.Input[X](d, s, 0)
	switch d.DType(s.Out[0]) {
	case tensor.Int8:
		return halfKernel(x, lowering.Output[int8](d, s, 0), castIntTo[X, int8])
	case tensor.Uint8:
		return halfKernel(x, lowering.Output[uint8](d, s, 0), castIntTo[X, uint8])
	case tensor.Int32:
		return halfKernel(x, lowering.Output[int32](d, s, 0), castIntTo[X, int32])
	case tensor.Int64:
		return halfKernel(x, lowering.Output[int64](d, s, 0), castIntTo[X, int64])
	case tensor.Float32:
		return halfKernel(x, lowering.Output[float32](d, s, 0), castIntTo[X, float32])
	case tensor.Float64:
		return halfKernel(x, lowering.Output[float64](d, s, 0), castIntTo[X, float64])
	case tensor.Bool:
		return halfKernel(x, lowering.Output[bool](d, s, 0), func(y []bool, x []X) {
			for i, v := range x {
				y[i] = v != 0
			}
		})
	}
	return nil
}

func castIntTo[X castInt, Y castInt | castFloat](y []Y, x []X) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] = Y(v)
	}
}

// castFloats casts floats. Conversions to integers truncate.
func castFloats[X interface {
	castFloat
	tensor.Elem
}](d *lowering.Binding, s *lowering.Step) *record.TensorKernel {
	x := lowering.Input[X](d, s, 0)
	switch d.DType(s.Out[0]) {
	case tensor.Int8:
		return halfKernel(x, lowering.Output[int8](d, s, 0), truncate[X, int8])
	case tensor.Uint8:
		return halfKernel(x, lowering.Output[uint8](d, s, 0), truncate[X, uint8])
	case tensor.Int32:
		return halfKernel(x, lowering.Output[int32](d, s, 0), truncate[X, int32])
	case tensor.Int64:
		return halfKernel(x, lowering.Output[int64](d, s, 0), truncate[X, int64])
	case tensor.Float32:
		return halfKernel(x, lowering.Output[float32](d, s, 0), castFloatTo[X, float32])
	case tensor.Float64:
		return halfKernel(x, lowering.Output[float64](d, s, 0), castFloatTo[X, float64])
	case tensor.Bool:
		return halfKernel(x, lowering.Output[bool](d, s, 0), func(y []bool, x []X) {
			for i, v := range x {
				y[i] = v != 0
			}
		})
	}
	return nil
}

func castFloatTo[X, Y castFloat](y []Y, x []X) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] = Y(v)
	}
}

// truncate casts as package tensor does: numbers beyond int64 are converted to uint64.
func truncate[X castFloat, Y castInt](y []Y, x []X) {
	y = y[:len(x)]
	for i, v := range x {
		if f := float64(v); f < 1<<63 {
			y[i] = Y(int64(f))
		} else {
			y[i] = Y(uint64(f))
		}
	}
}

func castBools(d *lowering.Binding, s *lowering.Step) *record.TensorKernel {
	x := lowering.Input[bool](d, s, 0)
	switch d.DType(s.Out[0]) {
	case tensor.Int8:
		return halfKernel(x, lowering.Output[int8](d, s, 0), castBoolTo[int8])
	case tensor.Uint8:
		return halfKernel(x, lowering.Output[uint8](d, s, 0), castBoolTo[uint8])
	case tensor.Int32:
		return halfKernel(x, lowering.Output[int32](d, s, 0), castBoolTo[int32])
	case tensor.Int64:
		return halfKernel(x, lowering.Output[int64](d, s, 0), castBoolTo[int64])
	case tensor.Float64:
		return halfKernel(x, lowering.Output[float64](d, s, 0), castBoolTo[float64])
	}
	return nil
}

func castBoolTo[Y castInt | castFloat](y []Y, x []bool) {
	for i, b := range x {
		y[i] = 0
		if b {
			y[i] = 1
		}
	}
}
