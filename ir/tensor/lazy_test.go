package tensor

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
)

// counted is a source that counts how often it is filled, and released.
type counted struct {
	mu              sync.Mutex
	b               []byte
	fills, releases int
	err             error
}

func (c *counted) Fill(dst []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fills++
	copy(dst, c.b)
	return c.err
}

func (c *counted) Part(dst []byte, at int) error {
	copy(dst, c.b[at:])
	return c.err
}

func (c *counted) Release() { c.releases++ }

// lazyOf returns a lazy copy of t.
func lazyOf(t *Tensor) (*Tensor, *counted) {
	c := &counted{b: slices.Clone(t.Bytes())}
	return Lazy(t.DType(), t.Shape(), c), c
}

func ramp(d DType, shape ...int) *Tensor {
	n, _ := Size(shape)
	v := make([]float64, n)
	for i := range v {
		v[i] = float64(i%251) - 100
	}
	t, err := FromFloat64s(d, v, shape...)
	if err != nil {
		panic(err)
	}
	return t
}

func TestLazy(t *testing.T) {
	whole := ramp(Float32, 130, 151)
	x, c := lazyOf(whole)
	if !x.Lazy() || whole.Lazy() || c.fills != 0 || x.Len() != whole.Len() {
		t.Fatal("a new lazy tensor")
	}
	part := make([]byte, 12)
	if err := x.PeekPart(part, 40); err != nil || !slices.Equal(part, whole.Bytes()[40:52]) || c.fills != 0 {
		t.Error("PeekPart", err, c.fills)
	}
	if b, err := x.Peek(); err != nil || !slices.Equal(b, whole.Bytes()) || c.fills != 1 {
		t.Error("Peek", err, c.fills)
	}
	flat, err := x.Reshape(whole.Len())
	if err != nil || !flat.Lazy() || c.fills != 1 {
		t.Error("Reshape", err, c.fills)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if !slices.Equal(Data[float32](x), Data[float32](whole)) {
				t.Error("Data")
			}
		})
	}
	wg.Wait()
	if !Equal(x, whole) || !Equal(whole, x) || c.fills != 2 { // it is kept, and shared
		t.Error("Equal", c.fills)
	}
	if b := flat.Bytes(); &b[0] != &x.Bytes()[0] || c.fills != 2 {
		t.Error("a reshaped tensor has storage of its own", c.fills)
	}
	v := Data[float32](x)
	x.Release()
	if !slices.Equal(v, Data[float32](whole)) || c.releases != 1 { // slices stay valid
		t.Error("Release")
	}
	if !Equal(x.Clone(), whole) || c.fills != 3 {
		t.Error("after Release", c.fills)
	}
	y := New(Float32, 130, 151)
	x.Release()
	y.CopyParts(x, func() {})
	view := NewView(Float32, 151)
	view.Rebase(x, 151)
	if !Equal(y, whole) || !Equal(x.CloneParts(func() {}), whole) || !slices.Equal(Data[float32](view), Data[float32](whole)[151:302]) ||
		!slices.Equal(Data[float32](x.Part(3, 9)), Data[float32](whole)[3:9]) {
		t.Error("copies and views")
	}
	whole.Release() // does nothing
	if whole.Lazy() || len(whole.Bytes()) == 0 {
		t.Error("Release of a tensor that is not lazy")
	}
}

func TestLazyFails(t *testing.T) {
	x, c := lazyOf(ramp(Float32, 9))
	c.err = errors.New("bad")
	read := func(f func()) (err error) {
		defer Caught(&err)
		f()
		return nil
	}
	if err := read(func() { x.Bytes() }); !errors.Is(err, c.err) {
		t.Error(err)
	}
	if _, err := x.Peek(); !errors.Is(err, c.err) {
		t.Error(err)
	}
	if _, err := LazyTranspose(Lazy(Float32, []int{3, 3}, c)).Peek(); !errors.Is(err, c.err) {
		t.Error(err)
	}
	c.err = nil
	if err := read(func() { x.Bytes() }); err != nil { // the next attempt succeeds
		t.Error(err)
	}
	defer func() {
		if v := recover(); v != "other" {
			t.Error(v)
		}
	}()
	_ = read(func() { panic("other") })
}

// Transposes and widened tensors have the same elements whole and in parts, and pass releases on.
func TestLazySources(t *testing.T) {
	for _, d := range []DType{Int8, Float16, BFloat16, Float32, Float64} {
		for _, shape := range [][]int{{1, 1}, {3, 5}, {33, 31}, {65, 130}, {0, 3}} {
			t.Run(fmt.Sprintf("%v%v", d, shape), func(t *testing.T) {
				whole := ramp(d, shape...)
				x, c := lazyOf(whole)
				want := New(d, shape[1], shape[0])
				w := d.Bits() / 8
				for i := range shape[0] {
					for j := range shape[1] {
						copy(want.Bytes()[(j*shape[0]+i)*w:][:w], whole.Bytes()[(i*shape[1]+j)*w:])
					}
				}
				y := LazyTranspose(x)
				if y.Turned() != x || x.Turned() != nil {
					t.Error("Turned")
				}
				sameParts(t, y, want)
				if d == Float16 || d == BFloat16 {
					v, err := want.Float64s()
					if err != nil {
						t.Fatal(err)
					}
					wide, err := FromFloat64s(Float32, v, want.Shape()...)
					if err != nil {
						t.Fatal(err)
					}
					z := LazyFloat32(y)
					sameParts(t, z, wide)
					if u := z.Turned(); u == nil || u.DType() != Float32 || !slices.Equal(u.Shape(), shape) {
						t.Error("Turned of a widened transpose")
					}
					y = z
				}
				c.releases = 0
				if y.Release(); c.releases != 1 {
					t.Error("Release is not passed on")
				}
			})
		}
	}
}

// sameParts checks x, as a whole and by parts of several sizes.
func sameParts(t *testing.T, x, want *Tensor) {
	t.Helper()
	w := x.DType().Bits() / 8
	for _, n := range []int{1, 2, 7, 100} {
		for at := 0; at < x.Len(); at += n {
			part := make([]byte, min(n, x.Len()-at)*w)
			if err := x.PeekPart(part, at*w); err != nil || !slices.Equal(part, want.Bytes()[at*w:][:len(part)]) {
				t.Fatalf("elements %d to %d differ, %v", at, at+n, err)
			}
		}
	}
	if !Equal(x, want) {
		t.Error("differs")
	}
}

func TestFloat32s(t *testing.T) {
	for _, d := range []DType{Float32, Float64, Float16, Int8} {
		x := ramp(d, 40, 7)
		if d == Float64 {
			Data[float64](x)[3] = 1 + 1e-12
			Data[float64](x)[4] = math.MaxFloat64
		}
		f, err := x.Float64s()
		if err != nil {
			t.Fatal(err)
		}
		for _, y := range []*Tensor{x, first(lazyOf(x))} {
			v, err := y.Float32s()
			if err != nil || len(v) != len(f) {
				t.Fatal(d, err)
			}
			for i, k := range v {
				if k != float32(f[i]) {
					t.Errorf("%v: element %d is %v, expected %v", d, i, k, float32(f[i]))
				}
			}
			if d == Float32 || d == Float64 {
				part := make([]float32, 9)
				if err := y.PeekFloat32s(part, 1); err != nil || !slices.Equal(part, v[1:10]) {
					t.Errorf("%v: a part differs, %v", d, err)
				}
			}
		}
	}
	if _, err := FromStrings([]string{"a"}, 1).Float32s(); err == nil {
		t.Error("strings as numbers")
	}
}

func first(x *Tensor, _ *counted) *Tensor { return x }
