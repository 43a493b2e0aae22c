package emu

import (
	"math/bits"
	"strconv"
)

func signed32(f func(x, y int32) int32) func(x, y uint32) uint32 {
	return func(x, y uint32) uint32 { return uint32(f(int32(x), int32(y))) }
}

func signed64(f func(x, y int64) int64) func(x, y uint64) uint64 {
	return func(x, y uint64) uint64 { return uint64(f(int64(x), int64(y))) }
}

func cut16(f func(x, y uint32) uint32, signed bool) func(x, y uint32) uint32 {
	if signed {
		return func(x, y uint32) uint32 { return f(uint32(int32(int16(x))), uint32(int32(int16(y)))) & 0xffff }
	}
	return func(x, y uint32) uint32 { return f(x&0xffff, y&0xffff) & 0xffff }
}

// integers compiles an instruction with two integer operands of any width.
func (c *compiler) integers(s *statement, f func(x, y uint32) uint32, g func(x, y uint64) uint64) (exec, error) {
	n, _, signed := width(s.typ())
	switch n {
	case 16:
		f = cut16(f, signed)
		fallthrough
	case 32:
		d, in, err := c.regs32(s, s.typ(), 2)
		return binary32(d, in[0], in[1], f), err
	case 64:
		d, in, err := c.regs64(s, s.typ(), 2)
		return binary64(d, in[0], in[1], g), err
	}
	return nil, s.unknown()
}

func decodeAdd(c *compiler, s *statement) (exec, error) {
	n, float, signed := width(s.typ())
	if float {
		return decodeAddFloat(c, s)
	}
	sub := s.op[0] == "sub"
	if s.typ()[0] == 'b' {
		return nil, s.unknown()
	}
	if len(s.op) == 3 && s.op[1] == "sat" && n == 32 && signed {
		d, in, err := c.regs32(s, s.typ(), 2)
		return binary32(d, in[0], in[1], func(x, y uint32) uint32 {
			z := int64(int32(x)) + int64(int32(y))
			if sub {
				z = int64(int32(x)) - int64(int32(y))
			}
			return uint32(int32(min(max(z, -1<<31), 1<<31-1)))
		}), err
	}
	if len(s.op) != 2 {
		return nil, s.unknown()
	}
	if sub {
		return c.integers(s, func(x, y uint32) uint32 { return x - y }, func(x, y uint64) uint64 { return x - y })
	}
	if n == 32 {
		d, in, err := c.regs32(s, s.typ(), 2)
		da, aa, ba := d, in[0], in[1]
		return func(w *warp, mask uint32) {
			d, a, b := &w.r32[da], &w.r32[aa], &w.r32[ba]
			if mask == full {
				for i := range d {
					d[i] = a[i] + b[i]
				}
				return
			}
			for ; mask != 0; mask &= mask - 1 {
				i := bits.TrailingZeros32(mask) & 31
				d[i] = a[i] + b[i]
			}
		}, err
	}
	return c.integers(s, func(x, y uint32) uint32 { return x + y }, func(x, y uint64) uint64 { return x + y })
}

func decodeMul(c *compiler, s *statement) (exec, error) {
	if _, float, _ := width(s.typ()); float {
		return decodeAddFloat(c, s)
	}
	if len(s.op) != 3 {
		return nil, s.unknown()
	}
	n, _, signed := width(s.typ())
	switch s.op[1] {
	case "lo":
		return c.integers(s, func(x, y uint32) uint32 { return x * y }, func(x, y uint64) uint64 { return x * y })
	case "hi":
		if n == 16 {
			return c.integers(s, func(x, y uint32) uint32 { return x * y >> 16 }, nil)
		}
		return c.integers(s, mulHi32(signed), mulHi64(signed))
	case "wide":
		if n == 32 {
			return c.wide(s, signed, false)
		}
		if n == 16 {
			d, in, err := c.regs32(s, s.typ(), 2)
			return binary32(d, in[0], in[1], func(x, y uint32) uint32 {
				if signed {
					return uint32(int32(int16(x)) * int32(int16(y)))
				}
				return x & 0xffff * (y & 0xffff)
			}), err
		}
	}
	return nil, s.unknown()
}

func mulHi32(signed bool) func(x, y uint32) uint32 {
	if signed {
		return func(x, y uint32) uint32 { return uint32(int64(int32(x)) * int64(int32(y)) >> 32) }
	}
	return func(x, y uint32) uint32 { return uint32(uint64(x) * uint64(y) >> 32) }
}

func mulHi64(signed bool) func(x, y uint64) uint64 {
	return func(x, y uint64) uint64 {
		hi, _ := bits.Mul64(x, y)
		if signed {
			hi -= uint64(int64(x)>>63)&y + uint64(int64(y)>>63)&x
		}
		return hi
	}
}

// wide compiles a 64-bit product of 32-bit factors, with an optional sum.
func (c *compiler) wide(s *statement, signed, add bool) (exec, error) {
	n := 3
	if add {
		n = 4
	}
	if err := s.operandsAre(n); err != nil {
		return nil, err
	}
	dd, err := c.out64(s, s.operands[0])
	if err != nil {
		return nil, err
	}
	aa, err := c.in32(s, s.operands[1], s.typ())
	if err != nil {
		return nil, err
	}
	ba, err := c.in32(s, s.operands[2], s.typ())
	if err != nil {
		return nil, err
	}
	ca := c.constant64(0)
	if add {
		if ca, err = c.in64(s, s.operands[3], s.typ()); err != nil {
			return nil, err
		}
	}
	if signed {
		return func(w *warp, mask uint32) {
			d, a, b, c := &w.r64[dd], &w.r32[aa], &w.r32[ba], &w.r64[ca]
			for ; mask != 0; mask &= mask - 1 {
				i := bits.TrailingZeros32(mask) & 31
				d[i] = uint64(int64(int32(a[i]))*int64(int32(b[i]))) + c[i]
			}
		}, nil
	}
	return func(w *warp, mask uint32) {
		d, a, b, c := &w.r64[dd], &w.r32[aa], &w.r32[ba], &w.r64[ca]
		if mask == full {
			for i := range d {
				d[i] = uint64(a[i])*uint64(b[i]) + c[i]
			}
			return
		}
		for ; mask != 0; mask &= mask - 1 {
			i := bits.TrailingZeros32(mask) & 31
			d[i] = uint64(a[i])*uint64(b[i]) + c[i]
		}
	}, nil
}

func decodeMad(c *compiler, s *statement) (exec, error) {
	n, float, signed := width(s.typ())
	if float {
		return decodeFMA(c, s)
	}
	if len(s.op) != 3 {
		return nil, s.unknown()
	}
	switch {
	case s.op[1] == "wide" && n == 32:
		return c.wide(s, signed, true)
	case s.op[1] == "lo" && n == 32:
		d, in, err := c.regs32(s, s.typ(), 3)
		dd, aa, ba, ca := d, in[0], in[1], in[2]
		return func(w *warp, mask uint32) {
			d, a, b, c := &w.r32[dd], &w.r32[aa], &w.r32[ba], &w.r32[ca]
			for ; mask != 0; mask &= mask - 1 {
				i := bits.TrailingZeros32(mask) & 31
				d[i] = a[i]*b[i] + c[i]
			}
		}, err
	case s.op[1] == "lo" && n == 64:
		d, in, err := c.regs64(s, s.typ(), 3)
		return ternary64(d, in[0], in[1], in[2], func(x, y, z uint64) uint64 { return x*y + z }), err
	case s.op[1] == "lo" && n == 16:
		d, in, err := c.regs32(s, s.typ(), 3)
		return ternary32(d, in[0], in[1], in[2], func(x, y, z uint32) uint32 { return (x*y + z) & 0xffff }), err
	case s.op[1] == "hi" && n == 32:
		d, in, err := c.regs32(s, s.typ(), 3)
		hi := mulHi32(signed)
		return ternary32(d, in[0], in[1], in[2], func(x, y, z uint32) uint32 { return hi(x, y) + z }), err
	case s.op[1] == "hi" && n == 64:
		d, in, err := c.regs64(s, s.typ(), 3)
		hi := mulHi64(signed)
		return ternary64(d, in[0], in[1], in[2], func(x, y, z uint64) uint64 { return hi(x, y) + z }), err
	}
	return nil, s.unknown()
}

// decodeDiv decodes div and rem. Division by 0 gives all ones, as on cards; PTX leaves it undefined.
func decodeDiv(c *compiler, s *statement) (exec, error) {
	_, float, signed := width(s.typ())
	rem := s.op[0] == "rem"
	if float && !rem {
		return decodeDivFloat(c, s)
	}
	if float || len(s.op) != 2 {
		return nil, s.unknown()
	}
	if signed {
		return c.integers(s, signed32(func(x, y int32) int32 { return int32(divide(int64(x), int64(y), rem)) }),
			signed64(func(x, y int64) int64 { return divide(x, y, rem) }))
	}
	return c.integers(s, func(x, y uint32) uint32 {
		if y == 0 {
			if rem {
				return x
			}
			return full
		}
		if rem {
			return x % y
		}
		return x / y
	}, func(x, y uint64) uint64 {
		if y == 0 {
			if rem {
				return x
			}
			return 1<<64 - 1
		}
		if rem {
			return x % y
		}
		return x / y
	})
}

func divide(x, y int64, rem bool) int64 {
	switch {
	case y == 0 && rem:
		return x
	case y == 0:
		return -1
	case rem:
		return x % y
	}
	return x / y
}

func decodeMin(c *compiler, s *statement) (exec, error) {
	_, float, signed := width(s.typ())
	if float {
		return decodeMinFloat(c, s)
	}
	if len(s.op) != 2 {
		return nil, s.unknown()
	}
	if s.op[0] == "min" {
		if signed {
			return c.integers(s, signed32(func(x, y int32) int32 { return min(x, y) }), signed64(func(x, y int64) int64 { return min(x, y) }))
		}
		return c.integers(s, func(x, y uint32) uint32 { return min(x, y) }, func(x, y uint64) uint64 { return min(x, y) })
	}
	if signed {
		return c.integers(s, signed32(func(x, y int32) int32 { return max(x, y) }), signed64(func(x, y int64) int64 { return max(x, y) }))
	}
	return c.integers(s, func(x, y uint32) uint32 { return max(x, y) }, func(x, y uint64) uint64 { return max(x, y) })
}

// decodeAbs decodes abs and neg.
func decodeAbs(c *compiler, s *statement) (exec, error) {
	n, float, signed := width(s.typ())
	neg := s.op[0] == "neg"
	if len(s.op) != 2 || !signed {
		return nil, s.unknown()
	}
	if float {
		sign := func(x, bit uint64) uint64 {
			if neg {
				return x ^ bit
			}
			return x &^ bit
		}
		switch n {
		case 32:
			c.class = classF32
			d, in, err := c.regs32(s, s.typ(), 1)
			return unary32(d, in[0], func(x uint32) uint32 {
				if f := f32(x); f != f {
					return nan32
				}
				return uint32(sign(uint64(x), 1<<31))
			}), err
		case 64:
			c.class = classF64
			d, in, err := c.regs64(s, s.typ(), 1)
			return unary64(d, in[0], func(x uint64) uint64 { return sign(x, 1<<63) }), err
		default:
			c.class = classF32
			d, in, err := c.regs32(s, s.typ(), 1)
			return unary32(d, in[0], func(x uint32) uint32 { return uint32(sign(uint64(x), 1<<15)) }), err
		}
	}
	value := func(x int64) int64 {
		if neg || x < 0 {
			return -x
		}
		return x
	}
	switch n {
	case 16:
		d, in, err := c.regs32(s, s.typ(), 1)
		return unary32(d, in[0], func(x uint32) uint32 { return uint32(uint16(value(int64(int16(x))))) }), err
	case 32:
		d, in, err := c.regs32(s, s.typ(), 1)
		return unary32(d, in[0], func(x uint32) uint32 { return uint32(value(int64(int32(x)))) }), err
	case 64:
		d, in, err := c.regs64(s, s.typ(), 1)
		return unary64(d, in[0], func(x uint64) uint64 { return uint64(value(int64(x))) }), err
	}
	return nil, s.unknown()
}

func decodeLogic(c *compiler, s *statement) (exec, error) {
	if len(s.op) != 2 {
		return nil, s.unknown()
	}
	f, g := func(x, y uint32) uint32 { return x & y }, func(x, y uint64) uint64 { return x & y }
	switch s.op[0] {
	case "or":
		f, g = func(x, y uint32) uint32 { return x | y }, func(x, y uint64) uint64 { return x | y }
	case "xor":
		f, g = func(x, y uint32) uint32 { return x ^ y }, func(x, y uint64) uint64 { return x ^ y }
	}
	not := s.op[0] == "not"
	switch s.op[1] {
	case "pred":
		n := 3
		if not {
			n = 2
		}
		if err := s.operandsAre(n); err != nil {
			return nil, err
		}
		d, err := c.pred(s, s.operands[0])
		if err != nil {
			return nil, err
		}
		a, err := c.predIn(s, s.operands[1])
		if err != nil {
			return nil, err
		}
		if not {
			return func(w *warp, mask uint32) { setMask(w, d, mask, ^a(w)) }, nil
		}
		b, err := c.predIn(s, s.operands[2])
		return func(w *warp, mask uint32) { setMask(w, d, mask, f(a(w), b(w))) }, err
	case "b16", "b32":
		m := uint32(full)
		if s.op[1] == "b16" {
			m = 0xffff
		}
		if not {
			d, in, err := c.regs32(s, s.typ(), 1)
			return unary32(d, in[0], func(x uint32) uint32 { return ^x & m }), err
		}
		d, in, err := c.regs32(s, s.typ(), 2)
		return binary32(d, in[0], in[1], func(x, y uint32) uint32 { return f(x, y) & m }), err
	case "b64":
		if not {
			d, in, err := c.regs64(s, s.typ(), 1)
			return unary64(d, in[0], func(x uint64) uint64 { return ^x }), err
		}
		d, in, err := c.regs64(s, s.typ(), 2)
		return binary64(d, in[0], in[1], g), err
	}
	return nil, s.unknown()
}

// decodeShift decodes shl and shr. Shift counts are clamped to the width, as Go's shifts do.
func decodeShift(c *compiler, s *statement) (exec, error) {
	if len(s.op) != 2 {
		return nil, s.unknown()
	}
	if err := s.operandsAre(3); err != nil {
		return nil, err
	}
	n, float, signed := width(s.typ())
	left := s.op[0] == "shl"
	if float || left && s.typ()[0] != 'b' {
		return nil, s.unknown()
	}
	by, err := c.in32(s, s.operands[2], "u32")
	if err != nil {
		return nil, err
	}
	switch n {
	case 16, 32:
		d, err := c.out32(s, s.operands[0])
		if err != nil {
			return nil, err
		}
		a, err := c.in32(s, s.operands[1], s.typ())
		m := uint32(1<<n - 1)
		switch {
		case left:
			return binary32(d, a, by, func(x, y uint32) uint32 { return x << y & m }), err
		case signed && n == 16:
			return binary32(d, a, by, func(x, y uint32) uint32 { return uint32(int32(int16(x))>>y) & m }), err
		case signed:
			return binary32(d, a, by, func(x, y uint32) uint32 { return uint32(int32(x) >> y) }), err
		}
		return binary32(d, a, by, func(x, y uint32) uint32 { return x & m >> y }), err
	case 64:
		d, err := c.out64(s, s.operands[0])
		if err != nil {
			return nil, err
		}
		a, err := c.in64(s, s.operands[1], s.typ())
		f := func(x uint64, y uint32) uint64 { return x >> y }
		switch {
		case left:
			f = func(x uint64, y uint32) uint64 { return x << y }
		case signed:
			f = func(x uint64, y uint32) uint64 { return uint64(int64(x) >> y) }
		}
		return func(w *warp, mask uint32) {
			d, a, b := &w.r64[d], &w.r64[a], &w.r32[by]
			for ; mask != 0; mask &= mask - 1 {
				i := bits.TrailingZeros32(mask) & 31
				d[i] = f(a[i], b[i])
			}
		}, err
	}
	return nil, s.unknown()
}

// decodeFunnel decodes shf.
func decodeFunnel(c *compiler, s *statement) (exec, error) {
	if len(s.op) != 4 || s.op[3] != "b32" {
		return nil, s.unknown()
	}
	left, clamp := s.op[1] == "l", s.op[2] == "clamp"
	if !left && s.op[1] != "r" || !clamp && s.op[2] != "wrap" {
		return nil, s.unknown()
	}
	d, in, err := c.regs32(s, "b32", 3)
	return ternary32(d, in[0], in[1], in[2], func(lo, hi, by uint32) uint32 {
		if clamp {
			by = min(by, 32)
		} else {
			by &= 31
		}
		x := uint64(hi)<<32 | uint64(lo)
		if left {
			return uint32(x << by >> 32)
		}
		return uint32(x >> by)
	}), err
}

// decodeBits decodes bfi, bfe, brev, clz, popc, prmt, lop3 and copysign.
func decodeBits(c *compiler, s *statement) (exec, error) {
	if len(s.op) != 2 {
		return nil, s.unknown()
	}
	n, _, signed := width(s.typ())
	switch s.op[0] + "." + s.typ() {
	case "brev.b32":
		d, in, err := c.regs32(s, "b32", 1)
		return unary32(d, in[0], bits.Reverse32), err
	case "brev.b64":
		d, in, err := c.regs64(s, "b64", 1)
		return unary64(d, in[0], bits.Reverse64), err
	case "clz.b32":
		d, in, err := c.regs32(s, "b32", 1)
		return unary32(d, in[0], func(x uint32) uint32 { return uint32(bits.LeadingZeros32(x)) }), err
	case "popc.b32":
		d, in, err := c.regs32(s, "b32", 1)
		return unary32(d, in[0], func(x uint32) uint32 { return uint32(bits.OnesCount32(x)) }), err
	case "clz.b64", "popc.b64":
		if err := s.operandsAre(2); err != nil {
			return nil, err
		}
		d, err := c.out32(s, s.operands[0])
		if err != nil {
			return nil, err
		}
		a, err := c.in64(s, s.operands[1], "b64")
		if s.op[0] == "clz" {
			return narrow(d, a, func(x uint64) uint32 { return uint32(bits.LeadingZeros64(x)) }), err
		}
		return narrow(d, a, func(x uint64) uint32 { return uint32(bits.OnesCount64(x)) }), err
	case "prmt.b32":
		d, in, err := c.regs32(s, "b32", 3)
		return ternary32(d, in[0], in[1], in[2], permute), err
	case "lop3.b32":
		if err := s.operandsAre(5); err != nil {
			return nil, err
		}
		table, err := s.constant(s.operands[4])
		if err != nil || table > 255 {
			return nil, s.errorf("expected a table from 0 to 255")
		}
		var at [4]int32
		if at[0], err = c.out32(s, s.operands[0]); err != nil {
			return nil, err
		}
		for i := 1; i < 4; i++ {
			if at[i], err = c.in32(s, s.operands[i], "b32"); err != nil {
				return nil, err
			}
		}
		return ternary32(at[0], at[1], at[2], at[3], func(x, y, z uint32) uint32 {
			r := uint32(0)
			for i := range 8 {
				if table>>i&1 == 0 {
					continue
				}
				m := uint32(full)
				for j, v := range [3]uint32{z, y, x} {
					if i>>j&1 == 0 {
						v = ^v
					}
					m &= v
				}
				r |= m
			}
			return r
		}), nil
	case "copysign.f32":
		c.class = classF32
		d, in, err := c.regs32(s, "f32", 2)
		return binary32(d, in[0], in[1], func(x, y uint32) uint32 { return x&(1<<31) | y&^(1<<31) }), err
	case "copysign.f64":
		c.class = classF64
		d, in, err := c.regs64(s, "f64", 2)
		return binary64(d, in[0], in[1], func(x, y uint64) uint64 { return x&(1<<63) | y&^(1<<63) }), err
	case "bfi.b32":
		if err := s.operandsAre(5); err != nil {
			return nil, err
		}
		dd, err := c.out32(s, s.operands[0])
		if err != nil {
			return nil, err
		}
		var at [4]int32
		for i := range at {
			if at[i], err = c.in32(s, s.operands[i+1], "b32"); err != nil {
				return nil, err
			}
		}
		return func(w *warp, mask uint32) {
			d, a, b, pos, n := &w.r32[dd], &w.r32[at[0]], &w.r32[at[1]], &w.r32[at[2]], &w.r32[at[3]]
			lanes(mask, func(i int) {
				m := uint32((uint64(1)<<min(n[i]&0xff, 32) - 1) << (pos[i] & 0xff))
				d[i] = b[i]&^m | a[i]<<(pos[i]&0xff)&m
			})
		}, nil
	}
	if s.op[0] != "bfe" || n < 32 {
		return nil, s.errorf("unknown form of instruction: %s (width %s)", s.name(), strconv.Itoa(n))
	}
	extract := func(x uint64, pos, length uint32) uint64 {
		pos, length = pos&0xff, length&0xff
		if length == 0 {
			return 0
		}
		top := min(pos+length-1, uint32(n-1))
		sign := uint64(0)
		if signed {
			sign = x >> top & 1
		}
		r := uint64(0)
		if pos < uint32(n) {
			r = x >> pos
		}
		if length < 64 {
			r &= 1<<length - 1
		}
		if have := min(length, uint32(max(0, n-int(pos)))); sign == 1 && have < 64 {
			r |= ^uint64(0) << have
		}
		return r
	}
	if n == 32 {
		d, in, err := c.regs32(s, s.typ(), 3)
		return ternary32(d, in[0], in[1], in[2], func(x, pos, length uint32) uint32 {
			return uint32(extract(uint64(x), pos, length))
		}), err
	}
	if err := s.operandsAre(4); err != nil {
		return nil, err
	}
	dd, err := c.out64(s, s.operands[0])
	if err != nil {
		return nil, err
	}
	aa, err := c.in64(s, s.operands[1], s.typ())
	if err != nil {
		return nil, err
	}
	pa, err := c.in32(s, s.operands[2], "u32")
	if err != nil {
		return nil, err
	}
	la, err := c.in32(s, s.operands[3], "u32")
	return func(w *warp, mask uint32) {
		lanes(mask, func(i int) { w.r64[dd][i] = extract(w.r64[aa][i], w.r32[pa][i], w.r32[la][i]) })
	}, err
}

// permute computes prmt: each nibble of by selects a byte of y:x, or copies of its sign.
func permute(x, y, by uint32) uint32 {
	all, r := uint64(y)<<32|uint64(x), uint32(0)
	for i := range 4 {
		n := by >> (4 * i)
		b := uint32(all>>(8*(n&7))) & 0xff
		if n&8 != 0 {
			b = -(b >> 7) & 0xff
		}
		r |= b << (8 * i)
	}
	return r
}
