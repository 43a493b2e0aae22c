package std

import (
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// sliceOrder compares two of n slices of a tensor, element by element.
func sliceOrder(c *ir.EvalCtx, x *tensor.Tensor, outer, n, inner int) (func(i, j int) int, error) {
	order, err := elementOrder(c, x)
	if err != nil {
		return nil, err
	}
	return func(i, j int) int {
		for o := range outer {
			c.Step(1)
			for k := range ops.Each(c, inner) {
				if d := order((o*n+i)*inner+k, (o*n+j)*inner+k); d != 0 {
					return d
				}
			}
		}
		return 0
	}, nil
}

// orderedKeys returns numbers of so many bits that are ordered as the elements of x are: equal ones for elements that
// are equal, and the largest one for NaN. It returns nil for types that have none.
func orderedKeys(c *ir.EvalCtx, x *tensor.Tensor) (keys []uint64, bits int) {
	switch x.DType() {
	case tensor.Float16, tensor.BFloat16:
		wide, err := ops.Convert(c, x, tensor.Float32, false)
		if err != nil {
			return nil, 0
		}
		return orderedKeys(c, wide)
	case tensor.Int8:
		return integerKeys(c, tensor.Data[int8](x)), 8
	case tensor.Int16:
		return integerKeys(c, tensor.Data[int16](x)), 16
	case tensor.Int32:
		return integerKeys(c, tensor.Data[int32](x)), 32
	case tensor.Int64:
		return integerKeys(c, tensor.Data[int64](x)), 64
	case tensor.Uint8:
		return integerKeys(c, tensor.Data[uint8](x)), 8
	case tensor.Uint16:
		return integerKeys(c, tensor.Data[uint16](x)), 16
	case tensor.Uint32:
		return integerKeys(c, tensor.Data[uint32](x)), 32
	case tensor.Uint64:
		return integerKeys(c, tensor.Data[uint64](x)), 64
	case tensor.Float32:
		keys = ops.Make[uint64](c, x.Len())
		for i, v := range ops.All(c, tensor.Data[float32](x)) {
			b := math.Float32bits(v + 0) // -0 becomes 0
			if b ^= uint32(int32(b)>>31) | 1<<31; v != v {
				b = math.MaxUint32
			}
			keys[i] = uint64(b)
		}
		return keys, 32
	case tensor.Float64:
		keys = ops.Make[uint64](c, x.Len())
		for i, v := range ops.All(c, tensor.Data[float64](x)) {
			b := math.Float64bits(v + 0)
			if b ^= uint64(int64(b)>>63) | 1<<63; v != v {
				b = math.MaxUint64
			}
			keys[i] = b
		}
		return keys, 64
	}
	return nil, 0
}

func integerKeys[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](c *ir.EvalCtx, v []T) []uint64 {
	var zero T
	keys, signed := ops.Make[uint64](c, len(v)), ^zero < 0
	bits := 0
	for k := T(1); k != 0; k <<= 1 {
		bits++
	}
	mask, flip := ^uint64(0)>>(64-bits), uint64(0)
	if signed {
		flip = 1 << (bits - 1)
	}
	for i, x := range ops.All(c, v) {
		keys[i] = uint64(x)&mask ^ flip
	}
	return keys
}

// digit is the number of bits by which sortByKeys sorts at a time.
const digit = 11

// sortByKeys sorts indices by their keys of so many bits; those with equal keys keep their order.
func sortByKeys(c *ir.EvalCtx, rows []int, keys []uint64, bits int) {
	other := ops.Make[int](c, len(rows))
	from, to := rows, other
	var starts [1 << digit]int
	for shift := 0; shift < bits && len(rows) > 1; shift += digit {
		c.Step(len(starts))
		clear(starts[:])
		for _, k := range ops.All(c, keys) {
			starts[k>>shift&(1<<digit-1)]++
		}
		if starts[keys[0]>>shift&(1<<digit-1)] == len(keys) { // they do not differ in this digit
			continue
		}
		sum := 0
		for i, n := range starts {
			starts[i] = sum
			sum += n
		}
		for _, r := range ops.All(c, from) {
			k := keys[r] >> shift & (1<<digit - 1)
			to[starts[k]] = r
			starts[k]++
		}
		from, to = to, from
	}
	if len(rows) > 0 && &from[0] != &rows[0] {
		ops.Put(c, rows, from)
	}
}
