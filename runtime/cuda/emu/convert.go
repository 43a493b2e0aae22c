package emu

import (
	"math"
	"math/big"
	"math/bits"
)

// fromHalf returns the float16 in the lower bits of x.
func fromHalf(x uint32) float32 {
	sign, exp, frac := x>>15&1<<31, x>>10&31, x&0x3ff
	switch {
	case exp == 31 && frac != 0:
		return f32(nan32)
	case exp == 31:
		return f32(sign | 0x7f800000)
	case exp == 0:
		v := float32(frac) * 0x1p-24
		return f32(sign | math.Float32bits(v))
	}
	return f32(sign | (exp+112)<<23 | frac<<13)
}

// roundTo rounds x to a float with the given bits of exponent and fraction, and returns its bits. The format must be
// smaller than float64. mode is rn, rz, rm or rp.
func roundTo(x float64, exponent, fraction int, mode string) uint64 {
	sign := math.Float64bits(x) >> 63 << (exponent + fraction)
	top := uint64(1)<<exponent - 1
	inf := sign | top<<fraction
	if x != x {
		return 1<<(exponent+fraction) - 1
	}
	if math.IsInf(x, 0) {
		return inf
	}
	if x == 0 {
		return sign
	}
	bias := 1<<(exponent-1) - 1
	a := math.Abs(x)
	_, e := math.Frexp(a) // a = f·2^e, f from 1/2
	e--
	e = max(e, 1-bias)
	unit := math.Ldexp(1, e-fraction)
	q := a / unit // exact: a power of two
	n := math.Floor(q)
	rest := q - n
	up := false
	switch mode {
	case "rn":
		up = rest > 0.5 || rest == 0.5 && math.Mod(n, 2) == 1
	case "rp":
		up = rest > 0 && x > 0
	case "rm":
		up = rest > 0 && x < 0
	}
	if up {
		n++
	}
	// The number n·unit as bits: a carry increments the exponent by itself.
	r := uint64(n)
	if n >= math.Ldexp(1, fraction) {
		r += uint64(e+bias-1) << fraction
	}
	if r >= top<<fraction {
		if mode == "rz" || mode == "rp" && x < 0 || mode == "rm" && x > 0 {
			return sign | top<<fraction - 1
		}
		return inf
	}
	return sign | r
}

// integral rounds x to an integer.
func integral(x float64, mode string) float64 {
	switch mode {
	case "rni", "rn":
		return math.RoundToEven(x)
	case "rzi", "rz":
		return math.Trunc(x)
	case "rmi", "rm":
		return math.Floor(x)
	}
	return math.Ceil(x)
}

// toInteger returns x as an integer of n bits, or the nearest one if it is out of range. wide means that x is a
// float64. NaN gives only the highest bit if wide or n is 64, and otherwise 0.
func toInteger(x float64, n int, signed, wide bool, mode string) uint64 {
	if x != x && (wide || n == 64) {
		return 1 << (n - 1)
	}
	if x != x {
		return 0
	}
	x = integral(x, mode)
	if signed {
		low, high := -math.Ldexp(1, n-1), math.Ldexp(1, n-1)
		switch {
		case x < low:
			return uint64(int64(-1) << (n - 1))
		case x >= high:
			return 1<<(n-1) - 1
		}
		return uint64(int64(x))
	}
	switch {
	case x <= 0:
		return 0
	case x >= math.Ldexp(1, n):
		return 1<<n - 1
	}
	return uint64(x)
}

// fromInteger returns an integer as the bits of a float of n bits.
func fromInteger(x uint64, signed bool, n int, mode string) uint64 {
	if n == 64 && mode == "rn" {
		if signed {
			return f64bits(float64(int64(x)))
		}
		return f64bits(float64(x))
	}
	if n == 32 && mode == "rn" {
		if signed {
			return uint64(math.Float32bits(float32(int64(x))))
		}
		return uint64(math.Float32bits(float32(x)))
	}
	m := map[string]big.RoundingMode{"rn": big.ToNearestEven, "rz": big.ToZero, "rm": big.ToNegativeInf, "rp": big.ToPositiveInf}[mode]
	precision := uint(53)
	if n == 32 {
		precision = 24
	}
	z := new(big.Float).SetPrec(precision).SetMode(m)
	if n < 32 { // float64, rounded to odd: bits beyond 53 are below float16's and bfloat16's precision
		z.SetMode(big.ToZero)
	}
	if signed {
		z.SetInt64(int64(x))
	} else {
		z.SetUint64(x)
	}
	y, _ := z.Float64()
	switch n {
	case 64:
		return f64bits(y)
	case 32:
		return uint64(math.Float32bits(float32(y)))
	}
	if z.Acc() != big.Exact {
		y = f64(f64bits(y) | 1)
	}
	return roundTo(y, 5, 10, mode)
}

// decodeConvert decodes cvt.
func decodeConvert(c *compiler, s *statement) (exec, error) {
	c.class = classConvert
	if len(s.op) < 3 {
		return nil, s.unknown()
	}
	from, to := s.typ(), s.op[len(s.op)-2]
	mode, sat, ftz, relu := "", false, false, false
	for _, q := range s.op[1 : len(s.op)-2] {
		switch q {
		case "rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "rna":
			mode = q
		case "sat":
			sat = true
		case "ftz":
			ftz = true
		case "relu":
			relu = true
		default:
			return nil, s.unknown()
		}
	}
	if to == "f16x2" || to == "bf16x2" {
		return c.convertPair(s, to, from, mode, relu)
	}
	if err := s.operandsAre(2); err != nil {
		return nil, err
	}
	convert, fromBits, toBits, err := conversion(s, from, to, mode, sat, ftz, relu)
	if err != nil {
		return nil, err
	}
	// If the type is narrower than the register, a signed result is sign-extended.
	fill := func(x uint64) uint64 { return x << (64 - toBits) >> (64 - toBits) }
	if t := c.e.regs[s.operands[0].name]; to[0] == 's' && 8*typeBytes(t) >= max(32, toBits) {
		fill = func(x uint64) uint64 { return uint64(int64(x<<(64-toBits)) >> (64 - toBits)) }
	}
	extend := func(x uint64) uint32 { return uint32(fill(x)) }
	fromWide := fromBits == 64
	if n := s.operands[1]; n.kind == nameOperand && registerClass(c.e.regs[n.name]) == 64 && fromBits < 64 && c.e.regs[n.name] != "" {
		fromWide = true // lower bits of a wider register
	}
	switch {
	case fromWide && toBits == 64:
		d, in, err := c.regs64(s, from, 1)
		return unary64(d, in[0], convert), err
	case fromWide:
		d, err := c.out32(s, s.operands[0])
		if err != nil {
			return nil, err
		}
		a, err := c.in64(s, s.operands[1], from)
		return narrow(d, a, func(x uint64) uint32 { return extend(convert(x)) }), err
	case toBits == 64 || registerClass(c.e.regs[s.operands[0].name]) == 64 && c.e.regs[s.operands[0].name] != "":
		d, err := c.out64(s, s.operands[0])
		if err != nil {
			return nil, err
		}
		a, err := c.in32(s, s.operands[1], from)
		return widen(d, a, func(x uint32) uint64 { return fill(convert(uint64(x))) }), err
	}
	d, in, err := c.regs32(s, from, 1)
	return unary32(d, in[0], func(x uint32) uint32 { return extend(convert(uint64(x))) }), err
}

// conversion returns the function from bits of one type to bits of another.
func conversion(s *statement, from, to, mode string, sat, ftz, relu bool) (f func(uint64) uint64, fromBits, toBits int, err error) {
	fromBits, fromFloat, fromSigned := width(from)
	if to == "tf32" {
		if from != "f32" || mode != "rna" || sat || ftz || relu {
			return nil, 0, 0, s.unknown()
		}
		return func(x uint64) uint64 {
			if y := f32(uint32(x)); y != y || math.IsInf(float64(y), 0) {
				return uint64(f32bits(y))
			}
			// Half of the last remaining bit is added to the magnitude; a carry increments the exponent.
			return uint64((uint32(x) + 1<<12) &^ (1<<13 - 1))
		}, 32, 32, nil
	}
	toBits, toFloat, toSigned := width(to)
	if fromBits == 0 || toBits == 0 || from[0] == 'b' && from != "bf16" || to[0] == 'b' && to != "bf16" || mode == "rna" ||
		relu && to != "f16" && to != "bf16" || ftz && from != "f32" && to != "f32" {
		return nil, 0, 0, s.unknown()
	}
	integer := len(mode) == 3
	cut := func(x uint64) uint64 { return x << (64 - fromBits) >> (64 - fromBits) }
	if fromSigned {
		cut = func(x uint64) uint64 { return uint64(int64(x<<(64-fromBits)) >> (64 - fromBits)) }
	}
	switch {
	case !fromFloat && !toFloat:
		if mode != "" {
			return nil, 0, 0, s.unknown()
		}
		return func(x uint64) uint64 {
			x = cut(x)
			if !sat {
				return x
			}
			switch {
			case toSigned && fromSigned:
				return uint64(min(max(int64(x), -1<<(toBits-1)), 1<<(toBits-1)-1))
			case toSigned:
				return min(x, 1<<(toBits-1)-1)
			case fromSigned && int64(x) < 0:
				return 0
			}
			return min(x, 1<<toBits-1)
		}, fromBits, toBits, nil
	case !fromFloat:
		if mode == "" || integer || to == "bf16" || sat {
			return nil, 0, 0, s.unknown()
		}
		return func(x uint64) uint64 { return fromInteger(cut(x), fromSigned, toBits, mode) }, fromBits, toBits, nil
	}
	var read func(uint64) float64
	switch from {
	case "f64":
		read = f64
	case "f32":
		read = func(x uint64) float64 {
			if ftz {
				return float64(flush(f32(uint32(x))))
			}
			return float64(f32(uint32(x)))
		}
	case "f16":
		read = func(x uint64) float64 { return float64(fromHalf(uint32(x) & 0xffff)) }
	case "bf16":
		read = func(x uint64) float64 { return float64(f32(uint32(x) << 16)) }
	}
	if !toFloat {
		if !integer {
			return nil, 0, 0, s.unknown()
		}
		return func(x uint64) uint64 { return toInteger(read(x), toBits, toSigned, fromBits == 64, mode) }, fromBits, toBits, nil
	}
	// A conversion to a larger type never rounds; between equal types only a conversion to integers does.
	if from == to && mode != "" && !integer || toBits > fromBits && mode != "" || toBits < fromBits && (mode == "" || integer) {
		return nil, 0, 0, s.unknown()
	}
	change := func(y float64) float64 {
		if integer && from == to {
			y = integral(y, mode)
		}
		if sat && !(y > 0) || relu && y < 0 {
			y = 0
		} else if sat {
			y = min(y, 1)
		}
		return y
	}
	if sat && to != "f32" {
		return nil, 0, 0, s.unknown()
	}
	switch to {
	case "f64":
		return func(x uint64) uint64 { return f64bits(change(read(x))) }, fromBits, toBits, nil
	case "f32":
		return func(x uint64) uint64 {
			y := change(read(x))
			z := toward32(y, 0, mode)
			if mode == "" || mode == "rn" || integer {
				z = float32(y)
			}
			if ftz {
				z = flush(z)
			}
			return uint64(f32bits(z))
		}, fromBits, toBits, nil
	case "f16":
		return func(x uint64) uint64 { return roundTo(change(read(x)), 5, 10, orNearest(mode)) }, fromBits, toBits, nil
	case "bf16":
		return func(x uint64) uint64 { return roundTo(change(read(x)), 8, 7, orNearest(mode)) }, fromBits, toBits, nil
	}
	return nil, 0, 0, s.unknown()
}

func orNearest(mode string) string {
	if rounding(mode) {
		return mode
	}
	return "rn"
}

// convertPair decodes cvt.rn.f16x2.f32 d, a, b, with a in the upper half.
func (c *compiler) convertPair(s *statement, to, from, mode string, relu bool) (exec, error) {
	if from != "f32" || mode != "rn" && mode != "rz" {
		return nil, s.unknown()
	}
	exponent, fraction := 5, 10
	if to == "bf16x2" {
		exponent, fraction = 8, 7
	}
	one := func(x uint32) uint32 {
		y := float64(f32(x))
		if relu && y < 0 {
			y = 0
		}
		return uint32(roundTo(y, exponent, fraction, mode))
	}
	d, in, err := c.regs32(s, "f32", 2)
	return binary32(d, in[0], in[1], func(x, y uint32) uint32 { return one(x)<<16 | one(y) }), err
}

// decodeMove decodes mov.
func decodeMove(c *compiler, s *statement) (exec, error) {
	c.class = classMove
	if len(s.op) != 2 {
		return nil, s.unknown()
	}
	if err := s.operandsAre(2); err != nil {
		return nil, err
	}
	typ := s.typ()
	to, from := s.operands[0], s.operands[1]
	n, _, _ := width(typ)
	switch {
	case typ == "pred":
		d, err := c.pred(s, to)
		if err != nil {
			return nil, err
		}
		a, err := c.predIn(s, from)
		return func(w *warp, mask uint32) { setMask(w, d, mask, a(w)) }, err
	case to.kind == vectorOperand && n == 64:
		d, err := c.outs32(s, to, 2)
		if err != nil {
			return nil, err
		}
		a, err := c.in64(s, from, typ)
		return func(w *warp, mask uint32) {
			lo, hi, a := &w.r32[d[0]], &w.r32[d[1]], &w.r64[a]
			for ; mask != 0; mask &= mask - 1 {
				i := bits.TrailingZeros32(mask) & 31
				lo[i], hi[i] = uint32(a[i]), uint32(a[i]>>32)
			}
		}, err
	case from.kind == vectorOperand && n == 64:
		d, err := c.out64(s, to)
		if err != nil {
			return nil, err
		}
		a, err := c.ins32(s, from, "b32", 2)
		return func(w *warp, mask uint32) {
			d, lo, hi := &w.r64[d], &w.r32[a[0]], &w.r32[a[1]]
			for ; mask != 0; mask &= mask - 1 {
				i := bits.TrailingZeros32(mask) & 31
				d[i] = uint64(hi[i])<<32 | uint64(lo[i])
			}
		}, err
	case to.kind == vectorOperand && n == 32:
		d, err := c.outs32(s, to, 2)
		if err != nil {
			return nil, err
		}
		a, err := c.in32(s, from, typ)
		return func(w *warp, mask uint32) {
			lanes(mask, func(i int) {
				x := w.r32[a][i]
				w.r32[d[0]][i], w.r32[d[1]][i] = x&0xffff, x>>16
			})
		}, err
	case from.kind == vectorOperand && n == 32:
		d, err := c.out32(s, to)
		if err != nil {
			return nil, err
		}
		a, err := c.ins32(s, from, "b16", 2)
		return func(w *warp, mask uint32) {
			lanes(mask, func(i int) { w.r32[d][i] = w.r32[a[0]][i]&0xffff | w.r32[a[1]][i]<<16 })
		}, err
	case n == 64:
		da, err := c.out64(s, to)
		if err != nil {
			return nil, err
		}
		aa, err := c.in64(s, from, typ)
		return func(w *warp, mask uint32) {
			d, a := &w.r64[da], &w.r64[aa]
			if mask == full {
				*d = *a
				return
			}
			for ; mask != 0; mask &= mask - 1 {
				i := bits.TrailingZeros32(mask) & 31
				d[i] = a[i]
			}
		}, err
	case n == 16 || n == 32:
		da, err := c.out32(s, to)
		if err != nil {
			return nil, err
		}
		aa, err := c.in32(s, from, typ)
		return func(w *warp, mask uint32) {
			d, a := &w.r32[da], &w.r32[aa]
			if mask == full {
				*d = *a
				return
			}
			for ; mask != 0; mask &= mask - 1 {
				i := bits.TrailingZeros32(mask) & 31
				d[i] = a[i]
			}
		}, err
	}
	return nil, s.unknown()
}

// decodeAddress decodes cvta.to.global, which changes nothing: addresses of global memory are generic addresses. The
// generic space has no other memory here.
func decodeAddress(c *compiler, s *statement) (exec, error) {
	c.class = classMove
	name := s.name()
	if name != "cvta.to.global.u64" && name != "cvta.global.u64" {
		return nil, s.unknown()
	}
	d, in, err := c.regs64(s, "u64", 1)
	return unary64(d, in[0], func(x uint64) uint64 { return x }), err
}
