package graphfuzz

import (
	"hash/fnv"
	"math/rand/v2"
)

// Source makes the choices of which a case consists: from bytes, so that a fuzzer can change one by one, or at random.
type Source struct {
	data []byte
	rng  *rand.Rand // nil: from data alone, and the first choice everywhere when that ends
}

// FromSeed returns a source of random choices. Equal seeds make equal choices.
func FromSeed(seed uint64) *Source { return &Source{rng: rand.New(rand.NewPCG(seed, 11))} }

// FromBytes returns a source that takes its choices from data.
func FromBytes(data []byte) *Source { return &Source{data: data} }

// IntN chooses a number in [0, n).
func (s *Source) IntN(n int) int {
	if n <= 1 {
		return 0
	}
	if s.rng != nil {
		return s.rng.IntN(n)
	}
	x := 0
	for k := n - 1; k > 0; k >>= 8 {
		if len(s.data) == 0 {
			return 0
		}
		x, s.data = x<<8|int(s.data[0]), s.data[1:]
	}
	return x % n
}

// one reports whether a chance of one in n comes true. It does not when data has ended.
func (s *Source) one(n int) bool { return s.IntN(n) == n-1 }

// Rand returns a generator of random numbers for the elements of tensors. It takes one choice.
func (s *Source) Rand() *rand.Rand {
	h := fnv.New64a()
	k := s.IntN(1 << 16)
	h.Write([]byte{byte(k), byte(k >> 8)})
	return rand.New(rand.NewPCG(h.Sum64(), 12))
}

// pick chooses an element of a list.
func pick[T any](s *Source, of ...T) T { return of[s.IntN(len(of))] }
