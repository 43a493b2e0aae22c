package pattern

import (
	"slices"
	"unicode"
)

// A set is a set of characters: pairs lo, hi in ascending order, not adjacent.
type set struct {
	r     []rune
	ascii [2]uint64
	pages *[256]*[4]uint64 // the bits of the basic plane, for sets of many ranges; built by seal
}

const lastRune = unicode.MaxRune

// newSet makes a set of pairs in any order.
func newSet(pairs []rune) *set { return (&set{r: normalize(pairs)}).index() }

func normalize(pairs []rune) []rune {
	type span struct{ lo, hi rune }
	spans := make([]span, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i] <= pairs[i+1] {
			spans = append(spans, span{pairs[i], pairs[i+1]})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return int(a.lo) - int(b.lo) })
	out := make([]rune, 0, 2*len(spans))
	for _, s := range spans {
		if n := len(out); n > 0 && s.lo <= out[n-1]+1 {
			out[n-1] = max(out[n-1], s.hi)
			continue
		}
		out = append(out, s.lo, s.hi)
	}
	return slices.Clip(out)
}

func (s *set) index() *set {
	s.ascii = [2]uint64{}
	for i := 0; i < len(s.r) && s.r[i] < 128; i += 2 {
		for c := s.r[i]; c <= min(s.r[i+1], 127); c++ {
			s.ascii[c>>6] |= 1 << (c & 63)
		}
	}
	return s
}

// seal makes has fast for sets of many ranges.
func (s *set) seal() {
	if len(s.r) < 16 || s.pages != nil {
		return
	}
	var none, all [4]uint64
	for i := range all {
		all[i] = ^uint64(0)
	}
	pages := new([256]*[4]uint64)
	for i := range pages {
		pages[i] = &none
	}
	for i := 0; i < len(s.r) && s.r[i] <= 0xFFFF; i += 2 {
		lo, hi := s.r[i], min(s.r[i+1], 0xFFFF)
		for c := lo; c <= hi; {
			page := c >> 8
			if c&0xFF == 0 && c+0xFF <= hi {
				pages[page] = &all
				c += 0x100
				continue
			}
			if pages[page] == &none {
				pages[page] = new([4]uint64)
			}
			pages[page][c>>6&3] |= 1 << (c & 63)
			c++
		}
	}
	s.pages = pages
}

func (s *set) has(c rune) bool {
	if c < 128 {
		return s.ascii[c>>6&1]>>(c&63)&1 != 0
	}
	if s.pages != nil && c <= 0xFFFF {
		return s.pages[c>>8][c>>6&3]>>(c&63)&1 != 0
	}
	lo, hi := 0, len(s.r)/2
	for lo < hi {
		m := (lo + hi) / 2
		switch {
		case c < s.r[2*m]:
			hi = m
		case c > s.r[2*m+1]:
			lo = m + 1
		default:
			return true
		}
	}
	return false
}

func negate(r []rune) []rune {
	out := make([]rune, 0, len(r)+2)
	at := rune(0)
	for i := 0; i < len(r); i += 2 {
		if r[i] > at {
			out = append(out, at, r[i]-1)
		}
		at = r[i+1] + 1
	}
	if at <= lastRune {
		out = append(out, at, lastRune)
	}
	return out
}

func intersect(a, b []rune) []rune {
	var out []rune
	for i, j := 0, 0; i < len(a) && j < len(b); {
		if lo, hi := max(a[i], b[j]), min(a[i+1], b[j+1]); lo <= hi {
			out = append(out, lo, hi)
		}
		if a[i+1] < b[j+1] {
			i += 2
		} else {
			j += 2
		}
	}
	return out
}

func (s *set) disjoint(t *set) bool { return len(intersect(s.r, t.r)) == 0 }
