package emu

import "math/bits"

// Functions that work on registers lane by lane. Frequent instructions have their own loops without calls.

// unary32 and the functions below run f for the lanes of mask.
func unary32(d, a int32, f func(x uint32) uint32) exec {
	return func(w *warp, mask uint32) {
		d, a := &w.r32[d], &w.r32[a]
		for ; mask != 0; mask &= mask - 1 {
			i := bits.TrailingZeros32(mask) & 31
			d[i] = f(a[i])
		}
	}
}

func unary64(d, a int32, f func(x uint64) uint64) exec {
	return func(w *warp, mask uint32) {
		d, a := &w.r64[d], &w.r64[a]
		for ; mask != 0; mask &= mask - 1 {
			i := bits.TrailingZeros32(mask) & 31
			d[i] = f(a[i])
		}
	}
}

func widen(d, a int32, f func(x uint32) uint64) exec {
	return func(w *warp, mask uint32) {
		d, a := &w.r64[d], &w.r32[a]
		for ; mask != 0; mask &= mask - 1 {
			i := bits.TrailingZeros32(mask) & 31
			d[i] = f(a[i])
		}
	}
}

func narrow(d, a int32, f func(x uint64) uint32) exec {
	return func(w *warp, mask uint32) {
		d, a := &w.r32[d], &w.r64[a]
		for ; mask != 0; mask &= mask - 1 {
			i := bits.TrailingZeros32(mask) & 31
			d[i] = f(a[i])
		}
	}
}

func binary32(d, a, b int32, f func(x, y uint32) uint32) exec {
	return func(w *warp, mask uint32) {
		d, a, b := &w.r32[d], &w.r32[a], &w.r32[b]
		for ; mask != 0; mask &= mask - 1 {
			i := bits.TrailingZeros32(mask) & 31
			d[i] = f(a[i], b[i])
		}
	}
}

func binary64(d, a, b int32, f func(x, y uint64) uint64) exec {
	return func(w *warp, mask uint32) {
		d, a, b := &w.r64[d], &w.r64[a], &w.r64[b]
		for ; mask != 0; mask &= mask - 1 {
			i := bits.TrailingZeros32(mask) & 31
			d[i] = f(a[i], b[i])
		}
	}
}

func ternary32(d, a, b, c int32, f func(x, y, z uint32) uint32) exec {
	return func(w *warp, mask uint32) {
		d, a, b, c := &w.r32[d], &w.r32[a], &w.r32[b], &w.r32[c]
		for ; mask != 0; mask &= mask - 1 {
			i := bits.TrailingZeros32(mask) & 31
			d[i] = f(a[i], b[i], c[i])
		}
	}
}

func ternary64(d, a, b, c int32, f func(x, y, z uint64) uint64) exec {
	return func(w *warp, mask uint32) {
		d, a, b, c := &w.r64[d], &w.r64[a], &w.r64[b], &w.r64[c]
		for ; mask != 0; mask &= mask - 1 {
			i := bits.TrailingZeros32(mask) & 31
			d[i] = f(a[i], b[i], c[i])
		}
	}
}

func binaryF32(d, a, b int32, f func(x, y float32) float32) exec {
	return binary32(d, a, b, func(x, y uint32) uint32 { return f32bits(f(f32(x), f32(y))) })
}

func binaryF64(d, a, b int32, f func(x, y float64) float64) exec {
	return binary64(d, a, b, func(x, y uint64) uint64 { return f64bits(f(f64(x), f64(y))) })
}

func setMask(w *warp, p int32, mask, value uint32) { w.pred[p] = w.pred[p]&^mask | value&mask }

// regs32 decodes a destination and n sources of 32 bits.
func (c *compiler) regs32(s *statement, typ string, n int) (d int32, in [3]int32, err error) {
	if err = s.operandsAre(n + 1); err != nil {
		return
	}
	if d, err = c.out32(s, s.operands[0]); err != nil {
		return
	}
	for i := range n {
		if in[i], err = c.in32(s, s.operands[i+1], typ); err != nil {
			return
		}
	}
	return
}

// regs64 is regs32 for 64 bits.
func (c *compiler) regs64(s *statement, typ string, n int) (d int32, in [3]int32, err error) {
	if err = s.operandsAre(n + 1); err != nil {
		return
	}
	if d, err = c.out64(s, s.operands[0]); err != nil {
		return
	}
	for i := range n {
		if in[i], err = c.in64(s, s.operands[i+1], typ); err != nil {
			return
		}
	}
	return
}

// predIn returns a function that reads a predicate, negated or not.
func (c *compiler) predIn(s *statement, o operand) (func(w *warp) uint32, error) {
	negated := o.negated
	if o.kind == intOperand && o.bits <= 1 {
		x := -uint32(o.bits)
		return func(*warp) uint32 { return x }, nil
	}
	o.negated = false
	p, err := c.predAt(s, o)
	if err != nil {
		return nil, err
	}
	c.reads(o.name)
	if negated {
		return func(w *warp) uint32 { return ^w.pred[p] }, nil
	}
	return func(w *warp) uint32 { return w.pred[p] }, nil
}
