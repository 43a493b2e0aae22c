package philox

import (
	"math"
	"slices"
	"testing"
)

// TestKnownAnswers checks the known answers for philox4x32-10 that the authors publish with their library, Random123.
func TestKnownAnswers(t *testing.T) {
	const all = 0xffffffff
	for _, c := range []struct {
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{want: [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{all, all, all, all}, [2]uint32{all, all}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		if got := Block(c.counter, c.key); got != c.want {
			t.Errorf("counter %x, key %x: %x, expected %x", c.counter, c.key, got, c.want)
		}
	}
}

// TestSource checks that a stream is the blocks of its counters, and that each part of its number matters.
func TestSource(t *testing.T) {
	s := New(0x299f31d0_a4093822, 1, 2, 3)
	for block := range uint32(3) {
		for i, w := range Block([4]uint32{block, 1, 2, 3}, [2]uint32{0xa4093822, 0x299f31d0}) {
			if got := s.Uint32(); got != w {
				t.Fatalf("block %d, word %d: %x, expected %x", block, i, got, w)
			}
		}
	}
	first := map[uint64]bool{}
	for _, s := range []*Source{New(0, 0, 0, 0), New(1, 0, 0, 0), New(1<<32, 0, 0, 0), New(0, 1, 0, 0), New(0, 0, 1, 0), New(0, 0, 0, 1)} {
		first[s.Uint64()] = true
	}
	if len(first) != 6 {
		t.Errorf("six streams begin with %d different numbers", len(first))
	}
}

// TestUniform checks the numbers of IntN, Float64 and Shuffle by their frequencies, within five standard deviations.
func TestUniform(t *testing.T) {
	s, sum := New(7, 0, 0, 0), 0.0
	const n, sides = 60000, 6
	var count [sides]int
	var place [sides][sides]int
	for range n {
		count[s.IntN(sides)]++
		x := s.Float64()
		if x < 0 || x >= 1 {
			t.Fatalf("Float64 returned %v", x)
		}
		sum += x
		order := []int{0, 1, 2, 3, 4, 5}
		s.Shuffle(sides, func(i, j int) { order[i], order[j] = order[j], order[i] })
		for at, x := range order {
			place[at][x]++
		}
	}
	bound := 5 * math.Sqrt(n*(1./sides)*(1-1./sides))
	for _, counts := range append(place[:], count) {
		for _, k := range counts {
			if math.Abs(float64(k)-n/sides) > bound {
				t.Errorf("counts %v, expected %d ± %.0f", counts, n/sides, bound)
			}
		}
	}
	if mean := sum / n; math.Abs(mean-0.5) > 5*math.Sqrt(1./12/n) {
		t.Errorf("the mean of Float64 is %v", mean)
	}
	if s.IntN(1) != 0 {
		t.Error("IntN(1) is not 0")
	}
	defer func() {
		if recover() == nil {
			t.Error("IntN(0) did not panic")
		}
	}()
	s.IntN(0)
}

// TestRejection checks that IntN draws again where a word would make some numbers more likely: with n = 3·2^30, a
// quarter of the words do.
func TestRejection(t *testing.T) {
	if math.MaxInt == math.MaxInt32 {
		t.Skip("an int has 32 bits")
	}
	third := int64(1) << 30
	n := int(3 * third)
	s := New(1, 0, 0, 0)
	words := 0
	var below [3]int
	for range 3000 {
		before := int(s.counter[0])*4 - s.left
		below[s.IntN(n)>>30]++
		words += int(s.counter[0])*4 - s.left - before
	}
	if words < 3800 || words > 4200 {
		t.Errorf("3000 numbers took %d words, expected about 4000", words)
	}
	if slices.Min(below[:]) < 870 || slices.Max(below[:]) > 1130 {
		t.Errorf("thirds have %v of 3000 numbers", below)
	}
}
