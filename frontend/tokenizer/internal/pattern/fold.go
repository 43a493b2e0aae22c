package pattern

import (
	"slices"
	"sync"
	"unicode"
)

// newCase are the pairs of cases that Unicode 15.1 and 16 added, besides the letters of Garay.
var newCase = map[rune]rune{
	0x19B: 0xA7DC, 0x264: 0xA7CB, 0x390: 0x1FD3, 0x3B0: 0x1FE3, 0x1C89: 0x1C8A,
	0xA7CC: 0xA7CD, 0xA7DA: 0xA7DB, 0xFB05: 0xFB06,
}

const (
	garayUpper, garayUpperEnd = 0x10D50, 0x10D65
	garayOffset               = 0x20
)

// folder knows which characters are equal without regard to case.
type folder struct {
	orbits map[rune][]rune // of each character that has others: all of them, the smallest first
	longer map[string][]rune
}

var folds = sync.OnceValue(func() *folder {
	f := &folder{orbits: make(map[rune][]rune), longer: make(map[string][]rune)}
	tables := []*unicode.RangeTable{unicode.L, unicode.M, unicode.Nl, unicode.So}
	for _, t := range tables {
		r := table("", t)
		for i := 0; i < len(r); i += 2 {
			for c := r[i]; c <= r[i+1]; c++ {
				if unicode.SimpleFold(c) == c || f.orbits[c] != nil {
					continue
				}
				orbit := []rune{c}
				for o := unicode.SimpleFold(c); o != c; o = unicode.SimpleFold(o) {
					orbit = append(orbit, o)
				}
				f.add(orbit)
			}
		}
	}
	for a, b := range newCase {
		f.add([]rune{a, b})
	}
	for c := rune(garayUpper); c <= garayUpperEnd; c++ {
		f.add([]rune{c, c + garayOffset})
	}
	for c, s := range foldings {
		key := string(f.canons([]rune(s)))
		f.longer[key] = append(f.longer[key], c)
	}
	return f
})

func (f *folder) add(orbit []rune) {
	slices.Sort(orbit)
	for _, c := range orbit {
		f.orbits[c] = orbit
	}
}

// canon returns the smallest character that is equal to c without regard to case.
func (f *folder) canon(c rune) rune {
	if o := f.orbits[c]; o != nil {
		return o[0]
	}
	return c
}

func (f *folder) canons(s []rune) []rune {
	out := make([]rune, len(s))
	for i, c := range s {
		out[i] = f.canon(c)
	}
	return out
}

// full returns the full case folding of s, in canonical characters.
func (f *folder) full(s []rune) []rune {
	var out []rune
	for _, c := range s {
		if more, ok := foldings[c]; ok {
			out = append(out, f.canons([]rune(more))...)
			continue
		}
		out = append(out, f.canon(c))
	}
	return out
}

// orbit returns the characters whose simple folding is that of c, as a set.
func (f *folder) orbit(c rune) *set {
	pairs := []rune{c, c}
	for _, o := range f.orbits[c] {
		pairs = append(pairs, o, o)
	}
	return newSet(pairs)
}

// close adds to ranges what differs from them in case alone.
func (f *folder) close(r []rune) []rune {
	s := newSet(r)
	pairs := slices.Clone(s.r)
	for c, orbit := range f.orbits {
		if !s.has(c) {
			continue
		}
		for _, o := range orbit {
			pairs = append(pairs, o, o)
		}
	}
	return normalize(pairs)
}

// maxFolding is the length of the longest full folding.
const maxFolding = 3

func foldsLonger(text []rune) bool {
	f := folds()
	for i := range text {
		for k := 2; k <= maxFolding && i+k <= len(text); k++ {
			if f.longer[string(text[i:i+k])] != nil {
				return true
			}
		}
	}
	return false
}
