package graphfuzz

import (
	"math"
	"math/rand/v2"

	"github.com/essmc/essmc/ir/tensor"
)

// fill describes how the elements of an input or a constant are made, for any shape.
type fill struct {
	kind fillKind
	// lo and hi bound whole numbers: lo ≤ x < hi.
	lo, hi int
	seed   uint64
	// given is used in place of random elements where its shape is the wanted one.
	given tensor.Datum
}

type fillKind int

const (
	normal   fillKind = iota // mean 0, variance 1; small integers for types of integers
	positive                 // from 0.1 to 2
	unit                     // from -1 to 1
	whole                    // whole numbers from lo to hi
	odd                      // with infinities, NaN, -0, denormals; the extremes of integers
	ties                     // multiples of 1/2 from -4 to 4
	distinct                 // a permutation
)

var words = []string{"", "a", "B", "1.5", "é", "aa b", "zz", "-7"}

// make returns a tensor.
func (f fill) make(d tensor.DType, shape []int) *tensor.Tensor {
	if t, ok := f.given.(*tensor.Tensor); ok && t.DType() == d &&
		tensor.ShapeString(t.Shape()) == tensor.ShapeString(shape) {
		return t
	}
	n, err := tensor.Size(shape)
	if err != nil || n > 1<<22 {
		return tensor.New(d, make([]int, len(shape))...)
	}
	rng := rand.New(rand.NewPCG(f.seed, uint64(n)))
	if d == tensor.String {
		v := make([]string, n)
		for i := range v {
			v[i] = words[rng.IntN(len(words))]
		}
		return tensor.FromStrings(v, shape...)
	}
	if extreme := f.kind == odd || f.kind == normal && f.seed%8 == 7; extreme &&
		(d == tensor.Int64 || d == tensor.Uint64) {
		return large(rng, d, n, shape)
	}
	v := make([]float64, n)
	var perm []int
	if f.kind == distinct {
		perm = rng.Perm(n)
	}
	for i := range v {
		switch {
		case f.kind == distinct:
			v[i] = float64(perm[i])
		case d == tensor.Bool:
			v[i] = float64(rng.IntN(2))
		case f.kind == whole:
			v[i] = float64(f.lo + rng.IntN(max(1, f.hi-f.lo)))
		case d.IsInt():
			v[i] = integer(rng, d, f.kind == odd || f.kind == normal && f.seed%8 == 7)
		case f.kind == positive:
			v[i] = 0.1 + 1.9*rng.Float64()
		case f.kind == unit:
			v[i] = 2*rng.Float64() - 1
		case f.kind == ties:
			if v[i] = float64(rng.IntN(17)-8) / 2; v[i] == 0 && rng.IntN(2) == 0 {
				v[i] = math.Copysign(0, -1)
			}
		case f.kind == odd && rng.IntN(4) == 0:
			v[i] = oddNumbers[rng.IntN(len(oddNumbers))]
		default:
			v[i] = rng.NormFloat64()
		}
	}
	if d.IsComplex() {
		return complexTensor(d, v, rng, shape)
	}
	t, err := tensor.FromFloat64s(d, v, shape...)
	if err != nil {
		return tensor.New(d, shape...)
	}
	return t
}

var oddNumbers = []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 1e-40, -1e-40, 1e12, -1e12,
	1, -1, 0.5, 1e-7, 88.5, -104, 2147483648, 1e10}

// large returns integers of 64 bits, some of which float64 cannot represent.
func large(rng *rand.Rand, d tensor.DType, n int, shape []int) *tensor.Tensor {
	v, u := make([]int64, n), make([]uint64, n)
	for i := range v {
		switch rng.IntN(4) {
		case 0:
			u[i] = []uint64{1 << 63, 1<<63 - 1, math.MaxUint64, 1<<53 + 1, 0}[rng.IntN(5)]
		case 1:
			u[i] = rng.Uint64()
		default:
			u[i] = uint64(rng.IntN(19))
		}
		v[i] = int64(u[i])
	}
	if d == tensor.Uint64 {
		return tensor.FromSlice(u, shape...)
	}
	return tensor.FromSlice(v, shape...)
}

func integer(rng *rand.Rand, d tensor.DType, odd bool) float64 {
	signed := d == tensor.Int8 || d == tensor.Int16 || d == tensor.Int32 || d == tensor.Int64 || d == tensor.Int4 ||
		d == tensor.Int2
	if odd && rng.IntN(3) == 0 {
		bits := d.Bits()
		if signed {
			return []float64{-math.Ldexp(1, bits-1), math.Ldexp(1, min(bits-1, 53)) - 1, -1}[rng.IntN(3)]
		}
		return []float64{math.Ldexp(1, min(bits, 53)) - 1, 0, math.Ldexp(1, bits-1)}[rng.IntN(3)]
	}
	top := 9
	if d.Bits() <= 4 {
		top = 1 << (d.Bits() - 1)
	}
	if signed {
		return float64(rng.IntN(2*top) - top)
	}
	return float64(rng.IntN(top))
}

func complexTensor(d tensor.DType, re []float64, rng *rand.Rand, shape []int) *tensor.Tensor {
	if d == tensor.Complex64 {
		v := make([]complex64, len(re))
		for i := range v {
			v[i] = complex(float32(re[i]), float32(rng.NormFloat64()))
		}
		return tensor.FromSlice(v, shape...)
	}
	v := make([]complex128, len(re))
	for i := range v {
		v[i] = complex(re[i], rng.NormFloat64())
	}
	return tensor.FromSlice(v, shape...)
}
