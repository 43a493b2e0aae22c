package generate

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// sampler draws tokens.
type sampler struct {
	o      Options
	r      *rand.Rand
	order  []int
	weight []float64
}

// next returns the token that follows, given the logits: of equal ones, the first.
func (s *sampler) next(logits []float32) (int, error) {
	best := 0
	for i, v := range logits {
		if v != v || math.IsInf(float64(v), 1) {
			return 0, fmt.Errorf("expected logits that are numbers, found %v for token %d", v, i)
		}
		if v > logits[best] {
			best = i
		}
	}
	if s.o.Temperature == 0 || math.IsInf(float64(logits[best]), -1) {
		return best, nil
	}
	all := s.order[:len(logits)]
	total := 0.0
	for i, v := range logits {
		all[i] = i
		s.weight[i] = math.Exp((float64(v) - float64(logits[best])) / s.o.Temperature)
		total += s.weight[i]
	}
	if s.o.TopK > 0 || s.o.TopP > 0 {
		// The most probable ones first, as many as can matter.
		slices.SortFunc(all, func(a, b int) int {
			if c := cmp.Compare(logits[b], logits[a]); c != 0 {
				return c
			}
			return cmp.Compare(a, b)
		})
		if k := s.o.TopK; k > 0 && k < len(all) {
			all = all[:k]
			total = 0
			for _, i := range all {
				total += s.weight[i]
			}
		}
		if p := s.o.TopP; p > 0 {
			sum := 0.0
			for n, i := range all {
				if sum += s.weight[i]; sum >= p*total {
					all, total = all[:n+1], sum
					break
				}
			}
		}
	}
	at := s.r.Float64() * total
	for _, i := range all {
		if at -= s.weight[i]; at < 0 {
			return i, nil
		}
	}
	return all[len(all)-1], nil // of rounding
}
