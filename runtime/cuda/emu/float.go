package emu

import (
	"math"
	"math/bits"
)

// nan32 is the float32 NaN that instructions return.
const nan32 = 0x7fffffff

func f32(x uint32) float32 { return math.Float32frombits(x) }
func f64(x uint64) float64 { return math.Float64frombits(x) }

func f32bits(x float32) uint32 {
	if x != x {
		return nan32
	}
	return math.Float32bits(x)
}

func f64bits(x float64) uint64 { return math.Float64bits(x) }

// fma32 returns a·b + c, rounded once. The product is exact in float64. The sum is rounded there to odd, so that
// rounding it to float32 equals rounding the exact sum.
func fma32(a, b, c float32) float32 {
	p, z := float64(a)*float64(b), float64(c)
	s := p + z
	if u := math.Float64bits(s); u&0x1fffffff == 0x10000000 || u>>52&0x7ff < 1023-125 && s != 0 {
		// A tie, or a subnormal result, whose ties are at other bits.
		if t := s - p; !math.IsInf(s, 0) {
			if err := (p - (s - t)) + (z - t); err != 0 && u&1 == 0 {
				if err > 0 == (s > 0) {
					u++
				} else {
					u--
				}
				s = math.Float64frombits(u)
			}
		}
	}
	return float32(s)
}

// rounding reports whether q is a rounding qualifier. If there is none, instructions use rn.
func rounding(q string) bool { return q == "rn" || q == "rz" || q == "rm" || q == "rp" }

// floatForm reads the qualifiers of a floating-point instruction: rounding, .ftz, .sat.
func floatForm(s *statement) (round string, ftz, sat bool, err error) {
	round = "rn"
	for _, q := range s.op[1 : len(s.op)-1] {
		switch {
		case rounding(q):
			round = q
		case q == "ftz" && s.typ() == "f32":
			ftz = true
		case q == "sat" && s.typ() == "f32":
			sat = true
		default:
			return "", false, false, s.unknown()
		}
	}
	return round, ftz, sat, nil
}

func flush(x float32) float32 {
	if math.Abs(float64(x)) < 0x1p-126 {
		return float32(math.Copysign(0, float64(x)))
	}
	return x
}

func saturate(x float32) float32 {
	if !(x > 0) { // and NaN
		return 0
	}
	return min(x, 1)
}

// decodeAddFloat decodes add, sub and mul of floats.
func decodeAddFloat(c *compiler, s *statement) (exec, error) {
	round, ftz, sat, err := floatForm(s)
	if err != nil {
		return nil, err
	}
	op := s.op[0]
	switch s.typ() {
	case "f32":
		c.class = classF32
		d, in, err := c.regs32(s, "f32", 2)
		if err != nil {
			return nil, err
		}
		dd, aa, ba := d, in[0], in[1]
		if round == "rn" && !ftz && !sat {
			switch op {
			case "add":
				return func(w *warp, mask uint32) {
					d, a, b := &w.r32[dd], &w.r32[aa], &w.r32[ba]
					for ; mask != 0; mask &= mask - 1 {
						i := bits.TrailingZeros32(mask) & 31
						d[i] = f32bits(f32(a[i]) + f32(b[i]))
					}
				}, nil
			case "sub":
				return func(w *warp, mask uint32) {
					d, a, b := &w.r32[dd], &w.r32[aa], &w.r32[ba]
					for ; mask != 0; mask &= mask - 1 {
						i := bits.TrailingZeros32(mask) & 31
						d[i] = f32bits(f32(a[i]) - f32(b[i]))
					}
				}, nil
			}
			return func(w *warp, mask uint32) {
				d, a, b := &w.r32[dd], &w.r32[aa], &w.r32[ba]
				for ; mask != 0; mask &= mask - 1 {
					i := bits.TrailingZeros32(mask) & 31
					d[i] = f32bits(f32(a[i]) * f32(b[i]))
				}
			}, nil
		}
		return binaryF32(dd, aa, ba, func(x, y float32) float32 {
			if ftz {
				x, y = flush(x), flush(y)
			}
			var z float32
			if round == "rn" {
				switch op {
				case "add":
					z = x + y
				case "sub":
					z = x - y
				default:
					z = x * y
				}
			} else {
				switch op {
				case "add":
					z = directed32(float64(x), float64(y), '+', round)
				case "sub":
					z = directed32(float64(x), -float64(y), '+', round)
				default:
					z = directed32(float64(x), float64(y), '*', round)
				}
			}
			if ftz {
				z = flush(z)
			}
			if sat {
				z = saturate(z)
			}
			return z
		}), nil
	case "f64":
		c.class = classF64
		if round != "rn" {
			return nil, s.unknown()
		}
		d, in, err := c.regs64(s, "f64", 2)
		switch op {
		case "add":
			return binaryF64(d, in[0], in[1], func(x, y float64) float64 { return x + y }), err
		case "sub":
			return binaryF64(d, in[0], in[1], func(x, y float64) float64 { return x - y }), err
		}
		return binaryF64(d, in[0], in[1], func(x, y float64) float64 { return x * y }), err
	}
	return nil, s.unknown()
}

// directed32 returns x + y or x·y, rounded to float32 in a direction.
func directed32(x, y float64, op byte, round string) float32 {
	var s, rest float64 // their sum is exact
	if op == '*' {
		s = x * y
	} else {
		s = x + y
		if t := s - x; !math.IsInf(s, 0) {
			rest = (x - (s - t)) + (y - t)
		}
	}
	if s == 0 && op == '+' && round == "rm" && (math.Signbit(x) || math.Signbit(y)) && rest == 0 {
		return float32(math.Copysign(0, -1))
	}
	return toward32(s, rest, round)
}

// toward32 rounds x + rest to float32, where |rest| is less than one unit of x.
func toward32(x, rest float64, round string) float32 {
	z := float32(x)
	if x != x || math.IsInf(x, 0) || round == "rn" && rest == 0 {
		return z
	}
	diff := float64(z) - x // its sign is the exact sign of z - (x + rest)
	above := diff > rest
	below := diff < rest
	up, down := false, false
	switch round {
	case "rp":
		up = below
	case "rm":
		down = above
	case "rz":
		up = below && x < 0
		down = above && x > 0
	}
	if up {
		return math.Nextafter32(z, float32(math.Inf(1)))
	}
	if down {
		return math.Nextafter32(z, float32(math.Inf(-1)))
	}
	return z
}

func decodeFMA(c *compiler, s *statement) (exec, error) {
	round, ftz, sat, err := floatForm(s)
	if err != nil {
		return nil, err
	}
	if len(s.op) == 2 || round != "rn" {
		return nil, s.unknown()
	}
	switch s.typ() {
	case "f32":
		c.class = classF32
		d, in, err := c.regs32(s, "f32", 3)
		if err != nil {
			return nil, err
		}
		dd, aa, ba, ca := d, in[0], in[1], in[2]
		if !ftz && !sat {
			return func(w *warp, mask uint32) {
				d, a, b, c := &w.r32[dd], &w.r32[aa], &w.r32[ba], &w.r32[ca]
				for ; mask != 0; mask &= mask - 1 {
					i := bits.TrailingZeros32(mask) & 31
					d[i] = f32bits(fma32(f32(a[i]), f32(b[i]), f32(c[i])))
				}
			}, nil
		}
		return ternary32(dd, aa, ba, ca, func(x, y, z uint32) uint32 {
			a, b, c := f32(x), f32(y), f32(z)
			if ftz {
				a, b, c = flush(a), flush(b), flush(c)
			}
			r := fma32(a, b, c)
			if ftz {
				r = flush(r)
			}
			if sat {
				r = saturate(r)
			}
			return f32bits(r)
		}), nil
	case "f64":
		c.class = classF64
		d, in, err := c.regs64(s, "f64", 3)
		return ternary64(d, in[0], in[1], in[2], func(x, y, z uint64) uint64 {
			return f64bits(math.FMA(f64(x), f64(y), f64(z)))
		}), err
	}
	return nil, s.unknown()
}

func decodeDivFloat(c *compiler, s *statement) (exec, error) {
	c.class = classSpecial
	if len(s.op) != 3 {
		return nil, s.unknown()
	}
	switch s.op[1] + "." + s.typ() {
	case "rn.f32":
		d, in, err := c.regs32(s, "f32", 2)
		return binaryF32(d, in[0], in[1], func(x, y float32) float32 { return x / y }), err
	case "rn.f64":
		d, in, err := c.regs64(s, "f64", 2)
		return binaryF64(d, in[0], in[1], func(x, y float64) float64 { return x / y }), err
	case "full.f32", "approx.f32":
		d, in, err := c.regs32(s, "f32", 2)
		aa, ba := in[0], in[1]
		return func(w *warp, mask uint32) {
			seed := w.block.launch.approx
			lanes(mask, func(i int) {
				x, y := f32(w.r32[aa][i]), f32(w.r32[ba][i])
				if math.Abs(float64(y)) > 0x1p126 && !math.IsInf(float64(y), 0) && s.op[1] == "approx" {
					w.r32[d][i] = f32bits(x * 0) // as documented: the reciprocal of y is 0, and an infinite x gives NaN
					return
				}
				w.r32[d][i] = f32bits(off(float64(x)/float64(y), 2, seed, w.r32[aa][i]^bits.RotateLeft32(w.r32[ba][i], 7)))
			})
		}, err
	}
	return nil, s.unknown()
}

// decodeMinFloat decodes min and max of floats. A NaN operand loses unless .NaN is given, and -0 is less than 0.
func decodeMinFloat(c *compiler, s *statement) (exec, error) {
	nan, ftz := false, false
	for _, q := range s.op[1 : len(s.op)-1] {
		switch {
		case q == "NaN" && s.typ() == "f32":
			nan = true
		case q == "ftz" && s.typ() == "f32":
			ftz = true
		default:
			return nil, s.unknown()
		}
	}
	least := s.op[0] == "min"
	f := func(x, y float64) float64 {
		switch {
		case x != x && (nan || y != y):
			return x
		case x != x:
			return y
		case y != y && nan:
			return y
		case y != y:
			return x
		case least:
			return min(x, y)
		}
		return max(x, y)
	}
	switch s.typ() {
	case "f32":
		c.class = classF32
		d, in, err := c.regs32(s, "f32", 2)
		return binaryF32(d, in[0], in[1], func(x, y float32) float32 {
			z := float32(f(float64(x), float64(y)))
			if ftz {
				z = flush(z)
			}
			return z
		}), err
	case "f64":
		c.class = classF64
		d, in, err := c.regs64(s, "f64", 2)
		return binaryF64(d, in[0], in[1], f), err
	}
	return nil, s.unknown()
}

// decodeRoot decodes sqrt, rsqrt and rcp.
func decodeRoot(c *compiler, s *statement) (exec, error) {
	c.class = classSpecial
	if len(s.op) > 2 && s.op[1] == "approx" {
		return decodeApprox(c, s)
	}
	if len(s.op) != 3 || s.op[1] != "rn" || s.op[0] == "rsqrt" {
		return nil, s.unknown()
	}
	f := math.Sqrt
	if s.op[0] == "rcp" {
		f = func(x float64) float64 { return 1 / x }
	}
	switch s.typ() {
	case "f32": // a float32 root or quotient computed in float64 has only one effective rounding, to float32
		d, in, err := c.regs32(s, "f32", 1)
		return unary32(d, in[0], func(x uint32) uint32 { return f32bits(float32(f(float64(f32(x))))) }), err
	case "f64":
		d, in, err := c.regs64(s, "f64", 1)
		return unary64(d, in[0], func(x uint64) uint64 { return f64bits(f(f64(x))) }), err
	}
	return nil, s.unknown()
}

// off returns x with a relative error of up to units times 2^-23, including the final rounding. The error depends on
// the bits of the operand and a seed. Zero, infinite and NaN are returned unchanged.
func off(x, units float64, seed uint64, operand uint32) float32 {
	if x == 0 || x != x || math.IsInf(x, 0) {
		return float32(x)
	}
	h := (seed ^ uint64(operand)) * 0x9e3779b97f4a7c15
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	e := float64(int64(h)) * 0x1p-63 // from -1 to 1
	return float32(x * (1 + e*max(units-0.5, 0)*0x1p-23))
}

// decodeApprox decodes an approximate function. Its error bounds are from the PTX standard.
func decodeApprox(c *compiler, s *statement) (exec, error) {
	c.class = classSpecial
	ftz := len(s.op) == 4 && s.op[2] == "ftz"
	if len(s.op) < 3 || s.op[1] != "approx" || s.typ() != "f32" || len(s.op) > 3 && !ftz {
		return nil, s.unknown()
	}
	var f func(x float64) float64
	units := 0.0 // relative error, in units of 2^-23
	absolute := 0.0
	switch s.op[0] {
	case "ex2":
		f, units = math.Exp2, 2
	case "lg2":
		f, units, absolute = math.Log2, 2, 0x1p-22
	case "sqrt":
		f, units = math.Sqrt, 1
	case "rsqrt":
		f, units = func(x float64) float64 {
			if x == 0 {
				return math.Copysign(math.Inf(1), x)
			}
			return 1 / math.Sqrt(x)
		}, 1.5
	case "rcp":
		f, units = func(x float64) float64 { return 1 / x }, 1
	case "tanh":
		f, units = math.Tanh, 4096
	case "sin":
		f, absolute = math.Sin, 0x1p-20
	case "cos":
		f, absolute = math.Cos, 0x1p-20
	}
	isLog := s.op[0] == "lg2"
	d, in, err := c.regs32(s, "f32", 1)
	aa := in[0]
	return func(w *warp, mask uint32) {
		seed := w.block.launch.approx
		d, a := &w.r32[d], &w.r32[aa]
		for ; mask != 0; mask &= mask - 1 {
			i := bits.TrailingZeros32(mask) & 31
			x := f32(a[i])
			if ftz {
				x = flush(x)
			}
			y := f(float64(x))
			var z float32
			if absolute != 0 && (!isLog || x > 0.5 && x < 2) {
				if y == y && !math.IsInf(y, 0) {
					y += absolute * (float64(off(1, 1<<23, seed, a[i])) - 1)
				}
				z = float32(y)
			} else {
				z = off(y, units, seed, a[i])
				if s.op[0] == "tanh" {
					z = max(-1, min(1, z))
				}
			}
			if ftz {
				z = flush(z)
			}
			d[i] = f32bits(z)
		}
	}, err
}

// decodeTest decodes testp.
func decodeTest(c *compiler, s *statement) (exec, error) {
	if len(s.op) != 3 {
		return nil, s.unknown()
	}
	if err := s.operandsAre(2); err != nil {
		return nil, err
	}
	d, err := c.pred(s, s.operands[0])
	if err != nil {
		return nil, err
	}
	var read func(w *warp, i int) float64
	least := 0x1p-126
	switch s.typ() {
	case "f32":
		a, err := c.in32(s, s.operands[1], "f32")
		if err != nil {
			return nil, err
		}
		read = func(w *warp, i int) float64 { return float64(f32(w.r32[a][i])) }
	case "f64":
		a, err := c.in64(s, s.operands[1], "f64")
		if err != nil {
			return nil, err
		}
		least = 0x1p-1022
		read = func(w *warp, i int) float64 { return f64(w.r64[a][i]) }
	default:
		return nil, s.unknown()
	}
	var f func(x float64) bool
	switch s.op[1] {
	case "finite":
		f = func(x float64) bool { return x-x == 0 }
	case "infinite":
		f = func(x float64) bool { return math.IsInf(x, 0) }
	case "number":
		f = func(x float64) bool { return x == x }
	case "notanumber":
		f = func(x float64) bool { return x != x }
	case "normal":
		f = func(x float64) bool { return x-x == 0 && math.Abs(x) >= least }
	case "subnormal":
		f = func(x float64) bool { return x != 0 && math.Abs(x) < least }
	default:
		return nil, s.unknown()
	}
	return func(w *warp, mask uint32) {
		r := uint32(0)
		lanes(mask, func(i int) {
			if f(read(w, i)) {
				r |= 1 << i
			}
		})
		setMask(w, d, mask, r)
	}, nil
}
