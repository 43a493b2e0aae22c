package data

import (
	"context"
	"fmt"

	"github.com/essmc/essmc/internal/philox"
)

// Subset returns some samples of a set, by their numbers.
func Subset(set Dataset, samples []int) (Dataset, error) {
	for k, i := range samples {
		if i < 0 || i >= set.Len() {
			return nil, fmt.Errorf("subset: sample %d: expected a number in [0, %d), found %d", k, set.Len(), i)
		}
	}
	return &subset{set, samples}, nil
}

type subset struct {
	set     Dataset
	samples []int
}

func (s *subset) Len() int        { return len(s.samples) }
func (s *subset) Spec() Spec      { return s.set.Spec() }
func (s *subset) Steps(i int) int { return s.set.Steps(s.samples[i]) }

func (s *subset) Sample(ctx context.Context, i int) (Sample, error) {
	return s.set.Sample(ctx, s.samples[i])
}

// Split cuts a set into parts of the given sizes, by a permutation that follows from the seed and the number of
// samples: the first part is its beginning, and so on. One size may be -1: what the others leave. Samples in no part
// are left out.
func Split(set Dataset, seed uint64, sizes ...int) ([]Dataset, error) {
	n := set.Len()
	sum, rest := 0, -1
	for k, size := range sizes {
		switch {
		case size == -1 && rest < 0:
			rest = k
		case size < 0 || size > n-sum:
			return nil, fmt.Errorf("split: part %d: expected 0 to %d of %d samples, or one -1, found %d", k, n-sum, n, size)
		default:
			sum += size
		}
	}
	order := Permutation(n, seed)
	parts := make([]Dataset, len(sizes))
	for k, size := range sizes {
		if k == rest {
			size = n - sum
		}
		parts[k] = &subset{set, order[:size:size]}
		order = order[size:]
	}
	return parts, nil
}

// Permutation returns the numbers below n in a random order that follows from the seed.
func Permutation(n int, seed uint64) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	philox.New(seed, streamSplit, 0, 0).Shuffle(n, func(i, j int) { order[i], order[j] = order[j], order[i] })
	return order
}
