package cputest

import (
	"math"
	"math/rand/v2"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Gen generates random data.
type Gen struct{ *rand.Rand }

// NewGen returns a generator with a seed.
func NewGen(seed uint64) Gen { return Gen{rand.New(rand.NewPCG(seed, 17))} }

// Floats returns normally distributed numbers in float32, times a scale.
func (r Gen) Floats(scale float64, shape ...int) *tensor.Tensor {
	t := tensor.New(tensor.Float32, shape...)
	v := tensor.Data[float32](t)
	for i := range v {
		v[i] = float32(scale * r.NormFloat64())
	}
	return t
}

// Doubles returns numbers of f in float64.
func (r Gen) Doubles(f func() float64, shape ...int) *tensor.Tensor {
	t := tensor.New(tensor.Float64, shape...)
	v := tensor.Data[float64](t)
	for i := range v {
		v[i] = f()
	}
	return t
}

// Keys returns n different numbers.
func (r Gen) Keys(n int) []int64 {
	keys := make([]int64, n)
	for i := range keys {
		keys[i] = int64(i - 4)
	}
	r.Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

// Column returns n random numbers.
func (r Gen) Column(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = float64(float32(r.NormFloat64()))
	}
	return v
}

// Bytes returns random numbers of an element type of 8 bits, with the extremes among them.
func (r Gen) Bytes(d tensor.DType, shape ...int) *tensor.Tensor {
	t := tensor.New(d, shape...)
	b := t.Bytes()
	for i := range b {
		b[i] = [...]byte{0, 127, 128, 255, byte(r.IntN(256)), byte(r.IntN(256))}[r.IntN(6)]
	}
	return t
}

// Scales returns numbers from least to twice that, in float32.
func (r Gen) Scales(least float64, shape ...int) *tensor.Tensor {
	t := tensor.New(tensor.Float32, shape...)
	for i := range tensor.Data[float32](t) {
		tensor.Data[float32](t)[i] = float32(least * (1 + r.Float64()))
	}
	return t
}

// ByteTypes are pairs of element types.
var ByteTypes = [][2]tensor.DType{{tensor.Uint8, tensor.Int8}, {tensor.Uint8, tensor.Uint8}, {tensor.Int8, tensor.Int8}}

// With sets an element of a tensor.
func With(t *tensor.Tensor, at int, x float64) *tensor.Tensor {
	if t.Len() > 0 {
		tensor.Data[float32](t)[at%t.Len()] = float32(x)
	}
	return t
}

// Small returns random numbers of an element type: integers from -3 to 3, or up to 6 where there is no sign.
func (r Gen) Small(d tensor.DType, shape ...int) *tensor.Tensor {
	n, _ := tensor.Size(shape)
	v := make([]float64, n)
	for i := range v {
		switch v[i] = float64(r.IntN(7)); {
		case d == tensor.Float32:
			v[i] = r.NormFloat64()
		case d == tensor.Float64: // sums do not cancel
			v[i] = 0.5 + r.Float64()
		case !Unsigned(d):
			v[i] -= 3
		}
	}
	t, err := ops.FromFloat64s(nil, d, v, shape...)
	if err != nil {
		panic(err)
	}
	return t
}

// Unsigned reports whether a type has no negative numbers.
func Unsigned(d tensor.DType) bool {
	switch d {
	case tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64:
		return true
	}
	return false
}

// Divisors returns numbers other than 0.
func (r Gen) Divisors(d tensor.DType, shape ...int) *tensor.Tensor {
	n, _ := tensor.Size(shape)
	v := make([]float64, n)
	for i := range v {
		if v[i] = float64(1 + 2*r.IntN(5)); !Unsigned(d) && r.IntN(2) == 0 {
			v[i] = -v[i]
		}
	}
	t, err := ops.FromFloat64s(nil, d, v, shape...)
	if err != nil {
		panic(err)
	}
	return t
}

// Indices returns random indices into dimensions of the given sizes: vectors with one for each, or single ones.
func (r Gen) Indices(sizes []int, shape ...int) *tensor.Tensor {
	t := tensor.New(tensor.Int64, shape...)
	for i := range tensor.Data[int64](t) {
		k := sizes[i%len(sizes)]
		tensor.Data[int64](t)[i] = int64(r.IntN(2*k) - k)
	}
	return t
}

// Narrowed returns int64 as int32.
func Narrowed(t *tensor.Tensor) *tensor.Tensor {
	v := tensor.New(tensor.Int32, t.Shape()...)
	for i, k := range tensor.Data[int64](t) {
		tensor.Data[int32](v)[i] = int32(k)
	}
	return v
}

// Reals are the types that most kernels of real numbers have.
var Reals = []tensor.DType{tensor.Float32, tensor.Float64}

// Real returns normally distributed numbers.
func (r Gen) Real(d tensor.DType, scale float64, shape ...int) *tensor.Tensor {
	if d == tensor.Float32 {
		return r.Floats(scale, shape...)
	}
	return r.Doubles(func() float64 { return scale * r.NormFloat64() }, shape...)
}

// Specials are numbers that kernels may treat in a way of their own.
var Specials = []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1)}

// Odd returns random numbers, some of them not finite.
func (r Gen) Odd(shape ...int) *tensor.Tensor {
	t := r.Floats(2, shape...)
	for i := range t.Len() {
		if r.IntN(9) == 0 {
			With(t, i, Specials[r.IntN(len(Specials))])
		}
	}
	return t
}

// Typed returns random numbers of an element type; some are not finite, or far from zero.
func (r Gen) Typed(d tensor.DType, shape ...int) *tensor.Tensor {
	n, _ := tensor.Size(shape)
	v := make([]float64, n)
	for i := range v {
		switch v[i] = math.Round(r.NormFloat64()*1e4) / 64; r.IntN(8) {
		case 0:
			v[i] = Specials[r.IntN(len(Specials))]
		case 1:
			v[i] = math.Ldexp(r.NormFloat64(), r.IntN(70))
		}
		if !d.IsFloat() && (v[i] != v[i] || math.Abs(v[i]) > 1e18) {
			v[i] = float64(r.IntN(5))
		}
	}
	t, err := ops.FromFloat64s(nil, d, v, shape...)
	if err != nil {
		panic(err)
	}
	return t
}

// NumberTypes are the types of casts.
var NumberTypes = []tensor.DType{tensor.Bool, tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64, tensor.Uint8,
	tensor.Uint16, tensor.Uint32, tensor.Float32, tensor.Float64}

// Wide returns small integers in float64, whose products and sums are exact in any order.
func (r Gen) Wide(shape ...int) Operand {
	x := tensor.New(tensor.Float64, shape...)
	for i := range tensor.Data[float64](x) {
		tensor.Data[float64](x)[i] = float64(r.IntN(17) - 8)
	}
	return Given(x)
}
