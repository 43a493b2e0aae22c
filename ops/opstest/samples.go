// Package opstest tests operators in three ways: by checks on samples that every operator of a domain must pass, by
// the ONNX standard's own tests of single operators, and by answers of another engine, stored in files.
//
// It imports ir, ir/scalar, ir/tensor, ops and protowire. Only tests import it. It finds operators only in the
// registry, so it tests the ones that the importing test registers.
package opstest

import (
	"math/rand/v2"
	"sync"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// Sample is one application of an operator.
type Sample struct {
	In     []tensor.Datum
	Consts []int // the inputs that are constants of the graph
	Attrs  []ir.Attr
	Outs   int   // the number of outputs
	Absent []int // the unused outputs
	Rigid  []int // the inputs of known sizes at build time
}

// Of makes a sample with one output and no attributes.
func Of(in ...tensor.Datum) Sample { return Sample{In: in, Outs: 1} }

// With adds attributes.
func (s Sample) With(attrs ...ir.Attr) Sample { s.Attrs = attrs; return s }

// Fixed sets the inputs that are constants.
func (s Sample) Fixed(consts ...int) Sample { s.Consts = consts; return s }

// Gives sets the number of outputs.
func (s Sample) Gives(n int) Sample { s.Outs = n; return s }

// Sized sets the inputs whose sizes must be known when a graph is built.
func (s Sample) Sized(inputs ...int) Sample { s.Rigid = inputs; return s }

// Random is the source of samples. It starts with the same seed in every run.
var (
	Random = rand.New(source)
	source = rand.NewPCG(1, 2)
	seeded sync.Mutex
)

// Seeded calls f, during which Random returns numbers that depend only on the seed, and not on the samples that were
// made before. Several goroutines may call it.
func Seeded(seed uint64, f func()) {
	seeded.Lock()
	defer seeded.Unlock()
	before := *source
	source.Seed(seed, 2)
	defer func() { *source = before }()
	f()
}

func product(s []int) int {
	n := 1
	for _, d := range s {
		n *= d
	}
	return n
}

// Normal makes random float32 numbers.
func Normal(shape ...int) tensor.Datum {
	v := make([]float32, product(shape))
	for i := range v {
		v[i] = float32(Random.NormFloat64())
	}
	return tensor.FromSlice(v, shape...)
}

// Inside makes random float32 numbers in (lo, hi).
func Inside(lo, hi float64, shape ...int) tensor.Datum {
	v := make([]float32, product(shape))
	for i := range v {
		v[i] = float32(lo + (hi-lo)*(0.001+0.998*Random.Float64()))
	}
	return tensor.FromSlice(v, shape...)
}

// Whole makes random integers in [lo, hi) of any element type.
func Whole(d tensor.DType, lo, hi int, shape ...int) tensor.Datum {
	v := make([]float64, product(shape))
	for i := range v {
		v[i] = float64(lo + Random.IntN(hi-lo))
	}
	t, err := tensor.FromFloat64s(d, v, shape...)
	if err != nil {
		panic(err)
	}
	return t
}

// Bools makes random truth values.
func Bools(shape ...int) tensor.Datum { return Whole(tensor.Bool, 0, 2, shape...) }

// Vec makes a vector of int64.
func Vec(v ...int64) tensor.Datum { return tensor.FromSlice(v, len(v)) }

// Num makes a scalar of int64.
func Num(v int64) tensor.Datum { return tensor.Scalar(v) }

// Strs makes a vector of strings.
func Strs(s ...string) tensor.Datum { return tensor.FromStrings(s, len(s)) }
