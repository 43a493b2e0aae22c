package irtext

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/essmc/essmc/ir/tensor"
)

// floatText returns the shortest text that reads back as the same bits.
func floatText(v float64) string { return string(appendFloat(nil, math.Float64bits(v), 64)) }

// layout returns the masks of an IEEE number of 32 or 64 bits: sign, exponent, fraction, and the fraction of the usual
// NaN.
func layout(size int) (sign, exp, frac, quiet uint64) {
	if size == 32 {
		return 1 << 31, 0xff << 23, 1<<23 - 1, 1 << 22
	}
	return 1 << 63, 0x7ff << 52, 1<<52 - 1, 1 << 51
}

// appendFloat writes the number with the given bits. No conversion on the way alters a NaN.
func appendFloat(b []byte, bits uint64, size int) []byte {
	sign, exp, frac, quiet := layout(size)
	if bits&exp == exp || bits == sign {
		if bits&sign != 0 {
			b = append(b, '-')
		}
		switch f := bits & frac; {
		case bits == sign:
			return append(b, "0.0"...)
		case f == 0:
			return append(b, "inf"...)
		case f == quiet:
			return append(b, "nan"...)
		default:
			return fmt.Appendf(b, "nan(0x%x)", f)
		}
	}
	v := math.Float64frombits(bits)
	if size == 32 {
		v = float64(math.Float32frombits(uint32(bits)))
	}
	return strconv.AppendFloat(b, v, 'g', -1, size)
}

// parseFloat reads what appendFloat writes, and any other decimal number.
func parseFloat(s string, size int) (uint64, error) {
	sign, exp, frac, quiet := layout(size)
	rest, neg := strings.CutPrefix(s, "-")
	if !neg {
		sign = 0
	}
	low := strings.ToLower(rest)
	switch {
	case low == "inf" || low == "infinity":
		return sign | exp, nil
	case low == "nan":
		return sign | exp | quiet, nil
	case strings.HasPrefix(low, "nan(0x") && strings.HasSuffix(low, ")"):
		f, err := strconv.ParseUint(low[6:len(low)-1], 16, 64)
		if err != nil || f == 0 || f&^frac != 0 {
			return 0, fmt.Errorf("%s is not a NaN of %d bits", s, size)
		}
		return sign | exp | f, nil
	}
	v, err := strconv.ParseFloat(s, size)
	if err != nil {
		return 0, fmt.Errorf("expected a number that a float of %d bits can hold, found %s", size, s)
	}
	if size == 32 {
		return uint64(math.Float32bits(float32(v))), nil
	}
	return math.Float64bits(v), nil
}

// appendElem writes element i of t.
func appendElem(b []byte, t *tensor.Tensor, i int) []byte {
	d, data := t.DType(), t.Bytes()
	w := d.Bits() / 8
	switch d {
	case tensor.String:
		return append(b, quote(t.Strings()[i])...)
	case tensor.Float32:
		return appendFloat(b, uint64(binary.LittleEndian.Uint32(data[4*i:])), 32)
	case tensor.Float64:
		return appendFloat(b, binary.LittleEndian.Uint64(data[8*i:]), 64)
	case tensor.Complex64, tensor.Complex128:
		half := 4 * w // bits of a part
		for part := range 2 {
			if part > 0 {
				b = append(b, ", "...)
			}
			b = appendFloat(b, word(data[i*w+part*w/2:], w/2), half)
		}
		return b
	}
	if d.Packed() {
		u := uint64(data[i*d.Bits()/8]) >> (i * d.Bits() % 8) & (1<<d.Bits() - 1)
		if signed(d) {
			return strconv.AppendInt(b, int64(u<<(64-d.Bits()))>>(64-d.Bits()), 10)
		}
		return strconv.AppendUint(b, u, 10)
	}
	u := word(data[i*w:], w)
	if signed(d) {
		return strconv.AppendInt(b, int64(u<<(64-8*w))>>(64-8*w), 10)
	}
	return strconv.AppendUint(b, u, 10)
}

// word reads n little-endian bytes.
func word(b []byte, n int) uint64 {
	var u uint64
	for i := range n {
		u |= uint64(b[i]) << (8 * i)
	}
	return u
}

func signed(d tensor.DType) bool {
	switch d {
	case tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64, tensor.Int4, tensor.Int2:
		return true
	}
	return false
}

// numbers returns how many numbers of the text make an element.
func numbers(d tensor.DType) int {
	if d.IsComplex() {
		return 2
	}
	return 1
}

// putNumber stores number i of a tensor's text. An element of a complex type has two numbers.
func putNumber(d tensor.DType, data []byte, i int, s string) error {
	bits := d.Bits() / numbers(d)
	var u uint64
	switch {
	case d == tensor.Float32 || d == tensor.Float64 || d.IsComplex():
		var err error
		if u, err = parseFloat(s, bits); err != nil {
			return err
		}
	case signed(d):
		n, err := strconv.ParseInt(s, 10, bits)
		if err != nil {
			return fmt.Errorf("expected a whole number that fits %v, found %s", d, s)
		}
		u = uint64(n)
	default:
		limit := bits
		if d == tensor.Bool {
			limit = 1
		}
		n, err := strconv.ParseUint(s, 10, limit)
		if err != nil {
			what := "a whole number"
			if d.IsFloat() {
				what = "a bit pattern"
			}
			return fmt.Errorf("expected %s that fits %v, found %s", what, d, s)
		}
		u = n
	}
	if bits < 8 {
		data[i*bits/8] |= byte(u&(1<<bits-1)) << (i * bits % 8)
		return nil
	}
	for k := range bits / 8 {
		data[i*bits/8+k] = byte(u >> (8 * k))
	}
	return nil
}
