package emu

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// Products of matrices. Fragments are distributed over the lanes of a warp as the PTX ISA defines. With g = lane/4,
// t = lane%4, and per elements in a register: register r of a, element e, is at row g + 8(r%2), column per·t + e +
// 4·per·(r/2); register r of b at row per·t + e + 4·per·r, column g; registers of c and d at row g + 8(r/2),
// column 2t + r%2.
//
// Sums follow what is known of tensor cores (Fasi, Higham, Mikaitis, Pranesh, "Numerical behavior of NVIDIA tensor
// cores", 2021). Products are exact. The products of a block of k and the sum so far are aligned to the greatest
// exponent among them, and truncated some bits below float32's last; their sum is truncated to float32. Options set
// the number of bits and the length of a block.

// part is an operand of a product: sig·2^(exp-10), infinite, or NaN.
type part struct {
	sig  int32 // with sign, absolute value less than 2^11
	exp  int32
	rare uint8 // 1 means infinite, with the sign of sig; 2 means NaN
}

// nothing is the exponent of 0. It is smaller than the exponents of all other products.
const nothing = -1 << 20

// partOf splits a number with a bias and a fraction of n bits.
func partOf(x uint32, expBits, n int) part {
	bias := int32(1)<<(expBits-1) - 1
	frac := int32(x & (1<<n - 1))
	exp := int32(x>>n) & (1<<expBits - 1)
	p := part{sig: frac << (10 - n), exp: exp - bias}
	switch {
	case exp == 1<<expBits-1:
		p.rare, p.sig = 1, 1
		if frac != 0 {
			p.rare = 2
		}
	case exp != 0:
		p.sig |= 1 << 10
	case frac == 0:
		p.exp = nothing
	default:
		p.exp = 1 - bias
	}
	if x>>(n+expBits)&1 != 0 {
		p.sig = -p.sig
	}
	return p
}

// tf32Part is partOf for TF32, with a fast path for normal numbers.
func tf32Part(x uint32) part {
	if e := x >> 23 & 0xff; e-1 < 254 {
		sign := int32(x) >> 31
		return part{sig: (int32(1<<10|x>>13&0x3ff) ^ sign) - sign, exp: int32(e) - 127}
	}
	return partOf(x>>13, 8, 10)
}

func f16Part(x uint32) part { return partOf(x&0xffff, 5, 10) }

// bf16Part treats bfloat16 as TF32 followed by zeros.
func bf16Part(x uint32) part { return tf32Part(x << 16) }

// tensorSum adds products a[i]·b[i] to c as tensor cores do, block of them at a time, with extra bits below
// float32's last.
func tensorSum(c float32, a, b []part, block int, extra uint) float32 {
	for len(a) > 0 {
		n := min(block, len(a))
		c = tensorBlock(c, a[:n], b[:n], extra)
		a, b = a[n:], b[n:]
	}
	return c
}

func tensorBlock(c float32, a, b []part, extra uint) float32 {
	b = b[:len(a)]
	cb := math.Float32bits(c)
	ce := int32(cb>>23)&0xff - 127
	rare := ce == 128
	cs := int64(cb & (1<<23 - 1))
	switch {
	case ce != -127:
		cs |= 1 << 23
	case cs == 0:
		ce = nothing
	default:
		ce = -126
	}
	top := ce
	for i := range a {
		top = max(top, a[i].exp+b[i].exp)
		rare = rare || a[i].rare|b[i].rare != 0
	}
	if rare {
		return rareSum(c, a, b)
	}
	if top < nothing/2 {
		return 0
	}
	sum := cs << extra >> uint(top-ce)
	if int32(cb) < 0 {
		sum = -sum
	}
	for i := range a {
		// Truncate towards 0 without a branch, because signs follow no pattern. At most 63 bits remain.
		p := int64(a[i].sig) * int64(b[i].sig) << (3 + extra)
		shift := min(uint(top-a[i].exp-b[i].exp), 63)
		sum += (p + p>>63&(1<<(shift&63)-1)) >> (shift & 63)
	}
	return cutOff(sum, int(top)-23-int(extra))
}

// cutOff returns x·2^exp as float32, truncating the bits that do not fit.
func cutOff(x int64, exp int) float32 {
	if x == 0 {
		return 0
	}
	sign := uint32(0)
	m := uint64(x)
	if x < 0 {
		sign, m = 1<<31, uint64(-x)
	}
	drop := max(bits.Len64(m)-24, -149-exp)
	if drop > 0 {
		m >>= uint(drop)
		exp += drop
	} else if up := min(-drop, exp+149); up > 0 {
		m <<= uint(up)
		exp -= up
	}
	if m < 1<<23 {
		return math.Float32frombits(sign | uint32(m)) // exp is -149
	}
	e := exp + 23 + 127
	if e >= 255 {
		return math.Float32frombits(sign | 0xff<<23)
	}
	return math.Float32frombits(sign | uint32(e)<<23 | uint32(m)&(1<<23-1))
}

// rareSum is the sum if an operand is infinite or NaN.
func rareSum(c float32, a, b []part) float32 {
	value := func(p part) float64 {
		switch p.rare {
		case 1:
			return math.Inf(int(p.sig))
		case 2:
			return math.NaN()
		}
		if p.sig == 0 {
			return 0
		}
		return math.Ldexp(float64(p.sig), int(p.exp)-10)
	}
	s := float64(c)
	for i := range a {
		s += value(a[i]) * value(b[i])
	}
	if s != s {
		return math.Float32frombits(0x7fffffff)
	}
	return float32(s) // infinite: the products of finite operands stay within float64's range
}

// Defaults are the A100's, the least exact of the supported cards.
const (
	matrixBits    = 1
	matrixBlock32 = 4 // products of TF32
	matrixBlock16 = 8 // of 16 bits
)

// matrixShape is a form of mma.
type matrixShape struct {
	m, k    int
	per     int // elements in a register
	ra, rb  int // registers of a and b
	rc      int // of c and d
	isF64   bool
	isInt   bool
	signedA bool
	signedB bool
	part    func(uint32) part
	number  func(uint32) (float64, int32)
}

func matrixForm(shape, types string) (f matrixShape, ok bool) {
	f.m, f.rc = 16, 4
	switch types {
	case "f32.tf32.tf32.f32":
		f.per, f.part, f.number = 1, tf32Part, tf32Number
	case "f32.bf16.bf16.f32":
		f.per, f.part, f.number = 2, bf16Part, bf16Number
	case "f32.f16.f16.f32":
		f.per, f.part, f.number = 2, f16Part, f16Number
	case "s32.s8.s8.s32", "s32.u8.u8.s32", "s32.s8.u8.s32", "s32.u8.s8.s32":
		f.per, f.isInt = 4, true
		f.signedA, f.signedB = types[4] == 's', types[7] == 's'
	case "f64.f64.f64.f64":
		f.m, f.k, f.per, f.ra, f.rb, f.rc, f.isF64 = 8, 4, 1, 1, 1, 2, true
		return f, shape == "m8n8k4"
	default:
		return f, false
	}
	switch shape {
	case "m16n8k4", "m16n8k8", "m16n8k16", "m16n8k32":
	default:
		return f, false
	}
	f.k = int(shape[6] - '0')
	if len(shape) == 8 {
		f.k = 10*f.k + int(shape[7]-'0')
	}
	f.rb = f.k / (4 * f.per)
	f.ra = 2 * f.rb
	return f, (f.rb == 1 || f.rb == 2) && f.k%(4*f.per) == 0
}

func decodeMMA(c *compiler, s *statement) (exec, error) {
	c.class, c.yields = classMatrix, true
	op := s.op
	if n := len(op); n == 11 && op[6] == "satfinite" { // integer forms
		return nil, s.unknown()
	}
	if len(op) != 10 || op[1] != "sync" || op[2] != "aligned" || op[4] != "row" || op[5] != "col" {
		return nil, s.unknown()
	}
	f, ok := matrixForm(op[3], op[6]+"."+op[7]+"."+op[8]+"."+op[9])
	if !ok {
		return nil, s.unknown()
	}
	if err := s.operandsAre(4); err != nil {
		return nil, err
	}
	here := c.here()
	if f.isF64 {
		return c.matrixF64(s, here)
	}
	d, err := c.outs32(s, s.operands[0], f.rc)
	if err != nil {
		return nil, err
	}
	a, err := c.ins32(s, s.operands[1], "b32", f.ra)
	if err != nil {
		return nil, err
	}
	b, err := c.ins32(s, s.operands[2], "b32", f.rb)
	if err != nil {
		return nil, err
	}
	typ := "f32"
	if f.isInt {
		typ = "s32"
	}
	in, err := c.ins32(s, s.operands[3], typ, f.rc)
	if err != nil {
		return nil, err
	}
	if f.isInt {
		return func(w *warp, mask uint32) {
			w.member(here(w), full, mask)
			f.integers(w, d, a, b, in)
		}, nil
	}
	return func(w *warp, mask uint32) {
		w.member(here(w), full, mask)
		f.floats(w, d, a, b, in)
	}, nil
}

// floats computes a product by finiteFloats, or one number at a time if an operand is infinite or NaN.
func (f *matrixShape) floats(w *warp, d, a, b, c []int32) {
	o := &w.block.launch.device.driver.options
	extra, block := uint(matrixBits), matrixBlock16
	if f.per == 1 {
		block = matrixBlock32
	}
	if o.MatrixBits != 0 {
		extra = uint(max(o.MatrixBits, 0))
	}
	if o.MatrixBlock != 0 {
		block = o.MatrixBlock
	}
	if !f.finiteFloats(w, d, a, b, c, block, int32(extra)) {
		f.anyFloats(w, d, a, b, c, block, extra)
	}
}

func (f *matrixShape) anyFloats(w *warp, d, a, b, c []int32, block int, extra uint) {
	var pa [16 * 16]part // rows of a
	var pb [8 * 16]part  // columns of b
	width := 32 / f.per
	for lane := range 32 {
		g, t := lane/4, lane%4
		for r, reg := range a {
			x := w.r32[reg][lane]
			at := (g+8*(r%2))*f.k + f.per*t + 4*f.per*(r/2)
			for e := range f.per {
				pa[at+e] = f.part(x >> (e * width & 31))
			}
		}
		for r, reg := range b {
			x := w.r32[reg][lane]
			at := g*f.k + f.per*t + 4*f.per*r
			for e := range f.per {
				pb[at+e] = f.part(x >> (e * width & 31))
			}
		}
	}
	for lane := range 32 {
		g, t := lane/4, lane%4
		var out [4]float32
		for r := range out {
			row, column := g+8*(r/2), 2*t+r%2
			out[r] = tensorSum(f32(w.r32[c[r]][lane]), pa[row*f.k:][:f.k], pb[column*f.k:][:f.k], block, extra)
		}
		for r, reg := range d {
			w.r32[reg][lane] = f32bits(out[r])
		}
	}
}

func (f *matrixShape) integers(w *warp, d, a, b, c []int32) {
	var pa [16 * 32]int32
	var pb [8 * 32]int32
	number := func(x uint32, signed bool) int32 {
		if signed {
			return int32(int8(x))
		}
		return int32(uint8(x))
	}
	for lane := range 32 {
		g, t := lane/4, lane%4
		for r, reg := range a {
			for e := range 4 {
				pa[(g+8*(r%2))*f.k+4*t+e+16*(r/2)] = number(w.r32[reg][lane]>>(8*e), f.signedA)
			}
		}
		for r, reg := range b {
			for e := range 4 {
				pb[g*f.k+4*t+e+16*r] = number(w.r32[reg][lane]>>(8*e), f.signedB)
			}
		}
	}
	for lane := range 32 {
		g, t := lane/4, lane%4
		var out [4]uint32
		for r := range out {
			s := int32(w.r32[c[r]][lane])
			row, column := pa[(g+8*(r/2))*f.k:][:f.k], pb[(2*t+r%2)*f.k:][:f.k]
			for i := range row {
				s += row[i] * column[i]
			}
			out[r] = uint32(s)
		}
		for r, reg := range d {
			w.r32[reg][lane] = out[r]
		}
	}
}

// matrixF64 decodes the product of 8 × 4 and 4 × 8 float64 numbers. Each sum uses fused multiply-adds in the order
// of k.
func (c *compiler) matrixF64(s *statement, here func(*warp) *instr) (exec, error) {
	out := func(o operand) (int32, error) { return c.out64(s, o) }
	in := func(o operand) (int32, error) { return c.in64(s, o, "f64") }
	d, err := c.vector(s, s.operands[0], 2, out)
	if err != nil {
		return nil, err
	}
	a, err := c.vector(s, s.operands[1], 1, in)
	if err != nil {
		return nil, err
	}
	b, err := c.vector(s, s.operands[2], 1, in)
	if err != nil {
		return nil, err
	}
	sum, err := c.vector(s, s.operands[3], 2, in)
	if err != nil {
		return nil, err
	}
	return func(w *warp, mask uint32) {
		w.member(here(w), full, mask)
		ra, rb := w.r64[a[0]], w.r64[b[0]]
		for lane := range 32 {
			var x [2]float64
			for r := range x {
				row, column := lane/4, 2*(lane%4)+r
				x[r] = f64(w.r64[sum[r]][lane])
				for k := range 4 {
					x[r] = math.FMA(f64(ra[4*row+k]), f64(rb[4*column+k]), x[r])
				}
			}
			for r := range x {
				w.r64[d[r]][lane] = f64bits(x[r])
			}
		}
	}, nil
}

// decodeLoadMatrix decodes ldmatrix.
func decodeLoadMatrix(c *compiler, s *statement) (exec, error) {
	c.class, c.yields = classLoad, true
	op, transposed := s.op, s.has("trans")
	want := []string{"ldmatrix", "sync", "aligned", "m8n8", "", "shared", "b16"}
	if transposed {
		want = []string{"ldmatrix", "sync", "aligned", "m8n8", "", "trans", "shared", "b16"}
	}
	if len(op) != len(want) {
		return nil, s.unknown()
	}
	for i := range op {
		if i != 4 && op[i] != want[i] {
			return nil, s.unknown()
		}
	}
	n := map[string]int{"x1": 1, "x2": 2, "x4": 4}[op[4]]
	if n == 0 {
		return nil, s.unknown()
	}
	if err := s.operandsAre(2); err != nil {
		return nil, err
	}
	d, err := c.outs32(s, s.operands[0], n)
	if err != nil {
		return nil, err
	}
	addr, err := c.address(s, s.operands[1], shared)
	if err != nil {
		return nil, err
	}
	here := c.here()
	rows := uint32(1)<<(8*n-1)<<1 - 1
	return func(w *warp, mask uint32) {
		w.member(here(w), full, mask)
		a := w.reach(here(w), addr, shared, load, rows&mask, 16, 16)
		var b [32][16]byte
		lanes(rows&mask, func(i int) { copy(b[i][:], a.bytes(i)) })
		for j, r := range d {
			for lane := range 32 {
				g, t := lane/4, lane%4
				if transposed {
					low := binary.LittleEndian.Uint16(b[8*j+2*t][2*g:])
					high := binary.LittleEndian.Uint16(b[8*j+2*t+1][2*g:])
					w.r32[r][lane] = uint32(low) | uint32(high)<<16
				} else {
					w.r32[r][lane] = binary.LittleEndian.Uint32(b[8*j+g][4*t:])
				}
			}
		}
	}, nil
}
