package emu

import (
	"math/bits"
	"slices"
)

// Comparisons, and instructions with a predicate operand.

func decodeSelect(c *compiler, s *statement) (exec, error) {
	if len(s.op) != 2 {
		return nil, s.unknown()
	}
	if err := s.operandsAre(4); err != nil {
		return nil, err
	}
	c.class = classMove
	n, _, _ := width(s.typ())
	p, err := c.predIn(s, s.operands[3])
	if err != nil {
		return nil, err
	}
	if n == 64 {
		dd, err := c.out64(s, s.operands[0])
		if err != nil {
			return nil, err
		}
		aa, err := c.in64(s, s.operands[1], s.typ())
		if err != nil {
			return nil, err
		}
		ba, err := c.in64(s, s.operands[2], s.typ())
		return func(w *warp, mask uint32) {
			d, a, b, p := &w.r64[dd], &w.r64[aa], &w.r64[ba], p(w)
			for ; mask != 0; mask &= mask - 1 {
				i := bits.TrailingZeros32(mask) & 31
				if p>>i&1 != 0 {
					d[i] = a[i]
				} else {
					d[i] = b[i]
				}
			}
		}, err
	}
	if n != 16 && n != 32 {
		return nil, s.unknown()
	}
	dd, err := c.out32(s, s.operands[0])
	if err != nil {
		return nil, err
	}
	aa, err := c.in32(s, s.operands[1], s.typ())
	if err != nil {
		return nil, err
	}
	ba, err := c.in32(s, s.operands[2], s.typ())
	return func(w *warp, mask uint32) {
		d, a, b, p := &w.r32[dd], &w.r32[aa], &w.r32[ba], p(w)
		for ; mask != 0; mask &= mask - 1 {
			i := bits.TrailingZeros32(mask) & 31
			if p>>i&1 != 0 {
				d[i] = a[i]
			} else {
				d[i] = b[i]
			}
		}
	}, err
}

// comparison returns a function that evaluates the named comparison on the order of x and y (-1, 0, 1; 2: NaN), or
// nil if the name is unknown.
func comparison(name string) func(order int) bool {
	switch name {
	case "eq":
		return func(o int) bool { return o == 0 }
	case "ne":
		return func(o int) bool { return o == 1 || o == -1 }
	case "lt", "lo":
		return func(o int) bool { return o == -1 }
	case "le", "ls":
		return func(o int) bool { return o <= 0 }
	case "gt", "hi":
		return func(o int) bool { return o == 1 }
	case "ge", "hs":
		return func(o int) bool { return o == 0 || o == 1 }
	case "equ":
		return func(o int) bool { return o == 0 || o == 2 }
	case "neu":
		return func(o int) bool { return o != 0 }
	case "ltu":
		return func(o int) bool { return o == -1 || o == 2 }
	case "leu":
		return func(o int) bool { return o != 1 }
	case "gtu":
		return func(o int) bool { return o >= 1 }
	case "geu":
		return func(o int) bool { return o >= 0 }
	case "num":
		return func(o int) bool { return o != 2 }
	case "nan":
		return func(o int) bool { return o == 2 }
	}
	return nil
}

func order[T int32 | uint32 | int64 | uint64 | float32 | float64](x, y T) int {
	switch {
	case x < y:
		return -1
	case x == y:
		return 0
	case x > y:
		return 1
	}
	return 2
}

// decodeCompare decodes setp.cmp[.bool].type p[|q], a, b[, c].
func decodeCompare(c *compiler, s *statement) (exec, error) {
	ops := len(s.op)
	if ops != 3 && ops != 4 {
		return nil, s.unknown()
	}
	join := ""
	if ops == 4 {
		if join = s.op[2]; join != "and" && join != "or" && join != "xor" {
			return nil, s.unknown()
		}
		if err := s.operandsAre(4); err != nil {
			return nil, err
		}
	} else if err := s.operandsAre(3); err != nil {
		return nil, err
	}
	holds := comparison(s.op[1])
	n, float, signed := width(s.typ())
	unsigned := slices.Contains([]string{"lo", "ls", "hi", "hs"}, s.op[1])
	if holds == nil || n < 16 || !float && len(s.op[1]) == 3 || unsigned && (float || signed) {
		return nil, s.unknown()
	}
	var table [4]bool
	for o := range table {
		table[o] = holds(o - 1)
	}
	second := int32(-1)
	first := s.operands[0]
	if first.kind == pairOperand {
		var err error
		if second, err = c.pred(s, first.list[1]); err != nil {
			return nil, err
		}
		first = first.list[0]
	}
	d, err := c.pred(s, first)
	if err != nil {
		return nil, err
	}
	other := func(*warp) uint32 { return 0 }
	if join != "" {
		if other, err = c.predIn(s, s.operands[3]); err != nil {
			return nil, err
		}
	}
	compare, err := c.compare(s, n, float, signed, table)
	if err != nil {
		return nil, err
	}
	if join == "" && second < 0 {
		return func(w *warp, mask uint32) { setMask(w, d, mask, compare(w, mask)) }, nil
	}
	combine := func(x, y uint32) uint32 {
		switch join {
		case "and":
			return x & y
		case "or":
			return x | y
		case "xor":
			return x ^ y
		}
		return x
	}
	return func(w *warp, mask uint32) {
		r, o := compare(w, mask), other(w)
		setMask(w, d, mask, combine(r, o))
		if second >= 0 {
			setMask(w, second, mask, combine(^r, o))
		}
	}, nil
}

func (c *compiler) compare(s *statement, n int, float, signed bool, table [4]bool) (func(w *warp, mask uint32) uint32, error) {
	in := c.in32
	if n == 64 {
		in = c.in64
	}
	aa, err := in(s, s.operands[1], s.typ())
	if err != nil {
		return nil, err
	}
	ba, err := in(s, s.operands[2], s.typ())
	if err != nil {
		return nil, err
	}
	var bit [4]uint32
	for i, t := range table {
		if t {
			bit[i] = 1
		}
	}
	if n == 64 {
		o := func(x, y uint64) int { return order(x, y) }
		if float {
			c.class = classF64
			o = func(x, y uint64) int { return order(f64(x), f64(y)) }
		} else if signed {
			o = func(x, y uint64) int { return order(int64(x), int64(y)) }
		}
		return func(w *warp, mask uint32) (r uint32) {
			a, b := &w.r64[aa], &w.r64[ba]
			for ; mask != 0; mask &= mask - 1 {
				i := bits.TrailingZeros32(mask) & 31
				r |= bit[(o(a[i], b[i])+1)&3] << i
			}
			return r
		}, nil
	}
	o := func(x, y uint32) int { return order(x, y) }
	switch {
	case float && s.typ() == "f16":
		o = func(x, y uint32) int { return order(fromHalf(x), fromHalf(y)) }
	case float && s.typ() == "bf16":
		o = func(x, y uint32) int { return order(f32(x<<16), f32(y<<16)) }
	case float:
		c.class = classF32
		o = func(x, y uint32) int { return order(f32(x), f32(y)) }
	case signed && n == 16:
		o = func(x, y uint32) int { return order(int32(int16(x)), int32(int16(y))) }
	case n == 16:
		o = func(x, y uint32) int { return order(x&0xffff, y&0xffff) }
	case signed:
		o = func(x, y uint32) int { return order(int32(x), int32(y)) }
	}
	return func(w *warp, mask uint32) (r uint32) {
		a, b := &w.r32[aa], &w.r32[ba]
		for ; mask != 0; mask &= mask - 1 {
			i := bits.TrailingZeros32(mask) & 31
			r |= bit[(o(a[i], b[i])+1)&3] << i
		}
		return r
	}, nil
}
