// Package philox makes random numbers from a key and a counter: Philox4x32-10, of Salmon, Moraes, Dror and Shaw,
// "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
//
// Equal keys and counters give equal numbers, on every machine, in any order and on any goroutine, so whatever is drawn
// can be drawn again without a state: the mask of one layer, the order of one epoch, the sample with one index. It
// imports the standard library only. The numbers are not for secrets.
package philox

import "math/bits"

// The constants of the rounds: two multipliers, and what is added to the key after each round.
const (
	m0, m1 = 0xD2511F53, 0xCD9E8D57
	w0, w1 = 0x9E3779B9, 0xBB67AE85
	rounds = 10
)

// Block returns the four words of a counter under a key.
func Block(counter [4]uint32, key [2]uint32) [4]uint32 {
	c, k := counter, key
	for range rounds {
		h0, l0 := bits.Mul32(m0, c[0])
		h1, l1 := bits.Mul32(m1, c[2])
		c = [4]uint32{h1 ^ c[1] ^ k[0], l1, h0 ^ c[3] ^ k[1], l0}
		k[0] += w0
		k[1] += w1
	}
	return c
}

// Source is a stream of words: the blocks of the counters (0, a, b, c), (1, a, b, c), …. It has 2^34 words, and repeats
// after them. It is not safe for concurrent use.
type Source struct {
	key     [2]uint32
	counter [4]uint32
	words   [4]uint32
	left    int // how many of words are not returned yet
}

// New returns the stream of a seed with the number (a, b, c), at its beginning. Streams of different seeds or numbers
// are independent. The seed's lower half is the first word of the key.
func New(seed uint64, a, b, c uint32) *Source {
	return &Source{key: [2]uint32{uint32(seed), uint32(seed >> 32)}, counter: [4]uint32{0, a, b, c}}
}

// Uint32 returns the next word.
func (s *Source) Uint32() uint32 {
	if s.left == 0 {
		s.words = Block(s.counter, s.key)
		s.counter[0]++
		s.left = len(s.words)
	}
	w := s.words[len(s.words)-s.left]
	s.left--
	return w
}

// Uint64 returns the next two words, the lower one first.
func (s *Source) Uint64() uint64 {
	lo := uint64(s.Uint32())
	return lo | uint64(s.Uint32())<<32
}

// Float64 returns a number in [0, 1): a multiple of 2^-53, each with the same probability.
func (s *Source) Float64() float64 { return float64(s.Uint64()>>11) / (1 << 53) }

// IntN returns a number in [0, n), each with the same probability (Lemire's method). It panics if n is not in [1,
// 2^32).
func (s *Source) IntN(n int) int {
	if n < 1 || int64(n) > 1<<32-1 {
		panic("philox: IntN: n is not in [1, 2^32)")
	}
	size := uint32(n)
	hi, lo := bits.Mul32(s.Uint32(), size)
	if lo < size {
		for least := -size % size; lo < least; {
			hi, lo = bits.Mul32(s.Uint32(), size)
		}
	}
	return int(hi)
}

// Shuffle puts n elements, less than 2^32, into a random order, by swaps of two (Fisher and Yates, from the end).
func (s *Source) Shuffle(n int, swap func(i, j int)) {
	for i := n - 1; i > 0; i-- {
		swap(i, s.IntN(i+1))
	}
}
