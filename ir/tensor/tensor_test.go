package tensor

import (
	"errors"
	"math"
	"testing"
	"unsafe"
)

func TestDTypes(t *testing.T) {
	all := DTypes()
	if len(all) != 26 {
		t.Errorf("%d dtypes, ONNX has 26", len(all))
	}
	for i, d := range all {
		if int(d) != i+1 || !d.Valid() {
			t.Errorf("dtype %d is %v", i+1, d)
		}
		for _, name := range []string{d.String(), d.ONNX()} {
			if got, err := ParseDType(name); err != nil || got != d {
				t.Errorf("ParseDType(%s) = %v, %v", name, got, err)
			}
		}
		kinds := 0
		for _, is := range []bool{d.IsFloat(), d.IsInt(), d.IsComplex(), d == String, d == Bool} {
			if is {
				kinds++
			}
		}
		if kinds != 1 {
			t.Errorf("%v is of %d kinds", d, kinds)
		}
		if d.Packed() != (d.Bits() == 2 || d.Bits() == 4) {
			t.Errorf("%v: packed %v, %d bits", d, d.Packed(), d.Bits())
		}
	}
	for _, d := range []DType{Invalid, 27, 255} {
		if d.Valid() || d.Bits() != 0 {
			t.Errorf("%v is valid", d)
		}
	}
	for _, name := range []string{"", "undefined", "float8", "Float"} {
		if d, err := ParseDType(name); err == nil {
			t.Errorf("ParseDType(%q) = %v", name, d)
		}
	}
}

func TestSize(t *testing.T) {
	for _, c := range []struct {
		shape []int
		want  int
		err   bool
	}{
		{nil, 1, false},
		{[]int{2, 3}, 6, false},
		{[]int{3, 0}, 0, false},
		{[]int{0, math.MaxInt}, 0, true}, // empty, but too large all the same
		{[]int{math.MaxInt, 0}, 0, true},
		{[]int{-1}, 0, true},
		{[]int{0, -1}, 0, true},
		{[]int{math.MaxInt/2 + 1, 4}, 0, true},
		{[]int{math.MaxInt}, 0, true},
	} {
		got, err := Size(c.shape)
		if got != c.want || (err != nil) != c.err {
			t.Errorf("Size(%v) = %d, %v", c.shape, got, err)
		}
	}
	if _, err := Size([]int{math.MaxInt / 2, 3}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("expected ErrTooLarge, found %v", err)
	}
}

// A shape whose bytes overflow an int must not look like an empty one.
func TestByteSizeDoesNotOverflow(t *testing.T) {
	for _, d := range DTypes() {
		for _, n := range []int{math.MaxInt / 16, math.MaxInt/16 - 1, math.MaxInt/32 + 1, math.MaxInt/32 + 2} {
			if got := ByteSize(d, n); got < n/8*d.Bits() || got < 0 {
				t.Errorf("ByteSize(%v, %d) = %d", d, n, got)
			}
		}
	}
	if x, err := FromBytes(Float64, []int{math.MaxInt/32 + 1}, nil); err == nil {
		t.Errorf("many elements without bytes: %s", x)
	}
}

func TestByteSize(t *testing.T) {
	for _, c := range []struct {
		d       DType
		n, want int
	}{{Int4, 0, 0}, {Int4, 1, 1}, {Int4, 2, 1}, {Int4, 3, 2}, {Uint2, 4, 1}, {Uint2, 5, 2}, {Uint2, 17, 5},
		{Float32, 3, 12}, {Complex128, 9, 144}, {String, 9, 0}, {Bool, 9, 9}} {
		if got := ByteSize(c.d, c.n); got != c.want {
			t.Errorf("ByteSize(%v, %d) = %d, expected %d", c.d, c.n, got, c.want)
		}
	}
}

func TestNewIsAligned(t *testing.T) {
	for n := 1; n < 200; n += 7 {
		b := AlignedBytes(n)
		if len(b) != n || cap(b) != n || uintptr(unsafe.Pointer(&b[0]))%Align != 0 {
			t.Fatalf("AlignedBytes(%d): length %d, capacity %d, address %p", n, len(b), cap(b), &b[0])
		}
	}
}

func TestFromBytes(t *testing.T) {
	raw := AlignedBytes(17)
	for i := range raw {
		raw[i] = byte(i)
	}
	a, err := FromBytes(Float32, []int{4}, raw[:16])
	if err != nil || &a.Bytes()[0] != &raw[0] {
		t.Errorf("an aligned slice was copied: %v", err)
	}
	b, err := FromBytes(Float32, []int{4}, raw[1:17])
	if err != nil || &b.Bytes()[0] == &raw[1] || b.Bytes()[15] != 16 {
		t.Errorf("a slice that is not aligned was not copied: %v", err)
	}
	_ = Data[float32](b)
	for _, c := range []struct {
		d     DType
		shape []int
		n     int
	}{{Float32, []int{4}, 15}, {Float32, []int{4}, 17}, {String, []int{0}, 0}, {Invalid, []int{1}, 0},
		{Float32, []int{-1}, 4}, {27, []int{1}, 1}} {
		if x, err := FromBytes(c.d, c.shape, raw[:c.n]); err == nil {
			t.Errorf("FromBytes(%v, %v, %d bytes) = %s", c.d, c.shape, c.n, x)
		}
	}
}

// Two tensors of the same elements have the same bytes, whatever stood behind the last element in a file.
func TestFromBytesClearsPadding(t *testing.T) {
	in := []byte{0x21, 0xf3}
	x, err := FromBytes(Uint4, []int{3}, in)
	if err != nil || x.Bytes()[1] != 0x03 || in[1] != 0xf3 {
		t.Errorf("bytes % x of % x, %v", x.Bytes(), in, err)
	}
}

func TestFromBytesBool(t *testing.T) {
	if x, err := FromBytes(Bool, []int{2}, []byte{1, 2}); err == nil {
		t.Errorf("2 is a bool: %s", x)
	}
}

func TestReshapeCloneEqual(t *testing.T) {
	x := FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	y, err := x.Reshape(3, 2)
	if err != nil || &y.Bytes()[0] != &x.Bytes()[0] || y.Dim(-1) != 2 || y.Rank() != 2 {
		t.Errorf("Reshape: %s, %v", y, err)
	}
	if Equal(x, y) {
		t.Error("shapes differ, tensors are equal")
	}
	for _, bad := range [][]int{{7}, {-2, -3}, {}} {
		if z, err := x.Reshape(bad...); err == nil {
			t.Errorf("Reshape(%v) = %s", bad, z)
		}
	}
	c := x.Clone()
	if !Equal(x, c) {
		t.Error("a clone differs")
	}
	Data[float32](c)[0] = 9
	if Equal(x, c) || Data[float32](x)[0] != 1 {
		t.Error("a clone shares storage")
	}
	s := FromStrings([]string{"a", "b"}, 2)
	if sc := s.Clone(); !Equal(s, sc) {
		t.Error("a clone of strings differs")
	} else if sc.Strings()[0] = "z"; s.Strings()[0] != "a" {
		t.Error("a clone of strings shares them")
	}
	if Equal(x, nil) || !Equal(nil, nil) {
		t.Error("Equal of nil")
	}
	if nan := Scalar(float32(math.NaN())); !Equal(nan, nan.Clone()) {
		t.Error("Equal compares bits, so a NaN equals itself")
	}
	if got := x.String(); got != "float32[2,3]" {
		t.Errorf("String: %s", got)
	}
}

func TestRebase(t *testing.T) {
	base := FromSlice([]int64{0, 1, 2, 3, 4, 5}, 3, 2)
	v := NewView(Int64, 2)
	for i := range 3 {
		v.Rebase(base, 2*i)
		if got := Data[int64](v); got[0] != int64(2*i) || got[1] != int64(2*i+1) {
			t.Errorf("row %d is %v", i, got)
		}
	}
	Data[int64](v)[1] = 9
	if Data[int64](base)[5] != 9 {
		t.Error("not a view")
	}
	if v.Rebase(nil, 0); v.Bytes() != nil {
		t.Error("a view of nothing has elements")
	}
	NewView(Int64, 0, 7).Rebase(base, 6)
	for name, f := range map[string]func(){
		"too far":       func() { v.Rebase(base, 5) },
		"negative":      func() { v.Rebase(base, -1) },
		"other element": func() { NewView(Int32, 2).Rebase(base, 0) },
		"packed":        func() { NewView(Int4, 2) },
		"strings":       func() { NewView(String, 1) },
		"rebase packed": func() { New(Int4, 2).Rebase(New(Int4, 4), 2) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}
