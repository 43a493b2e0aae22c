package emu

import "math"

// The sums of tensorSum for finite operands, in float64. Products are exact there, and so are their multiples by a
// power of two. Converting these to integers truncates them just as the alignment does.

// rareExponent represents infinities and NaN.
const rareExponent = 1 << 20

// tf32Number returns a number and its exponent: the minimum exponent of the format if it is subnormal, nothing for
// 0.
func tf32Number(x uint32) (float64, int32) {
	x &^= 0x1fff
	switch e := int32(x >> 23 & 0xff); e {
	default:
		return float64(math.Float32frombits(x)), e - 127
	case 255:
		return 0, rareExponent
	case 0:
		if x<<1 == 0 {
			return 0, nothing
		}
		return float64(math.Float32frombits(x)), -126
	}
}

func bf16Number(x uint32) (float64, int32) { return tf32Number(x << 16) }

func f16Number(x uint32) (float64, int32) {
	switch e := int32(x >> 10 & 31); {
	case e == 31:
		return 0, rareExponent
	case e > 0:
		return float64(fromHalf(x & 0xffff)), e - 15
	case x&0x3ff == 0:
		return 0, nothing
	}
	return float64(fromHalf(x & 0xffff)), -14
}

// matrixOperand is a matrix of finite numbers, stored by rows or by columns.
type matrixOperand struct {
	value [16 * 16]float64
	exp   [16 * 16]int32
}

// finiteFloats computes a product, or returns false if an operand is infinite or NaN.
func (f *matrixShape) finiteFloats(w *warp, d, a, b, c []int32, block int, extra int32) bool {
	var ma, mb matrixOperand
	width := 32 / f.per
	high := int32(nothing)
	for r, reg := range a {
		x := &w.r32[reg]
		for lane := range 32 {
			at := (lane/4+8*(r%2))*f.k + f.per*(lane%4) + 4*f.per*(r/2)
			for e := range f.per {
				v, exp := f.number(x[lane] >> (e * width & 31))
				ma.value[at+e], ma.exp[at+e] = v, exp
				high = max(high, exp)
			}
		}
	}
	for r, reg := range b {
		x := &w.r32[reg]
		for lane := range 32 {
			at := lane/4*f.k + f.per*(lane%4) + 4*f.per*r
			for e := range f.per {
				v, exp := f.number(x[lane] >> (e * width & 31))
				mb.value[at+e], mb.exp[at+e] = v, exp
				high = max(high, exp)
			}
		}
	}
	for _, reg := range c {
		for _, x := range w.r32[reg] {
			if x>>23&0xff == 255 {
				return false
			}
		}
	}
	if high == rareExponent {
		return false
	}
	var out [4]lanes32
	for r := range out {
		for lane := range 32 {
			row, column := (lane/4+8*(r/2))*f.k, (2*(lane%4)+r%2)*f.k
			sum := f32(w.r32[c[r]][lane])
			for i := 0; i < f.k; i += block {
				n := min(block, f.k-i)
				sum = finiteBlock(sum, ma.value[row+i:][:n], mb.value[column+i:][:n], ma.exp[row+i:][:n], mb.exp[column+i:][:n], extra)
			}
			out[r][lane] = f32bits(sum)
		}
	}
	for r, reg := range d {
		w.r32[reg] = out[r]
	}
	return true
}

// finiteBlock is tensorBlock for finite products. c may be infinite after an overflow, and then stays so.
func finiteBlock(c float32, a, b []float64, ae, be []int32, extra int32) float32 {
	b, ae, be = b[:len(a)], ae[:len(a)], be[:len(a)]
	cb := math.Float32bits(c)
	top := int32(cb>>23)&0xff - 127
	switch {
	case top == 128:
		return c
	case top == -127 && cb<<1 == 0:
		top = nothing
	case top == -127:
		top = -126
	}
	for i := range ae {
		top = max(top, ae[i]+be[i])
	}
	if top < nothing/2 {
		return 0
	}
	unit := top - 23 - extra
	scale := math.Float64frombits(uint64(1023-unit) << 52)
	sum := int64(float64(c) * scale)
	for i, x := range a {
		sum += int64(x * b[i] * scale)
	}
	return cutOff(sum, int(unit))
}
