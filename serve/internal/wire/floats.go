package wire

import (
	"math"
	"unsafe"

	"github.com/essmc/essmc/ir/tensor"
)

// readFloats reads all elements. A flat list is read in one pass; whatever else there is, and every error, is left to
// read.
func readFloats[T float32 | float64](l *list, bits int) (*tensor.Tensor, error) {
	parse := parseFloat[T](bits)
	out := make([]T, 0, l.want)
	b, at := l.b, space(l.b, 0)
	if at == len(b) || b[at] != '[' {
		return read(l, parse)
	}
	for at++; len(out) < l.want; at++ {
		at = space(b, at)
		v, n := short(b[at:])
		x := T(v)
		if n == 0 || bits == 32 && halfway(v) {
			if n = ends(b[at:]); n == 0 {
				return read(l, parse)
			}
			var err error
			if x, err = parse(unsafe.String(&b[at], n)); err != nil {
				return read(l, parse)
			}
		}
		out = append(out, x)
		at = space(b, at+n)
		if at == len(b) || b[at] != ',' && (b[at] != ']' || len(out) < l.want) {
			return read(l, parse)
		}
	}
	if l.want == 0 || b[at-1] != ']' || space(b, at) != len(b) {
		return read(l, parse)
	}
	return tensor.FromSlice(out, l.shape...), nil
}

// space returns the index of the first byte from at on that is not space.
func space(b []byte, at int) int {
	for at < len(b) && (b[at] == ' ' || b[at] == '\n' || b[at] == '\t' || b[at] == '\r') {
		at++
	}
	return at
}

// ends returns the length of the element at the start of b.
func ends(b []byte) int {
	if len(b) > 0 && b[0] == '"' {
		return 0 // read has the texts for NaN and infinities
	}
	for i, c := range b {
		switch c {
		case ',', ']', ' ', '\n', '\t', '\r':
			return i
		}
	}
	return 0
}

// maxDigits is the number of decimal digits of which every number is a float64.
const maxDigits = 15

// tens are the powers of ten up to maxDigits, which are float64 numbers.
var tens = func() (out [maxDigits + 1]float64) {
	out[0] = 1
	for i := range maxDigits {
		out[i+1] = out[i] * 10
	}
	return out
}()

// short reads a number of at most maxDigits digits without an exponent, correctly rounded, since both its digits and
// the power of ten are exact. n is the length of its text, or 0 if b begins with something else.
func short(b []byte) (v float64, n int) {
	neg := len(b) > 0 && b[0] == '-'
	if neg {
		n++
	}
	first, m := n, uint64(0)
	for ; n < len(b) && b[n]-'0' <= 9; n++ {
		m = m*10 + uint64(b[n]-'0')
		if n-first == maxDigits {
			return 0, 0
		}
	}
	digits, decimals := n-first, 0
	if digits > 0 && n < len(b) && b[n] == '.' {
		for n++; n < len(b) && b[n]-'0' <= 9; n++ {
			m = m*10 + uint64(b[n]-'0')
			if decimals++; digits+decimals > maxDigits {
				return 0, 0
			}
		}
	}
	if digits == 0 || n == len(b) || b[n]|0x20 == 'e' || b[n] == '.' || b[n] == '+' || b[n] == '-' {
		return 0, 0
	}
	v = float64(m) / tens[decimals]
	if neg {
		v = -v
	}
	return v, n
}

// halfway reports whether rounding v to float32 may differ from rounding the number of which v is the nearest float64:
// v lies in the middle between two float32 numbers.
func halfway(v float64) bool { return math.Float64bits(v)&(1<<29-1) == 1<<28 }
