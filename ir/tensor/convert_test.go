package tensor

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func f64s(t *testing.T, x *Tensor) []float64 {
	t.Helper()
	v, err := x.Float64s()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func sameNumber(a, b float64) bool {
	return a == b && math.Signbit(a) == math.Signbit(b) || math.IsNaN(a) && math.IsNaN(b)
}

// patterns returns a tensor of every bit pattern of a dtype of at most 16 bits.
func patterns(t *testing.T, d DType) *Tensor {
	t.Helper()
	n := 1 << d.Bits()
	b := make([]byte, ByteSize(d, n))
	for i := range n {
		switch {
		case d.Bits() < 8:
			put(b, i, d.Bits(), uint(i))
		case d.Bits() == 8:
			b[i] = byte(i)
		default:
			b[2*i], b[2*i+1] = byte(i), byte(i>>8)
		}
	}
	x, err := FromBytes(d, []int{n}, b)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

var small = []DType{Int8, Uint8, Int16, Uint16, Int4, Uint4, Int2, Uint2, Float16, BFloat16, Float8E4M3FN,
	Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ, Float8E8M0, Float4E2M1}

// Every pattern widens and comes back as itself; a NaN comes back as some NaN.
func TestRoundTripExhaustive(t *testing.T) {
	for _, d := range small {
		x := patterns(t, d)
		wide := f64s(t, x)
		for _, saturate := range []bool{false, true} {
			back, err := fromFloat64s(d, wide, x.Shape(), saturate)
			if err != nil {
				t.Fatal(err)
			}
			again := f64s(t, back)
			for i := range wide {
				if math.IsInf(wide[i], 0) && saturate && d == Float8E5M2 {
					continue
				}
				if !sameNumber(wide[i], again[i]) {
					t.Fatalf("%v pattern %#x is %v, comes back as %v (saturate %v)", d, i, wide[i], again[i], saturate)
				}
			}
		}
		seen := map[float64]int{}
		for i, v := range wide {
			if j, ok := seen[v]; ok && v != 0 {
				t.Fatalf("%v: patterns %#x and %#x are both %v", d, j, i, v)
			}
			seen[v] = i
		}
	}
}

// Between two neighbours the nearer one is taken, in the middle the even one: checked for every pair of every format,
// denormals and the step to the largest number included.
func TestRoundingExhaustive(t *testing.T) {
	for _, d := range []DType{Float16, BFloat16, Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ, Float4E2M1} {
		f := formats[d]
		for u := uint(0); u < f.largest(); u++ {
			lo, hi := f.decode(u), f.decode(u+1)
			mid := lo + (hi-lo)/2 // exact: formats have few bits
			even := u + u&1
			for _, c := range []struct {
				x    float64
				want uint
			}{
				{lo, u}, {hi, u + 1}, {mid, even},
				{math.Nextafter(mid, 0), u}, {math.Nextafter(mid, math.Inf(1)), u + 1},
			} {
				if got := f.encode(c.x, false); got != c.want {
					t.Fatalf("%v: %v is %#x, expected %#x", d, c.x, got, c.want)
				}
				neg := c.want | 1<<(f.e+f.m)
				if f.uz && c.want == 0 {
					neg = 0
				}
				if got := f.encode(-c.x, true); got != neg {
					t.Fatalf("%v: %v is %#x, expected %#x", d, -c.x, got, neg)
				}
			}
		}
	}
}

func TestOverflow(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		d                      DType
		max, over              float64 // the largest number; the least one that rounds beyond it
		beyond, beyondSaturate float64
	}{
		{Float16, 65504, 65520, inf, inf},
		{BFloat16, 0x1.fep127, 0x1.ffp127, inf, inf},
		// 464 ties with 480, which is NaN's pattern, and 448 is even
		{Float8E4M3FN, 448, math.Nextafter(464, inf), nan, 448},
		{Float8E4M3FNUZ, 240, 248, nan, 240},
		{Float8E5M2, 57344, 61440, inf, 57344},
		{Float8E5M2FNUZ, 57344, 61440, nan, 57344},
		{Float4E2M1, 6, 7.0000001, 6, 6},
	} {
		for _, sign := range []float64{1, -1} {
			for _, sat := range []bool{false, true} {
				want := c.beyond
				if sat {
					want = c.beyondSaturate
				}
				in := []float64{sign * c.max, sign * math.Nextafter(c.over, 0), sign * c.over, sign * 1e300, sign * inf}
				x, err := FromSlice(in, len(in)).Convert(c.d, sat)
				if err != nil {
					t.Fatal(err)
				}
				got := f64s(t, x)
				for i, w := range []float64{c.max, c.max, want, want, want} {
					if w *= sign; !sameNumber(got[i], w) {
						t.Errorf("%v, saturate %v: %v is %v, expected %v", c.d, sat, in[i], got[i], w)
					}
				}
			}
		}
	}
}

// What ONNX's node tests test_cast_FLOAT_to_* and test_cast_no_saturate_FLOAT_to_* expect.
func TestKnownCasts(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	in := []float32{0.4789254665374756, 0.48033666610717773, 0.4996848702430725, 0.8191054463386536, 0.4703124761581421,
		0.7229037880897522, 1e6, 1e-7, nan, inf, inf, -inf, -1e-7, 1e-7, -1e6}
	for _, c := range []struct {
		d    DType
		sat  bool
		want []byte
	}{
		{Float8E4M3FN, true, []byte{0x2f, 0x2f, 0x30, 0x35, 0x2f, 0x34, 0x7e, 0x00, 0x7f, 0x7e, 0x7e, 0xfe, 0x80, 0x00,
			0xfe}},
		{Float8E4M3FN, false, []byte{0x2f, 0x2f, 0x30, 0x35, 0x2f, 0x34, 0x7f, 0x00, 0x7f, 0x7f, 0x7f, 0xff, 0x80, 0x00,
			0xff}},
		{Float8E4M3FNUZ, true, []byte{0x37, 0x37, 0x38, 0x3d, 0x37, 0x3c, 0x7f, 0x00, 0x80, 0x7f, 0x7f, 0xff, 0x00,
			0x00, 0xff}},
		{Float8E4M3FNUZ, false, []byte{0x37, 0x37, 0x38, 0x3d, 0x37, 0x3c, 0x80, 0x00, 0x80, 0x80, 0x80, 0x80, 0x00,
			0x00, 0x80}},
		{Float8E5M2, true, []byte{0x38, 0x38, 0x38, 0x3b, 0x38, 0x3a, 0x7b, 0x00, 0x7e, 0x7b, 0x7b, 0xfb, 0x80, 0x00,
			0xfb}},
		{Float8E5M2, false, []byte{0x38, 0x38, 0x38, 0x3b, 0x38, 0x3a, 0x7c, 0x00, 0x7e, 0x7c, 0x7c, 0xfc, 0x80, 0x00,
			0xfc}},
		{Float8E5M2FNUZ, true, []byte{0x3c, 0x3c, 0x3c, 0x3f, 0x3c, 0x3e, 0x7f, 0x00, 0x80, 0x7f, 0x7f, 0xff, 0x00,
			0x00, 0xff}},
		{Float8E5M2FNUZ, false, []byte{0x3c, 0x3c, 0x3c, 0x3f, 0x3c, 0x3e, 0x80, 0x00, 0x80, 0x80, 0x80, 0x80, 0x00,
			0x00, 0x80}},
	} {
		x, err := FromSlice(in, len(in)).Convert(c.d, c.sat)
		if err != nil || string(x.Bytes()) != string(c.want) {
			t.Errorf("%v, saturate %v: % x, expected % x, %v", c.d, c.sat, x.Bytes(), c.want, err)
		}
	}
	four := []float32{0.48, 0.25, 1.05, -3.5, -8, 9, 1e6, 1e-7, nan, inf, inf, -inf, -4, 0.01,
		float32(math.Copysign(0, -1))}
	x, err := FromSlice(four, len(four)).Convert(Float4E2M1, true)
	if want := "\x01\xe2\x7f\x07\x78\xf7\x0e\x08"; err != nil || string(x.Bytes()) != want {
		t.Errorf("float4e2m1: % x, expected % x, %v", x.Bytes(), want, err)
	}
}

func TestKnownPatterns(t *testing.T) {
	for _, c := range []struct {
		d    DType
		u    uint
		want float64
	}{
		{Float16, 0x0001, 0x1p-24}, {Float16, 0x03ff, 0x1.ff8p-15}, {Float16, 0x0400, 0x1p-14},
		{Float16, 0x3555, 0.333251953125}, {Float16, 0x7c00, math.Inf(1)},
		{BFloat16, 0x3f80, 1}, {BFloat16, 0x4049, 3.140625}, {BFloat16, 0x0001, 0x1p-133}, {BFloat16, 0xff80, math.Inf(-1)},
		{Float8E4M3FN, 0x01, 0x1p-9}, {Float8E4M3FN, 0x7e, 448}, {Float8E4M3FN, 0xff, math.NaN()},
		{Float8E4M3FN, 0x80, math.Copysign(0, -1)},
		{Float8E4M3FNUZ, 0x80, math.NaN()}, {Float8E4M3FNUZ, 0x7f, 240}, {Float8E4M3FNUZ, 0x01, 0x1p-10},
		{Float8E5M2, 0x7b, 57344}, {Float8E5M2, 0x01, 0x1p-16}, {Float8E5M2, 0x7c, math.Inf(1)},
		{Float8E5M2, 0x7d, math.NaN()},
		{Float8E5M2FNUZ, 0x7f, 57344}, {Float8E5M2FNUZ, 0x01, 0x1p-17},
		{Float4E2M1, 1, 0.5}, {Float4E2M1, 7, 6}, {Float4E2M1, 0xd, -3},
		{Float8E8M0, 0, 0x1p-127}, {Float8E8M0, 127, 1}, {Float8E8M0, 254, 0x1p127}, {Float8E8M0, 255, math.NaN()},
		{Int4, 0xf, -1}, {Int4, 8, -8}, {Int2, 2, -2}, {Uint2, 3, 3},
	} {
		if got := f64s(t, patterns(t, c.d))[c.u]; !sameNumber(got, c.want) {
			t.Errorf("%v pattern %#x: %v, expected %v", c.d, c.u, got, c.want)
		}
	}
}

func TestE8M0(t *testing.T) {
	for x, want := range map[float64]byte{1: 127, 1.49: 127, 1.5: 128, 2: 128, 3: 129, 0: 0, 0x1p-140: 0, 0x1p200: 254,
		math.Inf(1): 255} {
		if got := encodeE8M0(x); got != want {
			t.Errorf("%v: %d, expected %d", x, got, want)
		}
	}
}

// Widening float16 by the usual bit manipulation is an independent check of the arithmetic one.
func TestF16AgainstBits(t *testing.T) {
	for u := range 1 << 16 {
		exp, man := u>>10&31, uint32(u&1023)
		var bits uint32
		switch {
		case exp == 31:
			bits = 0xff<<23 | man<<13
		case exp == 0:
			bits = math.Float32bits(float32(man) * 0x1p-24)
		default:
			bits = uint32(exp+112)<<23 | man<<13
		}
		want := math.Float32frombits(bits | uint32(u>>15)<<31)
		if got := F16(u).Float32(); !sameNumber(float64(got), float64(want)) {
			t.Fatalf("%#x: %v, expected %v", u, got, want)
		}
	}
}

// bfloat16 by adding half a unit and cutting, which rounds ties to even when the lowest kept bit is added too.
func TestBF16AgainstBits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 300_000 {
		bits := r.Uint32()
		if r.IntN(2) == 0 {
			bits = bits&^0xffff | 0x8000 // a tie
		}
		x := math.Float32frombits(bits)
		if x != x {
			continue
		}
		want := BF16((bits + 0x7fff + bits>>16&1) >> 16)
		if got := ToBF16(float64(x)); got != want {
			t.Fatalf("%v (%#x): %#x, expected %#x", x, bits, got, want)
		}
	}
}

func TestConvertIntegers(t *testing.T) {
	ints := []DType{Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64, Int4, Uint4, Int2, Uint2}
	v := []int64{0, 1, -1, 127, 128, 255, -128, 1<<31 - 1, 1 << 31, 1<<53 + 1, 1<<60 + 3, math.MaxInt64, math.MinInt64}
	src := FromSlice(v, len(v))
	for _, d := range ints {
		x, err := src.Convert(d, false)
		if err != nil {
			t.Fatal(err)
		}
		got, err := x.Int64s()
		if err != nil {
			t.Fatal(err)
		}
		for i := range v {
			shift := 64 - d.Bits()
			want := v[i] << shift >> shift
			if d == Uint8 || d == Uint16 || d == Uint32 || d == Uint64 || d == Uint4 || d == Uint2 {
				want = int64(uint64(v[i]) << shift >> shift)
			}
			if got[i] != want {
				t.Errorf("%d as %v: %d, expected %d", v[i], d, got[i], want)
			}
		}
		for _, e := range ints { // whatever the way, the low bits stay
			if e.Bits() < d.Bits() {
				continue
			}
			via, err := x.Convert(e, false)
			if err != nil {
				t.Fatal(err)
			}
			back, err := via.Convert(d, false)
			if err != nil || !Equal(back, x) {
				t.Errorf("%v by way of %v differs: %v", d, e, err)
			}
		}
	}
}

// 2^60 + 2^36 + 1 is nearer to the upper float32; rounded to float64 first it becomes a tie, which goes down.
func TestConvertRoundsOnce(t *testing.T) {
	n := int64(1)<<60 + 1<<36 + 1
	for _, x := range []*Tensor{Scalar(n), Scalar(uint64(n))} {
		y, err := x.Convert(Float32, false)
		if err != nil || Data[float32](y)[0] != 0x1p60+0x1p37 {
			t.Errorf("%s: %v, %v", x, Data[float32](y), err)
		}
	}
}

func TestConvertStrings(t *testing.T) {
	s, err := FromSlice([]uint64{math.MaxUint64, 7}, 2).Convert(String, false)
	if err != nil || s.Strings()[0] != "18446744073709551615" {
		t.Errorf("%v, %v", s.Strings(), err)
	}
	f, err := FromSlice([]float32{0.1, float32(math.Inf(-1)), float32(math.NaN())}, 3).Convert(String, false)
	if err != nil || f.Strings()[0] != "0.1" || f.Strings()[1] != "-INF" || f.Strings()[2] != "NaN" {
		t.Errorf("%v, %v", f.Strings(), err)
	}
	b, err := f.Convert(Float32, false)
	if err != nil || Data[float32](b)[0] != 0.1 || !math.IsInf(float64(Data[float32](b)[1]), -1) {
		t.Errorf("%s, %v", b, err)
	}
	if x, err := FromStrings([]string{"one"}, 1).Convert(Float32, false); err == nil {
		t.Errorf("\"one\" became %s", x)
	}
}

// Every pair of types either converts or says that it cannot, and small numbers that both hold survive.
func TestConvertAllPairs(t *testing.T) {
	for _, from := range DTypes() {
		one, err := FromSlice([]float64{1, 0, 1}, 3).Convert(from, false)
		if err != nil {
			t.Fatalf("1 as %v: %v", from, err)
		}
		for _, to := range DTypes() {
			x, err := one.Convert(to, true)
			if from.IsComplex() && !to.IsComplex() {
				if err == nil {
					t.Errorf("%v became %v", from, to)
				}
				continue
			}
			if err != nil {
				t.Errorf("%v to %v: %v", from, to, err)
				continue
			}
			if x.DType() != to || x.Len() != 3 {
				t.Errorf("%v to %v gives %s", from, to, x)
			}
			if to == String || to.IsComplex() || from == Float8E8M0 || to == Float8E8M0 {
				continue
			}
			if v := f64s(t, x); v[0] != 1 || v[1] != 0 || v[2] != 1 {
				t.Errorf("%v to %v: 1 0 1 became %v", from, to, v)
			}
		}
	}
}

func TestFromFloat64sRefuses(t *testing.T) {
	for _, d := range []DType{String, Invalid, 99} {
		if x, err := FromFloat64s(d, []float64{1}, 1); err == nil {
			t.Errorf("FromFloat64s(%v) = %s", d, x)
		}
	}
	if x, err := FromFloat64s(Float32, []float64{1}, 2); err == nil {
		t.Errorf("one element for two: %s", x)
	}
}

// Elements are read and written part by part as they are all at once, and nothing beside a part changes.
func TestFloat64sInParts(t *testing.T) {
	v := []float64{1, 0, 3, 1, 0.5, 2, 0, 1, 3, 2, 1}
	for _, d := range DTypes() {
		if d == String || d.IsComplex() {
			x := New(d, 3)
			if err := x.ReadFloat64s(make([]float64, 3), 0); err == nil {
				t.Errorf("%v was read", d)
			}
			if err := x.WriteFloat64s(0, v[:3]); (err == nil) != d.IsComplex() {
				t.Errorf("%v: %v", d, err)
			}
			continue
		}
		whole, err := FromFloat64s(d, v, len(v))
		if err != nil {
			t.Fatal(err)
		}
		want := f64s(t, whole)
		parts := New(d, len(v))
		for i := range parts.data {
			parts.data[i] = 0xff
		}
		if d == Bool {
			clear(parts.data)
			parts.data[0] = 1
		}
		for _, cut := range [][2]int{{5, 11}, {0, 2}, {2, 2}, {2, 5}} {
			if err := parts.WriteFloat64s(cut[0], v[cut[0]:cut[1]]); err != nil {
				t.Fatal(err)
			}
			got := make([]float64, cut[1]-cut[0])
			if err := parts.ReadFloat64s(got, cut[0]); err != nil || !slices.Equal(got, want[cut[0]:cut[1]]) {
				t.Errorf("%v: elements from %d: expected %v, found %v, %v", d, cut[0], want[cut[0]:cut[1]], got, err)
			}
		}
		if d.Packed() {
			parts.data[len(parts.data)-1] &= whole.data[len(parts.data)-1]
		}
		if !Equal(parts, whole) {
			t.Errorf("%v: expected %x, found %x", d, whole.data, parts.data)
		}
	}
}

// TestShortcut compares the shortcut for normal numbers with nearest neighbors among all numbers of the formats.
func TestShortcut(t *testing.T) {
	for _, d := range []DType{Float16, BFloat16, Float8E5M2} {
		f := formats[d]
		for u := uint(0); u < f.largest(); u++ {
			lo, hi := f.decode(u), f.decode(u+1)
			mid := (lo + hi) / 2
			even := u + u&1
			for _, c := range []struct {
				x    float64
				want uint
			}{{lo, u}, {math.Nextafter(mid, 0), u}, {mid, even}, {math.Nextafter(mid, hi), u + 1}, {hi, u + 1}} {
				if got := f.encode(c.x, false); got != c.want {
					t.Fatalf("%v: %v is %#x, expected %#x", d, c.x, got, c.want)
				}
				if got := f.encode(-c.x, true); got != c.want|1<<(f.e+f.m) {
					t.Fatalf("%v: %v is %#x, expected %#x with the sign", d, -c.x, got, c.want)
				}
			}
		}
	}
}
