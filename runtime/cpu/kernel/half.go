package kernel

import "math"

// Float16 rounds to the nearest float16, ties to even, which stays a float32.
func Float16(y, x []float32) {
	y = y[:len(x)]
	for i := float16Wide(y, x); i < len(x); i++ {
		y[i] = roundF16(x[i])
	}
}

// BFloat16 rounds to the nearest bfloat16, ties to even, which stays a float32.
func BFloat16(y, x []float32) {
	y = y[:len(x)]
	for i := bfloat16Wide(y, x); i < len(x); i++ {
		y[i] = roundBF16(x[i])
	}
}

// WidenF16 sets y to the numbers that x holds as float16.
func WidenF16(y []float32, x []uint16) {
	y = y[:len(x)]
	for i := widenF16Wide(y, x); i < len(x); i++ {
		y[i] = fromF16(x[i])
	}
}

// NarrowF16 sets y to x as float16, rounded to nearest, ties to even.
func NarrowF16(y []uint16, x []float32) {
	y = y[:len(x)]
	for i := narrowF16Wide(y, x); i < len(x); i++ {
		y[i] = toF16(x[i])
	}
}

// WidenBF16 sets y to the numbers that x holds as bfloat16.
func WidenBF16(y []float32, x []uint16) {
	y = y[:len(x)]
	for i, h := range x {
		y[i] = math.Float32frombits(uint32(h) << 16)
	}
}

// NarrowBF16 sets y to x as bfloat16, rounded to nearest, ties to even.
func NarrowBF16(y []uint16, x []float32) {
	y = y[:len(x)]
	for i, f := range x {
		y[i] = uint16(math.Float32bits(roundBF16(f)) >> 16)
	}
}

// roundF16 returns the nearest float16, ties to even.
func roundF16(x float32) float32 {
	b := math.Float32bits(x)
	size := math.Float32frombits(b &^ (1 << 31))
	switch {
	case x != x:
		return x
	case size >= 65520: // half a unit above the greatest
		size = float32(math.Inf(1))
	case size < 1.0/(1<<14): // the spacing from 1/2 on is the one wanted near 0
		size = size + 0.5 - 0.5
	default:
		c := b &^ (1 << 31)
		size = math.Float32frombits((c + 0xfff + c>>13&1) &^ 0x1fff)
	}
	return math.Float32frombits(math.Float32bits(size) | b&(1<<31))
}

// toF16 returns the bits of roundF16(x).
func toF16(x float32) uint16 {
	b := math.Float32bits(roundF16(x))
	sign, b := uint16(b>>16)&0x8000, b&^(1<<31)
	switch size := math.Float32frombits(b); {
	case x != x:
		return sign | 0x7e00
	case b == 0xff<<23:
		return sign | 0x7c00
	case size < 1.0/(1<<14):
		return sign | uint16(size*(1<<24))
	}
	return sign | uint16(b>>13-112<<10)
}

// fromF16 returns the number with the bits h.
func fromF16(h uint16) float32 {
	sign, rest := uint32(h&0x8000)<<16, uint32(h&0x7fff)
	switch {
	case rest > 0x7c00:
		return math.Float32frombits(sign | 0x7fc00000)
	case rest == 0x7c00:
		return math.Float32frombits(sign | 0xff<<23)
	case rest < 0x400:
		return math.Float32frombits(math.Float32bits(float32(rest)/(1<<24)) | sign)
	}
	return math.Float32frombits(sign | (rest<<13 + 112<<23))
}
