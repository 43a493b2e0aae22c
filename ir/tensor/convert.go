package tensor

import (
	"fmt"
	"math"
	"strconv"
)

// format describes a small float: e exponent bits, m mantissa bits, and the use of its special patterns.
type format struct {
	e, m, bias int
	inf        bool // the highest exponent holds infinities and NaNs, as in IEEE 754
	uz         bool // no negative zero; its pattern is the only NaN
	finite     bool // no NaN at all
}

var formats = map[DType]format{
	Float16:        {e: 5, m: 10, bias: 15, inf: true},
	BFloat16:       {e: 8, m: 7, bias: 127, inf: true},
	Float8E4M3FN:   {e: 4, m: 3, bias: 7},
	Float8E4M3FNUZ: {e: 4, m: 3, bias: 8, uz: true},
	Float8E5M2:     {e: 5, m: 2, bias: 15, inf: true},
	Float8E5M2FNUZ: {e: 5, m: 2, bias: 16, uz: true},
	Float4E2M1:     {e: 2, m: 1, bias: 1, finite: true},
}

func (f format) decode(u uint) float64 {
	sign := 1.0
	if u>>(f.e+f.m)&1 == 1 {
		sign = -1
	}
	exp, man := int(u>>f.m)&(1<<f.e-1), u&(1<<f.m-1)
	top := exp == 1<<f.e-1
	switch {
	case f.uz && sign < 0 && exp == 0 && man == 0:
		return math.NaN()
	case f.inf && top && man == 0:
		return sign * math.Inf(1)
	case f.inf && top, !f.inf && !f.uz && !f.finite && top && man == 1<<f.m-1:
		return math.NaN()
	case exp == 0:
		return sign * math.Ldexp(float64(man), 1-f.bias-f.m)
	}
	return sign * math.Ldexp(float64(man|1<<f.m), exp-f.bias-f.m)
}

// largest returns the pattern of the greatest finite number.
func (f format) largest() uint {
	top := uint(1)<<(f.e+f.m) - 1
	switch {
	case f.inf:
		return uint(1<<f.e-2)<<f.m | (1<<f.m - 1)
	case f.uz, f.finite:
		return top
	}
	return top - 1
}

// encode rounds to nearest, ties to even. Beyond the range it returns infinity or NaN, or the largest finite number if
// saturate is set or the format has neither.
func (f format) encode(x float64, saturate bool) uint {
	if b := math.Float64bits(x); f.inf {
		// Of a normal number below half of the greatest power of two, the bits are those of a float64, rounded.
		if e := int(b>>52&0x7ff) - 1023 + f.bias; e > 0 && e < 1<<f.e-2 {
			shift := 52 - f.m
			b += 1<<(shift-1) - 1 + b>>shift&1
			return uint(b>>63)<<(f.e+f.m) | (uint(b<<1>>1>>shift) - uint(1023-f.bias)<<f.m)
		}
	}
	neg := uint(1) << (f.e + f.m)
	nan := neg - 1
	switch {
	case f.uz:
		nan = neg
	case f.inf:
		nan = uint(1<<f.e-1)<<f.m | 1<<(f.m-1)
	}
	if math.IsNaN(x) {
		if f.finite { // no NaN: negative zero, as ONNX's test data has it
			return neg
		}
		return nan
	}
	var s uint
	if math.Signbit(x) {
		s, x = neg, -x
	}
	over := nan
	if f.inf {
		over = uint(1<<f.e-1)<<f.m | s
	} else if !f.uz {
		over |= s
	}
	if math.IsInf(x, 0) {
		if saturate || f.finite {
			return f.largest() | s
		}
		return over
	}
	_, e := math.Frexp(x) // x = frac * 2^e, frac in [0.5, 1)
	e = max(e-1, 1-f.bias)
	q := uint(math.RoundToEven(math.Ldexp(x, f.m-e)))
	if q == 0 {
		if f.uz {
			return 0
		}
		return s
	}
	u := q // a carry from the denormals gives the first normal number
	if e+f.bias > 1 || q >= 1<<f.m {
		u = uint(e+f.bias-1)<<f.m + q
	}
	if u > f.largest() {
		if saturate || f.finite {
			return f.largest() | s
		}
		return over
	}
	return u | s
}

// Float32 widens exactly.
func (h F16) Float32() float32 {
	if e := h >> 10 & 31; e != 0 && e != 31 {
		return math.Float32frombits(uint32(h&0x8000)<<16 | (uint32(h&0x7fff)<<13 + 112<<23))
	}
	return float32(formats[Float16].decode(uint(h)))
}

// Float32 widens exactly.
func (h BF16) Float32() float32 { return math.Float32frombits(uint32(h) << 16) }

// ToF16 rounds to nearest even. Beyond the range it returns infinity.
func ToF16(x float64) F16 { return F16(formats[Float16].encode(x, false)) }

// ToBF16 rounds to nearest even. Beyond the range it returns infinity.
func ToBF16(x float64) BF16 { return BF16(formats[BFloat16].encode(x, false)) }

// at reads packed element i of width w bits; the first element is in the low bits.
func at(b []byte, i, w int) uint { return uint(b[i*w/8]) >> (i * w % 8) & (1<<w - 1) }

func put(b []byte, i, w int, v uint) {
	s := i * w % 8
	b[i*w/8] = b[i*w/8]&^byte((1<<w-1)<<s) | byte(v<<s)
}

// Float64s returns a copy of the elements in float64. Integers beyond 2^53 lose their low bits. Strings and complex
// numbers are an error.
func (t *Tensor) Float64s() ([]float64, error) {
	out := make([]float64, t.Len())
	if err := t.ReadFloat64s(out, 0); err != nil {
		return nil, err
	}
	return out, nil
}

// ReadFloat64s is Float64s for the elements from number from on, as many as dst holds. It panics where t has fewer.
func (t *Tensor) ReadFloat64s(dst []float64, from int) error {
	to := from + len(dst)
	switch t.dtype {
	case Float32:
		widen(dst, Data[float32](t)[from:to])
	case Float64:
		copy(dst, Data[float64](t)[from:to])
	case Int8:
		widen(dst, Data[int8](t)[from:to])
	case Int16:
		widen(dst, Data[int16](t)[from:to])
	case Int32:
		widen(dst, Data[int32](t)[from:to])
	case Int64:
		widen(dst, Data[int64](t)[from:to])
	case Uint8:
		widen(dst, Data[uint8](t)[from:to])
	case Uint16:
		widen(dst, Data[uint16](t)[from:to])
	case Uint32:
		widen(dst, Data[uint32](t)[from:to])
	case Uint64:
		widen(dst, Data[uint64](t)[from:to])
	case Bool:
		for i, v := range t.data[from:to] {
			dst[i] = float64(v) // 0 or 1
		}
	case Float16:
		for i, v := range Data[F16](t)[from:to] {
			dst[i] = float64(v.Float32())
		}
	case BFloat16:
		for i, v := range Data[BF16](t)[from:to] {
			dst[i] = float64(v.Float32())
		}
	case Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ:
		f := formats[t.dtype]
		for i, v := range t.Bytes()[from:to] {
			dst[i] = f.decode(uint(v))
		}
	case Float8E8M0:
		for i, v := range t.Bytes()[from:to] {
			dst[i] = math.Ldexp(1, int(v)-127)
			if v == 255 {
				dst[i] = math.NaN()
			}
		}
	case Float4E2M1:
		f := formats[t.dtype]
		for i := range dst {
			dst[i] = f.decode(at(t.data, from+i, 4))
		}
	case Uint4, Uint2:
		for i := range dst {
			dst[i] = float64(at(t.data, from+i, t.dtype.Bits()))
		}
	case Int4, Int2:
		w := t.dtype.Bits()
		for i := range dst {
			dst[i] = float64(int8(at(t.data, from+i, w)<<(8-w)) >> (8 - w))
		}
	default:
		return fmt.Errorf("cannot read %v as float64", t.dtype)
	}
	return nil
}

// Int64s returns a copy of the elements in int64. Tensors that are not of integers or bools are an error.
func (t *Tensor) Int64s() ([]int64, error) {
	switch {
	case t.dtype == Int64:
		return append([]int64(nil), Data[int64](t)...), nil
	case t.dtype == Uint64:
		out := make([]int64, t.Len())
		for i, v := range Data[uint64](t) {
			out[i] = int64(v)
		}
		return out, nil
	case t.dtype.IsInt() || t.dtype == Bool:
		f, err := t.Float64s()
		if err != nil {
			return nil, err
		}
		out := make([]int64, len(f))
		for i, v := range f {
			out[i] = int64(v)
		}
		return out, nil
	}
	return nil, fmt.Errorf("cannot read %v as integers", t.dtype)
}

func widen[T float32 | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](dst []float64, src []T) {
	for i, v := range src {
		dst[i] = float64(v)
	}
}

func narrow[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](dst []T, src []float64) {
	for i, v := range src {
		if v < 0 {
			dst[i] = T(int64(v))
		} else {
			dst[i] = T(uint64(v))
		}
	}
}

// FromFloat64s makes a tensor of element type d from v, rounding floats to nearest even (beyond the range: infinity or
// NaN, as Convert without saturation) and truncating towards zero for integers.
func FromFloat64s(d DType, v []float64, shape ...int) (*Tensor, error) {
	return fromFloat64s(d, v, shape, false)
}

func fromFloat64s(d DType, v []float64, shape []int, saturate bool) (*Tensor, error) {
	if n, err := Size(shape); err != nil || n != len(v) {
		return nil, fmt.Errorf("%d elements for shape %v", len(v), shape)
	}
	if !d.Valid() || d == String {
		return nil, fmt.Errorf("cannot make %v from float64", d)
	}
	t := New(d, shape...)
	t.write(0, v, saturate)
	return t, nil
}

// WriteFloat64s sets the elements from number from on to v, rounded as FromFloat64s does. It panics where t has fewer.
func (t *Tensor) WriteFloat64s(from int, v []float64) error {
	if t.dtype == String {
		return fmt.Errorf("cannot make %v from float64", t.dtype)
	}
	t.write(from, v, false)
	return nil
}

func (t *Tensor) write(from int, v []float64, saturate bool) {
	to := from + len(v)
	switch d := t.dtype; d {
	case Float32:
		dst := Data[float32](t)[from:to]
		for i, x := range v {
			dst[i] = float32(x)
		}
	case Float64:
		copy(Data[float64](t)[from:to], v)
	case Int8:
		narrow(Data[int8](t)[from:to], v)
	case Int16:
		narrow(Data[int16](t)[from:to], v)
	case Int32:
		narrow(Data[int32](t)[from:to], v)
	case Int64:
		narrow(Data[int64](t)[from:to], v)
	case Uint8:
		narrow(Data[uint8](t)[from:to], v)
	case Uint16:
		narrow(Data[uint16](t)[from:to], v)
	case Uint32:
		narrow(Data[uint32](t)[from:to], v)
	case Uint64:
		narrow(Data[uint64](t)[from:to], v)
	case Bool:
		dst := t.data[from:to]
		for i, x := range v {
			var b byte // without a branch
			if x != 0 {
				b = 1
			}
			dst[i] = b
		}
	case Float16, BFloat16:
		f, dst := formats[d], t.data[2*from:2*to]
		for i, x := range v {
			u := f.encode(x, false)
			dst[2*i], dst[2*i+1] = byte(u), byte(u>>8)
		}
	case Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ:
		f, dst := formats[d], t.data[from:to]
		for i, x := range v {
			dst[i] = byte(f.encode(x, saturate))
		}
	case Float8E8M0:
		dst := t.data[from:to]
		for i, x := range v {
			dst[i] = encodeE8M0(x)
		}
	case Float4E2M1:
		f := formats[d]
		for i, x := range v {
			put(t.data, from+i, 4, f.encode(x, true))
		}
	case Uint4, Int4, Uint2, Int2:
		for i, x := range v {
			put(t.data, from+i, d.Bits(), uint(int64(x))&(1<<d.Bits()-1))
		}
	case Complex64:
		dst := Data[complex64](t)[from:to]
		for i, x := range v {
			dst[i] = complex(float32(x), 0)
		}
	case Complex128:
		dst := Data[complex128](t)[from:to]
		for i, x := range v {
			dst[i] = complex(x, 0)
		}
	}
}

// encodeE8M0 rounds to the nearest power of two, halves up, and clamps to the format's range.
func encodeE8M0(x float64) byte {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 255
	}
	frac, e := math.Frexp(math.Abs(x))
	if frac == 0 {
		return 0
	}
	e--
	if frac >= 0.75 {
		e++
	}
	return byte(min(max(e+127, 0), 254))
}

// MaxNumber is the number of bytes of a string up to which Convert reads it as a number.
const MaxNumber = 1 << 12

// Convert returns the elements as another dtype, or t itself if it has that dtype already. Numbers are converted as
// ONNX's operator Cast does:
//   - to a float: rounded to nearest, ties to even. A number beyond the range becomes infinity, or NaN for a type
//     without infinity; with saturate, which Cast has for 8-bit floats, it becomes the largest finite number.
//   - float to integer: the fraction is cut off. A number beyond the range gives an unspecified integer, as in Go, and
//     so does NaN; use ConvertExact where that may happen.
//   - integer to integer: the low bits are kept, as two's complement wraps around.
//   - to bool: everything but 0 is true. From bool: 0 or 1.
//   - strings are parsed, and numbers are formatted. A string that is not a number, or is longer than MaxNumber, is an
//     error.
//
// Only int64 and uint64 to float32 skip float64 in between, so that they are rounded once.
func (t *Tensor) Convert(d DType, saturate bool) (*Tensor, error) {
	switch {
	case t.dtype == d:
		return t, nil
	case t.dtype == String:
		v := make([]float64, t.Len())
		for i, s := range t.strs {
			if len(s) > MaxNumber {
				return nil, fmt.Errorf("cannot convert a string of %d bytes to %v: expected at most %d", len(s), d,
					MaxNumber)
			}
			x, err := strconv.ParseFloat(s, 64)
			if err != nil {
				return nil, fmt.Errorf("cannot convert string %.80q to %v", s, d)
			}
			v[i] = x
		}
		return fromFloat64s(d, v, t.shape, saturate)
	case d == String:
		return t.toStrings()
	case t.dtype.IsComplex() && d.IsComplex():
		out := New(d, t.shape...)
		if d == Complex128 {
			dst := Data[complex128](out)
			for i, v := range Data[complex64](t) {
				dst[i] = complex128(v)
			}
		} else {
			dst := Data[complex64](out)
			for i, v := range Data[complex128](t) {
				dst[i] = complex64(v)
			}
		}
		return out, nil
	case (t.dtype.IsInt() || t.dtype == Bool) && d.IsInt():
		v, err := t.Int64s()
		if err != nil {
			return nil, err
		}
		return lowBits(d, v, t.shape), nil
	case t.dtype == Int64 && d == Float32:
		return once(Data[int64](t), t.shape), nil
	case t.dtype == Uint64 && d == Float32:
		return once(Data[uint64](t), t.shape), nil
	}
	v, err := t.Float64s()
	if err != nil {
		return nil, err
	}
	return fromFloat64s(d, v, t.shape, saturate)
}

// lowBits makes a tensor of integers from the low bits of v, as two's complement wraps around.
func lowBits(d DType, v []int64, shape []int) *Tensor {
	out := New(d, shape...)
	if w := d.Bits(); w < 8 {
		for i, x := range v {
			put(out.data, i, w, uint(x)&(1<<w-1))
		}
		return out
	}
	w := d.Bits() / 8
	for i, x := range v {
		for k := range w {
			out.data[i*w+k] = byte(x >> (8 * k))
		}
	}
	return out
}

// once converts to float32 with a single rounding; float64 in between would round twice.
func once[T int64 | uint64](v []T, shape []int) *Tensor {
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(x)
	}
	return FromSlice(out, shape...)
}

func (t *Tensor) toStrings() (*Tensor, error) {
	s := make([]string, t.Len())
	switch {
	case t.dtype == Uint64:
		for i, x := range Data[uint64](t) {
			s[i] = strconv.FormatUint(x, 10)
		}
	case t.dtype.IsInt() || t.dtype == Bool:
		v, err := t.Int64s()
		if err != nil {
			return nil, err
		}
		for i, x := range v {
			s[i] = strconv.FormatInt(x, 10)
		}
	default:
		v, err := t.Float64s()
		if err != nil {
			return nil, err
		}
		for i, x := range v {
			switch {
			case math.IsNaN(x):
				s[i] = "NaN"
			case math.IsInf(x, 1):
				s[i] = "INF"
			case math.IsInf(x, -1):
				s[i] = "-INF"
			case t.dtype == Float64:
				s[i] = strconv.FormatFloat(x, 'g', -1, 64)
			default:
				s[i] = strconv.FormatFloat(x, 'g', -1, 32)
			}
		}
	}
	return FromStrings(s, t.shape...), nil
}
