package kernel

import "github.com/essmc/essmc/runtime/cuda/ptx"

// Products of float32 matrices on tensor cores. Each number is split into two TF32 numbers, high + low. A product is
// low·high + high·low + high·high ("3×TF32"), which keeps the accuracy of float32.

// tf32Parts are the two parts of numbers. Numbers of lower precision have only the first.
type tf32Parts struct{ high, low []ptx.U32 }

// parts returns the operands of products in a precision. Numbers rounded to bfloat16 are TF32 numbers, too.
func (p Precision) parts(x ...ptx.F32) (s tf32Parts) {
	switch p {
	case TF32:
		for _, v := range x {
			s.high = append(s.high, v.TF32())
		}
	case BF16:
		for _, v := range x {
			s.high = append(s.high, v.BF16().BF16ToF32().Bits())
		}
	default:
		return inTF32(x...)
	}
	return s
}

func inTF32(x ...ptx.F32) (s tf32Parts) {
	for _, v := range x {
		high := v.TF32()
		s.high = append(s.high, high)
		s.low = append(s.low, v.Sub(high.Float()).TF32())
	}
	return s
}

// splitTF32 returns the two parts of float32 numbers given as bits.
func splitTF32(x []ptx.U32) (high, low []ptx.U32) {
	v := make([]ptx.F32, len(x))
	for i := range x {
		v[i] = x[i].Float()
	}
	s := inTF32(v...)
	return s.high, s.low
}

// tilesTogether is the number of sums that wait for tensor cores at once. More would take too many registers.
const tilesTogether = 4

// multiply adds a·b to d for each b. a has four numbers per thread, b two (see ptx.Kernel.MMATF32). Tensor cores
// truncate the lower bits of their sums, so they add up only a few products, and the sum is added to d with normal
// rounding.
func multiply(k *ptx.Kernel, d [][4]ptx.F32, a tf32Parts, b []tf32Parts) {
	if a.low == nil {
		for j := range d {
			k.MMATF32(d[j], [4]ptx.U32(a.high), [2]ptx.U32(b[j].high))
		}
		return
	}
	sums := make([][4]ptx.F32, len(d))
	high, low := [4]ptx.U32(a.high), [4]ptx.U32(a.low)
	for j := range sums {
		sums[j] = zeroTile(k)
		k.MMATF32(sums[j], low, [2]ptx.U32(b[j].high))
	}
	for j := range sums {
		k.MMATF32(sums[j], high, [2]ptx.U32(b[j].low))
	}
	for j := range sums {
		k.MMATF32(sums[j], high, [2]ptx.U32(b[j].high))
	}
	for j := range sums {
		for i, x := range d[j] {
			x.Set(x.Add(sums[j][i]))
		}
	}
}

// zeroTile returns the accumulators of a product.
func zeroTile(k *ptx.Kernel) (d [4]ptx.F32) {
	for i := range d {
		d[i] = k.VarF32(ptx.F(0))
	}
	return d
}
